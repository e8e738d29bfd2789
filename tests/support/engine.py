"""What the tests of whole contexts share: conversations on a real file, and an independent look at what comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

import foveate
from foveate import Foveate, Message, Session, Text, ToolCall
from foveate.context.context import Context
from foveate.context.pins import parse_pins, write_pins
from foveate.context.render import FORMATS
from foveate.context.tags import TagBlock, parse_blocks
from foveate.errors import InvalidMessage
from foveate.history.driver import HistoryView
from foveate.history.request import ContextRequest
from foveate.plan import Ledger
from foveate.settings import Settings, load_settings
from foveate.strategy import Strategy
from foveate.text import turn_text
from foveate.tokens import exact_counter
from foveate.turn import ToolResult

T = TypeVar("T")

LATE_SECONDS = 60.0
"""The longest deadline of recall: on a busy machine its results count as well."""
LITTLE_ROOM_TOKENS = 300
"""Where less than this is left for the history, the oldest turns may not even be named."""


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def assistant(text: str) -> Message:
    return Message("assistant", (Text(text),))


def tool_step(number: int, output: str, *, name: str = "exec") -> list[Message]:
    """A call and its result."""
    call = ToolCall(name, {"cmd": f"make step-{number}"}, id=f"c{number}")
    result = ToolResult(f"c{number}", (Text(output),), name=name)
    return [Message("assistant", (Text(f"Now step {number}."), call)), Message("tool", (result,))]


def settings(**parts: Mapping[str, object]) -> Settings:
    """The defaults with these changes."""
    compress = {"processes": 0, "close_seconds": 0, **parts.get("compress", {})}
    recall = {"deadline_seconds": LATE_SECONDS, **parts.get("recall", {})}
    return load_settings(environment={}, overrides={**parts, "compress": compress, "recall": recall})


@asynccontextmanager
async def opened(path: Path, given: Settings | None = None):  # type: ignore[no-untyped-def]
    async with foveate.open(path, settings=given or settings()) as fov:
        yield fov


async def with_store(path: Path, job: Callable[[Foveate], Awaitable[T]], given: Settings | None = None) -> T:
    async with foveate.open(path, settings=given or settings()) as fov:
        return await job(fov)


async def talk(session: Session, turns: int, *, words: int = 12, first: int = 1) -> None:
    """Turns that each say something of their own."""
    messages = []
    for number in range(first, first + turns):
        said = " ".join(f"word{number}x{index}" for index in range(words))
        messages += [user(f"Question {number}: why is {said}?"), assistant(f"Because of {number}: {said}.")]
    await session.record(messages)


async def view_history(session: Session, name: str, strategy: Strategy, ledger: Ledger) -> HistoryView:
    """The history that a strategy shows before a prompt, as the session's driver makes it."""
    contexts = session.engine.contexts
    snapshot = await session.engine.store.snapshot(session.id, strategy=lambda _: name, known=contexts.reader.known)
    await contexts.reader.take(snapshot)
    request = ContextRequest(
        snapshot=snapshot,
        name=name,
        strategy=strategy,
        budget_tokens=ledger.budget_tokens,
        prompt="And now?",
        is_preview=ledger.is_preview,
    )
    return await contexts.driver.view(request, ledger)


async def verified(session: Session, prompt: str = "And now?", **request: Any) -> Context:
    """A context, recounted and looked through."""
    context = await session.context(prompt, **request)
    await verify(session, context, prompt, request.get("budget_tokens"))
    return context


