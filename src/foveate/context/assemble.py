"""Assembles a context: fixed part, history, memory, board and prompt, joined where token counts add up.

cache-first   system · explanation · pins · documents · history · memory · changing documents · board · prompt, or the
              turn in progress
documented    system · explanation · pins · documents · memory · changing documents · board · history · prompt

Memory and board come before the prompt they were made for and stay there while its turn is in progress. So they are
cached, and a request ends with the user's message or a tool result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from foveate.additions import Instruction
from foveate.context import invariants
from foveate.context.context import Context, Segment, SegmentName
from foveate.context.pairs import TurnMessages, loose_ends, provider_message_count
from foveate.context.pins import PinText, ShownPin, check_pins, write_pins
from foveate.context.render import Layout, Stretch, message_count
from foveate.context.tags import Section
from foveate.errors import BudgetExceeded
from foveate.formats.sizes import SentSizes
from foveate.plan import BRIEF_LINE, Block
from foveate.text import turn_text
from foveate.tokens import Counter
from foveate.turn import Message, Text

Order = Literal["cache-first", "documented"]

MESSAGE_TOKENS = 4
"""Tokens that a provider adds around each message."""
REPLY_TOKENS = 3
"""Tokens that a provider adds to begin the answer."""


@dataclass(frozen=True, slots=True)
class BlockText:
    """A block of a plan, written out."""

    row: Block
    text: str
    """The output of `tags.write_block`: escaped and in its tags."""
    tokens: int
    """Base tokens of the text."""
    messages: tuple[Message, ...] | None = None
    """The messages of the block, if they can be sent instead of its text."""
    is_stable: bool = True
    """The next context repeats it byte for byte, unless there is a rebuild."""
    extra_tokens: int = 0
    """Tokens of the messages beyond the text: arguments as recorded, images and files, signatures."""
    date: str = ""
    """The day of its first turn, if the conversation has dates."""
    is_new_day: bool = False
    """Its text begins with that day, because the turn before it is of another one."""

    @property
    def sent_tokens(self) -> int:
        """Maximum tokens, as text or as messages."""
        return self.tokens + self.extra_tokens

    @property
    def framed_tokens(self) -> int:
        """Maximum tokens with the framing of its messages."""
        return self.sent_tokens + MESSAGE_TOKENS * provider_message_count(self.messages or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts:
    """The input of `assemble`."""

    budget_tokens: int
    counter: Counter
    calibration: float = 1.0
    model: str | None = None
    """The model whose rule counts the tokens of images."""
    system: str = ""
    explanation: str = ""
    """The strategy's description of its tags for the model; ends in a newline."""
    pins: Sequence[ShownPin] = ()
    instructions: Sequence[Instruction] = ()
    """The client's, shown as pins once the turns that have them are not sent as messages."""
    documents: Mapping[Section, str] = field(default_factory=dict)
    """Fixed documents after the pins, each in its tag (`tags.tag_document`)."""
    changing: Mapping[Section, str] = field(default_factory=dict)
    """Documents that change often, placed with the board."""
    history: Sequence[BlockText] = ()
    at_work: int = 0
    """Number of blocks at the end of the history that belong to the turn in progress."""
    memory: str = ""
    """The memory layer in its tag (`tags.tag_section`)."""
    board: str = ""
    """The board in its tag (`board.render`)."""
    prompt: str | Sequence[Message] = ""
    open_call: str = ""
    """The tool that the newest turn has called, if its result is not recorded and there is no prompt."""
    tools_tokens: int = 0
    """Base tokens of the tool definitions in the request."""
    history_tools_tokens: int = 0
    """The part of `tools_tokens` for history tools that are sent only if there is a history in tags."""
    explains_late: bool = False
    """Omit the explanation and those tools until a turn or a pin is in tags. A new conversation does not pay for them;
    they are added by the rebuild that changes the cached prefix anyway."""
    order: Order = "cache-first"


def assemble(parts: ContextParts) -> Context:
    """Assemble a context within its budget; `BudgetExceeded` if the parts that are never compressed do not fit."""
    if parts.explains_late and not _first_native(parts.history, prompt_messages(parts.prompt)):
        context = _assemble_plain(parts)
        if all(segment.is_native for segment in context.segments if segment.name == "history"):
            return context
    return _assemble(parts)


