"""What the hybrid strategy keeps between plans: which messages are short, and which turns are no more than a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from foveate.turn import Json

Place = tuple[int, int]
"""A message: its turn, and its position in it."""

NOWHERE: Place = (0, -1)


@dataclass(frozen=True, slots=True)
class HybridState:
    """The state. It stays the same between two compressions, and so do the shown messages."""

    through: Place = NOWHERE
    """Messages up to this one are short, where that makes them smaller,"""
    spared: frozenset[Place] = frozenset()
    """but for these, which were protected when that was decided."""
    chosen: frozenset[Place] = frozenset()
    """Messages behind it that are short as well, as the agent mode has chosen."""
    reach: Place = NOWHERE
    """The messages of the turn in progress that could be short when that was decided."""
    rolled: int = 0
    """Turns up to this one are shown as a sentence or in an era,"""
    rolled_tokens: int = 0
    """within this limit of tokens."""
    systems: tuple[tuple[int, int], ...] = ()
    """Those of them that have system messages, which stay, and what these take."""
    cut: frozenset[Place] = frozenset()
    """Protected messages that had to be cut and were reported."""
    compressions: int = 0

    def marks(self, place: Place) -> bool:
        """Whether a message is to be short."""
        return (place <= self.through and place not in self.spared) or place in self.chosen

    def as_json(self) -> dict[str, Json]:
        return {
            "through": list(self.through),
            "spared": _listed(self.spared),
            "chosen": _listed(self.chosen),
            "reach": list(self.reach),
            "rolled": self.rolled,
            "rolled_tokens": self.rolled_tokens,
            "systems": [list(system) for system in self.systems],
            "cut": _listed(self.cut),
            "compressions": self.compressions,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Json]) -> HybridState:
        kept: Mapping[str, Any] = state
        return cls(
            through=_place(kept.get("through", NOWHERE)),
            spared=frozenset(map(_place, kept.get("spared", ()))),
            chosen=frozenset(map(_place, kept.get("chosen", ()))),
            reach=_place(kept.get("reach", NOWHERE)),
            rolled=int(kept.get("rolled", 0)),
            rolled_tokens=int(kept.get("rolled_tokens", 0)),
            systems=tuple(_place(system) for system in kept.get("systems", ())),
            cut=frozenset(map(_place, kept.get("cut", ()))),
            compressions=int(kept.get("compressions", 0)),
        )


def _place(pair: Any) -> Place:
    return int(pair[0]), int(pair[1])


def _listed(places: Iterable[Place]) -> list[Json]:
    return [list(place) for place in sorted(places)]
