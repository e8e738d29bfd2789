"""Accounts: each model call is booked at its maximum cost before it is made, and at its real cost afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from foveate.errors import ClaimLost, FoveateError, LimitReached, ModelHeldBack
from foveate.models import Answer, Ask, Expansive, Model
from foveate.models.limits import Clock
from foveate.models.settings import ModelsSettings
from foveate.store.operations import Calls
from foveate.store.rows import DAY_US, NANO, RUNNING, CallRow
from foveate.text import message_text
from foveate.tokens import counter_for
from foveate.turn import Usage

if TYPE_CHECKING:
    from foveate.models.prices import Tariff

T = TypeVar("T")

BILLED_FAILURES = frozenset({"timeout", "stalled", "broken-off", "malformed", "empty", "cancelled"})
"""Failures that may be billed: the provider may have read the prompt and written an answer."""
CANCELLED = "cancelled"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallBooking:
    """A booked call."""

    row: CallRow
    """At its maximum cost."""
    ask: Ask
    tariff: Tariff
    reservation: int | None
    """None if nothing is reserved: the call is free, or there is no cap."""


@dataclass(frozen=True, slots=True)
class CallReport:
    """An answer, and the calls made for it."""

    answer: Answer
    calls: int
    nano_usd: int
    number: int | None
    """Number in the accounts of the answered call; None if it could not be booked."""
    seconds: float = 0.0
    """Duration of the calls, without loading the model or waiting for a limit."""


class BookedCall(NamedTuple):
    """A settled call and its number; None if it could not be booked."""

    row: CallRow
    number: int | None


class Accounts:
    """Books calls in a store, within the daily cap. A booking in progress is finished even if the call is cancelled."""

    def __init__(self, settings: ModelsSettings, calls: Calls, clock: Clock) -> None:
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._unfinished: set[asyncio.Task[Any]] = set()

    def day_began_us(self) -> int:
        """Return the last midnight in UTC."""
        now_us = self._now_us()
        return now_us - now_us % DAY_US

    async def spent_today(self) -> int:
        """Return today's cost in nano-dollars, over all processes."""
        return await self._calls.spent(self.day_began_us())

    async def book(
        self,
        ask: Ask,
        model: Model,
        *,
        tariff: Tariff,
        session_id: str | None = None,
        turn: int | None = None,
        is_kept: bool = False,
    ) -> CallBooking:
        """Reserve the maximum cost of a call; raise `ModelHeldBack` if it could exceed the cap, or can't be booked
        under one.

        With `is_kept` it gets a number now, so that another process can settle it.
        """
        row = replace(self.row(ask, model, tariff=tariff, at_us=self._now_us()), session_id=session_id, turn=turn)
        booking = CallBooking(row, ask, tariff, None)
        is_free = ask.within is None and (self._settings.daily_usd is None or not row.nano_usd)
        if is_free and not is_kept:
            return booking
        return replace(booking, reservation=await self._reserve(booking, self._settings.daily_usd))

    def row(self, ask: Ask, model: Model, *, tariff: Tariff, at_us: int) -> CallRow:
        """Make the row of a call at its maximum cost."""
        output_tokens = model.most_output_tokens(ask) if isinstance(model, Expansive) else ask.max_output_tokens
        return CallRow(
            session_id=None,
            turn=None,
            at_us=at_us,
            provider=model.provider,
            model=model.name,
            purpose=ask.purpose,
            input_tokens=ask.input_tokens,
            output_tokens=output_tokens,
            cached_tokens=0,
            nano_usd=tariff.most_nano_usd(ask.input_tokens, output_tokens),
            is_estimate=True,
            latency_us=0,
            outcome=RUNNING,
            prompt_hash=prompt_hash(ask),
        )

    async def settle(self, booking: CallBooking, *, outcome: str, answer: Answer | None, received: str) -> BookedCall:
        """Book the usage that the provider reported; otherwise an estimate, where `received` is the partial text of an
        incomplete answer."""
        reported = answer.usage if answer is not None else Usage()
        is_reported = reported.input_tokens > 0 or reported.output_tokens > 0
        used = reported if is_reported else self._estimate(booking, outcome=outcome, answer=answer, received=received)
        row = replace(
            booking.row,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cache_read_tokens,
            nano_usd=booking.tariff.nano_usd(used),
            is_estimate=used != Usage() and (booking.tariff.is_estimate or not is_reported),
            latency_us=max(0, self._now_us() - booking.row.at_us),
            outcome=outcome,
        )
        number = await asyncio.shield(self._begin(self._write(booking.reservation, row)))
        return BookedCall(row, number)

    async def mark_unfit(self, number: int | None) -> None:
        """Mark the answer of a call as rejected."""
        if number is None:
            return
        try:
            await asyncio.shield(self._begin(self._calls.mark_unfit(number)))
        except FoveateError as error:
            _log.warning("a rejected answer could not be marked in the store: %s", error)

    async def close(self) -> None:
        """Wait for writes in progress."""
        if self._unfinished:
            await asyncio.wait(self._unfinished)

    async def _reserve(self, booking: CallBooking, daily_usd: float | None) -> int:
        since_us = self.day_began_us()
        limit = NO_LIMIT if daily_usd is None else int(daily_usd * NANO)
        reserving = self._begin(
            self._calls.reserve(booking.row, since_us=since_us, limit_nano_usd=limit, within=booking.ask.within)
        )
        try:
            reservation = await asyncio.shield(reserving)
        except asyncio.CancelledError:
            self._begin(self._take_back(reserving, booking))
            raise
        except (LimitReached, ClaimLost):
            raise
        except FoveateError as error:
            problem = f"the call can't be booked, so it is not made: {error}"
            wait_seconds = self._settings.breaker_seconds
            raise ModelHeldBack(booking.row.model, problem, reason="cap", retry_after_seconds=wait_seconds) from error
        if reservation is None:
            most_usd = booking.row.nano_usd / NANO
            wait_seconds = (since_us + DAY_US - self._now_us()) / 1_000_000
            raise ModelHeldBack(
                booking.row.model,
                f"this call may cost ${most_usd:.4f}, and today's calls would then cost more than ${daily_usd:g} "
                "together; raise models.daily_usd, or wait until midnight UTC",
                reason="cap",
                retry_after_seconds=wait_seconds,
            )
        return reservation

    async def _take_back(self, reserving: asyncio.Task[int | None], booking: CallBooking) -> None:
        try:
            reservation = await reserving
        except FoveateError:
            return
        if reservation is not None:
            unused = replace(booking.row, input_tokens=0, output_tokens=0, nano_usd=0, outcome=CANCELLED)
            await self._write(reservation, unused)

    async def _write(self, reservation: int | None, row: CallRow) -> int | None:
        try:
            if reservation is None:
                return await self._calls.add(row)
            await self._calls.settle(reservation, row)
        except FoveateError as error:  # the answer is valid anyway; a reservation keeps its maximum
            _log.warning("a call of %s could not be booked: %s", row.model, error)
        return reservation

    def _estimate(self, booking: CallBooking, *, outcome: str, answer: Answer | None, received: str) -> Usage:
        """Estimate usage: by the received text if it is complete, otherwise by the output limit."""
        is_failure = outcome in BILLED_FAILURES
        if answer is None and not is_failure:
            return Usage()
        ask = booking.ask
        written = message_text(answer.message) if answer is not None else received
        output_tokens = counter_for(booking.row.model).count(written)
        # A stream that was cancelled locally was read as it was written.
        is_all = bool(received) if outcome == CANCELLED else not is_failure
        if not is_all or (answer is not None and answer.finish == "length"):
            output_tokens = max(output_tokens, booking.row.output_tokens)
        return Usage(input_tokens=ask.input_tokens, output_tokens=output_tokens)

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return task

    def _now_us(self) -> int:
        return int(self._clock.now() * 1_000_000)


