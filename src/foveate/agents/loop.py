"""The tool loop: a model is asked, its calls are executed, and it is asked again with the results.

    ask ──► answer ──► calls ──► results        until an answer needs no other
     ▲                              │
     └──────────────────────────────┘

A chat (and so a run) and the compression agent differ in how they ask and where results go; the loop is this one.
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
    """Asks the model once. The last item is its answer; it is offered tools if it may call some."""

    def __call__(self, *, may_call: bool) -> AsyncGenerator[AskedT_co, None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoop(Generic[EventT]):
    """One prompt and all rounds of tool calls that it takes."""

    ask: AskOnce[EventT | Answer]
    take: Callable[[Message], AsyncGenerator[EventT, None]]
    """Keeps an answer, executes its calls and keeps their results."""
    is_last: Callable[[Message], bool]
    """Whether an answer that was taken ends the loop."""
    max_rounds: int
    """Rounds of calls; then the model is asked once more, without tools."""

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
    """The words of a model that was given no more tools; one that calls them all the same has not answered."""
    message = answer.message
    words = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    if not answer.text.strip():
        problem = f"it went on calling tools, {rounds} times and without any being offered"
        raise ModelFailed(message.model or "asked", problem, reason="malformed")
    return message if len(words) == len(message.parts) else replace(message, parts=words, original=None)
