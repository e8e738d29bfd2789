"""Writes out one block of a plan: its texts in tags, with the exact token count. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from foveate.context.assemble import BlockText
from foveate.context.costs import content_tokens, counting, frame_tokens, label_tokens
from foveate.context.cut import cut_text
from foveate.context.tags import SUMS, TagEntry, block_of, write_block
from foveate.history.sizes import PRUNED, Step
from foveate.plan import Artefact, Block, Overheads
from foveate.strategy.build import short_texts
from foveate.text import message_text
from foveate.tokens import Counter
from foveate.turn import Message, ToolResult

ONLY_NAMED = "(only named here: get_turns opens it)"


def write_text(
    row: Block,
    entries: Iterable[TagEntry],
    counter: Counter,
    costs: Overheads,
    *,
    messages: tuple[Message, ...] | None = None,
    extra_tokens: int = 0,
) -> BlockText:
    """The block with these texts in its tags; if the plan says so, its text is cut to the block's tokens.

    `messages` and `extra_tokens` are passed on. A cut block has no messages: they would be more than was planned.
    """
    assert not (messages and row.is_cut), "a cut block is sent as text"
    in_steps = bool(row.first_step)
    frame = costs.range if row.level in SUMS else costs.tag
    shown: list[TagEntry] = []
    tokens = 0
    for given in entries:
        entry = given
        if row.is_cut and row.level != "E":
            count = counting(row.level, counter, in_steps=in_steps)
            whole = given.tokens if given.tokens is not None else count(given.text)
            entry = TagEntry(given.number, cut_text(given.text, row.tokens - frame, count, whole))
        if entry.tokens is None:
            tokens += content_tokens(entry.text, row.level, counter, in_steps=in_steps)
        else:
            tokens += entry.tokens
        tokens += label_tokens(entry.number, row.level, counter, in_steps=in_steps) if row.is_range else 0
        shown.append(entry)
    block = block_of(row, shown)
    tokens += frame_tokens(block, counter)
    return BlockText(row, write_block(block), tokens, messages, extra_tokens=extra_tokens)


def user_text(messages: Iterable[Message]) -> str:
    """The user's own words, verbatim; of a message with tool results, the text beside them."""
    said = []
    for message in messages:
        if message.role == "user" and message.kind == "message":
            parts = tuple(part for part in message.parts if not isinstance(part, ToolResult))
            if parts or not message.parts:
                said.append(message_text(replace(message, parts=parts)))
    return "".join(said)


def mixed_text(
    messages: Iterable[Message], short: Mapping[int, str], positions: Collection[int], *, first_position: int = 0
) -> str:
    """The messages, those at `positions` by their short texts where there is one."""
    return "".join(
        short[place] if place in positions and place in short else message_text(message)
        for place, message in enumerate(messages, first_position)
    )


def log_text(
    row: Block, messages: tuple[Message, ...], made: Mapping[str, Artefact], *, step: Step | None = None
) -> str:
    """The text at U or M of a turn, or of one of its steps; a turn without messages was pruned."""
    if not messages:
        return f"{PRUNED}\n"
    if row.level == "U":
        return user_text(messages)
    assert row.first == row.last, "the positions of an M row are of one turn"
    found = made.get(row.artefact)
    short = short_texts(found) if found else {}
    place = step.position if step else 0
    return mixed_text(messages, short, set(row.short), first_position=place)


def artefact_entry(row: Block, made: Mapping[str, Artefact]) -> TagEntry:
    """The text of an A row; a note if it is not made yet."""
    found = made.get(row.artefact)
    return TagEntry(row.first, found.text, found.tokens) if found and found.text else TagEntry(row.first, ONLY_NAMED)