def prompt_hash(ask: Ask) -> str:
    """Return the SHA-256 of a request's system prompt, in hex; empty if it has none."""
    instructions = "".join(message.text for message in ask.messages if message.role in ("system", "developer"))
    return hashlib.sha256(instructions.encode("utf-8", "surrogatepass")).hexdigest() if instructions else ""


NO_LIMIT = 2**62
"""Larger than any real amount of nano-dollars."""
MAX_TOKENS = 10_000_000
"""Upper limit of tokens of one kind per call: about the largest context window."""


def with_believed_usage(answer: Answer) -> Answer:
    """Return the answer with plausible usage; see `believed`."""
    usage = answer.message.usage
    if usage is None or usage == believed(usage):
        return answer
    return replace(answer, message=replace(answer.message, usage=believed(usage)))


def believed(usage: Usage) -> Usage:
    """Clamp usage to 0 and MAX_TOKENS, and cached tokens to the input tokens."""
    input_tokens = _within(usage.input_tokens, MAX_TOKENS)
    read_tokens = _within(usage.cache_read_tokens, input_tokens)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_within(usage.output_tokens, MAX_TOKENS),
        cache_read_tokens=read_tokens,
        cache_write_tokens=_within(usage.cache_write_tokens, input_tokens - read_tokens),
        reasoning_tokens=_within(usage.reasoning_tokens, MAX_TOKENS),
    )


def _within(tokens: int, most: int) -> int:
    return min(max(0, tokens), most)
