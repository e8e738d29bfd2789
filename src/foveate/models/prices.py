"""Prices of tokens: from settings, from the model itself, from a bundled price list, or assumed.

Nothing is downloaded: the list is part of the package `genai-prices`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from ipaddress import ip_address
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from foveate.errors import ModelUnavailable
from foveate.models.names import ModelName, address_of, understand
from foveate.models.settings import ModelsSettings, Price
from foveate.store.rows import NANO
from foveate.turn import Usage

PER_TOKENS = 1_000_000
"""Prices are for this number of tokens."""
FREE = Price(input=0, output=0)


@runtime_checkable
class KnowsItsPrice(Protocol):
    """A model that knows its own price, e.g. of a plug-in."""

    @property
    def price(self) -> Price: ...


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A model's entry in the price list."""

    model: str
    provider: str | None = None
    address: str | None = None

    def usd(self, usage: Usage) -> Decimal:
        """Compute the cost; raise `LookupError` if the list does not contain the model."""
        import genai_prices  # noqa: PLC0415 - an extra

        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        if self.address is not None:
            return genai_prices.calc_price(counts, self.model, provider_api_url=self.address).total_price
        return genai_prices.calc_price(counts, self.model, provider_id=self.provider).total_price


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of one model's tokens."""

    source: Price | PriceEntry
    is_estimate: bool = False
    """True if the price is assumed, since no list contains it."""
    share: float = 1.0
    """Share of this price that is paid, e.g. in a batch."""

    def nano_usd(self, usage: Usage) -> int:
        """Return the cost in nano-dollars, rounded up, of a `believed` usage."""
        usd = self.source.usd(usage) if isinstance(self.source, PriceEntry) else _usd(self.source, usage)
        return int((usd * Decimal(str(self.share)) * NANO).to_integral_value(ROUND_CEILING))

    def most_nano_usd(self, input_tokens: int, output_tokens: int) -> int:
        """Return the maximum cost of such a call: some providers charge more for cache writes."""
        plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        kept = replace(plain, cache_write_tokens=input_tokens)
        found = replace(plain, cache_read_tokens=input_tokens)
        return max(map(self.nano_usd, (plain, kept, found)))


def tariff_for(name: str, settings: ModelsSettings, *, own: Price | None = None) -> Tariff:
    """Return the tariff of a model. `own` is the model's own price; settings override it.

    The first call loads the list, which takes a moment.
    """
    price = settings.prices.get(name, own)
    if price is not None:
        return Tariff(price)
    unknown = Tariff(settings.unknown_price, is_estimate=True)
    try:
        parsed = understand(name, settings)
    except ModelUnavailable:
        return unknown
    if parsed.kind == "local" or is_here(address_of(parsed) or ""):
        return Tariff(FREE)
    listing = _listing(parsed)
    return Tariff(listing) if listing and _is_listed(listing) else unknown


_MAKERS = {"anthropic": "anthropic", "openai": "openai", "openai-responses": "openai", "gemini": "google"}
"""Whose price is assumed for a model at an address that the list does not know, by the format of its requests."""


def tariff_at(address: str, model: str, format_name: str, settings: ModelsSettings) -> Tariff:
    """Return the tariff of a model at a provider's base URL. Settings name it alone, or as `MODEL@ADDRESS`."""
    price = settings.prices.get(model, settings.prices.get(f"{model}@{address}"))
    if price is not None:
        return Tariff(price)
    unknown = Tariff(settings.unknown_price, is_estimate=True)
    if not model:
        return unknown
    if is_here(address):
        return Tariff(FREE)
    listed = PriceEntry(model, address=address)
    if _is_listed(listed):
        return Tariff(listed)
    assumed = PriceEntry(model, provider=_MAKERS.get(format_name))
    return Tariff(assumed, is_estimate=True) if _is_listed(assumed) else unknown


def _listing(parsed: ModelName) -> PriceEntry | None:
    if parsed.kind in ("local", "plugin", "ollama"):
        return None
    if parsed.kind == "endpoint":
        return PriceEntry(parsed.model, address=parsed.base_url)
    return PriceEntry(parsed.model, provider=parsed.provider)


def _is_listed(listing: PriceEntry) -> bool:
    try:
        listing.usd(Usage(input_tokens=1, output_tokens=1))
    except (LookupError, ModuleNotFoundError):
        return False
    return True


def is_here(address: str) -> bool:
    """Return whether a provider runs on this machine, free of charge."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _usd(price: Price, usage: Usage) -> Decimal:
    cached = price.input if price.cached is None else price.cached
    fresh_tokens = usage.input_tokens - usage.cache_read_tokens
    return (
        fresh_tokens * Decimal(str(price.input))
        + usage.cache_read_tokens * Decimal(str(cached))
        + usage.output_tokens * Decimal(str(price.output))
    ) / PER_TOKENS
