"""The `models` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Annotated[float, Meta(ge=0, le=100_000)]
    output: Annotated[float, Meta(ge=0, le=100_000)]
    cached: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    """For input that came from the provider's cache; None: as other input."""


class ModelsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models are asked for what, and the limits they are asked within. Without a name nothing is asked.

    A name is `openai:gpt-5-mini`, `anthropic:…`, `google:…`, `openrouter:…`, `ollama:…`, `NAME@http://host:port/v1`
    for any other endpoint that speaks OpenAI's protocol, or `local`.
    """

    default: str | None = None
    """For chat and for every wording (C, T, eras, checkpoints, topics) without a model of its own; S has none."""
    chat: str | None = None
    """For `foveate chat` and `foveate run`."""
    compress: str | None = None
    """For C, and for T if that has none of its own."""
    tiny: str | None = None
    """Differs from `compress`: T is then made in a call of its own."""
    smooth: str | None = None
    """S is made by rules, since a model's pass over every turn rarely pays; a model does it only if named here."""
    roll_up: str | None = None
    """Words eras, checkpoints and summaries of topics. Rules make them first, and are the fallback."""
    fallbacks: tuple[str, ...] = ()
    """Tried in this order when a model fails or is held back."""
    mode: Literal["together", "separate", "chained"] = "together"
    """`together`: one call makes all levels of a turn. `separate`: a call each, side by side. `chained`: a call each,
    C made from S and T from C."""
    max_calls_per_turn: Annotated[int, Meta(ge=1, le=100)] = 6
    """No turn costs more calls than this, retries and later attempts included."""
    max_source_tokens: Annotated[int, Meta(ge=256, le=1_000_000)] = 16_000
    """A turn larger than this is shortened before a model sees it."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """For a whole answer; in a stream, until its first piece."""
    stall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """A stream that is silent for longer has failed."""
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """So often is a model that failed asked again, before the next of `fallbacks` is; the levels of a turn are tried
    again later instead."""
    backoff_seconds: Annotated[float, Meta(ge=0, le=600)] = 1.0
    """Before the first retry; it doubles with each, and is varied at random."""
    max_backoff_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """A provider that asks for a longer pause is not waited for; the work is done later."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """After so many failures in a row a provider is left alone,"""
    breaker_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """for so long; then one call tries whether it has recovered."""
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 4
    """Calls to one provider at a time."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """To one provider; None: no limit."""
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Sent to one provider and answered by it."""
    daily_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = 5.0
    """All calls of one day (UTC) together cost at most this; None: no cap."""
    prices: dict[str, Price] = {}
    """By model name, where the price list has none or another: US dollars for a million tokens of `input` and `output`,
    and of `cached` input where that is cheaper."""
    unknown_price: Price = Price(input=5.0, output=25.0)
    """Assumed for a model that no list knows, unless it runs on this machine."""
    key_variables: dict[str, str] = {}
    """Which environment variable holds the key of an endpoint, by its host, as in {"llm.example.com": "TEAM_KEY"}."""
