"""The current topic's blocks: its turns verbatim, long messages truncated if necessary, and cut as a last resort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from foveate.plan import Artefact, ArtefactSpec, Block, Overheads, TurnInfo, TurnSizes
from foveate.strategy.gradient.planner import CUT_MINIMUM_TOKENS
from foveate.strategy.gradient.steps import plan_steps
from foveate.strategy.layout import stub_row
from foveate.turn import Json

WIDEST_CHARS = 16
"""Maximum characters per token: a message of fewer tokens than this allows can't be long."""
OLDER_SHARE = 0.4
"""Maximum share of the room for earlier turns of the topic if the newest turn alone is too large."""


@dataclass(frozen=True, slots=True)
class Current:
    """The rows of the current topic, oldest first."""

    rows: tuple[Block, ...]
    wants: tuple[ArtefactSpec, ...] = ()
    is_cut: bool = False

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    @property
    def truncated(self) -> dict[int, tuple[int, ...]]:
        """The positions of truncated messages, by turn."""
        found: dict[int, tuple[int, ...]] = {}
        for row in self.rows:
            if row.level == "M":
                found[row.first] = (*found.get(row.first, ()), *row.short)
        return found


@dataclass(frozen=True, slots=True)
class _Piece:
    """A turn, or a step of the one in progress."""

    row: Block
    saved: Mapping[int, int] = field(default_factory=dict)
    """Tokens saved by truncating each of its messages, by position."""
    artefact: str = ""

    def truncated(self) -> _Piece:
        if not self.saved or self.row.level == "M":
            return self
        tokens = self.row.tokens - sum(self.saved.values())
        row = replace(self.row, level="M", tokens=tokens, artefact=self.artefact, short=tuple(sorted(self.saved)))
        return replace(self, row=row)


def truncated_wanted(info: TurnInfo, max_message_chars: int) -> ArtefactSpec:
    """Request a turn's long messages, truncated; the name changes while the turn grows."""
    name = f"truncated-{info.turn}-{max_message_chars}-{len(info.messages)}"
    data: dict[str, Json] = {"max_chars": max_message_chars}
    return ArtefactSpec(name, "truncated", info.turn, info.turn, data=data)


def current_rows(
    turns: Sequence[TurnInfo],
    newest: Sequence[TurnSizes],
    *,
    max_message_chars: int,
    made: Mapping[str, Artefact],
    room_tokens: int,
    limit_tokens: int,
    overheads: Overheads,
) -> Current | None:
    """Lay out the turns within their share: long messages are truncated, oldest first, until they fit.

    If that is not enough they may take up to the limit, and beyond it they are cut. None if nothing fits.
    """
    wanted = {
        info.turn: truncated_wanted(info, max_message_chars)
        for info in turns
        if any(message.tokens * WIDEST_CHARS > max_message_chars for message in info.messages)
    }
    pieces = [
        piece
        for info in turns
        for piece in _pieces(info, newest, made.get(wanted[info.turn].name) if info.turn in wanted else None, overheads)
    ]
    if _total(pieces) <= room_tokens:
        return Current(tuple(piece.row for piece in pieces))
    wants = tuple(wanted.values())
    for place, piece in enumerate(pieces):
        if _total(pieces) <= room_tokens:
            break
        pieces[place] = piece.truncated()
    if _total(pieces) <= limit_tokens:
        return Current(tuple(piece.row for piece in pieces), wants)
    rows = _cut(pieces, newest, limit_tokens, overheads)
    return Current(tuple(rows), wants, is_cut=True) if rows else None


def _pieces(info: TurnInfo, newest: Sequence[TurnSizes], made: Artefact | None, overheads: Overheads) -> list[_Piece]:
    own = [item for item in reversed(newest) if item.turn == info.turn]
    name = made.name if made else ""
    parts = info.steps if own and own[0].step else (info.messages,)
    if own and own[0].step and len(parts) != len(own):
        parts = (info.messages,)  # a snapshot guarantees an item for each step
        own = []
    pieces: list[_Piece] = []
    for place, messages in enumerate(parts):
        raw = own[place].raw if own else sum(message.tokens for message in messages)
        step = own[place].step if own else 0
        saved = {
            message.position: message.tokens - made.sizes[message.position]
            for message in messages
            if made and message.tokens > made.sizes.get(message.position, message.tokens)
        }
        row = Block(info.turn, info.turn, "R", raw + overheads.tag, step, step)
        pieces.append(_Piece(row, saved, name))
    return pieces


def _total(pieces: Sequence[_Piece]) -> int:
    return sum(piece.row.tokens for piece in pieces)


def _cut(pieces: Sequence[_Piece], newest: Sequence[TurnSizes], limit_tokens: int, overheads: Overheads) -> list[Block]:
    """Cut the newest turn to the remaining room, or show its steps as far as they fit; earlier turns if there is
    room."""
    last = pieces[-1].row.last
    older = [piece.row for piece in pieces if piece.row.last < last]
    rows: list[Block] = []
    left = int(limit_tokens * OLDER_SHARE) - stub_row(1, 1, overheads).tokens
    for row in reversed(older):
        if row.tokens > left:
            break
        rows.insert(0, row)
        left -= row.tokens
    if len(rows) < len(older):
        rows.insert(0, stub_row(older[0].first, older[len(older) - len(rows) - 1].last, overheads))
    room = limit_tokens - sum(row.tokens for row in rows)
    if newest and newest[0].step:
        shown = plan_steps(newest, room, overheads)
        is_any_shown = any(row.level != "E" for row in shown)
        return [*rows, *shown] if is_any_shown else []  # not even a cut of the newest fits
    if room - overheads.tag - overheads.cut_note < CUT_MINIMUM_TOKENS:
        return []
    row = pieces[-1].row
    return [*rows, row if row.tokens <= room else replace(row, tokens=room, is_cut=True)]
