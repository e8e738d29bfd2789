"""Batches of requests: a provider answers them within a day, at half the price. A ticket is plain data, so that another
process can collect the answers of a batch after a restart.

    ticket = await caller.batches.submit({"1": ask, "2": ask}, model)       booked at their maximum cost
    answers = await caller.batches.collect(ticket, asks)                    None while in progress
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from foveate.errors import ModelError, ModelFailed, ModelUnavailable
from foveate.models import Answer, Ask, BatchModel, Model
from foveate.models.accounts import CANCELLED, Accounts, CallBooking, CallReport, with_believed_usage
from foveate.store.rows import OK

if TYPE_CHECKING:
    from foveate.models.prices import Tariff

T = TypeVar("T")

PRICE_SHARE = 0.5
"""Price of a request in a batch, as a share of its price alone; the same at OpenAI, Anthropic and Google."""
Load = Callable[[str], Awaitable[tuple[Model, "Tariff"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTicket:
    """A submitted batch."""

    model: str
    handle: str
    """The provider's handle of it."""
    at_us: int
    calls: Mapping[str, int | None]
    """Numbers of its requests in the accounts."""


class Batches:
    """Submits and collects batches; each request is booked, within the daily cap."""

    def __init__(self, load: Load, accounts: Accounts, timeout_seconds: float) -> None:
        self._load = load
        self._accounts = accounts
        self._timeout_seconds = timeout_seconds

    async def is_available(self, name: str) -> bool:
        """Return whether a model has a batch endpoint."""
        try:
            model, _ = await self._load(name)
        except ModelError:
            return False
        return isinstance(model, BatchModel) and model.takes_batches

    async def submit(self, asks: Mapping[str, Ask], name: str) -> BatchTicket:
        """Submit requests by alphanumeric keys; raise `ModelHeldBack` if they could exceed the daily cap."""
        model, tariff = await self._loaded(name)
        assert isinstance(model, BatchModel)
        bookings: dict[str, CallBooking] = {}
        outcome = "error"
        try:
            for key, ask in asks.items():
                bookings[key] = await self._accounts.book(ask, model, tariff=tariff, is_kept=True)
            handle = await self._in_time(model.submit(asks), name)
        except BaseException as error:
            if isinstance(error, ModelFailed | ModelUnavailable):
                outcome = error.reason
            elif isinstance(error, asyncio.CancelledError):
                outcome = CANCELLED
            for booking in bookings.values():
                await self._accounts.settle(booking, outcome=outcome, answer=None, received="")
            raise
        calls = {key: booking.reservation for key, booking in bookings.items()}
        at_us = min(booking.row.at_us for booking in bookings.values())
        return BatchTicket(model=name, handle=handle, at_us=at_us, calls=calls)

    async def collect(
        self, ticket: BatchTicket, asks: Mapping[str, Ask]
    ) -> Mapping[str, CallReport | ModelError] | None:
        """Return the answer or error of each request; None while the batch is in progress.

        Collecting again returns the same, and books nothing twice.
        """
        model, tariff = await self._loaded(ticket.model)
        assert isinstance(model, BatchModel)
        found = await self._in_time(model.collect(ticket.handle, asks), ticket.model)
        if found is None:
            return None
        reports: dict[str, CallReport | ModelError] = {}
        for key, ask in asks.items():
            row = self._accounts.row(ask, model, tariff=tariff, at_us=ticket.at_us)
            booking = CallBooking(row, ask, tariff, ticket.calls.get(key))
            reports[key] = await self._settled(booking, found.get(key))
        return reports

    async def _settled(self, booking: CallBooking, found: Answer | ModelError | None) -> CallReport | ModelError:
        model = booking.row.model
        if found is None:
            found = ModelFailed(model, "the batch has no result for this request", reason="broken-off")
        if isinstance(found, ModelError):
            reason = found.reason if isinstance(found, ModelFailed | ModelUnavailable) else "error"
            await self._accounts.settle(booking, outcome=reason, answer=None, received="")
            found.calls = 1
            return found
        answer = with_believed_usage(found)
        outcome = "refused" if answer.finish == "refused" else OK
        booked = await self._accounts.settle(booking, outcome=outcome, answer=answer, received="")
        return CallReport(answer, 1, booked.row.nano_usd, booked.number, booked.row.latency_us / 1_000_000)

    async def _loaded(self, name: str) -> tuple[Model, Tariff]:
        model, tariff = await self._load(name)
        if not isinstance(model, BatchModel) or not model.takes_batches:
            raise ModelUnavailable(name, "this model has no batch endpoint", reason="batch")
        return model, replace(tariff, share=PRICE_SHARE)

    async def _in_time(self, work: Awaitable[T], name: str) -> T:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await work
        except TimeoutError as error:
            problem = f"the batch endpoint did not answer within {self._timeout_seconds:g} s (models.timeout_seconds)"
            raise ModelFailed(name, problem, reason="timeout") from error
