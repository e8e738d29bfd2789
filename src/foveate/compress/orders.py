"""Standing orders: clauses that tell a model what to do from now on, in several languages. Pure."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from foveate.compress.cues import bare
from foveate.compress.lexicon import as_words
from foveate.words.grammar import QUESTION_MARKS, index_borders

MIN_WORDS = 3
"""Minimum number of words in an order."""
MAX_BEFORE_CUE = 5
"""Maximum number of words before `always` or `never`."""

ORDER_CUES = as_words(
    """always never immer nie niemals stets toujours jamais siempre nunca jamás sempre mai altijd nooit alltid aldrig
    zawsze nigdy всегда никогда"""
)
ORDER_PHRASES = (
    *sorted(ORDER_CUES),
    *("from now on", "going forward", "henceforth", "ab jetzt", "ab sofort", "désormais", "de ahora en adelante"),
)
"""Words and phrases of which most standing orders have one, in the form that an index finds."""
_BEFORE_ENGLISH = as_words(
    """please and but also so ok okay remember note important rule reminder that to you must should shall have need are
    do make sure be just again now then no hey hi one more thing"""
)
"""Words that may precede an English cue."""
_BEFORE_OTHERS = as_words(
    """bitte du sollst musst und auch aber merk dir veuillez et aussi vous devez tu dois ne n' por favor y también debes
    per favore anche devi non também deve não graag ook snälla och proszę też пожалуйста и также не"""
)
"""Words that may precede a cue in other languages, where one more word, the verb, may come first."""
_SUBJECTS = as_words(
    """i he she it we they this that these those there who which what ich er sie es wir das dies der die je il elle nous
    ils elles ce cela ça yo él ella nosotros ellos eso io lui lei noi loro eu ele ela nós eles ik hij zij wij ze het jag
    han hon vi de det ja on ona my oni to я он она мы они это"""
)
_ENGLISH_CUES = as_words("always never")
_NO_ORDERS = as_words(
    """been mind had seen thought knew heard gave give gonna felt got have has was were is are a an the so too good
    great here there wanted loved liked going know knows get gets happy ending forget better fails failed works worked
    used
    returns returned happens happened quite really more less again before say says said saw went came did made took
    found met ran left told began seems seemed ceases looks feels"""
)
"""Words after `always` or `never` that make a story or a phrase, not an order."""
_STANDING = re.compile(
    r"\b(?:from now on|from here on|going forward|henceforth|as a rule|in (?:the )?future,|every time you|each time you"
    r"|whenever you|by default,? (?:please |always |you )|ab jetzt|ab sofort|künftig|in zukunft|grundsätzlich"
    r"|à partir de maintenant|désormais|dorénavant|a partir de ahora|de ahora en adelante|d'ora in poi"
    r"|a partir de agora"
    r"|vanaf nu|hädanefter|od teraz|с этого момента|впредь)\b|从现在|今后|以后都|今後|これから",
    re.IGNORECASE,
)
_UNSPACED_RULE = re.compile(r"(?:总是|始终|务必|一律|永远不要|从不|绝不|請?一定要|必ず|常に|決して|いつも)")
_NEVER_EVER = re.compile(r"\A(?:please |and |but |also )*(?:don['’]t|do not) ever\b", re.IGNORECASE)


def is_standing_order(text: str) -> bool:
    """Return whether a clause gives an order for the future."""
    words = [bare(word) for word in text.split()]
    if _orders(words) or _UNSPACED_RULE.search(text) or _NEVER_EVER.search(text):
        return True
    return _STANDING.search(text) is not None and words[0] not in _SUBJECTS


def _orders(words: Sequence[str]) -> bool:
    """Return whether the words address the reader and nobody else: `Always run the tests`."""
    place = next((number for number, word in enumerate(words[: MAX_BEFORE_CUE + 1]) if word in ORDER_CUES), None)
    if place is None or len(words) - place < MIN_WORDS - 1:
        return False
    before, behind = words[:place], words[place + 1 :]
    if words[place] in _ENGLISH_CUES:
        is_order = behind[0] not in _NO_ORDERS and not behind[0].endswith(("ed", "ing"))
        return is_order and all(word in _BEFORE_ENGLISH for word in before)
    unknown = [word for word in before if word not in _BEFORE_OTHERS]
    return not _SUBJECTS & set(before) and len(unknown) <= 1


def has_standing_order(text: str) -> bool:
    """Return whether a sentence of a text is a standing order."""
    sentences = (text[start:end].strip() for start, end in pairwise([0, *index_borders(text), len(text)]))
    return any(is_standing_order(each) for each in sentences if each and not each.endswith(QUESTION_MARKS))