def _assemble_plain(parts: ContextParts) -> Context:
    """Assemble a context without explanation and history tools, unless something in it needs them."""
    # Providers reject calls in a request without tools.
    has_calls = any(message.tool_calls for block in parts.history for message in block.messages or ())
    needs_tools = has_calls and parts.tools_tokens == parts.history_tools_tokens
    tools_tokens = parts.tools_tokens - (0 if needs_tools else parts.history_tools_tokens)
    explanation = parts.explanation if parts.pins else ""
    context = _assemble(replace(parts, explanation=explanation, tools_tokens=tools_tokens))
    return replace(context, has_history_tools=needs_tools or not parts.history_tools_tokens)


def _assemble(parts: ContextParts) -> Context:
    prompt = prompt_messages(parts.prompt)
    native_from = _first_native(parts.history, prompt)
    if parts.instructions:
        parts = replace(parts, pins=[*parts.pins, *_instruction_pins(parts, native_from)])
    pins_tokens = 0
    if parts.pins:
        pins_tokens = check_pins(parts.pins, parts.budget_tokens, parts.counter, parts.calibration)
    fixed = _fixed_segments(parts, pins_tokens)
    prompt_tokens = parts.counter.base(_prompt_text(parts.prompt))
    prompt_extra = 0 if isinstance(parts.prompt, str) else prompt_extra_tokens(prompt, _sizes(parts))
    system = "".join(segment.text for segment in fixed)
    _check_fixed(parts, fixed, prompt, prompt_tokens + prompt_extra)

    dynamic = _dynamic_segments(parts)
    inner_tokens = sum(segment.tokens for segment in [*fixed, *dynamic])
    inner_tokens += sum(block.tokens for block in parts.history) + prompt_tokens + parts.tools_tokens
    while True:
        layout = _lay_out(parts, native_from, dynamic, prompt)
        framing = _framing_tokens(layout, system, _note_tokens(parts, native_from))
        extra = prompt_extra + sum(block.extra_tokens for block in parts.history[native_from:])
        if native_from >= len(parts.history) or _scaled(parts, inner_tokens + extra + framing) <= parts.budget_tokens:
            break
        if noted := _with_notes(parts, native_from):
            parts = replace(parts, history=noted)
        else:
            # Tagged text has no framing, so a turn that does not fit as messages still fits as text.
            native_from += 1

    history = _history_segments(parts, native_from, dynamic)
    shown = [*fixed, *_in_order(parts, history, dynamic)]
    behind = [
        Segment("prompt", prompt_tokens, is_stable=False, text=_prompt_text(parts.prompt)),
        Segment("tools", parts.tools_tokens, is_stable=True),
        Segment("framing", framing, is_stable=False),
        Segment("attachments", extra, is_stable=False),
    ]
    segments = _scale_segments(parts, [*shown, *behind])
    context = Context(
        text="".join(segment.text for segment in shown),
        tokens=sum(segment.tokens for segment in segments),
        budget_tokens=parts.budget_tokens,
        segments=segments,
        system=system,
        history="".join(segment.text for segment in history),
        layout=layout,
        calibration=parts.calibration,
    )
    invariants.check_text(context, pins=parts.pins, rows=[block.row for block in parts.history])
    return context


def _instruction_pins(parts: ContextParts, native_from: int) -> list[PinText]:
    """Return the newest version of each instruction in the turns before those that are sent as messages.

    A later version is in its message. It replaces the pin when that turn is compressed, so that the pins, which are in
    the cached prefix, change only with the history behind them.
    """
    native = parts.history[native_from:]
    row = native[0].row if native else None
    first = row.first + (row.first_step > 1) if row else math.inf
    shown = {one.key: one.text for one in parts.instructions if one.turn < first}
    if later := [one for one in parts.instructions if one.key not in shown]:
        sent = "\n".join(part.text for block in native for part in _texts(block.messages or ()))
        shown |= {one.key: one.text for one in later if one.text not in sent}  # of a message that is cut
    last = max((int(pin.id.removeprefix("P-")) for pin in parts.pins), default=0)
    return [PinText(f"P-{number}", text) for number, text in enumerate(shown.values(), last + 1)]


def _texts(messages: Iterable[Message]) -> Iterator[Text]:
    return (part for message in messages for part in message.parts if isinstance(part, Text))


def prompt_messages(prompt: str | Sequence[Message]) -> tuple[Message, ...]:
    """Return the prompt as messages; none if it has no visible character."""
    if isinstance(prompt, str):
        return (Message("user", (Text(prompt),)),) if prompt.strip() else ()
    return tuple(message for message in prompt if message.kind != "display")


def prompt_extra_tokens(prompt: tuple[Message, ...], sizes: SentSizes) -> int:
    """Return the base tokens of a prompt's messages beyond those of their text.

    A result whose call is neither in the prompt nor directly before it is sent with a heading that says so.
    """
    stray = loose_ends(prompt[len(leading_results(prompt)) :]).results
    return sizes.extra_tokens(prompt) + sizes.note_tokens(stray)


