"""What tokens cost: by settings, by the model itself, by a price list that is part of the extra, or assumed.

Nothing is downloaded: the list is the one that came with the package `genai-prices`.
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
    """A model, of a plug-in say, may know its own price."""

    @property
    def price(self) -> Price: ...


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A model's entry in the price list."""

    model: str
    provider: str | None = None
    address: str | None = None

    def usd(self, usage: Usage) -> Decimal:
        """`LookupError` if the list does not have it."""
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
    """What one model's tokens cost."""

    source: Price | PriceEntry
    is_estimate: bool = False
    """The price is assumed, since no list has it."""
    share: float = 1.0
    """Of this price that is paid, e.g. in a batch."""

    def nano_usd(self, usage: Usage) -> int:
        """In whole nano-dollars, rounded up; of a usage that is `believed`."""
        usd = self.source.usd(usage) if isinstance(self.source, PriceEntry) else _usd(self.source, usage)
        return int((usd * Decimal(str(self.share)) * NANO).to_integral_value(ROUND_CEILING))

    def most_nano_usd(self, input_tokens: int, output_tokens: int) -> int:
        """The most that such a call can cost: some providers take more for what goes into their cache."""
        plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        kept = replace(plain, cache_write_tokens=input_tokens)
        found = replace(plain, cache_read_tokens=input_tokens)
        return max(map(self.nano_usd, (plain, kept, found)))


def tariff_for(name: str, settings: ModelsSettings, *, own: Price | None = None) -> Tariff:
    """The tariff of a model. `own` is what the model says of itself; settings overrule it.

    Takes a moment the first time, while the list is loaded.
    """
    price = settings.prices.get(name, own)
    if price is not None:
        return Tariff(price)
    unknown = Tariff(settings.unknown_price, is_estimate=True)
    try:
        parsed = understand(name, settings)
    except ModelUnavailable:
        return unknown
    if _is_here(parsed):
        return Tariff(FREE)
    listing = _listing(parsed)
    return Tariff(listing) if listing and _is_listed(listing) else unknown


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


def _is_here(parsed: ModelName) -> bool:
    """Whether it runs on this machine, free of charge."""
    if parsed.kind == "local":
        return True
    try:
        host = urlsplit(address_of(parsed) or "").hostname or ""
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
