"""From a plan to a context: fixed part, history, memory, board and prompt, joined where token counts add up.

cache-first   system · explanation · pins · documents · history · memory · changing ones · board · prompt, or the turn
              in progress
documented    system · explanation · pins · documents · memory · changing documents · board · history · prompt

Memory and board come before the prompt they were made for, and stay there while its turn is in progress: so they are
cached, and a request ends with the user's message or a tool result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from foveate.context import invariants
from foveate.context.context import Context, Segment, SegmentName
from foveate.context.pairs import loose_ends, provider_message_count
from foveate.context.pins import ShownPin, check_pins, write_pins
from foveate.context.render import Layout, Native, message_count
from foveate.context.tags import Section
from foveate.errors import BudgetExceeded
from foveate.formats.sizes import SentSizes, has_media
from foveate.plan import Block
from foveate.text import turn_text
from foveate.tokens import Counter, EncodingName, count_tokens
from foveate.turn import Message, Text

Order = Literal["cache-first", "documented"]

MESSAGE_TOKENS = 4
"""What a provider adds around each message."""
REPLY_TOKENS = 3
"""What it adds for the answer to begin with."""


@dataclass(frozen=True, slots=True)
class HistoryBlock:
    """A row of the plan, written."""

    row: Block
    text: str
    """With its tags, as `tags.write_block` makes it."""
    tokens: int
    """The base tokens of the text."""
    messages: tuple[Message, ...] | None = None
    """The turn's messages, where it may go out as the provider's own."""
    is_stable: bool = True
    """The next context will show it byte for byte, unless a rebuild comes between."""
    extra_tokens: int = 0
    """What the messages take beyond the text: arguments as they were recorded, images and files, signatures."""

    @property
    def sent_tokens(self) -> int:
        """What it takes at most, as text or as messages."""
        return self.tokens + self.extra_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts:
    """Everything a context is made of."""

    budget_tokens: int
    counter: Counter
    calibration: float = 1.0
    model: str | None = None
    """Whose rule counts images."""
    system: str = ""
    explanation: str = ""
    """What the strategy tells the model about its tags; ends in a newline."""
    pins: Sequence[ShownPin] = ()
    documents: Mapping[Section, str] = field(default_factory=dict)
    """What stands fixed behind the pins, each as `tags.tag_document` makes it."""
    changing: Mapping[Section, str] = field(default_factory=dict)
    """Documents that change often, which stand with the board."""
    history: Sequence[HistoryBlock] = ()
    at_work: int = 0
    """So many blocks of the history, the last ones, are of the turn in progress."""
    memory: str = ""
    """As `tags.tag_section` makes it."""
    board: str = ""
    """As `board.render` makes it."""
    prompt: str | Sequence[Message] = ""
    tools_tokens: int = 0
    """The base tokens of the tool definitions that are sent along."""
    order: Order = "cache-first"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A segment before its tokens are scaled."""

    segment: Segment
    text: str
    base_tokens: int


def assemble(parts: ContextParts) -> Context:
    """A context within its budget; `BudgetExceeded` if what is never compressed does not fit by itself."""
    pins_tokens = check_pins(parts.pins, parts.budget_tokens, parts.counter, parts.calibration)
    prompt = prompt_messages(parts.prompt)
    fixed = _fixed_pieces(parts, pins_tokens)
    prompt_tokens = parts.counter.base(_prompt_text(parts.prompt))
    prompt_extra = 0 if isinstance(parts.prompt, str) else _sizes(parts).extra_tokens(prompt)
    system = "".join(piece.text for piece in fixed)
    _check_fixed(parts, fixed, prompt, prompt_tokens + prompt_extra)

    dynamic = _dynamic_pieces(parts)
    inner_tokens = sum(piece.base_tokens for piece in [*fixed, *dynamic])
    inner_tokens += sum(block.tokens for block in parts.history) + prompt_tokens + parts.tools_tokens
    native_from = _first_native(parts.history, prompt)
    while True:
        layout = _lay_out(parts, native_from, dynamic, prompt)
        framing = _framing_tokens(layout, system, _note_tokens(parts, native_from))
        extra = prompt_extra + sum(block.extra_tokens for block in parts.history[native_from:])
        if native_from >= len(parts.history) or _scaled(parts, inner_tokens + extra + framing) <= parts.budget_tokens:
            break
        oldest = parts.history[native_from]
        if has_media(oldest.messages or ()):
            parts = replace(parts, history=_with_notes(parts, native_from))
        else:
            # Tagged text needs no framing of its own, so a turn that does not fit as messages still fits so.
            native_from += 1

    history = _history_pieces(parts, native_from, dynamic)
    shown = [*fixed, *_in_order(parts, history, dynamic)]
    behind = [
        _piece("prompt", _prompt_text(parts.prompt), prompt_tokens),
        _piece("tools", "", parts.tools_tokens, is_stable=True),
        _piece("framing", "", framing),
        _piece("attachments", "", extra),
    ]
    segments = _scale_segments(parts, [*shown, *behind])
    context = Context(
        text="".join(piece.text for piece in shown),
        tokens=sum(segment.tokens for segment in segments),
        budget_tokens=parts.budget_tokens,
        segments=segments,
        system=system,
        history="".join(piece.text for piece in history),
        layout=layout,
        calibration=parts.calibration,
    )
    invariants.check_text(context, pins=parts.pins, rows=[block.row for block in parts.history])
    return context


