"""The gate of all model calls: none blocks other work, retries are limited, and each call is booked.

    ask ──► breaker, rates, concurrency, cap ──► model, with a time-out ──► account
                 │ held back                          │ failed: back off and retry, then the next fallback
                 ▼                                    ▼
            ModelHeldBack, at once               ModelFailed, after at most (1 + max_retries) calls per model

One request costs at most `(1 + max_retries) x models` calls, or `max_calls` if that is less. An answer that
can't be used (empty, malformed, too long) shows that the provider is up: only provider faults count for its
breaker. A refusal by the provider's filter is an answer, returned to the caller.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate import telemetry
from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.events import EventBus
from foveate.models import Answer, Ask, Model, Purpose
from foveate.models.accounts import CANCELLED, Accounts, CallBooking, CallReport, with_believed_usage
from foveate.models.batches import Batches
from foveate.models.limits import (
    PROVIDER_FAULTS,
    About,
    Bulletin,
    Clock,
    Held,
    ProviderLimits,
    Providers,
    ProviderState,
    Taken,
)
from foveate.models.settings import ModelsSettings
from foveate.store.operations import Calls
from foveate.store.rows import OK, CallRow

if TYPE_CHECKING:
    from foveate.models.prices import Tariff

Load = Callable[[str, ModelsSettings], Model]
"""Loads a model by name; raises `ModelUnavailable` if it can't."""

LASTING_REASONS = frozenset({"extra", "key", "name"})
"""A model that is unavailable for one of these reasons is not tried again for `breaker_seconds`."""
URGENT = frozenset({"chat", "check"})
"""Purposes that a user waits for; they precede background work, and wait for a limit that ends soon."""
RETURNING: frozenset[Purpose] = frozenset({"smooth", "compress", "tiny"})
"""Purposes that are not retried at once: the turn of a failed call is queued again, with growing delays."""
PATIENCE_SECONDS = 5.0
"""Maximum wait of an urgent call for a rate, a pause or the breaker; other calls are held back at once."""
LEAST_JITTER = 0.5
"""Lower bound of the random factor of a backoff; the upper bound is 1."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded model, and its tariff."""

    model: Model
    tariff: Tariff
    limits: ProviderLimits


@dataclass(slots=True)
class _Errand:
    """A request in progress, and its calls so far."""

    ask: Ask
    about: About
    max_calls: float
    is_stream: bool
    calls: int = 0
    nano_usd: int = 0
    seconds: float = 0.0
    number: int | None = None
    is_given: bool = False
    """True once a piece was returned: the call can't be repeated."""

    @property
    def is_spent(self) -> bool:
        return self.calls >= self.max_calls


@dataclass(slots=True)
class _Call:
    """A call in progress."""

    booking: CallBooking
    taken: Taken
    is_trial: bool
    outcome: str = "error"  # default: a defect in a model's adapter
    answer: Answer | None = None
    received: str = ""


