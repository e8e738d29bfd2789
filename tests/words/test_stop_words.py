"""Each language has one list of stop words, which compression and recall share."""

from collections import Counter
from importlib.resources import files
from typing import get_args

import pytest

from foveate.compress.lexicon import DROPPABLE, SPEECHLESS
from foveate.compress.smooth import COMMON, FOREIGN
from foveate.recall.questions import load
from foveate.recall.words import STOP_WORDS
from foveate.words import LANGUAGES, Use, stop_words


def _lines(language: str) -> list[str]:
    return files("foveate.words").joinpath(f"{language}.txt").read_text("utf-8").splitlines()


def test_every_list_belongs_to_a_language() -> None:
    names = [entry.name for entry in files("foveate.words").iterdir() if entry.name.endswith(".txt")]
    assert sorted(names) == [f"{language}.txt" for language in LANGUAGES]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_is_listed_once(language: str) -> None:
    listed = Counter(word for line in _lines(language) if not line.startswith("[") for word in line.split())
    assert listed
    assert [word for word, times in listed.items() if times > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_heading_names_known_uses(language: str) -> None:
    headings = [line.strip("[]").split() for line in _lines(language) if line.startswith("[")]
    assert {use for heading in headings for use in heading} <= set(get_args(Use))


def test_a_use_without_languages_has_the_words_of_all() -> None:
    assert stop_words("telegram") == frozenset().union(*(stop_words("telegram", language) for language in LANGUAGES))


def test_compression_and_recall_take_their_words_from_the_lists() -> None:
    assert stop_words("search", "en") == STOP_WORDS
    assert stop_words("telegram") == DROPPABLE
    assert stop_words("prose", "en") == COMMON
    assert stop_words("telegram") | stop_words("factless") == SPEECHLESS
    assert stop_words("search", "en") | stop_words("chat", "en") == load("en").small
    assert stop_words("chat", "de") == load("de").small
    assert {"und", "och", "yang", "jest"} <= FOREIGN
    assert "the" not in FOREIGN
