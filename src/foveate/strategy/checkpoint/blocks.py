"""The blocks of a checkpoint context: checkpoints, the user's words, and recent turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.plan import Block, Overheads, TurnSizes
from foveate.strategy.checkpoint.state import CheckpointState
from foveate.strategy.checkpoint.triggers import SizedTurn
from foveate.strategy.gradient.planner import CUT_MINIMUM_TOKENS, MIN_HISTORY_TOKENS
from foveate.strategy.gradient.steps import plan_steps

PROMPT_SHARE = 0.6
"""Share of its room that the prompt of a turn in progress is cut to, if it leaves its steps less than
MIN_HISTORY_TOKENS."""
HEAD_SHARE = 0.6
"""Minimum share of a cut text for its beginning."""


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """Rows in order, and whether the newest turn is shown only in part."""

    rows: tuple[Block, ...]
    is_lowered: bool = False

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


def checkpoint_rows(state: CheckpointState, names: Mapping[str, str]) -> list[Block]:
    """Return one row per checkpoint, oldest first; `names` has the artefact of each, by its id."""
    return [
        Block(checkpoint.first, checkpoint.last, "A", checkpoint.tokens, artefact=names[checkpoint.id])
        for checkpoint in state.checkpoints
    ]


def user_rows(users: Sequence[SizedTurn], overheads: Overheads) -> list[Block]:
    """Return a row with the user's words for each run of consecutive turns."""
    rows: list[Block] = []
    start = 0
    for end in range(1, len(users) + 1):
        if end < len(users) and users[end].turn == users[end - 1].turn + 1:
            continue
        own = users[start:end]
        words = sum(turn.user for turn in own)
        structure = overheads.tag if len(own) == 1 else overheads.range + overheads.line * len(own)
        rows.append(Block(own[0].turn, own[-1].turn, "U", words + structure, is_range=len(own) > 1))
        start = end
    return rows


def newest_rows(
    newest: Sequence[TurnSizes], turn: SizedTurn, room_tokens: int, overheads: Overheads
) -> CheckpointLayout:
    """Lay out the newest turn, or its steps if it is in progress, in the remaining room.

    A turn that is too large is shown by its beginning, which has the user's words, and its end; if even that does not
    fit, by the user's words alone, cut if necessary.
    """
    if newest[0].step:
        return _step_rows(newest, room_tokens, overheads)
    number, tag, note = turn.turn, overheads.tag, overheads.cut_note
    (item,) = newest
    if item.raw + tag <= room_tokens:
        return CheckpointLayout((Block(number, number, "R", item.raw + tag),))
    is_whole = turn.head <= (room_tokens - tag - note) * HEAD_SHARE
    if not is_whole and 0 < turn.user + tag <= room_tokens:
        return CheckpointLayout((Block(number, number, "U", turn.user + tag),), is_lowered=True)
    cut = Block(number, number, "R", room_tokens, is_cut=True)
    return CheckpointLayout((cut,) if room_tokens - tag - note >= CUT_MINIMUM_TOKENS else (), is_lowered=True)


def _step_rows(newest: Sequence[TurnSizes], room_tokens: int, overheads: Overheads) -> CheckpointLayout:
    """Lay out the prompt raw, and the steps as the gradient shows them, the newest raw."""
    *steps, first = newest
    turn, tag = first.turn, overheads.tag
    if not first.is_kept:
        steps, rows, left = [*newest], [], room_tokens
    else:
        prompt = Block(turn, turn, "R", first.raw + tag, 1, 1)
        needed = min(MIN_HISTORY_TOKENS, sum(step.raw + tag for step in steps))
        if prompt.tokens + needed > room_tokens:
            most = int(room_tokens * PROMPT_SHARE) if steps else room_tokens
            if most < tag + overheads.cut_note + CUT_MINIMUM_TOKENS:
                return CheckpointLayout((), is_lowered=True)
            prompt = replace(prompt, tokens=most, is_cut=True) if prompt.tokens > most else prompt
        rows, left = [prompt], room_tokens - prompt.tokens
    if not steps:
        return CheckpointLayout(tuple(rows), is_lowered=bool(rows) and rows[0].is_cut)
    rows += plan_steps([replace(step, is_kept=False) for step in steps], left, overheads)
    return CheckpointLayout(tuple(rows), is_lowered=any(row.level != "R" or row.is_cut for row in rows))
