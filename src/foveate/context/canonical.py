"""A context as canonical messages, for a model of whichever provider: what `messages` is for a provider's own API.

system · tagged history · newest turns, native · board and prompt
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from foveate.context.assembled import Context
from foveate.text import message_text, part_text
from foveate.turn import Attachment, Message, Part, Text, ToolResult


def canonical_messages(context: Context, *, has_tools: bool = True) -> tuple[Message, ...]:
    """The messages of a request; they end with the prompt, or with the results that wait for an answer.

    Without tools calls and results are written as text: some providers refuse calls of tools they were not given.
    """
    layout = context.layout
    messages = [Message("system", (Text(context.system),))] if context.system else []
    if lead := tuple(Text(text) for text in (layout.stable_lead, layout.lead) if text):
        messages.append(Message("user", lead))
    said = [message for message in (*_native(context), *layout.prompt) if message.kind != "display"]
    messages += said if has_tools else map(_as_text, said)
    if layout.tail:
        board = Text(layout.tail)
        if said and said[-1].opens_turn:
            # Nothing of the prompt is cached yet, so what changes can stand before it.
            messages[-1] = replace(messages[-1], parts=(board, *messages[-1].parts), original=None)
        else:
            messages.append(Message("user", (board,)))
    return tuple(messages)


def _native(context: Context) -> Iterator[Message]:
    """The native turns' messages. Images and files of earlier turns are named, not sent: their tokens are not counted,
    and not every model takes them."""
    shown = [segment for segment in context.segments if segment.is_native]
    for segment, block in zip(shown, context.layout.native, strict=True):
        for message in block.messages:
            yield message if segment.last == shown[-1].last else _with_named_files(message)


def _with_named_files(message: Message) -> Message:
    parts = tuple(_named(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts, original=None)


def _named(part: Part) -> Part:
    if isinstance(part, Attachment):
        return Text(part_text(part))
    if isinstance(part, ToolResult):
        content = (Text(part_text(inner)) if isinstance(inner, Attachment) else inner for inner in part.content)
        return replace(part, content=tuple(content))
    return part


def _as_text(message: Message) -> Message:
    if not message.tool_calls and not message.tool_results:
        return message
    return Message("assistant" if message.role == "assistant" else "user", (Text(message_text(message)),))
