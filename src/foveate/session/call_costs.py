"""What a client's call may cost at most, and which model's price it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from foveate.cache import BoundedCache
from foveate.models.accounts import MAX_TOKENS
from foveate.models.names import window_of
from foveate.models.prices import Tariff, is_here, tariff_at
from foveate.models.settings import ModelsSettings
from foveate.turn import Usage

if TYPE_CHECKING:
    from foveate.session.client_calls import CallNote

MOST_OUTPUT_TOKENS: Final = 128_000
"""The longest answer of today's models: what an answer without a limit, or with an invalid one, may have."""
TOKENS_PER_SECOND: Final = 300
"""How fast large models write at most; it bounds what a provider wrote and did not report, such as hidden thinking."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What a request says about the cost of its answer."""

    others: tuple[str, ...] = ()
    """Models that it names beside the requested one: alternatives, fallbacks, those of hosted tools."""
    answers: int = 1
    """How many answers are requested (`n`, `candidateCount`)."""
    output_tokens: int | None = None
    """The limit of each answer; None without a valid one."""


def free_upstreams(urls: Mapping[str, str]) -> list[str]:
    """Return the names of providers on this machine, whose models are free unless `models.prices` has them."""
    return [name for name, url in urls.items() if is_here(url)]


class CallCosts:
    """The prices of clients' calls. The first use of a model may read a file: call it in a thread."""

    def __init__(self, models: ModelsSettings) -> None:
        self._models = models
        self._tariffs: BoundedCache[tuple[str, str, str], Tariff] = BoundedCache(1_000)

    def most(self, note: CallNote, input_tokens: int) -> int:
        """Return the maximum cost of one request in nano-dollars: the dearest of its models, and all its answers at
        their limit."""
        tokens = min(input_tokens, MAX_TOKENS)
        return max(
            self._tariff(note, model).most_nano_usd(tokens, self._most_output(note.limits, model))
            for model in _requested(note)
        )

    def most_output(self, note: CallNote) -> int:
        """Return the most output tokens that one request may have."""
        return max(self._most_output(note.limits, model) for model in _requested(note))

    def tariff(self, note: CallNote, answered: Collection[str] = ()) -> Tariff:
        """Return the price of a call that these models answered, as the provider names them; the dearest of several.

        A provider's name that is none of the request's, e.g. with a date, has the price of the requested model; if
        that is not known, as of a router's `auto`, its own. Among alternatives the dearest one counts.
        """
        names = {name for model in answered or (note.model,) for name in self._priced(note, model)}
        tariffs = [self._tariff(note, name) for name in sorted(names)]
        return max(tariffs, key=lambda tariff: tariff.nano_usd(Usage(input_tokens=1_000, output_tokens=1_000)))

    def _priced(self, note: CallNote, answered: str) -> Collection[str]:
        """Return the models that may have answered under this name."""
        requested = _requested(note)
        if answered in requested:
            return (answered,)
        if dated := [model for model in requested if model and answered.startswith(f"{model}-")]:
            return (max(dated, key=len),)
        if len(requested) > 1:
            return requested
        is_known = not self._tariff(note, requested[0]).is_estimate
        return requested if is_known or self._tariff(note, answered).is_estimate else (answered,)

    def _most_output(self, limits: CallLimits, model: str) -> int:
        each = limits.output_tokens or min(window_of(model, self._models) or MOST_OUTPUT_TOKENS, MOST_OUTPUT_TOKENS)
        return min(limits.answers * each, MAX_TOKENS)

    def _tariff(self, note: CallNote, model: str) -> Tariff:
        key = note.address, model, note.format
        tariff = self._tariffs.get(key)
        if tariff is None:
            tariff = self._tariffs[key] = tariff_at(note.address, model, note.format, self._models)
        return tariff


def _requested(note: CallNote) -> tuple[str, ...]:
    """Return the models that a request names, the main one first."""
    return note.model, *note.limits.others
