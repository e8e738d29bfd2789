"""What the tests of chats share: a store whose models are scripted, and an independent count of what they were sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from foveate import Foveate, Session
from foveate.agents.chat import AnswerSummary, ChatEvent, RequestSent
from foveate.context.assemble import MESSAGE_TOKENS, REPLY_TOKENS
from foveate.context.tools import definitions_tokens
from foveate.models import Ask
from foveate.store import open_store
from foveate.testing.scripted import ScriptedModel
from foveate.text import message_text
from support.engine import settings

E = TypeVar("E")

FAST: Mapping[str, object] = {"backoff_seconds": 0, "stall_seconds": 0.05, "timeout_seconds": 5, "max_retries": 1}
"""So that a provider that fails is not waited for."""


@asynccontextmanager
async def scripted_store(
    path: Path, model: ScriptedModel, *, models: Mapping[str, object] = FAST, **parts: Mapping[str, object]
) -> AsyncIterator[Foveate]:
    """A store in which every model's name leads to this one."""
    given = settings(models=models, **parts)
    fov = Foveate(await open_store(str(path), given.store), given, load=lambda _name, _settings: model)
    try:
        yield fov
    finally:
        await fov.close()


async def events_of(events: AsyncGenerator[ChatEvent, None]) -> list[ChatEvent]:
    """All but that a model begins to read."""
    async with aclosing(events):
        return [event async for event in events if not isinstance(event, RequestSent)]


async def finished(events: AsyncGenerator[ChatEvent, None]) -> AnswerSummary:
    """The end of an answer that must come to one."""
    last = (await events_of(events))[-1]
    assert isinstance(last, AnswerSummary)
    return last


def asked_tokens(ask: Ask, session: Session) -> int:
    """What a request takes, counted from what was sent and nothing else."""
    counter = session.counter
    tokens = sum(counter.base(message_text(message)) + MESSAGE_TOKENS for message in ask.messages) + REPLY_TOKENS
    tokens += definitions_tokens("openai", counter) if ask.tools else 0
    return counter.scale(tokens, session.info.calibration)


def unpaired(ask: Ask) -> list[str]:
    """What is wrong with the calls and results of a request: each result answers a call right before it."""
    waiting: list[str | None] = []
    problems = []
    for message in ask.messages:
        if waiting and not message.tool_results:
            problems.append(f"{waiting} wait for results, and a {message.role} message comes")
            waiting = []
        for result in message.tool_results:
            if result.call_id in waiting:
                waiting.remove(result.call_id)
            else:
                problems.append(f"{result.call_id} answers no call")
        waiting += [call.id for call in message.tool_calls]
    return problems + [f"{call} has no result" for call in waiting]
