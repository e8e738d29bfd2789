"""Whether a prompt needs anything recalled, by how it is put: it asks for something, and not how one is. Pure.

What a prompt brings up changes from turn to turn, so each recall costs the cached end of a prompt. Small talk, an
answer, or "go on" need none of it.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from foveate.recall.words import STOP_WORDS

MAX_CHARS = 4_000
"""Of a longer prompt the end is read: there is what it asks for."""
LEAST_TELLING = 2
"""A question with fewer words that tell something may be small talk."""

_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]*[.!?\u3002\uff01\uff1f]*\s*")
_ENDS = ("?", "\uff1f")
_APOSTROPHE = "\u2019"
_WORD = re.compile(rf"[^\W_]+(?:['{_APOSTROPHE}][^\W_]+)*")
_MEMORY = re.compile(
    r"\b(?:remind (?:me|us)|(?:do|can) you (?:still )?(?:remember|recall)|remember (?:when|what|how|the|that|which)"
    r"|as (?:i|we|you) (?:said|mentioned|discussed|agreed|decided)"
    r"|(?:i|we|you) (?:said|told you|mentioned|decided|agreed)"
    r"|earlier|previously|last time|a while (?:ago|back)|back (?:when|then)|so far|(?:our|this|past) conversations?"
    r"|before that|in our (?:chat|talk)s?)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\b(?:summari[sz]e|list|recap|what|which|when|where|who|whose|why|how (?:many|much|long|often|did|does|do))\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:and |so |but |ok(?:ay)?,? |hey,? |well,? )*"
    r"(?:what|what's|which|when|where|who|whose|whom|why|how|is|are|was|were|do|does|did|has|have|had|can|could|would"
    r"|will|should|in what|in which|on what|on which|at what|for what|from which|to which)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:can|could|would|will) you|please|i(?:'d| would) like (?:you )?to|i want (?:you )?to)\s+(?:please\s+)?",
    re.IGNORECASE,
)
_TELL = re.compile(
    r"^(?:tell me|remind me|show me|list|give me|summari[sz]e|recap|find|look up|recall)\b", re.IGNORECASE
)
_ASKS_YOU = re.compile(r"\b(?:you|your|yours|you're|you've|you'd|u|ya|we|let's|us|our)\b", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]+[-_/.:]?\d[\w./:-]*|\w+_\w+|[\w-]+/[\w./-]+|[a-z]+[A-Z]\w*|[A-Z]{3,}\w*)\b")

_CHAT_WORDS = """about amazing anything awesome awful been bet bit chance continue cool course day days doing else enjoy
    ever excited exciting feel feeling fun glad good great guess guys happened happy hear hello hey hi hope how's idea
    inspired interesting keep kind kinda know lately love lovely luck make makes man maybe mean mind miss much nice new
    ok okay plan plans pretty proud really right see seem seems since so something sound sounds stuff sure tell thank
    thanks thing things think thought thoughts time up wanna want way week weekend well what's whats wonderful wow yeah
    yep year your you're you've you'd"""
SMALL_TALK = STOP_WORDS | frozenset(_CHAT_WORDS.split())


class Need(Enum):
    """How much a prompt needs what was said before."""

    NONE = 0
    PERHAPS = 1
    SURE = 2


@lru_cache(maxsize=256)
def need_of(prompt: str) -> Need:
    """By its words alone."""
    text = prompt[-MAX_CHARS:].strip()
    if not telling_words(text):
        return Need.NONE
    if _MEMORY.search(text):
        return Need.SURE
    sentences = [match[0].strip() for match in _SENTENCE.finditer(text) if match[0].strip()]
    asked = [_POLITE.sub("", sentence) for sentence in sentences if _is_question(sentence)]
    if any(not _ASKS_YOU.search(question) and len(telling_words(question)) >= LEAST_TELLING for question in asked):
        return Need.SURE
    if asked and any(telling_words(question) for question in asked):
        return Need.PERHAPS
    return Need.PERHAPS if _IDENTIFIER.search(text) else Need.NONE


def _is_question(sentence: str) -> bool:
    plain = _POLITE.sub("", sentence)
    if sentence.endswith(_ENDS) or _TELL.search(plain):
        return True
    return bool(_ASKS.search(plain) and _ORDER.search(plain))


def telling_words(text: str) -> list[str]:
    """The words that say what it is about."""
    words = (match[0].lower().replace(_APOSTROPHE, "'") for match in _WORD.finditer(text))
    return [word for word in words if word not in SMALL_TALK and len(word) > 1]
