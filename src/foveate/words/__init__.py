"""Stop words: words so frequent in a language that they say little about a text.

`LANGUAGE.txt` lists each word once, under a heading that names the uses it has:

    [search]    a search query ignores it
    [chat]      a question or remark made of such words alone is small talk
    [telegram]  telegraphic text leaves it out: articles, auxiliaries, filler
    [factless]  it stays in telegraphic text, and states no fact
    [prose]     shows that a text is prose in this language
    [language]  shows which language a text is in
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

Use = Literal["search", "chat", "telegram", "factless", "prose", "language"]
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_CONTENT = re.compile(rf"[{_UNSPACED}]{{2}}|[^\W\d_{_UNSPACED}]{{3,}}|\d+")
"""A word of at least three letters, a number, or two characters of a script without spaces."""
LANGUAGES = ("de", "en", "es", "fr", "id", "it", "ja", "nl", "pl", "pt", "ru", "sv", "zh")


def stop_words(use: Use, *languages: str) -> frozenset[str]:
    """Return the words with a use in these languages; without languages, in all of them."""
    return frozenset().union(*(_read(language)[use] for language in languages or LANGUAGES))


def content_words(text: str) -> frozenset[str]:
    """Return the different words of a text that say something: no articles, pronouns, auxiliaries or filler."""
    return frozenset(_CONTENT.findall(text.lower())) - _function_words()


@cache
def _function_words() -> frozenset[str]:
    return stop_words("search", "en") | stop_words("telegram")


@cache
def _read(language: str) -> Mapping[Use, frozenset[str]]:
    found: dict[str, set[str]] = {use: set() for use in get_args(Use)}
    uses: list[str] = []
    for line in files(__name__).joinpath(f"{language}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            uses = line.strip("[]").split()
        else:
            for use in uses:
                found[use].update(line.split())
    return {use: frozenset(found[use]) for use in get_args(Use)}
