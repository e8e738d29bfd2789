"""Recall over several sessions: which turns may be searched, and numbers for them as if they were one conversation.

The turns of the session itself come last, behind those of the others in the order of their last use. Between two
sessions some numbers are left out, so that the last turn of one is no neighbour of the first turn of the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foveate.recall.scopes import Scope, id_in_tenant, read_sessions
from foveate.store import SessionRow
from foveate.store.lineage import TurnSpan, spans

if TYPE_CHECKING:
    from foveate.recall.rank import Numbers, Passages
    from foveate.store.index_reader import IndexReader

GAP = 3
"""More than the distance over which turns lend each other score."""


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that was found; `session` is None if it is one of the session itself."""

    session: SessionRow | None
    turn: int


@dataclass(frozen=True, slots=True)
class SearchedSessions:
    """The sessions that are searched. Without others, turns have their own numbers."""

    others: Sequence[SessionRow] = ()
    """In the order of their numbers here."""
    offsets: Sequence[int] = ()
    """What is added to the turns of each."""
    own_offset: int = 0
    chain: Sequence[TurnSpan] = field(default=())
    """The turns that the session sees, its ancestors' included."""

    @property
    def is_single(self) -> bool:
        """Whether only the session itself is searched."""
        return not self.others

    @property
    def last_turns(self) -> Mapping[int, int]:
        """For the number of each session the last of its turns that is searched."""
        seen = {span.session: span.last for span in self.chain}
        return {**seen, **{row.number: row.last_turn for row in self.others}}

    def is_own(self, session: int, turn: int) -> bool:
        """Whether the session itself sees this turn of the session with this number."""
        return any(span.session == session and span.first <= turn <= span.last for span in self.chain)

    def own(self, turns: Iterable[int]) -> set[int]:
        """The numbers here of turns of the session itself."""
        return {turn + self.own_offset for turn in turns}

    def own_turn(self, turn: int | None) -> int | None:
        """The number here of one such turn."""
        return None if turn is None else turn + self.own_offset

    def find(self, number: int) -> RecalledTurn:
        """The turn that has this number here."""
        if number > self.own_offset:
            return RecalledTurn(None, number - self.own_offset)
        place = bisect_right(self.offsets, number - 1) - 1
        return RecalledTurn(self.others[place], number - self.offsets[place])

    def renumber(self, passages: Passages) -> Passages:
        """Passages of an index of all sessions, with the numbers that turns have here."""
        return replace(passages, turn=self._numbers(passages.turn))

    def _numbers(self, turn_keys: Numbers) -> Numbers:
        import numpy as np  # noqa: PLC0415 - loads with the index

        from foveate.recall.table import TURN_BITS, TURN_MASK  # noqa: PLC0415

        order = sorted(range(len(self.others)), key=lambda place: self.others[place].number)
        numbers = np.array([self.others[place].number for place in order], np.int64)
        offsets = np.array([self.offsets[place] for place in order], np.int64)
        session, turn = turn_keys >> TURN_BITS, turn_keys & TURN_MASK
        places = np.minimum(np.searchsorted(numbers, session), len(numbers) - 1)
        found: Numbers = offsets[places] + turn
        for span in self.chain:
            is_own = (session == span.session) & (turn >= span.first) & (turn <= span.last)
            found[is_own] = turn[is_own] + self.own_offset
        return found


def searched_sessions(reader: IndexReader, session: SessionRow) -> SearchedSessions:
    """The session itself and the others of the scope that it was opened with, within its tenant."""
    if not session.scope:
        return SearchedSessions()
    found = read_sessions(reader, session.tenant, Scope.parse(session.scope))
    others = sorted(
        (row for row in found if row.number != session.number and row.last_turn),
        key=lambda row: (row.updated_us, row.number),
    )
    if not others:
        return SearchedSessions()
    offsets: list[int] = []
    end = 0
    for row in others:
        offsets.append(end)
        end += row.last_turn + GAP
    chain = [session, *reader.lineage(session.id)[1:]]
    return SearchedSessions(others, offsets, end, _own_spans(chain, {row.number for row in others}))


def _own_spans(chain: Sequence[SessionRow], shared: set[int]) -> list[TurnSpan]:
    """The turns that a session sees, given with its ancestors. The turn at which it was forked may have gone on
    elsewhere: of an ancestor that is not in the scope it is left out."""
    own = chain[0].number
    older = [
        span if span.session in shared else TurnSpan(span.session, span.first, span.last - 1, span.last_position)
        for span in spans(chain)
        if span.session != own
    ]
    return [*older, *(span for span in spans(chain) if span.session == own)]


def title_of(session: SessionRow) -> str:
    """The title of a session if that says more than its id."""
    title = " ".join(session.title.split())
    return "" if title == id_in_tenant(session) else title
