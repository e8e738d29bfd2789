"""The state of the hybrid strategy between plans: which messages are short, and which turns are rolled up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from foveate.turn import Json

Place = tuple[int, int]
"""A message: its turn, and its position in the turn."""

NOWHERE: Place = (0, -1)


@dataclass(frozen=True, slots=True)
class HybridState:
    """The state. It stays the same between two compressions, and so do the shown messages."""

    through: Place = NOWHERE
    """Messages up to this one are short, if that makes them smaller."""
    spared: frozenset[Place] = frozenset()
    """Messages up to `through` that stay whole, because they were protected when that was decided."""
    chosen: frozenset[Place] = frozenset()
    """Messages after `through` that are short too, chosen by agent mode."""
    reach: Place = NOWHERE
    """The last message of the turn in progress that could be short when that was decided."""
    rolled: int = 0
    """Turns up to this one are shown as a sentence or in an era."""
    rolled_tokens: int = 0
    """Maximum tokens of the rolled-up turns."""
    systems: tuple[tuple[int, int], ...] = ()
    """Rolled-up turns with system messages, which stay, and their tokens."""
    cut: frozenset[Place] = frozenset()
    """Protected messages that had to be cut and were reported."""
    compressions: int = 0

    def marks(self, place: Place) -> bool:
        """Return whether a message is to be short."""
        return (place <= self.through and place not in self.spared) or place in self.chosen

    def as_json(self) -> dict[str, Json]:
        kept: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(self, order="deterministic"))
        return kept

    @classmethod
    def from_json(cls, state: Mapping[str, Json]) -> HybridState:
        return msgspec.convert(state, cls)