async def verify(session: Session, context: Context, prompt: str, budget_tokens: int | None) -> None:
    info = await session.refresh()
    budget = info.budget_tokens if budget_tokens is None else budget_tokens
    assert context.budget_tokens == budget
    assert context.tokens <= budget
    is_sent = any(segment.name == "prompt" for segment in context.segments)  # not if it is the turn in progress
    assert context.tokens == recounted(session, context, prompt if is_sent else "")
    pins = await session.pins()
    assert context.system.endswith(write_pins(pins))
    assert [pin.text for pin in parse_pins(write_pins(pins))] == [pin.text for pin in pins]
    assert context.text.startswith(context.system)
    shown = covered(parse_blocks(context.history))
    every = list(range(1, info.turns + 1))
    fixed = sum(segment.tokens for segment in context.segments if segment.name != "history")
    if (budget - fixed) / (session.counter.factor * info.calibration) > LITTLE_ROOM_TOKENS:
        assert shown == every, f"{shown} of {info.turns} turns"
    assert shown == every[len(every) - len(shown) :]
    if context.layout.open_call:
        with pytest.raises(InvalidMessage):
            context.request()
        return
    for format_name in FORMATS:
        rendered: list[Any] = context.messages(format_name)
        assert loose_calls(format_name, rendered) == set()
        framing = next(segment.tokens for segment in context.segments if segment.name == "framing")
        own = format_name in ("anthropic", "gemini")
        if session.counter.factor == info.calibration == 1 and format_name == "openai":
            assert 4 * (len(rendered) + bool(own and context.system)) + 3 <= framing


def recounted(session: Session, context: Context, prompt: str) -> int:
    """All tokens of a context, by the exact counter, scaled once."""
    info = session.info
    exact = exact_counter(session.counter.encoding)
    scale = session.counter.factor * info.calibration
    outside = ("tools", "framing", "attachments")
    behind = {segment.name: segment.tokens for segment in context.segments if segment.name in outside}
    if scale == 1:
        return exact.base(context.text) + (exact.base(prompt) if prompt.strip() else 0) + sum(behind.values())
    # Of an estimate only the sum is rounded, so what stands behind the prompt is known to a token or two.
    counted = session.counter.scale(
        exact.base(context.text) + (exact.base(prompt) if prompt.strip() else 0), info.calibration
    )
    assert abs(counted + sum(behind.values()) - context.tokens) <= 2
    return context.tokens


def covered(blocks: Sequence[TagBlock]) -> list[int]:
    """The turns that blocks show, in their order; the steps of one turn are that turn, and the era before a block of
    lines is of the same turns."""
    turns: list[int] = []
    before: TagBlock | None = None
    for block in blocks:
        if before and before.level == "E" and (before.first, before.last) == (block.first, block.last):
            continue
        before = block
        turns += [turn for turn in range(block.first, block.last + 1) if not turns or turn != turns[-1]]
    return turns


def loose_calls(format_name: str, rendered: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of calls without a result right behind them, and of results without a call before them."""
    loose: set[str] = set()
    waiting: set[str] = set()
    for record in rendered:
        for kind, call_id in _events(format_name, record):
            if kind == "call":
                waiting.add(call_id)
            elif kind == "result" and call_id in waiting:
                waiting.remove(call_id)
            elif kind == "result":
                loose.add(call_id)
            else:
                loose |= waiting
                waiting = set()
    return loose | waiting


def _events(format_name: str, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a record has of calls, results, and other words of the user's side."""
    match format_name:
        case "openai":
            if record["role"] == "tool":
                return [("result", record["tool_call_id"])]
            calls = [("call", call["id"]) for call in record.get("tool_calls") or ()]
            return [*([] if record["role"] == "assistant" else [("said", "")]), *calls]
        case "openai-responses":
            kinds = {"function_call": "call", "custom_tool_call": "call"}
            kinds |= {"function_call_output": "result", "custom_tool_call_output": "result"}
            kind = kinds.get(str(record.get("type")))
            if kind:
                return [(kind, record["call_id"])]
            return [("said", "")] if record.get("role") in ("user", "system", "developer") else []
        case "anthropic":
            content = record["content"] if isinstance(record["content"], list) else []
            found = [("call", block["id"]) for block in content if block["type"] == "tool_use"]
            found += [("result", block["tool_use_id"]) for block in content if block["type"] == "tool_result"]
            return found if found or record["role"] == "assistant" else [("said", "")]
    parts = record["parts"]
    names = [("call", part["functionCall"]["name"]) for part in parts if "functionCall" in part]
    names += [("result", part["functionResponse"]["name"]) for part in parts if "functionResponse" in part]
    return names if names or record["role"] == "model" else [("said", "")]


def prefix_shared(one: str, two: str) -> int:
    """How many characters two texts have in common at their start."""
    shortest = min(len(one), len(two))
    return next((place for place in range(shortest) if one[place] != two[place]), shortest)


def raw_text(messages: Sequence[Message]) -> str:
    return turn_text(tuple(messages))