def _sizes(parts: ContextParts) -> SentSizes:
    return SentSizes.of(parts.model, parts.counter.encoding)


def _with_notes(parts: ContextParts, index: int) -> list[BlockText] | None:
    """Return the history with notes instead of the attachments of one block; None if that does not change it."""
    sizes, block = _sizes(parts), parts.history[index]
    messages = tuple(map(sizes.without_media, block.messages or ()))
    if messages == tuple(block.messages or ()):
        return None
    # A note is longer than the placeholder of an attachment in the block's text.
    longer = max(0, parts.counter.base(turn_text(messages)) - parts.counter.base(turn_text(block.messages or ())))
    noted = replace(block, messages=messages, extra_tokens=sizes.extra_tokens(messages) + longer)
    return [*parts.history[:index], noted, *parts.history[index + 1 :]]


def _prompt_text(prompt: str | Sequence[Message]) -> str:
    if isinstance(prompt, str):
        return prompt if prompt.strip() else ""
    return turn_text(prompt_messages(prompt))


def _fixed_segments(parts: ContextParts, pins_tokens: int) -> list[Segment]:
    """Return the segments of the system message, in base tokens like all segments before `_scale_segments`."""
    count = parts.counter.stable_base
    segments = []
    if parts.system:
        # Token counts only add up if the next part begins on a new line.
        system = parts.system if parts.system.endswith("\n") else f"{parts.system}\n"
        segments.append(Segment("system", count(system), is_stable=True, text=system))
    if explanation := parts.explanation:
        segments.append(Segment("explanation", count(explanation), is_stable=True, text=explanation))
    if parts.pins:
        segments.append(Segment("pins", pins_tokens, is_stable=True, text=write_pins(parts.pins)))
    for name, text in parts.documents.items():
        if text:
            segments.append(Segment(name, parts.counter.base(text), is_stable=True, text=text))
    return segments


def _dynamic_segments(parts: ContextParts) -> list[Segment]:
    named: list[tuple[SegmentName, str]] = [
        ("memory", parts.memory),
        *parts.changing.items(),
        ("board", parts.board),
    ]
    for name, text in named:
        assert not text or (text.startswith("<") and text.endswith("\n")), f"the {name} is not in a tag of its own"
    is_stable = parts.at_work > 0
    return [Segment(name, parts.counter.base(text), is_stable, text=text) for name, text in named if text]


def _in_order(parts: ContextParts, history: Sequence[Segment], dynamic: Sequence[Segment]) -> list[Segment]:
    if parts.order == "documented":
        return [*dynamic, *history]
    past = len(history) - parts.at_work
    return [*history[:past], *dynamic, *history[past:]]


def _history_segments(parts: ContextParts, native_from: int, dynamic: Sequence[Segment]) -> list[Segment]:
    segments = []
    is_stable = parts.order == "cache-first" or not dynamic
    for index, block in enumerate(parts.history):
        is_stable = is_stable and block.is_stable
        row = block.row
        levels = row.levels.replace(BRIEF_LINE, "C")
        is_native = index >= native_from
        segments.append(
            Segment("history", block.tokens, is_stable, row.first, row.last, row.level, is_native, block.text, levels)
        )
    return segments


def _check_fixed(
    parts: ContextParts, fixed: Sequence[Segment], prompt: tuple[Message, ...], prompt_tokens: int
) -> None:
    named: dict[str, int] = {segment.name: segment.tokens for segment in fixed}
    own = any(parts.changing.values()) and not Stretch(("",), prompt).is_joined
    framing = MESSAGE_TOKENS * (bool(fixed) + own + provider_message_count(prompt)) + REPLY_TOKENS
    named |= {name: parts.counter.base(text) for name, text in parts.changing.items()}
    named |= {"prompt": prompt_tokens, "tool definitions": parts.tools_tokens, "framing of messages": framing}
    if _scaled(parts, sum(named.values())) > parts.budget_tokens:
        raise BudgetExceeded(parts.budget_tokens, {name: _scaled(parts, tokens) for name, tokens in named.items()})


def _first_native(history: Sequence[BlockText], prompt: tuple[Message, ...]) -> int:
    """Return the first block from which all can be sent as messages: tool pairs are whole and the user speaks first."""
    first = len(history)
    following: tuple[Message, ...] = leading_results(prompt)
    for index in range(len(history) - 1, -1, -1):
        messages = history[index].messages
        if messages is None or _has_loose_ends(messages, following):
            break
        first, following = index, ()
    while first == 0 and history and not _opens_with_user(history[0].messages or ()):
        first += 1
    return first


