"""Tells of one turn in a context: its level, its tokens, why it has that level, and how to show more of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from foveate.plan import ShownLevel
from foveate.session.picture import ABSENT, CAUSES, MEANINGS, SUM_LEVELS, ShownTurn, level_name, shown_turns
from foveate.session.values import Context, TurnOutline
from foveate.text import several
from foveate.turn import turn_number

MAX_LARGEST = 3
"""Number of newer turns that are named, the largest first."""
LEFT_OUT = "its words are in no line of this context; the model can still read it by its id"


@dataclass(frozen=True, slots=True)
class TurnReason:
    """A turn in a context, and why it is shown as it is."""

    id: str
    level: ShownLevel | Literal["-"]
    """`-`: the context says nothing of it."""
    name: str
    """The level in words."""
    meaning: str
    tokens: int
    """Tokens that it takes in the context; of a summary its share."""
    raw_tokens: int
    """Tokens of the turn as recorded."""
    is_cached: bool
    is_native: bool
    """Sent as the provider's own messages."""
    started_at: datetime
    why: str
    displaced: str
    """What takes the room that it would need word for word; empty if it is word for word."""
    raise_by: tuple[str, ...]
    """How to show more of it."""
    on_board: str = ""
    """Its item on the board, e.g. `T-30-R`; empty without one."""


def on_board_of(context: Context) -> dict[int, str]:
    """Return the turns whose text is on the board of a context, each with the name of its item."""
    entries = (*context.board.retrieved, *context.board.prefetched)
    found = {turn_number(entry.name.rpartition("-")[0]): entry.name for entry in entries}
    return {number: name for number, name in found.items() if number}


def explain_turn(context: Context, outline: TurnOutline) -> TurnReason:
    """Explain a turn of a context; a turn that is newer than the context has level `-`."""
    turns = shown_turns(context.segments)
    absent = ShownTurn(outline.number, "E", 0, is_cached=False, is_hollow=True)
    turn = next((one for one in turns if one.number == outline.number), absent)
    if outline.is_pruned:
        return _removed(turn, outline)
    level = turn.shown_level
    on_board = on_board_of(context).get(outline.number, "")
    return TurnReason(
        id=outline.id,
        level=level,
        name=level_name(level),
        meaning=_meaning(turn),
        tokens=turn.tokens,
        raw_tokens=outline.tokens,
        is_cached=turn.is_cached,
        is_native=turn.is_native,
        started_at=outline.started_at,
        why=" ".join(_why(context, turn, turns)),
        displaced="" if level == "R" else _displaced(context, turn, turns, outline.tokens),
        raise_by=() if level == "R" else tuple(_ways(context, outline, on_board)),
        on_board=on_board,
    )


def _removed(turn: ShownTurn, outline: TurnOutline) -> TurnReason:
    """Explain a turn whose messages were erased or pruned."""
    name = f"erased on {outline.erased_at:%Y-%m-%d}" if outline.erased_at else "pruned"
    return TurnReason(
        id=outline.id,
        level=ABSENT,
        name=name,
        meaning="a note in its place",
        tokens=turn.tokens,
        raw_tokens=outline.tokens,
        is_cached=turn.is_cached,
        is_native=False,
        started_at=outline.started_at,
        why=f"Its messages were {name} and are in no context.",
        displaced="",
        raise_by=(),
    )


def _meaning(turn: ShownTurn) -> str:
    if turn.shown_level == ABSENT:
        return LEFT_OUT
    return f"{turn.verbatim_tokens:,} of them word for word" if turn.is_partial else MEANINGS[turn.level]


def _why(context: Context, turn: ShownTurn, turns: Sequence[ShownTurn]) -> Iterator[str]:
    planned, level = context.planned, turn.shown_level
    if turn.is_partial:
        yield "It is too large to be shown whole: some of its steps are word for word, the others shorter."
        return
    if planned.cause and turn.number > planned.last_turn:
        yield (
            f"It came after the last plan, which was made at T-{planned.last_turn}. New turns are appended word for "
            "word until the history is full."
        )
        return
    if planned.cause:
        yield f"The plan was made at T-{planned.last_turn}: {CAUSES[planned.cause]}."
    yield _chosen(context, turn, turns)
    change = next((one for one in planned.changes if one.first <= turn.number <= one.last), None)
    if change and level != ABSENT:
        yield f"Before that plan it was {level_name(change.before)}."


def _chosen(context: Context, turn: ShownTurn, turns: Sequence[ShownTurn]) -> str:
    """Return the rule that gave the turn its level."""
    strategy, level = context.planned.strategy, turn.shown_level
    if level == "R":
        newer = (one.shown_level for one in turns if one.number > turn.number)
        is_newest = all(one == "R" for one in newer)
        return "The newest turns stay word for word." if is_newest else "Word for word it takes little room."
    block = _block_of(context, turn.number)
    if level == ABSENT and strategy == "standard":
        return "This strategy shows the newest turns that fit, and leaves out all older ones."
    if level == ABSENT:
        told = f"No line of the summary of {block} is about it: others told more for their size."
        return told if block else "No text of this context covers it."
    if level in SUM_LEVELS:
        return f"It has no text of its own: it is one of the turns of the summary of {block}."
    if strategy == "hybrid":
        return "Long messages and older turns are shortened first; `--why` without a turn lists each message."
    return "Older turns share the room that the newest ones leave; each has the form that tells the most for its size."


def _block_of(context: Context, number: int) -> str:
    """Name the turns of the smallest block that covers a turn."""
    blocks = [
        (part.first, part.last)
        for part in context.segments
        if part.first is not None and part.last is not None and part.first <= number <= part.last
    ]
    if not blocks:
        return ""
    first, last = min(blocks, key=lambda block: block[1] - block[0])
    return f"T-{first} to T-{last}"


def _displaced(context: Context, turn: ShownTurn, turns: Sequence[ShownTurn], raw_tokens: int) -> str:
    newer = [one for one in turns if one.number > turn.number]
    taken = sum(one.tokens for one in newer)
    largest = sorted(newer, key=lambda one: -one.tokens)[:MAX_LARGEST]
    named = ", ".join(f"T-{one.number} ({one.tokens:,})" for one in largest)
    room = context.planned.room_tokens or context.budget_tokens
    history = sum(one.tokens for one in turns)
    needed = max(0, raw_tokens - turn.tokens)
    kept = ", which are kept for the next turns" if context.planned.cause else ""
    said = f"Word for word it needs {needed:,} tokens more; {max(0, room - history):,} of {room:,} are free{kept}."
    if not newer:
        return said
    return f"{said} {several(len(newer), 'newer turn')} take {taken:,}, the most of them {named}."


def _ways(context: Context, outline: TurnOutline, on_board: str) -> Iterator[str]:
    yield "Pin what must not be lost: pins are in every context, word for word."
    if on_board:
        yield f"It is on the board as {on_board}; keep it there, or it leaves after some turns."
    else:
        yield f'Retrieve it: the model calls get_turn("{outline.id}"), and it stays on the board for some turns.'
    if context.planned.strategy != "standard":
        yield f"Preview a larger budget, e.g. {context.budget_tokens * 2:,} tokens."
