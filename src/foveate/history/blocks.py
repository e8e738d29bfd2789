"""One row of a plan written out: its texts in its tags, and to the token what they cost. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from foveate.context.costs import content_tokens, counting, frame_tokens, label_tokens
from foveate.context.cut import cut_text
from foveate.context.tags import SUMS, TagBlock, TagEntry, block_of
from foveate.history.sizes import PRUNED, Step
from foveate.plan import Artefact, Block, Overheads
from foveate.strategy.build import short_texts
from foveate.text import message_text
from foveate.tokens import Counter
from foveate.turn import Message, ToolResult

ONLY_NAMED = "(only named here: get_turns opens it)"


@dataclass(frozen=True, slots=True)
class RowText:
    """One turn's or step's text at a level; its tokens where they are known already."""

    text: str
    tokens: int | None = None
    messages: tuple[Message, ...] | None = None
    """Where it may go out as the provider's own."""


@dataclass(frozen=True, slots=True)
class Written:
    """A row's texts, and what they cost in all."""

    block: TagBlock
    tokens: int
    messages: tuple[Message, ...] | None


def write_row(row: Block, texts: Iterable[tuple[int, RowText]], counter: Counter, costs: Overheads) -> Written:
    """The row with the text of each turn or step by its number; cut, where the plan says so, to the row's tokens."""
    in_steps = bool(row.first_step)
    frame = costs.range if row.level in SUMS else costs.tag
    entries: list[TagEntry] = []
    tokens = 0
    messages: list[Message] | None = []
    for number, given in texts:
        text, size = given.text, given.tokens
        if row.is_cut and row.level != "E":
            count = counting(row.level, counter, in_steps=in_steps)
            whole = size if size is not None else count(text)
            text, size = cut_text(text, row.tokens - frame, count, whole), None
        known = size is not None
        tokens += size if known and size is not None else content_tokens(text, row.level, counter, in_steps=in_steps)
        tokens += label_tokens(number, row.level, counter, in_steps=in_steps) if row.is_range else 0
        entries.append(TagEntry(number, text))
        if given.messages is None or row.is_cut or messages is None:
            messages = None
        else:
            messages += given.messages
    block = block_of(row, entries)
    return Written(block, tokens + frame_tokens(block, counter), tuple(messages) if messages else None)


def user_text(messages: Iterable[Message]) -> str:
    """The user's own words, verbatim; of a message that carries results of tool calls, what is said beside them."""
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
) -> RowText:
    """A turn's text at U or M, or that of one step of it; without messages it was pruned."""
    if not messages:
        return RowText(f"{PRUNED}\n")
    if row.level == "U":
        return RowText(user_text(messages))
    assert row.first == row.last, "the positions of an M row are of one turn"
    found = made.get(row.artefact)
    short = short_texts(found) if found else {}
    place = step.position if step else 0
    return RowText(mixed_text(messages, short, set(row.short), first_position=place))


def artefact_text(row: Block, made: Mapping[str, Artefact]) -> RowText:
    """What an A row says."""
    found = made.get(row.artefact)
    return RowText(found.text, found.tokens) if found and found.text else RowText(ONLY_NAMED)
