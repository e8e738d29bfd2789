"""A clause in fewer words: filler goes first, then articles and auxiliaries, and at last all but the rarest words.

What would turn the meaning round is never left out alone: a negation stays with the word behind it, a condition,
a number and its unit, the parts of a name, a verb and its particle.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from foveate.compress.lexicon import (
    CJK_CONDITIONS,
    CJK_NEGATIONS,
    CONDITIONS,
    DROPPABLE,
    LIGHT,
    NEGATIONS,
    NUMBER_WORDS,
    OPENERS,
    QUANTITIES,
    RATES,
    SPEECHLESS,
    STRICT_CONDITIONS,
    stem,
    word_weight,
)

_EMPHASIS = re.compile(r"\*\*(\S(?:[^*\n]*\S)?)\*\*|(?<!\w)__(\S(?:[^_\n]*\S)?)__(?!\w)")
_BARE = re.compile(r"^[^\w$€£¥#@/~+<-]+|(?<![^\w%)°$€£])[^\w%)°$€£]+$")
_FILLER = re.compile(
    r"\b(?:of course|by the way|as you can see|it is (?:worth noting|important to note) that)[,:]?\s+"
    r"|\bin order(?= to )",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"(?:(?:(?:many |great,? |ok(?:ay)?,? |alright,? |perfect[,!]? )?(?:thanks|thank you|thx|cheers)|danke"
    r"|merci|gracias"
    r"|you(?:'re| are) (?:very |most )?welcome|no problem|my pleasure|have a (?:great|good|nice|wonderful|lovely)"
    r"|(?:hi|hello|hey|good (?:morning|afternoon|evening))\b|(?:please )?(?:feel free to|let me know|don't hesitate)"
    r"|is there anything else|i hope (?:this|that|you)|sounds (?:good|great)|that(?:'s| is) (?:great|good|nice|awesome)"
    r"|(?:i'm|i am) (?:glad|happy|sorry) to (?:hear|help|see)|how are you|good to (?:see|hear)|great question"
    r"|(?:wow|cool|nice|great|awesome|perfect|sure|certainly|absolutely)[!.,])[^.!?]{0,90}[.!?]*\s*)+",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"(?:(?:(?:good )?(?:morning|afternoon|evening)|hi|hello|hey|wow|of course|absolutely|certainly|sure(?: thing)?"
    r"|great|perfect|alright|thanks|thank you|understood|guten (?:morgen|tag)|hallo|bonjour|hola)"
    r"(?: again| there| so much)?"
    r"(?-i:,? (?!Not |No |Never )[A-Z][a-z]+)?[!.,]{1,3} +)+(?=\S)",
    re.IGNORECASE,
)
_META = re.compile(
    r"(?:i (?:sincerely )?apologi[sz]e|(?:i'm |i am )?sorry (?:for|about)|let(?:'s| us| me)\b|here(?:'s| is| are)\b"
    r"|(?:now,? )?(?:i|we)(?:'ll| will) (?:now |also |start |need to )?"
    r"(?:go|look|check|see|start|begin|walk|dive|create|use|need|add)"
    r"|below (?:is|are)|the following|(?:in|by) (?:this|following) |to (?:summari[sz]e|address|achieve)|step \d)",
    re.IGNORECASE,
)
MAX_COURTESY_CHARS = 120
MAX_WORD_CHARS = 64
"""Of a longer run of characters only the beginning is looked at."""
_PIECE = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\W\d_a-zA-Z]{1,2}|[^\w\s]{1,2}|_")
_PAIRS = re.compile(r"`[^`\n]{0,2000}`|\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|«[^»\n]{0,2000}»")


def estimate_tokens(text: str) -> int:
    """About how many tokens a text takes, without a tokenizer."""
    return len(_PIECE.findall(text))


@lru_cache(maxsize=50_000)
def bare(word: str) -> str:
    """A word without the punctuation around it, casefolded."""
    return _BARE.sub("", word[:MAX_WORD_CHARS]).casefold().replace("’", "'")


def is_meta(text: str) -> bool:
    """Whether a clause only announces what follows."""
    return text.endswith(":") or _META.match(text) is not None


class Word(NamedTuple):
    """Properties of a word without its context."""

    core: str
    """Without punctuation, casefolded."""
    root: str
    """Nothing for a word that carries no fact."""
    negates: bool
    limits: bool
    """A condition that may never be lost."""
    counts: bool
    """A number, which must keep the word behind it."""


@lru_cache(maxsize=50_000)
def look_at(word: str) -> Word:
    core = bare(word)
    return Word(
        core,
        stem(core) if core and core not in SPEECHLESS else "",
        is_negation(core),
        core in STRICT_CONDITIONS or _has(core, CJK_CONDITIONS),
        core[:1].isdigit() or core in NUMBER_WORDS,
    )


def is_negation(word: str) -> bool:
    return word in NEGATIONS or word.endswith("n't") or _has(word, CJK_NEGATIONS)


def _has(word: str, cues: tuple[str, ...]) -> bool:
    return not word.isascii() and any(cue in word for cue in cues)


def plain(text: str) -> str:
    """One line, without marks of emphasis and phrases that say nothing."""
    text = " ".join(text.split())
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda found: found[1] or found[2], text)
    if (greeting := _GREETING.match(text)) is not None:
        text = text[greeting.end() :]
    return " ".join(_FILLER.sub("", text).split()) or text


def is_courtesy(text: str) -> bool:
    """Whether a clause is only politeness."""
    if len(text) > MAX_COURTESY_CHARS or _COURTESY.fullmatch(text) is None:
        return False
    return not any(letter.isdigit() for letter in text) and (
        "hesitate" in text or text.lower().startswith("no ") or not any(look_at(word).negates for word in text.split())
    )


def headline(text: str) -> str:
    """A plain line without articles and filler."""
    return _without(text, LIGHT)


def telegraph(text: str) -> str:
    """A plain line without articles, auxiliaries, filler, and the pronouns of who speaks."""
    return _without(text, DROPPABLE)


def _without(text: str, droppable: Collection[str]) -> str:
    words = text.split(" ")
    quoted = _quoted_places(text, len(words))
    kept: list[str] = []
    keep_next = False
    for place, word in enumerate(words):
        core, _, negates, limits, counts = look_at(word)
        bound = keep_next or place in quoted or not core
        keep_next = negates or limits or counts
        if bound or not _may_go(core, words, place, kept, droppable):
            kept.append(word)
        elif word[-1:] in ".!?;:" and kept:
            kept[-1] = kept[-1].rstrip(",.;:") + word[-1]
    return " ".join(kept).lstrip(",;:!.? ") if kept else text


def _may_go(core: str, words: Sequence[str], place: int, kept: Sequence[str], droppable: Collection[str]) -> bool:
    if core in ("have", "has", "had") and place + 1 < len(words) and words[place + 1] == "to":
        return False
    if core == "of" and place and (look_at(words[place - 1]).counts or bare(words[place - 1]) in QUANTITIES):
        return False
    if core == "and" and kept and kept[-1][-1:] in ",;" and droppable is DROPPABLE:
        return True
    return core in droppable or (not kept and core in OPENERS and core != "but" and len(words) - place > 2)  # noqa: PLR2004


def _quoted_places(text: str, words: int) -> Collection[int]:
    """Which words are inside quotes or code spans, where nothing may be left out."""
    if not any(mark in text for mark in '`"“«'):
        return ()
    places: set[int] = set()
    for match in _PAIRS.finditer(text):
        first = text.count(" ", 0, match.start())
        places.update(range(first, min(words, first + match.group().count(" ") + 1)))
    return places


@dataclass(slots=True)
class _Atom:
    """Words that are kept or left out together."""

    words: list[str]
    weight: float = 0.0
    must: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.words)


def squeeze(short: str, max_tokens: int, scale: float = 1.0) -> str:
    """A telegraphic clause cut to about `max_tokens`, its negations and conditions always in it; else nothing."""
    if estimate_tokens(short) * scale <= max_tokens:
        return short
    atoms = _atoms(short)
    costs = [estimate_tokens(atom.text) * scale for atom in atoms]
    kept = {place for place, atom in enumerate(atoms) if atom.must}
    used = sum(costs[place] for place in kept)
    if used > max_tokens:
        return ""
    order = sorted(range(len(atoms)), key=lambda place: (-atoms[place].weight / (costs[place] + 0.5), place))
    for place in order:
        if place not in kept and used + costs[place] <= max_tokens and atoms[place].weight > 0:
            kept.add(place)
            used += costs[place]
    return " ".join(atoms[place].text for place in sorted(kept)).strip(" ,;:")


def _atoms(text: str) -> list[_Atom]:
    words = text.split(" ")
    quoted = _quoted_places(text, len(words))
    atoms: list[_Atom] = []
    holds = 0
    """How many further content words the last atom must take."""
    for place, word in enumerate(words):
        core, _, negation, condition, counts = look_at(word)
        weight = _weight(core, word)
        joins = bool(atoms) and (holds > 0 or (place in quoted and place - 1 in quoted) or _goes_with(words, place))
        if joins and not (negation or condition):
            atoms[-1].words.append(word)
            atoms[-1].weight += weight
            holds = 1 if counts else holds - (weight > 0)
        elif (negation or condition) and atoms and holds > 0:
            atoms[-1].words.append(word)
            atoms[-1].must = True
            holds = 2
        else:
            atoms.append(_Atom([word], weight, negation or condition or core in RATES))
            holds = 2 if negation or condition else 1 if counts or core in CONDITIONS else 0
        if word[-1:] in ".;!?":
            holds = 0
    return atoms


def _goes_with(words: list[str], place: int) -> bool:
    """A name's second word, a range's end, a particle: no sense without the word before."""
    core, before = words[place], words[place - 1]
    if before[-1:] in ",.;:!?":
        return False
    is_name = core[:1].isupper() and before[:1].isupper() and place > 1
    return is_name or bare(core) in ("off", "up", "out", "down", "away", "back") or bare(before) in QUANTITIES


def _weight(core: str, word: str) -> float:
    if not core or core in SPEECHLESS:
        return 0.0
    if any(letter.isdigit() or letter in "_/`" for letter in word):
        return 2.0
    return word_weight(core) + (0.6 if word[:1].isupper() else 0.0) + 0.05
