"""Pairs tool calls with their results, in canonical messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from foveate.formats.exchanges import answers
from foveate.turn import Attachment, Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from foveate.context.render import RenderedTurn


class TurnMessages(tuple[Message, ...]):
    """The messages of a turn, with cached derived values: most contexts repeat the same turns."""

    @cached_property
    def has_loose_ends(self) -> bool:
        return bool(loose_ends(self))

    @cached_property
    def provider_messages(self) -> int:
        """The result of `provider_message_count`."""
        return _provider_message_count(self)

    @cached_property
    def rendered(self) -> dict[tuple[str, bool], RenderedTurn | None]:
        """The turn as the renderer wrote it, by format, and by whether system messages keep their role."""
        return {}


@dataclass(frozen=True, slots=True)
class LooseEnds:
    """Calls without a result, and results without a call before them."""

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    def __bool__(self) -> bool:
        return bool(self.calls or self.results)


def loose_ends(messages: Iterable[Message]) -> LooseEnds:
    """Find unpaired calls and results. They are paired by id if both have one, else by name, else in order."""
    unanswered: list[ToolCall] = []
    stray: list[ToolResult] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                unanswered.append(part)
            elif isinstance(part, ToolResult):
                call = next((call for call in unanswered if answers(part, call)), None)
                if call is None:
                    stray.append(part)
                else:
                    unanswered.remove(call)
    return LooseEnds(tuple(unanswered), tuple(stray))


def provider_message_count(messages: Iterable[Message]) -> int:
    """Return the maximum number of messages in any provider's format: some need one for each result."""
    return messages.provider_messages if isinstance(messages, TurnMessages) else _provider_message_count(messages)


def _provider_message_count(messages: Iterable[Message]) -> int:
    count = 0
    for message in messages:
        if message.kind == "display":
            continue
        results = message.tool_results
        says_more = len(results) < len(message.parts) or not message.parts
        attaches = any(isinstance(part, Attachment) for result in results for part in result.content)
        count += len(results) + says_more + attaches
    return count
