"""What is kept beside the raw log and made from it: renditions, eras, plans, boards, the index. All can be made again.

Rows that lack a rendition are the worker's queue: `claim` leases some, `add_renditions` keeps what was made of
them, once, whoever else made it meanwhile. Those a model is to better are another queue: `foveate.store.due`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from foveate.store.due import DueQueue
from foveate.store.passages import NewPassages

ERA_FANOUT = 32
"""An era of level 1 stands for this many turns, one of the next level for this many eras."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn to make renditions of, as far as its first `messages` messages go."""

    session_id: str
    turn: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRendition:
    """All fidelities of a turn. Texts as in `foveate.renditions.Renditions`; units and bodies packed by the caller."""

    turn: int
    messages: int
    maker: str
    version: int
    is_complete: bool
    smoothed_tokens: int
    compressed_tokens: int
    tiny_tokens: int
    tiny: str
    compressed: bytes
    smoothed: bytes
    units: bytes
    refusals: int
    passages: NewPassages | None = None
    """What the turn is found by."""
    due_us: int | None = None
    """When a model is to be asked for better ones; None: never."""


@dataclass(frozen=True, slots=True)
class RenditionSizes:
    """What a turn's renditions cost; None where they are still to be made."""

    turn: int
    raw: int
    messages: int
    rendition: int | None
    smoothed: int | None
    compressed: int | None
    tiny: int | None
    is_pruned: bool


@dataclass(frozen=True, slots=True)
class RenditionRow:
    """A turn's stored renditions."""

    turn: int
    smoothed_tokens: int
    compressed_tokens: int
    tiny_tokens: int
    tiny: str
    compressed: bytes
    smoothed: bytes
    units: bytes
    maker: str
    version: int
    is_complete: bool
    made_us: int


@dataclass(frozen=True, slots=True)
class EraRow:
    level: int
    place: int
    tokens: int
    units: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much is still to be made, and how much was."""

    pending: int
    complete: int
    incomplete: int
    refusals: int
    waiting: int
    """Turns that wait for a model, now or later."""
    due_us: int | None
    """When the first of them is due."""
    by_model: int
    """Turns whose newest renditions a model made."""


class Derived(Protocol):
    """The derived half of a store."""

    @property
    def due(self) -> DueQueue:
        """Turns that wait for a model."""
        ...

    async def unsettled(self) -> list[str]:
        """The sessions that have turns without renditions, open turns included."""
        ...

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, include_open: bool
    ) -> list[Claim]:
        """Lease up to `limit` turns that lack renditions; the open turn only when asked for, or much grown."""
        ...

    async def add_renditions(self, session_id: str, renditions: Sequence[NewRendition]) -> None:
        """Keep what was made and give the leases back; what is there already stays as it is."""
        ...

    async def release(self, session_id: str, owner: str) -> None:
        """Give back what this owner leased and did not finish."""
        ...

    async def sizes_of(self, session_id: str, first: int, last: int) -> list[RenditionSizes]:
        """What the turns cost at each level, oldest first, ancestors' included."""
        ...

    async def counts(self, session_id: str, first: int, last: int, *, chunk_turns: int) -> dict[int, int]:
        """How many renditions the turns of each chunk have in all; with another number its sizes may be others."""
        ...

    async def renditions(self, session_id: str, first: int, last: int) -> list[RenditionRow]:
        """The newest renditions of the turns that have some."""
        ...

    async def tinies(self, session_id: str, first: int, last: int) -> list[tuple[int, str, int]]:
        """The turns with their tiny texts alone, and what these cost."""
        ...

    async def add_eras(self, session_id: str, eras: Sequence[EraRow]) -> None: ...

    async def eras(self, session_id: str, level: int, first: int, last: int) -> list[EraRow]:
        """Eras of a level by their places, those of ancestors that lie before the fork included."""
        ...

    async def era_tokens(self, session_id: str, level: int, first: int, last: int) -> list[tuple[int, int]]:
        """The places of eras and what each costs, without their units."""
        ...

    async def next_era(self, session_id: str, level: int) -> int:
        """The place of the first era of a level that is not made yet."""
        ...

    async def settled(self, session_id: str) -> int:
        """The last turn up to which every turn has its renditions."""
        ...

    async def keep(self, session_id: str, name: str, data: bytes) -> None:
        """Replace a keepsake."""
        ...

    async def kept(self, session_id: str, name: str) -> bytes | None: ...

    async def backlog(self, session_id: str) -> Backlog: ...