def prompt_messages(prompt: str | Sequence[Message]) -> tuple[Message, ...]:
    """The prompt as messages; one without a visible character is none."""
    if isinstance(prompt, str):
        return (Message("user", (Text(prompt),)),) if prompt.strip() else ()
    return tuple(message for message in prompt if message.kind != "display")


def _sizes(parts: ContextParts) -> SentSizes:
    return SentSizes.of(parts.model, parts.counter.encoding)


def _with_notes(parts: ContextParts, index: int) -> list[HistoryBlock]:
    """The history, with notes for what is attached to one of its blocks."""
    sizes, block = _sizes(parts), parts.history[index]
    messages = tuple(map(sizes.without_media, block.messages or ()))
    # A note is longer than the mark of an attachment in the block's text.
    longer = max(0, parts.counter.base(turn_text(messages)) - parts.counter.base(turn_text(block.messages or ())))
    noted = replace(block, messages=messages, extra_tokens=sizes.extra_tokens(messages) + longer)
    return [*parts.history[:index], noted, *parts.history[index + 1 :]]


def _prompt_text(prompt: str | Sequence[Message]) -> str:
    if isinstance(prompt, str):
        return prompt if prompt.strip() else ""
    return turn_text(prompt_messages(prompt))


def _piece(name: SegmentName, text: str, base_tokens: int, *, is_stable: bool = False) -> _Piece:
    return _Piece(Segment(name, 0, is_stable), text, base_tokens)


def _fixed_pieces(parts: ContextParts, pins_tokens: int) -> list[_Piece]:
    pieces = []
    if parts.system:
        # The next part begins on a new line, or the counts would not add up.
        system = parts.system if parts.system.endswith("\n") else f"{parts.system}\n"
        pieces.append(_piece("system", system, _counted(system, parts.counter.encoding), is_stable=True))
    if parts.explanation:
        told = parts.explanation
        pieces.append(_piece("explanation", told, _counted(told, parts.counter.encoding), is_stable=True))
    if parts.pins:
        pieces.append(_piece("pins", write_pins(parts.pins), pins_tokens, is_stable=True))
    for name, text in parts.documents.items():
        if text:
            pieces.append(_piece(name, text, parts.counter.base(text), is_stable=True))
    return pieces


def _dynamic_pieces(parts: ContextParts) -> list[_Piece]:
    named: list[tuple[SegmentName, str]] = [
        ("memory", parts.memory),
        *parts.changing.items(),
        ("board", parts.board),
    ]
    for name, text in named:
        assert not text or (text.startswith("<") and text.endswith("\n")), f"the {name} is not in a tag of its own"
    return [_piece(name, text, parts.counter.base(text), is_stable=parts.at_work > 0) for name, text in named if text]


def _in_order(parts: ContextParts, history: Sequence[_Piece], dynamic: Sequence[_Piece]) -> list[_Piece]:
    if parts.order == "documented":
        return [*dynamic, *history]
    past = len(history) - parts.at_work
    return [*history[:past], *dynamic, *history[past:]]


def _history_pieces(parts: ContextParts, native_from: int, dynamic: Sequence[_Piece]) -> list[_Piece]:
    pieces = []
    is_stable = parts.order == "cache-first" or not dynamic
    for index, block in enumerate(parts.history):
        is_stable = is_stable and block.is_stable
        row = block.row
        segment = Segment("history", 0, is_stable, row.first, row.last, row.level, is_native=index >= native_from)
        pieces.append(_Piece(segment, block.text, block.tokens))
    return pieces


