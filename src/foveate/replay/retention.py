"""What a context still has of a history: its facts, by how long ago they were said, and texts that are looked for.

Facts are the guard's, weighed as it weighs them. Each counts once in a history, and is there if it is said anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.compress.facts import find_facts
from foveate.context.context import Segment

NOT_SAID = ("system", "explanation", "tools", "framing", "attachments")
"""Parts of a context that are none of the history's."""


@dataclass(frozen=True, slots=True)
class AgeShare:
    """The share of facts that is kept, by the number of turns since they were last said; 0 is the newest turn."""

    least: int
    most: int
    facts: int
    kept: float


@dataclass(frozen=True, slots=True)
class FactBook:
    """The facts of a history by their form: what each weighs, and the turns that said it first and last."""

    weights: Mapping[str, float]
    first: Mapping[str, int]
    last: Mapping[str, int]
    turns: int

    def known_share(self, forms: frozenset[str], turn: int) -> float:
        """What these forms have of the facts that were said up to a turn."""
        return self._share([form for form, said in self.first.items() if said <= turn], forms)

    def aged(self, forms: frozenset[str], least: int, most: int) -> AgeShare:
        """What they have of the facts that were said last from `least` to `most` turns ago."""
        own = [form for form, said in self.last.items() if least <= self.turns - said <= most]
        return AgeShare(least, most, len(own), self._share(own, forms))

    def by_age(self, forms: frozenset[str]) -> tuple[AgeShare, ...]:
        """The same of 0, 1, 2 to 3, 4 to 7, … turns ago, as far as there are facts."""
        shares = []
        least = most = 0
        while least < self.turns:
            share = self.aged(forms, least, min(most, self.turns - 1))
            if share.facts:
                shares.append(share)
            least, most = most + 1, 2 * most + 1
        return tuple(shares)

    def _share(self, own: Sequence[str], forms: frozenset[str]) -> float:
        total = sum(self.weights[form] for form in own)
        return sum(self.weights[form] for form in own if form in forms) / total if total else 1.0


def fact_book(texts: Sequence[str]) -> FactBook:
    """The facts of turns, oldest first."""
    weights: dict[str, float] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for turn, text in enumerate(texts, 1):
        for key, weight in find_facts(text).items():
            form = key[2:]
            weights[form] = max(weight, weights.get(form, 0.0))
            first.setdefault(form, turn)
            last[form] = turn
    return FactBook(weights, first, last, len(texts))


def forms_of(segments: Sequence[Segment]) -> frozenset[str]:
    """The forms of the facts that a context has."""
    return frozenset(key[2:] for text in said_in(segments) for key in find_facts(text))


def said_in(segments: Sequence[Segment]) -> list[str]:
    """What a context has of the history, its explanation left out."""
    return [segment.text for segment in segments if segment.name not in NOT_SAID]


def plain(text: str) -> str:
    """A text as needles are looked for in it: whatever its case and its spaces."""
    return " ".join(text.casefold().split())


def said_last(texts: Sequence[str], needles: Sequence[str]) -> list[int | None]:
    """The last turn that has each needle; None if none has."""
    wanted = [plain(needle) for needle in needles]
    found: list[int | None] = [None] * len(wanted)
    for turn, text in enumerate(map(plain, texts) if wanted else (), 1):
        for place, needle in enumerate(wanted):
            if needle in text:
                found[place] = turn
    return found
