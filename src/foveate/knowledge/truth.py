"""What holds now: which statement replaces which earlier one, and which contradict each other. Pure.

Two statements are about the same subject if they share words other than values (numbers, dates, days), and one of
them has the first word of the other. The later one replaces the earlier if it says that something has changed, or if
they differ in a value or a negation only. An explicit old value settles it: `not 7:45, 7:15`, `no longer on Tuesdays`,
`from Jenkins to GitHub Actions`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, lru_cache

from foveate.compress.lexicon import DAY_WORDS, MONTHS, NUMBER_WORDS, STRICT_CONDITIONS, as_words, common_words, stem
from foveate.knowledge.statements.phrases import LANGUAGES, load, tokens_of
from foveate.recall.questions import likely_languages
from foveate.store.rows import DAY_US
from foveate.words import stop_words

SAME_WORDS = 0.6
"""Minimum share of common words of two statements that differ in values only."""
CHANGED_WORDS = 0.4
"""The same, of the shorter one, if the later statement says that something has changed."""
FEW_WORDS = 4
"""One common word, the first of one of them, is enough for a change of at most this many, if both have values of the
same kind, or none."""
OLD_WORDS = 4
"""An earlier statement of at most this many words is replaced by one that names one of them as outdated."""
NEW_WORDS = 2
"""Words that one names instead, at most; with more, and none of the earlier statement, it has a subject of its own."""
OLD_SPAN = 3
"""Words behind `no longer`, `instead of` and the like that name what is outdated."""
BARE_WORDS = 1
"""A correction with at most this many words besides values names no subject of its own: `not 7:45, 7:15`."""

CONDITIONS = (STRICT_CONDITIONS | as_words("when whenever quand lorsque cuando sobald")) - as_words(
    "instead rather than statt sondern nur seulement solo sólo soltanto apenas alleen только"
)
"""Words of a statement about one case; those that name what does not hold, and `only`, are no condition."""
ADDITIONS = as_words(
    "also too besides additionally second another additional auch außerdem zusätzlich zweiter zweite zweites zweiten"
    " aussi également outre second seconde deuxième también además segundo segunda"
)
"""Words of a statement that adds to an earlier one."""
LIGHT_LINE = 28
"""Words up to this line of the table of common words name no subject."""
PREPOSITIONS = as_words("on in at for to of auf im in bei für sur dans chez pour en para sobre")
"""What follows one of these, where an earlier statement has none, narrows it to a place or purpose."""
PLACE_SPAN = 3
"""Words behind a preposition, at most, before the content word: `on my own laptop`."""

_WORD = re.compile(r"[^\W_][\w.:/@+#-]*[^\W_]|[^\W_]", re.UNICODE)
_NUMBER = re.compile(r"\W?v?\d")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th|er|e|º|ª|h|uhr)\Z")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, prepared for comparison."""

    words: frozenset[str]
    """Stems of its content words, without values."""
    values: frozenset[str]
    old: frozenset[str]
    """Values and stems that it names as outdated."""
    is_negated: bool
    is_change: bool
    slots: frozenset[str]
    """Facts that a person has one of, such as a home."""
    head: str = ""
    """The stem of its first content word."""
    is_conditional: bool = False
    """True if it holds in one case."""
    is_announced: bool = False
    """True if its words say that something is different from now on."""
    is_added: bool = False
    """True if it adds to what holds: `also`, `too`, `a second`."""
    places: frozenset[str] = frozenset()
    """Stems of the content words behind a preposition."""
    light: frozenset[str] = frozenset()
    """Stems of words that so many texts have that they name no subject: `use`, `work`."""

    def replaces(self, earlier: Claim) -> bool:
        """Return whether this statement, made later, is about the same subject and says something else."""
        shared = self.words & earlier.words
        if self.slots & earlier.slots or not shared:
            return bool(self.slots & earlier.slots) and self.is_conditional <= earlier.is_conditional
        if self._names_old(earlier):
            return True
        if self._is_narrower(earlier) or self._is_beside(earlier):
            return False
        return self._changes(earlier) if self.is_change else self._contradicts(earlier)

    def _changes(self, earlier: Claim) -> bool:
        """Return whether this statement, which says that something has changed, is about the same subject."""
        shared = self.words & earlier.words
        mine, its = _kinds(self.values), _kinds(earlier.values)
        is_alike = mine == its or bool(mine & its)
        is_one_subject = (self.head in earlier.words or earlier.head in self.words) and not shared <= self.light
        least = max(2, CHANGED_WORDS * min(len(self.words), len(earlier.words)))
        if is_alike:
            least = 1 if len(self.words) <= FEW_WORDS else min(least, len(earlier.words))
        is_new = self._differs(earlier) or bool(self.words - earlier.words)
        return bool(self.old & earlier.values) or (is_new and is_one_subject and len(shared) >= least)

    def _contradicts(self, earlier: Claim) -> bool:
        """Return whether this statement, without a word of change, differs in a value or a negation only."""
        if self.old & earlier.values and self.values - earlier.values:
            return True
        if self.is_conditional != earlier.is_conditional:
            return False  # a rule for one case, and the general one
        # One that only adds a value does not contradict.
        is_refined = self.is_negated == earlier.is_negated and not (self.values and earlier.values)
        is_near = len(self.words & earlier.words) >= SAME_WORDS * len(self.words | earlier.words)
        return self._differs(earlier) and not is_refined and is_near

    def _differs(self, earlier: Claim) -> bool:
        return self.values != earlier.values or self.is_negated != earlier.is_negated

    def _names_old(self, earlier: Claim) -> bool:
        """Return whether this statement names what a short earlier one is about as outdated: `pnpm instead of npm`."""
        named = bool(self.old & earlier.words) and len(earlier.words) <= OLD_WORDS
        return named and self.old != self.words and not self._is_beside(earlier)

    def _is_beside(self, earlier: Claim) -> bool:
        """Return whether this adds to what an earlier statement says, or shares only an outdated word with it."""
        is_own_subject = self.words & earlier.words <= self.old and len(self.words - earlier.words) > NEW_WORDS
        is_added = self.is_added and not _kinds(self.values) & _kinds(earlier.values)
        return is_added or (is_own_subject and not self.old & earlier.values)

    def _is_narrower(self, earlier: Claim) -> bool:
        """Return whether this is about one case or place of what an earlier statement says in general."""
        if self.is_conditional and not earlier.is_conditional:
            return True
        is_opposite = self.is_negated != earlier.is_negated and self.values == earlier.values
        return is_opposite and not self.is_announced and bool(self.places - earlier.words)

    def share(self, other: Claim) -> float:
        """Return the share of words that two statements have in common."""
        every = self.words | other.words
        return len(self.words & other.words) / len(every) if every else 0.0

    def corrects(self, earlier: Claim) -> bool:
        """Return whether this is a correction without a subject of its own, of a value of the earlier statement."""
        own = self.words - earlier.words
        return self.is_change and len(own) <= BARE_WORDS and len(self.old & earlier.values) == 1


