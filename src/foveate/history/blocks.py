"""Writes one block of a plan: its texts in tags, with the exact token count. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from foveate.context.assemble import BlockText
from foveate.context.costs import content_tokens, counting, date_tokens, frame_tokens, label_tokens
from foveate.context.cut import cut_text, estimated_size
from foveate.context.tags import SUMS, TagEntry, block_of, may_hold_a_date, write_block
from foveate.history.sizes import PRUNED, Step
from foveate.plan import Artefact, Block, Overheads
from foveate.strategy.build import short_texts
from foveate.text import message_text
from foveate.tokens import Counter
from foveate.turn import Message, ToolResult

ONLY_NAMED = "(not shown here: get_turns reads it)"


def write_text(
    row: Block,
    entries: Iterable[TagEntry],
    counter: Counter,
    costs: Overheads,
    *,
    messages: tuple[Message, ...] | None = None,
    extra_tokens: int = 0,
) -> BlockText:
    """Write a block with these texts in its tags; a row that `is_cut` is cut to its tokens.

    `messages` and `extra_tokens` are added to the result. A cut block has no messages: they would exceed the plan.
    """
    assert not (messages and row.is_cut), "a cut block is sent as text"
    in_steps = bool(row.first_step)
    frame = costs.range if row.level in SUMS else costs.tag
    shown: list[TagEntry] = []
    tokens = 0
    for original in entries:
        entry = original
        date = date_tokens(entry.date, row.level, counter, is_range=row.is_range)
        if row.is_cut and row.level != "E":
            count = counting(row.level, counter, in_steps=in_steps)
            whole = entry.tokens if entry.tokens is not None else estimated_size(entry.text, count)
            text = cut_text(entry.text, row.tokens - frame - date, count, whole)
            entry = TagEntry(entry.number, text, date=entry.date)
        if entry.tokens is None or may_hold_a_date(entry.text):  # it was counted before dates were escaped
            tokens += content_tokens(entry.text, row.level, counter, in_steps=in_steps)
        else:
            tokens += entry.tokens
        tokens += date
        tokens += label_tokens(entry.number, row.level, counter, in_steps=in_steps) if row.is_range else 0
        shown.append(entry)
    block = block_of(row, shown)
    tokens += frame_tokens(block, counter)
    return BlockText(row, write_block(block), tokens, messages, extra_tokens=extra_tokens)


def joined_removed(entries: Iterable[TagEntry]) -> list[TagEntry]:
    """Join the entries of consecutive turns that were pruned into one that names their range."""
    joined: list[TagEntry] = []
    for is_removed, group in groupby(entries, key=attrgetter("is_removed")):
        own = list(group)
        if is_removed and len(own) > 1:
            end = "\n" if own[0].text.endswith("\n") else ""
            text = f"(turns {own[0].number:,} to {own[-1].number:,} were removed by a command){end}"
            own = [replace(own[0], text=text, tokens=None)]
        joined += own
    return joined


def user_text(messages: Iterable[Message]) -> str:
    """Return the user's own words, verbatim; of a message with tool results, its other text."""
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
    """Write the messages; those at `positions` as their short texts, if they have one."""
    return "".join(
        short[place] if place in positions and place in short else message_text(message)
        for place, message in enumerate(messages, first_position)
    )


def log_text(
    row: Block, messages: tuple[Message, ...], made: Mapping[str, Artefact], *, step: Step | None = None
) -> str:
    """Write a turn or one of its steps at level U or M; a turn without messages was pruned."""
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
    """Return the text of an A row; a note if its artefact is not made yet."""
    found = made.get(row.artefact)
    return TagEntry(row.first, found.text, found.tokens) if found and found.text else TagEntry(row.first, ONLY_NAMED)
