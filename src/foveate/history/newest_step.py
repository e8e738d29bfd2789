"""The newest step of a turn in progress, which waits for the model's answer: sent as messages, raw if it fits.

A strategy has its share of the budget. If that is too little for the calls and results that the model is to read next,
the older history is planned again in the remaining room. A step that is larger than the budget is cut inside its
messages, with a note, so that a request still ends with a tool result or the user's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from foveate.context.assemble import MESSAGE_TOKENS, BlockText, native_note
from foveate.context.costs import overheads
from foveate.context.cut import cut_note, cut_text, estimated_size
from foveate.context.pairs import provider_message_count
from foveate.context.tags import TagEntry
from foveate.formats.sizes import SentSizes
from foveate.history.blocks import write_text
from foveate.history.sizes import Step, split_steps
from foveate.plan import Block
from foveate.store import SessionRow
from foveate.text import compact_json, turn_text
from foveate.tokens import Counter
from foveate.turn import Message, Part, Text, ToolCall, ToolResult

LEAST_ROOM_TOKENS = 200
"""Minimum room of the history before the newest step."""
CUT_SHARE = 0.6
"""Share of the room that a step which does not fit is cut to."""
LEAST_TEXT_TOKENS = 32
"""Minimum size of a cut text inside a message, without the note."""
SHRINK_SHARE = 0.85
MAX_TRIES = 24


def waiting_step(messages: Sequence[Message], *, has_results: bool = False) -> Step | None:
    """Return the newest step if the model is to answer it: it ends with a user message or a tool result."""
    shown = [message for message in messages if message.kind == "message"]
    if not shown or not (has_results or shown[-1].role in ("user", "tool")):
        return None
    return split_steps(messages)[-1]


def is_native(session: SessionRow, blocks: Sequence[BlockText], step: Step, limit_tokens: int) -> bool:
    """Return whether the step is shown as messages and fits the limit with everything else."""
    last = blocks[-1] if blocks else None
    if last is None or not last.messages or last.row.is_cut or last.row.last != session.last_turn:
        return False
    framing = native_framing_tokens(last, session.exact)
    used = sum(block.tokens for block in blocks) + last.extra_tokens + framing
    return used <= limit_tokens or (len(blocks) == 1 and step.number == 1)


def cut_step(session: SessionRow, step: Step, room_tokens: int) -> BlockText | None:
    """Cut the longest texts of a step; None if the room is too small for that."""
    counter = session.exact
    sizes = SentSizes.of(session.model, session.encoding)
    costs = overheads(session.last_turn, counter, last_step=step.number)
    row = step_row(session, step)
    bare = tuple(map(sizes.without_media, step.messages))
    measure = _Measure(counter)
    tokens = sorted(map(measure.size, _long_texts(bare)))
    framing = turn_text(tuple(_cut_message(message, 0, measure) for message in bare))
    level = _level(tokens, room_tokens - counter.base(framing))
    for _ in range(MAX_TRIES):
        if level < LEAST_TEXT_TOKENS:
            return None
        messages = tuple(_cut_message(message, level, measure) for message in bare)
        entry = TagEntry(step.number if row.first_step else row.first, turn_text(messages))
        extra = sizes.extra_tokens(messages)
        block = write_text(row, [entry], counter, costs, messages=messages, extra_tokens=extra)
        if native_tokens(block, counter) <= room_tokens:
            return replace(block, row=replace(row, tokens=block.tokens, is_cut=True), is_stable=False)
        level = int(level * SHRINK_SHARE)
    return None


def native_tokens(block: BlockText, counter: Counter) -> int:
    """Count the tokens of a block as messages."""
    return block.sent_tokens + native_framing_tokens(block, counter)


def native_framing_tokens(block: BlockText, counter: Counter) -> int:
    """Count the tokens of the framing of a block's messages, and of the line with their turn."""
    framing = MESSAGE_TOKENS * (1 + provider_message_count(block.messages or ()))
    return framing + counter.base(native_note(block))


def step_row(session: SessionRow, step: Step) -> Block:
    """Return the block of a step; a first step is the whole turn so far."""
    number = 0 if step.number == 1 else step.number
    return Block(session.last_turn, session.last_turn, "R", 0, first_step=number, last_step=number)


def blocks_before(blocks: Sequence[BlockText], turn: int) -> list[BlockText]:
    """Return the blocks of earlier turns; none if one of them includes a part of this turn."""
    older = list(takewhile(lambda block: block.row.first < turn, blocks))
    return older if all(block.row.last < turn for block in older) else []


def _long_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts that may be cut."""
    for message in messages:
        for part in message.parts:
            match part:
                case Text(text) if message.role != "assistant":
                    yield text
                case ToolCall(arguments=arguments):
                    yield compact_json(arguments)
                case ToolResult(content=content):
                    yield from (inner.text for inner in content if isinstance(inner, Text))


def _level(sizes: Sequence[int], room_tokens: int) -> int:
    """Return the size to which the largest texts are cut so that all fit; sizes are in ascending order."""
    left = max(0, room_tokens)
    for place, size in enumerate(sizes):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


class _Measure:
    """Measures and cuts texts; each text is counted once."""

    def __init__(self, counter: Counter) -> None:
        self._count = counter.base
        self._known: dict[str, int] = {}

    def size(self, text: str) -> int:
        """Return the tokens of a text; those of a very long one are estimated, since it is cut anyway."""
        if text not in self._known:
            self._known[text] = estimated_size(text, self._count)
        return self._known[text]

    def cut(self, text: str, max_tokens: int) -> str:
        """Return the text within this size, with a note if it was cut."""
        return cut_text(text, max_tokens, self._count, self.size(text))


def _cut_message(message: Message, max_tokens: int, measure: _Measure) -> Message:
    parts = tuple(_cut_part(part, message, max_tokens, measure) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts, original=None)


def _cut_part(part: Part, message: Message, max_tokens: int, measure: _Measure) -> Part:
    match part:
        case Text(text) if message.role != "assistant":
            return Text(measure.cut(text, max_tokens))
        case ToolCall(arguments=arguments):
            tokens = measure.size(compact_json(arguments))
            return part if tokens <= max_tokens else replace(part, arguments={"cut": cut_note(tokens)})
        case ToolResult(content=content):
            cut = tuple(
                Text(measure.cut(inner.text, max_tokens)) if isinstance(inner, Text) else inner for inner in content
            )
            return part if cut == content else replace(part, content=cut)
    return part