def corrected(text: str, earlier: str, claim: Claim, before: Claim) -> str:
    """Return the earlier statement with the corrected value, in the words of both; the later one if that is unclear."""
    fresh = [word for word in _words(text) if _value(word) in claim.values - claim.old]
    stale = [word for word in _words(earlier) if _value(word) in claim.old & before.values]
    if len(set(fresh)) != 1 or len(set(stale)) != 1:
        return text
    return re.sub(rf"(?<!\w){re.escape(stale[0])}(?!\w)", fresh[0], earlier)


@lru_cache(maxsize=8_192)
def read_claim(text: str, *, is_change: bool = False) -> Claim:
    """Prepare a statement for comparison."""
    words, values = dict[str, None](), set()
    for word in _words(text):
        if value := _value(word):
            values.add(value)
        elif word.lower() not in _small():
            words[stem(word.lower())] = None
    old: set[str] = set()
    slots: set[str] = set()
    is_negated = is_announced = False
    for name in likely_languages(text):
        if name not in LANGUAGES:
            continue
        language = load(name)
        read = language.read(text)
        plain = read.lower().split()
        is_negated = is_negated or not language.negations.isdisjoint(plain)
        is_announced = is_announced or any(each.search(read) for each in (language.correction, language.old))
        slots.update(slot for slot, pattern in language.slots.items() if pattern.search(read))
        for match in language.old.finditer(read):
            for word in _words(read[match.end() :])[:OLD_SPAN]:
                old.add(_value(word) or stem(word.lower()))
                if _value(word):
                    break
    # `not 7:45, 7:15`: a negated value is the old one, and negates nothing else.
    is_negated = is_negated and not (old & values)
    return Claim(
        frozenset(words),
        frozenset(values),
        frozenset(old),
        is_negated,
        is_change,
        frozenset(slots),
        head=next(iter(words), ""),
        is_conditional=not CONDITIONS.isdisjoint(word.lower() for word in _words(text)),
        is_announced=is_announced,
        is_added=not ADDITIONS.isdisjoint(word.lower() for word in _words(text)),
        light=frozenset(
            stem(word)
            for word in map(str.lower, _words(text))
            if common_words().get(word, LIGHT_LINE + 1) <= LIGHT_LINE
        ),
        places=_places(text),
    )


def _places(text: str) -> frozenset[str]:
    """Return the stems of the first content words behind prepositions of place and purpose."""
    words = [word.lower() for word in _words(text)]
    behind = (words[at + 1 :][:PLACE_SPAN] for at, word in enumerate(words) if word in PREPOSITIONS)
    found = (next((each for each in span if each not in _small()), "") for span in behind)
    return frozenset(stem(word) for word in found if word and not _value(word))


def is_same_day(one_us: int, two_us: int) -> bool:
    """Return whether two statements were made within a day."""
    return abs(one_us - two_us) < DAY_US


def _words(text: str) -> list[str]:
    return _WORD.findall(text.replace("\u2019", "'"))


def _kinds(values: Collection[str]) -> set[bool]:
    """Return whether there are numbers among some values, and whether there are days."""
    return {value[-1:].isdigit() for value in values}


@lru_cache(maxsize=50_000)
def _value(word: str) -> str:
    """Return a number, time, date or day in its normal form; empty for other words."""
    plain = word.lower().strip(".:")
    if _NUMBER.match(plain):
        return _ORDINAL.sub("", plain)
    if NUMBER_WORDS.get(plain):
        return NUMBER_WORDS[plain]
    for form in (plain.removesuffix("s"), plain):
        if form in MONTHS or form in DAY_WORDS or form in _times():
            return form
    return ""


@cache
def _times() -> Collection[str]:
    return frozenset().union(*(load(name).times for name in LANGUAGES))


@cache
def _small() -> frozenset[str]:
    every = stop_words("search") | stop_words("telegram") | stop_words("chat")
    entries = (entry for name in LANGUAGES for entry in load(name).lead_words)
    return every | {word.lower() for entry in entries for word in tokens_of(entry, {}).split()}