def _has_loose_ends(messages: tuple[Message, ...], following: tuple[Message, ...]) -> bool:
    if isinstance(messages, TurnMessages) and not following:
        return messages.has_loose_ends
    return bool(loose_ends((*messages, *following)))


def _opens_with_user(messages: Sequence[Message]) -> bool:
    shown = next((message for message in messages if message.kind != "display"), None)
    return shown is not None and shown.role != "assistant" and not shown.tool_results


def leading_results(prompt: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the tool results at the beginning of a prompt, which must follow their calls directly."""
    count = next((index for index, message in enumerate(prompt) if not message.tool_results), len(prompt))
    return prompt[:count]


def _lay_out(parts: ContextParts, native_from: int, dynamic: Sequence[Segment], prompt: tuple[Message, ...]) -> Layout:
    older, newer = parts.history[:native_from], parts.history[native_from:]
    note = native_note(newer[0]) if older and newer else ""
    past = len(newer) - parts.at_work
    native = [
        Stretch(
            # Of the turn in progress, the prompt was sent without it.
            (f"[{block.date}]\n",) if block.is_new_day and place < past and (place or not note) else (),
            block.messages or (),
            block.row.last,
            block.is_stable,
            block.row.is_cut,
        )
        for place, block in enumerate(newer)
    ]
    if results := leading_results(prompt):
        prompt = prompt[len(results) :]
        if native:
            native[-1] = replace(native[-1], messages=(*native[-1].messages, *results), is_stable=False)
        else:
            # Their calls are in tagged text, so no provider would match them.
            prompt = (Message("user", (Text(turn_text(results)),)), *prompt)
    tail = "".join(segment.text for segment in dynamic)
    if parts.order == "documented" and tail:
        lead = tail + "".join(block.text for block in older)
        return Layout("", lead, tuple(native), "", prompt, is_cacheable=False, note=note, open_call=parts.open_call)
    texts = [(block.text, block.is_stable) for block in older]
    if tail and native and not prompt and not parts.at_work:
        # Without a prompt, too, the last message is not one that was added here.
        texts.append((tail, False))
        tail = ""
    if tail and parts.at_work:
        past = len(parts.history) - parts.at_work
        if past < native_from:
            texts.insert(past, (tail, True))
        else:
            native[past - native_from] = replace(native[past - native_from], texts=(tail,))
        tail = ""
    stable = next((index for index, (_, is_stable) in enumerate(texts) if not is_stable), len(texts))
    return Layout(
        stable_lead="".join(text for text, _ in texts[:stable]),
        lead="".join(text for text, _ in texts[stable:]),
        native=tuple(native),
        tail=tail,
        prompt=prompt,
        is_cacheable=stable == len(texts),
        note=note,
        open_call=parts.open_call,
    )


def native_note(block: BlockText) -> str:
    """Return the line between tagged and native turns, which tells the model the ids of the native ones."""
    row = block.row
    date = f" ({block.date})" if block.date else ""
    step = f", from step {row.first_step} on" if row.first_step > 1 else ""
    return f"The next messages are turn T-{row.first}{date}{step}; each message of the user begins the next turn.\n"


def _framing_tokens(layout: Layout, system: str, note_tokens: int) -> int:
    return MESSAGE_TOKENS * (bool(system) + message_count(layout)) + REPLY_TOKENS + note_tokens


def _note_tokens(parts: ContextParts, native_from: int) -> int:
    if not 0 < native_from < len(parts.history):
        return 0
    return parts.counter.stable_base(native_note(parts.history[native_from]))


def _scaled(parts: ContextParts, base_tokens: int) -> int:
    return parts.counter.scale(base_tokens, parts.calibration)


def _scale_segments(parts: ContextParts, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments that are not empty, in scaled tokens that add up exactly to the scaled total."""
    found = []
    base = scaled = 0
    for segment in segments:
        base += segment.tokens
        upto = _scaled(parts, base)
        if segment.tokens or segment.text:
            found.append(_with_tokens(segment, upto - scaled))
        scaled = upto
    return tuple(found)


def _with_tokens(segment: Segment, tokens: int) -> Segment:
    """Copy a segment field by field: a context has hundreds of them, and `replace` is slow."""
    return Segment(
        segment.name,
        tokens,
        segment.is_stable,
        segment.first,
        segment.last,
        segment.level,
        segment.is_native,
        segment.text,
        segment.levels,
    )