def _check_fixed(parts: ContextParts, fixed: Sequence[_Piece], prompt: tuple[Message, ...], prompt_tokens: int) -> None:
    named: dict[str, int] = {piece.segment.name: piece.base_tokens for piece in fixed}
    framing = MESSAGE_TOKENS * (bool(fixed) + provider_message_count(prompt)) + REPLY_TOKENS
    named |= {name: parts.counter.base(text) for name, text in parts.changing.items()}
    named |= {"prompt": prompt_tokens, "tool definitions": parts.tools_tokens, "framing of messages": framing}
    if _scaled(parts, sum(named.values())) > parts.budget_tokens:
        raise BudgetExceeded(parts.budget_tokens, {name: _scaled(parts, tokens) for name, tokens in named.items()})


def _first_native(history: Sequence[HistoryBlock], prompt: tuple[Message, ...]) -> int:
    """From which block on all can go out as messages: whole tool pairs, and a user to begin with."""
    first = len(history)
    following: tuple[Message, ...] = _leading_results(prompt)
    for index in range(len(history) - 1, -1, -1):
        messages = history[index].messages
        if messages is None or loose_ends((*messages, *following)):
            break
        first, following = index, ()
    while first == 0 and history and not _opens_with_user(history[0].messages or ()):
        first += 1
    return first


def _opens_with_user(messages: Sequence[Message]) -> bool:
    shown = next((message for message in messages if message.kind != "display"), None)
    return shown is not None and shown.role != "assistant" and not shown.tool_results


def _leading_results(prompt: tuple[Message, ...]) -> tuple[Message, ...]:
    """The results that a prompt begins with: they belong right behind their calls."""
    count = next((index for index, message in enumerate(prompt) if not message.tool_results), len(prompt))
    return prompt[:count]


def _lay_out(parts: ContextParts, native_from: int, dynamic: Sequence[_Piece], prompt: tuple[Message, ...]) -> Layout:
    older, newer = parts.history[:native_from], parts.history[native_from:]
    native = [Native(block.messages or (), block.is_stable, turn=block.row.last) for block in newer]
    if results := _leading_results(prompt):
        prompt = prompt[len(results) :]
        if native:
            native[-1] = replace(native[-1], messages=(*native[-1].messages, *results), is_stable=False)
        else:
            # Their calls stand in tagged text, where no provider would find them.
            prompt = (Message("user", (Text(turn_text(results)),)), *prompt)
    tail = "".join(piece.text for piece in dynamic)
    if parts.order == "documented" and tail:
        lead = tail + "".join(block.text for block in older) + (native_note(newer[0].row) if older and newer else "")
        return Layout("", lead, tuple(native), "", prompt, is_cacheable=False)
    texts = [(block.text, block.is_stable) for block in older]
    if texts and newer:
        texts.append((native_note(newer[0].row), True))
    if tail and parts.at_work:
        past = len(parts.history) - parts.at_work
        if past < native_from:
            texts.insert(past, (tail, True))
        else:
            native[past - native_from] = replace(native[past - native_from], before=tail)
        tail = ""
    stable = next((index for index, (_, is_stable) in enumerate(texts) if not is_stable), len(texts))
    return Layout(
        stable_lead="".join(text for text, _ in texts[:stable]),
        lead="".join(text for text, _ in texts[stable:]),
        native=tuple(native),
        tail=tail,
        prompt=prompt,
        is_cacheable=stable == len(texts),
    )


def native_note(row: Block) -> str:
    """The line between tagged and native turns, so that a model can name those it sees as messages."""
    step = f", from step {row.first_step} on" if row.first_step > 1 else ""
    return f"The next messages are turn T-{row.first}{step}; each message of the user begins the next turn.\n"


def _framing_tokens(layout: Layout, system: str, note_tokens: int) -> int:
    return MESSAGE_TOKENS * (bool(system) + message_count(layout)) + REPLY_TOKENS + note_tokens


def _note_tokens(parts: ContextParts, native_from: int) -> int:
    if not 0 < native_from < len(parts.history):
        return 0
    return _counted(native_note(parts.history[native_from].row), parts.counter.encoding)


def _scaled(parts: ContextParts, base_tokens: int) -> int:
    return parts.counter.scale(base_tokens, parts.calibration)


def _scale_segments(parts: ContextParts, pieces: Sequence[_Piece]) -> tuple[Segment, ...]:
    """Each segment's share of the scaled total, so that they add up to it exactly."""
    segments = []
    base = scaled = 0
    for piece in pieces:
        base += piece.base_tokens
        upto = _scaled(parts, base)
        if piece.base_tokens or piece.text:
            segments.append(replace(piece.segment, tokens=upto - scaled, text=piece.text))
        scaled = upto
    return tuple(segments)


@lru_cache(maxsize=64)
def _counted(text: str, encoding: EncodingName) -> int:
    return count_tokens(text, encoding)