class Caller:
    """Calls models within limits; shared by all sessions of an open store."""

    def __init__(
        self,
        settings: ModelsSettings,
        calls: Calls,
        events: EventBus,
        *,
        load: Load | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self._load = load
        self._clock = clock or Clock()
        self._accounts = Accounts(settings, calls, self._clock)
        self._bulletin = Bulletin(events, self._clock)
        self._providers = Providers(settings, calls, self._clock)
        self._models: dict[str, asyncio.Future[_Loaded]] = {}
        self._warmed: set[str] = set()
        self._warming: list[asyncio.Task[None]] = []
        self.batches = Batches(self._priced, self._accounts, settings.timeout_seconds)
        self._unavailable: dict[str, tuple[float, ModelUnavailable]] = {}
        self.watchers: list[Callable[[CallRow], object]] = []
        """Called with each call that has ended."""

    async def ask(
        self,
        ask: Ask,
        models: Sequence[str],
        *,
        session_id: str | None = None,
        turn: int | None = None,
        max_calls: int | None = None,
    ) -> CallReport:
        """Return the first usable answer, or raise an error whose `calls` is the number of calls made."""
        limit = math.inf if max_calls is None else max_calls
        errand = _Errand(ask, About(ask.purpose, session_id, turn), limit, is_stream=False)
        async with aclosing(self._tried(errand, models)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    return CallReport(piece, errand.calls, errand.nano_usd, errand.number, errand.seconds)
        raise AssertionError("unreachable: there is an answer or an error")

    async def stream(
        self, ask: Ask, models: Sequence[str], *, session_id: str | None = None
    ) -> AsyncGenerator[str | Answer]:
        """Stream an answer like `ask`; after the first piece a failure is final. Close the generator to stop early."""
        errand = _Errand(ask, About(ask.purpose, session_id, None), math.inf, is_stream=True)
        async with aclosing(self._tried(errand, models)) as pieces:
            async for piece in pieces:
                yield piece

    def lend(self, model: Model) -> None:
        """Route calls of this model's name to it; `close` closes it with the others."""
        if model.name not in self._models:
            self._models[model.name] = asyncio.ensure_future(self._make(model.name, lambda *_: model))

    def start_warming(self, names: Sequence[str]) -> None:
        """Load models and connect to their providers in the background, once: the first call of a process would spend
        seconds on that."""
        fresh = tuple(name for name in dict.fromkeys(names) if name not in self._warmed)
        if fresh:
            self._warmed.update(fresh)
            self._warming.append(asyncio.create_task(self._warm(fresh)))

    async def warmed(self) -> None:
        """Wait for the models that are being loaded in the background."""
        await asyncio.gather(*self._warming, return_exceptions=True)

    async def _warm(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(ModelError):  # the call reports it
                model = (await self._loaded(name)).model
                if connect := getattr(model, "connect", None):
                    await connect()

    async def mark_unfit(self, answered: CallReport) -> None:
        """Mark an answer as rejected: paid for, but not used."""
        await self._accounts.mark_unfit(answered.number)

    async def states(self) -> list[ProviderState]:
        """List the providers that were called here, or by another process in the last hour."""
        return await self._providers.states()

    async def close(self) -> None:
        """Finish the accounts and close all models."""
        for task in self._warming:
            task.cancel()
        await self.warmed()
        await self._accounts.close()
        loaded, self._models = self._models, {}
        for loading in loaded.values():
            if loading.done() and not loading.cancelled() and loading.exception() is None:
                await loading.result().model.close()

    async def _tried(self, errand: _Errand, names: Sequence[str]) -> AsyncGenerator[str | Answer]:
        """Try one model after another, until one answers."""
        errors: list[ModelError] = []
        for name in names:
            try:
                async with aclosing(self._retried(errand, name)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelError as error:
                error.calls = errand.calls
                if errand.is_given:
                    raise
                errors.append(error)
            if errand.is_spent:
                break
        raise _verdict(errors, errand)

    async def _retried(self, errand: _Errand, name: str) -> AsyncGenerator[str | Answer]:
        """Call one model, with retries."""
        loaded = await self._loaded(name)
        max_retries = 0 if errand.ask.purpose in RETURNING else self.settings.max_retries
        for attempt in range(1 + max_retries):
            if errand.is_spent:
                problem = f"{errand.calls} calls were already made for this request"
                raise ModelHeldBack(name, problem, reason="calls", retry_after_seconds=0.0)
            try:
                async with aclosing(self._called(errand, loaded)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelUnavailable as error:
                self._remember(name, error)
                raise
            except ModelFailed as error:
                wait_seconds = self._backoff_seconds(attempt, error.retry_after_seconds)
                is_last = attempt == max_retries or wait_seconds is None
                if is_last or errand.is_given or errand.is_spent:
                    raise
            await self._clock.sleep(wait_seconds or 0.0)

    async def _called(self, errand: _Errand, loaded: _Loaded) -> AsyncGenerator[str | Answer]:
        """Make one call within the limits and the timeout; book it whatever its outcome."""
        async with loaded.limits.slots.taken(is_urgent=errand.ask.purpose in URGENT):
            call = await self._begun(errand, loaded)
            try:
                timed = pieces_in_time(loaded.model, errand.ask, self.settings, is_stream=errand.is_stream)
                async with aclosing(timed) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Answer):
                            call.answer = with_believed_usage(piece)
                            break
                        if piece:  # an empty one is only a keep-alive
                            call.received += piece
                            errand.is_given = True
                            yield piece
                answer = _usable(call.answer, loaded.model.name)
                call.outcome = "refused" if answer.finish == "refused" else OK
                self._succeeded(errand, loaded.limits, call.outcome)
            except (ModelFailed, ModelUnavailable) as error:
                call.outcome = error.reason
                self._failed(errand, loaded.limits, error)
                raise
            except (asyncio.CancelledError, GeneratorExit):
                call.outcome = CANCELLED
                raise
            finally:
                await self._ended(errand, loaded, call)
        yield answer

    async def _begun(self, errand: _Errand, loaded: _Loaded) -> _Call:
        """Acquire a share of every limit, or raise `ModelHeldBack`."""
        ask, about, limits = errand.ask, errand.about, loaded.limits
        tokens = ask.input_tokens + ask.max_output_tokens
        await self._admitted(errand, loaded, tokens)
        taken = limits.rates.take(self._clock.monotonic(), tokens)
        is_trial = limits.breaker.begin()
        try:
            booking = await self._accounts.book(
                ask, loaded.model, tariff=loaded.tariff, session_id=about.session_id, turn=about.turn
            )
        except BaseException as error:
            limits.rates.give_back(taken)
            if is_trial:
                limits.breaker.abandon()
            if isinstance(error, ModelHeldBack):
                self._bulletin.capped(errand.about, self._accounts.day_began_us(), error)
            raise
        errand.calls += 1
        return _Call(booking, taken, is_trial)

    async def _admitted(self, errand: _Errand, loaded: _Loaded, tokens: int) -> None:
        purpose = errand.ask.purpose
        patience_seconds = PATIENCE_SECONDS if purpose in URGENT else 0.0
        while held := loaded.limits.held(self._clock.monotonic(), tokens, is_check=purpose == "check"):
            if held.wait_seconds > patience_seconds:
                error = _held_back(loaded.model.name, held)
                self._bulletin.held_back(errand.about, loaded.limits.provider, error)
                raise error
            patience_seconds -= held.wait_seconds  # always above 0, so this ends
            await self._clock.sleep(held.wait_seconds)

    async def _ended(self, errand: _Errand, loaded: _Loaded, call: _Call) -> None:
        if call.is_trial and call.outcome in (CANCELLED, "error"):
            loaded.limits.breaker.abandon()
        row, errand.number = await self._accounts.settle(
            call.booking, outcome=call.outcome, answer=call.answer, received=call.received
        )
        for watch in self.watchers:
            watch(row)
        if telemetry.is_on():
            telemetry.model_call(_told(row, errand.about.session_id))
        call.taken.tokens = row.input_tokens + row.output_tokens
        errand.nano_usd += row.nano_usd
        errand.seconds += row.latency_us / 1_000_000

    def _succeeded(self, errand: _Errand, limits: ProviderLimits, outcome: str) -> None:
        limits.note(self._clock.monotonic(), outcome)
        self._bulletin.answered(errand.about, limits.provider, self._accounts.day_began_us())

    def _failed(self, errand: _Errand, limits: ProviderLimits, error: ModelFailed | ModelUnavailable) -> None:
        now = self._clock.monotonic()
        limits.note(now, error.reason, error.problem)
        self._bulletin.failed(errand.about, limits.provider, error)
        if error.reason not in PROVIDER_FAULTS:
            return
        if isinstance(error, ModelFailed) and error.retry_after_seconds is not None:
            limits.pause(now, error.retry_after_seconds)
        held = limits.held(now, tokens=0)
        if held and held.reason == "breaker":
            self._bulletin.held_back(errand.about, limits.provider, _held_back(error.model, held))

    def _backoff_seconds(self, attempt: int, retry_after_seconds: float | None) -> float | None:
        """Return the delay before the next attempt; None if the provider asks for more than settings allow."""
        asked = retry_after_seconds if retry_after_seconds and retry_after_seconds > 0 else 0.0  # false for a NaN
        if asked > self.settings.max_backoff_seconds:
            return None
        doubled = min(self.settings.backoff_seconds * 2.0**attempt, self.settings.max_backoff_seconds)
        return max(asked, doubled * (LEAST_JITTER + (1 - LEAST_JITTER) * self._clock.chance()))

    async def _loaded(self, name: str) -> _Loaded:
        """Load a model once, in a thread, since its imports may take a second."""
        until, error = self._unavailable.get(name, (-math.inf, None))
        if error is not None and self._clock.monotonic() < until:
            raise ModelUnavailable(error.model, error.problem, reason=error.reason) from error
        loading = self._models.get(name)
        if loading is None:
            loading = self._models[name] = asyncio.ensure_future(self._make(name, self._load))
        return await asyncio.shield(loading)

    async def _priced(self, name: str) -> tuple[Model, Tariff]:
        loaded = await self._loaded(name)
        return loaded.model, loaded.tariff

    async def _make(self, name: str, load: Load | None) -> _Loaded:
        try:
            model, tariff = await asyncio.to_thread(_load_priced, name, self.settings, load)
        except BaseException as error:
            self._models.pop(name, None)
            if isinstance(error, ModelUnavailable):
                self._remember(name, error)
            raise
        return _Loaded(model, tariff, await self._providers.limits(model.provider))

    def _remember(self, name: str, error: ModelUnavailable) -> None:
        if error.reason in LASTING_REASONS:
            self._unavailable[name] = (self._clock.monotonic() + self.settings.breaker_seconds, error)


def _load_priced(name: str, settings: ModelsSettings, load: Load | None) -> tuple[Model, Tariff]:
    from foveate.models import names, prices  # noqa: PLC0415 - slow imports, needed only for model calls

    model = (load or names.load_model)(name, settings)
    own = model.price if isinstance(model, prices.KnowsItsPrice) else None
    return model, prices.tariff_for(name, settings, own=own)


def _told(row: CallRow, session_id: str | None) -> telemetry.ModelCall:
    """Return what a trace tells of a call: of an endpoint's name only the model, and the host."""
    model, _, address = row.model.partition("@http")
    is_endpoint = bool(address)
    return telemetry.ModelCall(
        provider="openai" if is_endpoint else row.provider,
        model=model,
        outcome=row.outcome,
        seconds=row.latency_us / 1_000_000,
        session_id=session_id or "",
        address=f"http{address}" if is_endpoint else "",
        purpose=row.purpose,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
    )


def _usable(answer: Answer | None, model: str) -> Answer:
    if answer is None:
        raise ModelFailed(model, "the answer broke off", reason="broken-off")
    if answer.finish == "stop" and not answer.text.strip() and not answer.message.tool_calls:
        raise ModelFailed(model, "the answer is empty", reason="empty")
    return answer


def _held_back(model: str, held: Held) -> ModelHeldBack:
    return ModelHeldBack(model, held.problem, reason=held.reason, retry_after_seconds=held.wait_seconds)


def _verdict(errors: Sequence[ModelError], errand: _Errand) -> ModelError:
    """Choose the error to raise when no model answered, with the others in its notes: the first temporary one; but if
    the request is too long for its model, that error, since a shorter request may succeed."""
    if not errors:
        problem = f"no model is named for {errand.ask.purpose}; set models.default, or FOVEATE_MODELS__DEFAULT"
        return ModelUnavailable("none", problem, reason="name")
    first = errors[0]
    is_too_long = isinstance(first, ModelUnavailable) and first.reason == "too-long"
    passing = [error for error in errors if not isinstance(error, ModelUnavailable)]
    chosen = first if is_too_long or not passing else passing[0]
    chosen.calls = errand.calls
    for error in errors:
        if error is not chosen:
            chosen.add_note(f"and {error}")
    return chosen


PIECES_PER_TOKEN = 8
SPARE_PIECES = 1_000
"""A stream with more pieces than its tokens allow, plus these, is stopped."""
SECONDS_PER_TOKEN = 1.0
"""A stream is stopped after `timeout_seconds` plus this time for each output token."""


async def pieces_in_time(
    model: Model, ask: Ask, settings: ModelsSettings, *, is_stream: bool
) -> AsyncGenerator[str | Answer]:
    """Yield the pieces of a stream, each and all within their timeouts; or the whole answer as one."""
    if is_stream:
        async with aclosing(_streamed(model, ask, settings)) as pieces:
            async for piece in pieces:
                yield piece
        return
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            answer = await model.ask(ask)
    except TimeoutError as error:
        raise _too_late(model, settings.timeout_seconds) from error
    yield answer


async def _streamed(model: Model, ask: Ask, settings: ModelsSettings) -> AsyncGenerator[str | Answer]:
    pieces = model.stream(ask)
    clock = asyncio.get_running_loop()
    most_seconds = settings.timeout_seconds + SECONDS_PER_TOKEN * ask.max_output_tokens
    end = clock.time() + most_seconds
    try:
        for number in range(PIECES_PER_TOKEN * ask.max_output_tokens + SPARE_PIECES):
            patience_seconds = settings.stall_seconds if number else settings.timeout_seconds
            try:
                async with asyncio.timeout_at(min(end, clock.time() + patience_seconds)):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if not number:
                    raise _too_late(model, settings.timeout_seconds) from error
                if clock.time() < end:
                    raise _stalled(model, settings.stall_seconds) from error
                raise ModelFailed(
                    model.name, f"its stream did not end within {most_seconds:g} s", reason="timeout"
                ) from error
            yield piece
        raise ModelFailed(model.name, "its stream does not end", reason="malformed")
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _too_late(model: Model, seconds: float) -> ModelFailed:
    return ModelFailed(model.name, f"no answer within {seconds:g} s (models.timeout_seconds)", reason="timeout")


def _stalled(model: Model, seconds: float) -> ModelFailed:
    problem = f"the stream was silent for {seconds:g} s (models.stall_seconds)"
    return ModelFailed(model.name, problem, reason="stalled")
