"""Standard: the newest turns that fit, verbatim; the oldest are left out, or the call fails."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from foveate.errors import HistoryExceedsBudget
from foveate.models.prompts import prompt_text
from foveate.plan import Block, Ledger, Overheads, Plan, Snapshot, State, TurnSizes
from foveate.strategy import Strategy
from foveate.strategy.layout import bands_of, compact_rows, step_stub, stub_row

CUT_MINIMUM_TOKENS = 8
"""Minimum tokens of a cut text, without its note."""
PRUNED_RANGE_TOKENS = 24
"""Upper bound of the tokens of `(turns 12 to 34 were removed by a prune command)`, in either encoding."""


class Standard(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole turns, newest first, until one does not fit. Dropped turns are named, so that they can be retrieved."""

    recalls_first: ClassVar[bool] = True

    when_full: Literal["drop", "fail"] = "drop"
    """`drop`: the oldest turns are dropped. `fail`: the call raises `HistoryExceedsBudget`."""
    prompt_share: Annotated[float, Meta(ge=0.05, le=0.9)] = 0.25
    """Share of the history's tokens for the prompt of a turn in progress that does not fit."""

    @property
    def explanation(self) -> str:
        return prompt_text("explain/standard")

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        budget_tokens, overheads = ledger.room_tokens, snapshot.overheads
        rows = self._rows(snapshot, budget_tokens, overheads)
        shown = {turn for row in rows if row.level != "E" for turn in range(row.first, row.last + 1)}
        is_whole = len(shown) == snapshot.last_turn and all(row.level == "R" and not row.is_cut for row in rows)
        if not is_whole and self.when_full == "fail":
            raise HistoryExceedsBudget(_needed_tokens(snapshot, overheads), budget_tokens)
        bands = bands_of(rows, {"R": 1.0, "S": 0.0, "C": 0.0, "T": 0.0, "E": 0.0})
        tokens = sum(row.tokens for row in rows)
        notes = {"dropped_turns": snapshot.last_turn - len(shown)}
        return Plan(tuple(rows), bands, tokens, budget_tokens, notes=notes), state

    def _rows(self, snapshot: Snapshot, budget_tokens: int, overheads: Overheads) -> list[Block]:
        """Return the rows, oldest first."""
        newest: list[Block] = []
        left = budget_tokens
        stub = stub_row(1, 1, overheads).tokens
        running: list[TurnSizes] = []
        pruned: set[int] = set()
        for item in snapshot.newest():
            # There is nothing to name before the oldest turn.
            room = left - (stub if item.turn > 1 else 0)
            if item.step:
                running.append(item)
                if item.step > 1:
                    continue
                newest = self._running(running, room, overheads)
                left -= sum(row.tokens for row in newest)
            else:
                joined = newest[-1] if item.is_pruned and item.turn + 1 in pruned else None
                row = _turn_row(item, joined, overheads)
                cost = row.tokens - (joined.tokens if joined else 0)
                if cost > room:
                    break
                if joined:
                    newest.pop()
                newest.append(row)
                left -= cost
                if item.is_pruned:
                    pruned.add(item.turn)
        oldest = newest[-1].first if newest else 0
        if not newest or left < (stub if oldest > 1 else 0):
            return compact_rows(snapshot, budget_tokens, overheads)
        if oldest > 1:
            newest.append(stub_row(1, oldest - 1, overheads))
        return newest[::-1]

    def _running(self, items: list[TurnSizes], room_tokens: int, overheads: Overheads) -> list[Block]:
        """Lay out a turn in progress, passed newest step first: the newest steps that fit after its prompt, the rest
        only named."""
        prompt = items[-1]
        most = int(room_tokens * self.prompt_share) if len(items) > 1 else room_tokens
        kept = min(prompt.raw + overheads.tag, most)
        rows: list[Block] = []
        left = room_tokens - kept - 2 * stub_row(1, 1, overheads).tokens
        for item in items[:-1]:
            cost = item.raw + overheads.tag
            if cost > left:
                break
            rows.append(Block(item.turn, item.turn, "R", cost, item.step, item.step))
            left -= cost
        if not rows and len(items) > 1 and left - overheads.tag - overheads.cut_note >= CUT_MINIMUM_TOKENS:
            rows.append(Block(prompt.turn, prompt.turn, "R", left, items[0].step, items[0].step, is_cut=True))
        hidden = len(items) - 1 - len(rows)
        if hidden:
            rows.append(step_stub(prompt.turn, 2, hidden + 1, overheads))
        is_cut = prompt.raw + overheads.tag > kept
        if not is_cut or kept - overheads.tag - overheads.cut_note >= CUT_MINIMUM_TOKENS:
            rows.append(Block(prompt.turn, prompt.turn, "R", kept, 1, 1, is_cut=is_cut))
        return rows


def _turn_row(item: TurnSizes, joined: Block | None, overheads: Overheads) -> Block:
    """Return the row of a turn; that of a pruned one includes the row after it, if that is of pruned turns too."""
    if joined is None:
        return Block(item.turn, item.turn, "R", item.raw + overheads.tag)
    tokens = overheads.range + overheads.line + PRUNED_RANGE_TOKENS
    return Block(item.turn, joined.last, "R", tokens, is_range=True)


def _needed_tokens(snapshot: Snapshot, overheads: Overheads) -> int:
    """Return the raw tokens of the whole history, each turn with its tag."""
    return sum(info.tokens + overheads.tag for info in snapshot.infos(1, snapshot.last_turn))
