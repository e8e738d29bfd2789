"""Model calls: one request and one answer, the same for all providers.

    names       "openai:gpt-5-mini", "qwen3@http://127.0.0.1:11434/v1", "local": parsing and loading
    adapter     the adapter to real providers (the extra `foveate[models]`): requests and errors
    local       a small model on this machine (the extra `foveate[local]`)
    batches     many requests as one batch, collected later, at half the price
    caller      the gate of all calls: retries, breaker, rates, cap, accounts
    limits      breaker, rates and slots of each provider
    accounts    costs of calls, and the daily cap
    overflow    what a provider says of a request that is too long
    prices      prices of tokens

Only `Caller` is used by the rest of the package; it calls a `Model`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from foveate.errors import ModelError
from foveate.store.agents import CallLimit
from foveate.text import compact_json
from foveate.turn import Json, Message, Usage

MESSAGE_TOKENS = 4
"""Approximate tokens that a provider's format adds to each message."""
Purpose = Literal["smooth", "compress", "tiny", "roll-up", "shrink", "learn", "recall", "embed", "chat", "check"]
"""Purpose of a call; `learn` extracts knowledge from past turns, `recall` filters search results, `embed` computes
vectors, `check` is the tiny call of `foveate models`."""

Finish = Literal["stop", "length", "tool-calls", "refused"]
"""Why an answer ended: complete, output limit, tool calls, or stopped by the provider's filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request."""

    purpose: Purpose
    messages: tuple[Message, ...]
    """Canonical messages; those of role system or developer come first."""
    tools: tuple[Mapping[str, Json], ...] = ()
    """In the form of `tool_definitions("openai")`."""
    schema: Mapping[str, Json] | None = None
    """Schema of the answer, one JSON object."""
    max_output_tokens: int
    temperature: float | None = 0.0
    """None: the provider's default."""
    input_tokens: int
    """Counted locally, for rates and the spending cap; replaced with the provider's count afterwards."""
    within: CallLimit | None = None
    """Limits of the agent that makes the call, in addition to those of the settings."""

    @classmethod
    def shaped(
        cls,
        purpose: Purpose,
        messages: tuple[Message, ...],
        schema: Mapping[str, Json],
        *,
        max_output_tokens: int,
        count: Callable[[str], int],
    ) -> Ask:
        """Make a request for an object of this schema; count its input."""
        texts = [*(message.text for message in messages), compact_json(schema)]
        return cls(
            purpose=purpose,
            messages=messages,
            schema=schema,
            max_output_tokens=max_output_tokens,
            input_tokens=sum(count(text) + MESSAGE_TOKENS for text in texts),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    message: Message
    """The assistant's message: text, reasoning, tool calls; `model` and `usage` are set."""
    finish: Finish

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def usage(self) -> Usage:
        return self.message.usage or Usage()


@runtime_checkable
class Expansive(Protocol):
    """A model that may bill more output than requested."""

    def most_output_tokens(self, ask: Ask) -> int: ...


@runtime_checkable
class BatchModel(Protocol):
    """A model whose provider may have a batch endpoint."""

    @property
    def takes_batches(self) -> bool: ...

    async def submit(self, asks: Mapping[str, Ask]) -> str:
        """Submit requests by key; return a handle for `collect`, valid in any process."""
        ...

    async def collect(self, handle: str, asks: Mapping[str, Ask]) -> Mapping[str, Answer | ModelError] | None:
        """Return the results by key; None while the batch is in progress. `asks` are the submitted requests."""
        ...


class Model(Protocol):
    """One model of one provider. Failures are `foveate.errors.ModelError`s, never a provider's own exceptions."""

    @property
    def name(self) -> str:
        """Its name in the settings."""
        ...

    @property
    def provider(self) -> str:
        """The provider whose limits it shares, e.g. `openai` or `127.0.0.1:8080`."""
        ...

    async def ask(self, ask: Ask) -> Answer:
        """Send a request. An answer without text is valid: it reports its usage."""
        ...

    def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
        """Yield pieces of text as they arrive, then the whole answer. A stream that ends without an answer has failed.

        An empty piece is a keep-alive: the model is reasoning or writing a tool call.
        """
        ...

    async def close(self) -> None: ...
