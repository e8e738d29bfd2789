"""Turns that wait for a model: their renditions stand, made without one, and better ones are wanted.

A rendition with a due moment is the queue's entry, and it knows the calls that were spent on its turn; so a restart,
or another process, goes on where this one ended, within the same limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LOCAL_MAKER = "local"
"""Who makes what needs no model; every other maker is one."""


@dataclass(frozen=True, slots=True)
class DueTurn:
    """A turn that was claimed for a model. The texts it has now are those of `rendition`."""

    session_id: str
    turn: int
    messages: int
    rendition: int
    due_us: int
    calls: int
    """Spent on it before, in all."""
    reserved: int
    """Calls that may be made now; they are counted as spent until `refine` or `postpone` says what was."""
    smoothed_tokens: int
    compressed_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedTurn:
    """What a model made of a turn; a level that is None stays as it was."""

    maker: str
    version: int
    calls: int
    """Spent on the turn, in all."""
    refusals: int
    is_complete: bool = True
    """False: a level that a model was to make is not among them, and the turn is marked."""
    smoothed: bytes | None = None
    smoothed_tokens: int | None = None
    compressed: bytes | None = None
    compressed_tokens: int | None = None
    tiny: str | None = None
    tiny_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedTurn:
    """What is noted of a turn whose renditions stay as they are."""

    due_us: int | None
    """When a model is asked again; None: never."""
    calls: int
    """Spent on the turn, in all."""
    refusals: int = 0
    """Versions that did not pass, to be added."""
    is_marked: bool = False
    """What was made without a model stands in for what a model could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoRequest:
    """What is made again, where it can be made better."""

    local_version: int
    """What was made without a model is made again if it is older than this, or incomplete."""
    model_version: int | None
    """What no model made, or one with an older prompt, waits for a model; None: there is none."""


class DueQueue(Protocol):
    """The queue of a store. Open turns wait until they are closed; an ancestor's turns are the ancestor's."""

    async def sessions(self) -> list[tuple[str, int]]:
        """The sessions that have turns waiting, and when the first of each is due, the earliest first."""
        ...

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, max_calls: int, now_us: int
    ) -> list[DueTurn]:
        """Lease up to `limit` turns that are due, and reserve calls for each: half of what it has left.

        A turn that has none left is marked and waits no more.
        """
        ...

    async def reserve(self, due: DueTurn, calls: int) -> None:
        """Note, before they are made, that so many calls may be spent on the turn, in all."""
        ...

    async def refine(self, due: DueTurn, made: RefinedTurn) -> bool:
        """Keep what a model made, and give the lease back; False if the turn has other renditions by now."""
        ...

    async def postpone(self, due: DueTurn, noted: PostponedTurn) -> None:
        """Keep what there is, and give the lease back."""
        ...

    async def hold(self, session_id: str, until_us: int) -> None:
        """Nothing of the session is due before then."""
        ...

    async def hurry(self, now_us: int) -> None:
        """Whatever was put off until later is due now, in every session: there is a model again."""
        ...

    async def renew(self, owner: str, lease_seconds: float) -> None:
        """Whatever this owner has leased stays leased for so long from now."""
        ...

    async def release(self, owner: str) -> None:
        """Give back whatever this owner has leased; calls that were reserved stay counted."""
        ...

    async def want_again(self, session_id: str, wanted: RedoRequest, now_us: int) -> int:
        """Put what can be made better back into the queues, its calls forgotten; how many turns that are."""
        ...
