"""One prompt and its answer as a unit, safe for concurrent prompts in the same session.

async with chat.turn("How is the tide?") as turn:
    request = await turn.request("anthropic", model="claude-haiku-4-5", system="…", extra_tools=[…])
    await turn.record(await client.messages.create(max_tokens=1_000, **request))
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from foveate.context.context import Context
from foveate.context.tools import ToolSet
from foveate.errors import InvalidMessage, TurnBegun
from foveate.formats import ProviderFormat
from foveate.session.record import Recordable, as_messages
from foveate.session.values import RecordedTurn
from foveate.turn import Message, Text, turn_id

if TYPE_CHECKING:
    from foveate.session import Session

WAIT_SECONDS = 600.0
"""Time limit for a prompt that waits for the answer to the previous one."""


class Exchange:
    """A turn in progress. Other prompts of the process wait at their `with` until it ends."""

    def __init__(self, session: Session, prompt: str | Recordable) -> None:
        engine = session.engine
        self._session = session
        self._prompt = prompt
        self._lock = engine.shared.turn_locks.setdefault(engine.stored_id, asyncio.Lock())
        self._number = 0
        self._context: Context | None = None
        self._unanswered: Context | None = None

    @property
    def id(self) -> str:
        """The turn's id, available inside the `with` block."""
        return turn_id(self._number)

    @property
    def context(self) -> Context | None:
        """The context of the last request; None before the first."""
        return self._context

    async def __aenter__(self) -> Exchange:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            newest = (await self._session.refresh()).turns
            raise TurnBegun(self._session.id, turn=newest + 1, newest=newest) from None
        try:
            await self._begin()
        except BaseException:
            self._lock.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    async def _begin(self) -> None:
        """Record the prompt, unless it is already recorded and still unanswered."""
        if isinstance(self._prompt, str):
            if not self._prompt.strip():
                raise InvalidMessage("prompt", "has no text")
            messages = [Message("user", (Text(self._prompt),))]
        else:
            messages = as_messages(self._prompt, None)
        newest = (await self._session.refresh()).turns
        if newest and await self._session.engine.is_waiting(messages):
            self._number = newest
        else:
            self._number = (await self._session.record(messages)).number

    async def request(
        self,
        format: ProviderFormat = "openai",  # noqa: A002
        *,
        model: str | None = None,
        system: str = "",
        extra_tools: Sequence[Mapping[str, Any]] = (),
        tools: bool | None = None,
        budget_tokens: int | None = None,
        recall: bool = True,
    ) -> dict[str, Any]:
        """Return the keyword arguments of the provider's call, with everything recorded so far.

        The history tools are included as soon as a turn is no longer sent as messages; `tools` includes them always or
        never. `extra_tools` are your own tools, in the provider's format.
        """
        self._check_begun()
        newest = (await self._session.refresh()).turns
        if newest != self._number:
            raise TurnBegun(self._session.id, turn=self._number, newest=newest)
        has_history = tools is not False
        offer = ToolSet(tuple(extra_tools), format, has_history=has_history, is_late=tools is None)
        self._context = await self._session.engine.context_with(
            offer if has_history or extra_tools else None, budget_tokens=budget_tokens, system=system, recall=recall
        )
        self._unanswered = self._context
        named = {"model": model} if model is not None else {}
        return {**named, **self._context.request(format)}

    async def record(self, messages: Recordable, *, format: str | None = None, key: str | None = None) -> RecordedTurn:  # noqa: A002
        """Record an answer, or the results of its tool calls, in this turn; `TurnBegun` if a later turn has begun."""
        self._check_begun()
        if self._unanswered is not None:
            self._session.engine.came_from(self._unanswered)
            self._unanswered = None
        recorded = await self._session.record(messages, format=format, key=key, turn=self._number)
        self._number = recorded.number
        return recorded

    def _check_begun(self) -> None:
        """Raise `InvalidMessage` outside of the `with` block, where the prompt is not recorded."""
        if not self._number:
            problem = "its prompt is not recorded yet; write 'async with chat.turn(…) as turn:' ('with', if blocking)"
            raise InvalidMessage("turn", problem)
