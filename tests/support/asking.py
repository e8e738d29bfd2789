"""What the tests of providers share: a server that all three real packages are led to, requests, and their ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from foveate.errors import ModelError, ModelFailed, ModelUnavailable
from foveate.models import Answer, Ask, Model, Purpose
from foveate.models.adapter import ProviderModel, load
from foveate.models.names import load_model, understand
from foveate.models.settings import ModelsSettings
from foveate.turn import Json, Message, Part, Role, Text
from support.faulty_server import Asked, FaultyServer, Protocol

T = TypeVar("T")

DEFAULTS = ModelsSettings()

KEY = "sk-test-Zq8vX2mN4pL7wR1t"
MODELS: dict[Protocol, str] = {
    "openai": "openai:gpt-4o",
    "anthropic": "anthropic:claude-haiku-4-5",
    "google": "google:gemini-2.5-flash",
}
SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"short": {"type": "string"}, "tiny": {"type": "string"}},
    "required": ["short", "tiny"],
    "additionalProperties": False,
}
TOOL: Mapping[str, Json] = {
    "type": "function",
    "function": {
        "name": "get_turn",
        "description": "A turn in full.",
        "parameters": {"type": "object", "properties": {"turn": {"type": "string"}}, "required": ["turn"]},
    },
}


def says(role: Role, *parts: Part | str, model: str | None = None) -> Message:
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts), model=model)


def asks(*messages: Message, purpose: Purpose = "compress", **more: Any) -> Ask:
    shown = messages or (says("system", "Be short."), says("user", "Hello?"))
    return Ask(purpose=purpose, messages=shown, **{"max_output_tokens": 100, "input_tokens": 20, **more})


@dataclass(frozen=True)
class Asking:
    """Asks a model of the server, and closes it."""

    server: FaultyServer
    settings: ModelsSettings = DEFAULTS

    def answer(self, name: str, ask: Ask | None = None) -> Answer:
        return self._with(name, lambda model: model.ask(ask or asks()))

    def pieces(self, name: str, ask: Ask | None = None) -> list[str | Answer]:
        return self._with(name, lambda model: _collected(model, ask))

    def error(self, name: str, ask: Ask | None = None, *, grace_seconds: float = 60.0) -> ModelError:
        """The error of a request that must fail."""
        return self._with(name, lambda model: failing(model.ask(ask or asks())), grace_seconds)

    def stream_error(
        self, name: str, ask: Ask | None = None, *, grace_seconds: float = 60.0
    ) -> tuple[list[str | Answer], ModelError]:
        """What a stream that must fail gave out before, and its error."""
        given: list[str | Answer] = []

        async def collect(model: Model) -> None:
            async for piece in model.stream(ask or asks()):
                given.append(piece)  # noqa: PERF401 - kept also when the stream fails

        return given, self._with(name, lambda model: failing(collect(model)), grace_seconds)

    def errors(self, name: str) -> tuple[ModelError, ModelError]:
        """The errors of a request that must fail, whole and as a stream."""

        async def both(model: Model) -> tuple[ModelError, ModelError]:
            return await failing(model.ask(asks())), await failing(_collected(model))

        return self._with(name, both)

    def sent(self) -> Asked:
        return self.server.requests[-1]

    def endpoint(self, model: str = "qwen3") -> str:
        return f"{model}@{self.server.url}/v1"

    def use(self, name: str, use: Callable[[Model], Awaitable[T]]) -> T:
        return self._with(name, use)

    def use_failing(self, name: str, use: Callable[[Model], Awaitable[object]]) -> ModelError:
        """The error of a use that must fail."""
        return self._with(name, lambda model: failing(use(model)))

    def _with(self, name: str, use: Callable[[Model], Awaitable[T]], grace_seconds: float | None = None) -> T:
        async def run() -> T:
            model = self._load(name, grace_seconds)
            try:
                return await use(model)
            finally:
                await model.close()

        return asyncio.run(run())

    def _load(self, name: str, grace_seconds: float | None) -> Model | ProviderModel:
        if grace_seconds is None:
            return load_model(name, self.settings)
        return load(understand(name, self.settings), self.settings, grace_seconds=grace_seconds)


async def _collected(model: Model, ask: Ask | None = None) -> list[str | Answer]:
    return [piece async for piece in model.stream(ask or asks())]


async def failing(work: Awaitable[object]) -> ModelError:
    try:
        given = await work
    except ModelError as error:
        return error
    raise AssertionError(f"it did not fail: {given!r}")


def reason(error: ModelError) -> str:
    assert isinstance(error, ModelUnavailable | ModelFailed)
    return error.reason


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chained(error: BaseException) -> list[BaseException]:
    """The error and everything that hangs on it."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is not None and current not in found:
            found.append(current)
            pending += [current.__cause__, current.__context__]
    return found
