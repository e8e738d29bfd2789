"""Whether a prompt needs anything recalled, by how it is put: it asks for something, and not how one is. Pure.

What a prompt brings up changes from turn to turn, so each recall costs the cached end of a prompt. Small talk, an
answer, or "go on" need none of it.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from foveate.recall.questions import Language, language_of
from foveate.words.grammar import QUESTION_MARKS, prompt_sentences

MAX_CHARS = 4_000
"""Of a longer prompt the end is read: there is what it asks for."""
LEAST_TELLING = 2
"""A question with fewer words that tell something may be small talk."""

_OPENS_A_QUESTION = "\u00bf"
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]+[-_/.:]?\d[\w./:-]*|\w+_\w+|[\w-]+/[\w./-]+|[a-z]+[A-Z]\w*|[A-Z]{3,}\w*)\b")


class Need(Enum):
    """How much a prompt needs what was said before."""

    NONE = 0
    PERHAPS = 1
    SURE = 2


class Breadth(Enum):
    """How much of the conversation an answer to a prompt draws on."""

    POINT = 0
    """A fact or a few."""
    WHOLE = 1
    """A summary, or a comparison."""
    ORDER = 2
    """An order of events, or all mentions of something: mostly what the user said."""


@lru_cache(maxsize=256)
def breadth_of(prompt: str) -> Breadth:
    """By the words of its questions and requests alone."""
    text = prompt[-MAX_CHARS:].strip()
    language = language_of(text)
    sentences = _sentences(text)
    for breadth, pattern in ((Breadth.ORDER, language.order), (Breadth.WHOLE, language.whole)):
        # "Compare both plans" begins with the word, and is no question by its form.
        if any(pattern.search(each) and (_is_question(each, language) or pattern.match(each)) for each in sentences):
            return breadth
    return Breadth.POINT


@lru_cache(maxsize=256)
def need_of(prompt: str) -> Need:
    """By its words alone."""
    text = prompt[-MAX_CHARS:].strip()
    language = language_of(text)
    if not language.telling_words(text):
        return Need.NONE
    if language.memory.search(text):
        return Need.SURE
    sentences = _sentences(text)
    asked = [language.polite.sub("", sentence) for sentence in sentences if _is_question(sentence, language)]
    telling = [len(language.telling_words(question)) for question in asked]
    if any(
        count >= LEAST_TELLING and not language.you.search(question)
        for question, count in zip(asked, telling, strict=True)
    ):
        return Need.SURE
    return Need.PERHAPS if any(telling) or _IDENTIFIER.search(text) else Need.NONE


def is_question(text: str) -> bool:
    """Whether a text consists of questions alone, with question marks or without."""
    language = language_of(text)
    sentences = _sentences(text)
    return bool(sentences) and all(_is_question(sentence, language) for sentence in sentences)


def has_question_marks(text: str) -> bool:
    """Whether every sentence of a text ends with a question mark. Needs no language, so it is quick."""
    sentences = _sentences(text)
    return bool(sentences) and all(sentence.endswith(QUESTION_MARKS) for sentence in sentences)


def _sentences(text: str) -> list[str]:
    return prompt_sentences(text[-MAX_CHARS:].strip())


def _is_question(sentence: str, language: Language) -> bool:
    plain = language.polite.sub("", sentence)
    if sentence.endswith(QUESTION_MARKS) or _OPENS_A_QUESTION in sentence or language.tells.search(plain):
        return True
    return bool(language.asks.search(plain) and (language.orders is None or language.orders.search(plain)))
