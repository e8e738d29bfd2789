"""Sessions of programs that make their own requests: the gateway's clients, and frameworks through an adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from foveate.additions import ClientTexts
from foveate.context.assemble import MESSAGE_TOKENS, REPLY_TOKENS
from foveate.context.context import Context
from foveate.context.signatures import lacks_thinking, messages_prefix, request_prefix, without_thinking
from foveate.context.tools import HISTORY_TOOLS, ToolSet
from foveate.formats.providers.openai_responses import unique_ids
from foveate.models.overflow import Overflow, read_overflow
from foveate.store import Draft
from foveate.store.clients import Standing
from foveate.text import compact_json
from foveate.turn import Message

if TYPE_CHECKING:
    from foveate.formats import ProviderFormat
    from foveate.session.engine import SessionEngine

__all__ = [
    "HISTORY_TOOLS",
    "Overflow",
    "are_same",
    "came_from_client",
    "came_from_messages",
    "context_for",
    "empty_standing",
    "extra_system",
    "lacks_thinking",
    "messages_of",
    "read_overflow",
    "unique_ids",
    "whole_tokens",
    "without_thinking",
]


async def context_for(
    engine: SessionEngine,
    format: str,  # noqa: A002
    *,
    system: str = "",
    extra_tools: Sequence[Mapping[str, Any]] = (),
    history_tools: bool = True,
    is_late: bool = False,
    budget_tokens: int | None = None,
    needs_thinking: bool = False,
    client: ClientTexts = ClientTexts(),  # noqa: B008 - frozen
) -> Context:
    """Build the context of what is recorded, with tools in a provider's format; no prompt is added.

    With `is_late` the history tools are offered only once a turn is not shown verbatim. With `needs_thinking` the turn
    in progress keeps its thinking, whatever precedes it.
    """
    offer = ToolSet(tuple(extra_tools), format, has_history=history_tools, is_late=is_late)
    return await engine.context_with(
        offer if extra_tools or history_tools else None,
        system=system,
        budget_tokens=budget_tokens,
        needs_thinking=needs_thinking,
        client=client,
    )


def messages_of(context: Context, format: str) -> list[Any]:  # noqa: A002
    """Return the messages of a context in a provider's format, without the system prompt."""
    messages = context.messages(cast("ProviderFormat", format))
    return list(messages[1:] if context.system and format.startswith("openai") else messages)


def extra_system(context: Context, system: str) -> str:
    """Return what a context appends to a program's own system prompt: explanation and pins."""
    return context.system.removeprefix(system).strip("\n")


def came_from_client(
    engine: SessionEngine, system: str, tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> None:
    """Remember that the next recorded answer came from a client's own request."""
    engine.came_from(lambda: request_prefix(system, tools, messages))


def are_same(messages: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether Anthropic's messages are equal but for hints to the cache."""
    return request_prefix("", (), messages) == request_prefix("", (), others)


def came_from_messages(engine: SessionEngine, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> None:
    """Remember that the next recorded answer came from these messages, which a framework sent in its own format."""
    engine.came_from(lambda: messages_prefix(messages, tools))


def round_tokens(engine: SessionEngine, texts: Sequence[str], calibration: float) -> int:
    """Return the tokens that the messages of a round of tools add to a request, at most."""
    return engine.counter.scale(sum(engine.counter.base(text) + MESSAGE_TOKENS for text in texts), calibration)


def whole_tokens(
    engine: SessionEngine,
    standing: Standing,
    drafts: Sequence[Draft],
    *,
    system: str,
    tools: Sequence[Mapping[str, Any]],
    renewed: str = "",
) -> int | None:
    """Count the tokens of a request with the complete raw log, these messages, and what is sent anew each time.

    None if they exceed the budget, or if the session's contexts differ from the raw log, e.g. because of a mode.
    """
    row, counter, strategy = engine.row, engine.counter, engine.strategy.strategy
    if not standing.is_plain or row.mode or not strategy.keeps_plan:
        return None
    recorded = standing.tokens + sum(draft.tokens for draft in drafts)
    framing = MESSAGE_TOKENS * (bool(system) + standing.messages + len(drafts)) + REPLY_TOKENS
    offered = counter.stable_base(compact_json(tools)) if tools else 0
    base = recorded + framing + offered + counter.stable_base(system) + (counter.base(renewed) if renewed else 0)
    tokens = counter.scale(base, row.calibration)
    return tokens if tokens <= row.budget_tokens else None


def empty_standing(engine: SessionEngine) -> Standing:
    """Return the standing of a session that was just created: no messages."""
    return Standing(engine.row, 0, 0, 0, is_plain=True)
