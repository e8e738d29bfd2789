"""The tool loop: call the model, execute its tool calls, and call it again with the results.

    ask ──► answer ──► calls ──► results        until an answer needs no other
     ▲                              │
     └──────────────────────────────┘

A chat (and so a run) and the compression agent share this loop; they differ in how they ask and where results go.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from foveate.errors import ModelFailed
from foveate.models import Answer
from foveate.turn import Message, ToolCall

EventT = TypeVar("EventT")
AskedT_co = TypeVar("AskedT_co", covariant=True)


class AskOnce(Protocol[AskedT_co]):
    """Calls the model once. The last item is its answer; it is offered tools if it may call some."""

    def __call__(self, *, may_call: bool) -> AsyncGenerator[AskedT_co, None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoop(Generic[EventT]):
    """One prompt and all its rounds of tool calls."""

    ask: AskOnce[EventT | Answer]
    take: Callable[[Message], AsyncGenerator[EventT, None]]
    """Stores an answer, executes its calls and stores their results."""
    is_last: Callable[[Message], bool]
    """Whether a stored answer ends the loop."""
    max_rounds: int
    """Limit of rounds of calls; then the model is called once more, without tools."""

    async def events(self) -> AsyncGenerator[EventT | Answer, None]:
        """Run the loop; the last item is the answer that ends it."""
        for rounds_left in range(self.max_rounds, -1, -1):
            async with aclosing(self.ask(may_call=rounds_left > 0)) as pieces:
                async for piece in pieces:
                    if not isinstance(piece, Answer):
                        yield piece
                        continue
                    answer = piece
            message = answer.message if rounds_left else _without_calls(answer, self.max_rounds)
            async with aclosing(self.take(message)) as events:
                async for event in events:
                    yield event
            if self.is_last(message):
                yield answer
                return


def _without_calls(answer: Answer, rounds: int) -> Message:
    """Return the text of a model without tools; `ModelFailed` if it calls some nevertheless."""
    message = answer.message
    words = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    if not answer.text.strip():
        problem = f"it kept calling tools after {rounds} rounds, without any being offered"
        raise ModelFailed(message.model or "asked", problem, reason="malformed")
    return message if len(words) == len(message.parts) else replace(message, parts=words, original=None)
