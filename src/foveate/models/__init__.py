"""Calling a model: one request and one answer, the same for all providers.

    names       "openai:gpt-5-mini", "qwen3@http://127.0.0.1:11434/v1", "local"      where a name leads
    adapter     the adapter to real providers (the extra `foveate[models]`)            what is sent, and how it fails
    local       a small model on this machine (the extra `foveate[local]`)
    batches     many requests as one batch, collected later, at half the price
    caller      every call goes through here: retries, breaker, rates, cap, accounts   never in the way
    limits      breaker, rates and slots of each provider
    accounts    what calls cost, and the daily cap
    prices      what tokens cost

Only `Caller` is used by the rest of the package; a `Model` is what it calls.
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
"""What a provider's own format adds to a message, about."""
Purpose = Literal["smooth", "compress", "tiny", "roll-up", "shrink", "learn", "recall", "embed", "chat", "check"]
"""What a call is for; `learn` finds knowledge in past turns, `recall` sorts out what was found again, `embed` makes
vectors of it, `check` is the tiny call of `foveate models`."""

Finish = Literal["stop", "length", "tool-calls", "refused"]
"""Why an answer ended: it was done, its output limit came, it calls tools, or the provider's filter stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request."""

    purpose: Purpose
    messages: tuple[Message, ...]
    """Canonical messages; those of role system or developer come first."""
    tools: tuple[Mapping[str, Json], ...] = ()
    """As `tool_definitions("openai")` writes them."""
    schema: Mapping[str, Json] | None = None
    """The answer is one JSON object of this schema."""
    max_output_tokens: int
    temperature: float | None = 0.0
    """None leaves it to the provider."""
    input_tokens: int
    """Counted here, for rates and the spending cap; what the provider reports replaces it afterwards."""
    within: CallLimit | None = None
    """Limits of the agent that makes the call, besides those of the settings."""

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
        """A request for an object of this schema, its input counted."""
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
    """What came back, whole."""

    message: Message
    """The assistant's: text, reasoning, tool calls; `model` and `usage` are set."""
    finish: Finish

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def usage(self) -> Usage:
        return self.message.usage or Usage()


@runtime_checkable
class Expansive(Protocol):
    """A model that may be paid for more output than was asked for."""

    def most_output_tokens(self, ask: Ask) -> int: ...


@runtime_checkable
class BatchModel(Protocol):
    """A model whose provider may have a batch endpoint."""

    @property
    def takes_batches(self) -> bool: ...

    async def submit(self, asks: Mapping[str, Ask]) -> str:
        """Submit requests by their keys; the text is what `collect` needs, in this process or another."""
        ...

    async def collect(self, handle: str, asks: Mapping[str, Ask]) -> Mapping[str, Answer | ModelError] | None:
        """The results by key; None while the batch is in progress. `asks` are those that were submitted."""
        ...


class Model(Protocol):
    """One model of one provider. Failures are `foveate.errors.ModelError`s, never a provider's own exceptions."""

    @property
    def name(self) -> str:
        """As it is named in settings."""
        ...

    @property
    def provider(self) -> str:
        """Whose limits it shares, e.g. `openai` or `127.0.0.1:8080`."""
        ...

    async def ask(self, ask: Ask) -> Answer:
        """An answer without words is an answer too: it says what it took."""
        ...

    def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
        """Pieces of text as they come, and last the whole answer. A stream that ends without one has failed.

        An empty piece is a sign of life: the model reasons, or writes a call.
        """
        ...

    async def close(self) -> None: ...
