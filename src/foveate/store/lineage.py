"""Which stored rows a session reads: its ancestors' turns up to each fork, then its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foveate.store import Draft, Head, Place, SessionRow
from foveate.turn import starts_turn

NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Turns `first` to `last` of one session's rows; of the last one the messages up to `last_position`."""

    session: int
    first: int
    last: int
    last_position: int

    def clamp(self, first: int, last: int) -> TurnSpan | None:
        """The part of it between two turns."""
        low, high = max(self.first, first), min(self.last, last)
        if low > high:
            return None
        return TurnSpan(self.session, low, high, self.last_position if high == self.last else NO_LIMIT)


def spans(chain: Sequence[SessionRow]) -> list[TurnSpan]:
    """The spans of a session given with its ancestors, nearest first; the oldest turns come first."""
    found: list[TurnSpan] = []
    last, last_position = NO_LIMIT, NO_LIMIT
    for row in chain:
        if row.fork_turn < last:
            found.append(TurnSpan(row.number, row.fork_turn + 1, last, last_position))
            last, last_position = row.fork_turn, row.fork_position
    return found[::-1]


def fork_turns(chain: Sequence[SessionRow]) -> list[tuple[int, int]]:
    """The sessions of a lineage, each with the turn it forked at, as far as that turn is seen from the first of them.

    That turn may have been open, so a fork has renditions of its own of it.
    """
    found: list[tuple[int, int]] = []
    limit = NO_LIMIT
    for row in chain:
        if row.parent is not None and row.fork_turn <= limit:
            found.append((row.number, row.fork_turn))
            limit = row.fork_turn
    return found


@dataclass(slots=True)
class HeadState:
    """Where a session's next message goes."""

    turn: int
    position: int
    head: Head

    def place(self, drafts: Sequence[Draft]) -> Iterator[Place]:
        """The place of each draft, moving the head along."""
        by_rule = starts_turn(drafts, prompted=self.head == "prompted")
        for draft, rule in zip(drafts, by_rule, strict=True):
            if self.head == "closed" or (rule if draft.starts is None else draft.starts):
                self.turn, self.position, self.head = self.turn + 1, 0, "preamble"
            self.position += 1
            if not draft.is_preamble:
                self.head = "prompted"
            yield Place(self.turn, self.position, is_new=True)
