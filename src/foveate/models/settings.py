"""The `models` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: Annotated[float, Meta(ge=0, le=100_000)]
    output: Annotated[float, Meta(ge=0, le=100_000)]
    cached: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    """For input that came from the provider's cache; None: the price of other input."""


class ModelsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models by purpose, and their limits. No model is called unless one is named.

    A name is `openai:gpt-5-mini`, `anthropic:…`, `google:…`, `openrouter:…`, `ollama:…`, `NAME@http://host:port/v1`
    for any other OpenAI-compatible endpoint, or `local`.
    """

    default: str | None = None
    """Default for chat, C, T, eras, checkpoints, topics and short messages."""
    chat: str | None = None
    """For `foveate chat` and `foveate run`."""
    compress: str | None = None
    """For C, and for T unless `tiny` is set."""
    tiny: str | None = None
    """For T. If it differs from `compress`, T needs a separate call."""
    smooth: str | None = None
    """For S. None: rules, since a model for every turn rarely pays."""
    roll_up: str | None = None
    """For eras, checkpoints, topic summaries and short messages. None: `default`. Rules make them first and are the
    fallback."""
    shrink: str | None = None
    """For the compression agent of `hybrid`, then started automatically at the trigger. None: `foveate sessions shrink`
    starts it, with the model for C."""
    fallbacks: tuple[str, ...] = ()
    """Models to try, in this order, when a model fails or a limit is reached."""
    mode: Literal["together", "separate", "chained"] = "together"
    """`together`: one call for all levels of a turn. `separate`: one call per level, in parallel. `chained`: one
    call per level, C made from S and T from C."""
    max_calls_per_turn: Annotated[int, Meta(ge=1, le=100)] = 6
    """Maximum number of calls per turn, including retries."""
    max_source_tokens: Annotated[int, Meta(ge=256, le=1_000_000)] = 16_000
    """A larger turn is shortened before it is sent to a model."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Timeout of a call; in a stream, of the first chunk."""
    stall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """Timeout between two chunks of a stream."""
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """Retries per model before the next fallback. Compression of turns is retried later instead."""
    backoff_seconds: Annotated[float, Meta(ge=0, le=600)] = 1.0
    """Delay before the first retry. It doubles with each retry, with random jitter."""
    max_backoff_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """Maximum delay. If a provider asks for a longer pause, the work is done later."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """Number of consecutive failures after which a provider is paused."""
    breaker_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Duration of that pause. Then one call tests the provider."""
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 4
    """Maximum number of concurrent calls per provider."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Per provider. None: no limit."""
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Input and output tokens, per provider. None: no limit."""
    daily_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = 5.0
    """Maximum cost of all calls of a day (UTC). None: no limit."""
    prices: dict[str, Price] = {}
    """Prices by model name that replace the price list: US dollars per million tokens of `input`, `output` and,
    optionally, `cached` input."""
    unknown_price: Price = Price(input=5.0, output=25.0)
    """Assumed price of an unknown model, unless it runs on this machine."""
    key_variables: dict[str, str] = {}
    """Environment variable with the key of an endpoint, by host, e.g. {"llm.example.com": "TEAM_KEY"}."""
