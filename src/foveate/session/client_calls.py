"""The account of calls that clients make through the gateway.

A call is noted in memory when it ends; notes are priced and written in batches, off the path of requests. Only a call
of a key with a hard budget waits for the store: it is booked at its maximum cost before it is made.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from foveate.cache import BoundedCache
from foveate.context.context import Segment
from foveate.errors import FoveateError, SessionNotFound, contained
from foveate.events import Event
from foveate.formats.parse import UsageKeys
from foveate.models.accounts import MAX_TOKENS, believed
from foveate.models.names import window_of
from foveate.models.settings import ModelsSettings
from foveate.session.budgets import BudgetState, KeyBudget
from foveate.session.call_costs import TOKENS_PER_SECOND, CallCosts, CallLimits
from foveate.session.sent import SentBodies, SentBody, host_of, in_full, plain
from foveate.session.tenant import stored_id
from foveate.store import Store
from foveate.store.calls import GATEWAY
from foveate.store.rows import DAY_US, NANO, RUNNING, CallRow
from foveate.store.sent import SentRow
from foveate.tokens import counter_for
from foveate.turn import Usage, from_us

__all__ = ["CallNote", "CallRow", "ClientCalls", "UsageKeys"]

FLUSH_SECONDS: Final = 1.0
"""How long a note waits for others. A process that is killed loses the notes of this time; reservations stay."""
BATCH: Final = 200
MAX_PENDING: Final = 10_000
"""Notes that wait for the store; beyond it the newest are dropped, and counted."""
MAX_PENDING_BYTES: Final = 64 * 1_048_576
"""Bodies that wait for the store; beyond it notes have none."""
MAX_RECOUNTED: Final = 32
"""The newest turns of a session that are summed again for each request; older ones are remembered."""
MAX_RETRY_SECONDS: Final = 60.0
PRUNE_SECONDS: Final = 3_600.0
CHARS_PER_TOKEN: Final = 4
"""For requests that are not counted."""
MAX_FACTOR: Final = 2.0
"""How far a provider's count may be from ours, before ours is taken for the comparison with whole conversations."""
OK_STATUSES: Final = range(200, 300)
BILLED: Final = ("cancelled", "broken-off")
"""Outcomes of calls that the provider may have answered, whatever status the client got."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CallNote:
    """What is known of a client's call; filled in while the request is in progress."""

    request_id: str
    format: str
    model: str
    address: str
    """Base URL of the provider."""
    path: str
    limits: CallLimits = field(default_factory=CallLimits)
    tenant: str = ""
    key_id: str = ""
    client: str = ""
    began: float = field(default_factory=time.perf_counter)
    session: str = ""
    """As its tenant names it."""
    turn: int = 0
    body: bytes = b""
    """The first request that the provider answered, without its headers."""
    tokens: int = 0
    """Counted tokens of the body."""
    budget_tokens: int = 0
    """The budget that they have to fit; 0 for a request that is not recorded."""
    fixed_tokens: int | None = None
    """Tokens of an assembled request besides the conversation; None for one with the whole conversation."""
    segments: Sequence[Segment] = ()
    """The parts of an assembled request; empty for one with the whole conversation."""
    cause: str = ""
    """Why the plan was made anew for this request; empty: it was not."""
    scale: Callable[[int], int] | None = None
    """Scales tokens of the log as those of the body were."""
    count: Callable[[str], int] = field(default_factory=lambda: counter_for(None).count)
    """Counts tokens of an answer."""
    first: Usage = field(default_factory=Usage)
    """As the provider reported for the body."""
    total: Usage = field(default_factory=Usage)
    """As reported for all rounds of the answer."""
    answered: frozenset[str] = frozenset()
    """The models that answered, as the provider names them."""
    unreported_tokens: int = 0
    """Counted tokens of what was received and is not in the reported output."""
    is_reported_whole: bool = True
    """Whether the provider reported the output of every round."""
    first_byte_seconds: float = 0.0
    seconds: float = 0.0
    status: int = 0
    outcome: str = "ok"
    reservation: int | None = None
    booked_nano_usd: int = 0
    """The maximum cost that is booked for it."""
    booked_output_tokens: int = 0
    """The most output of one round."""
    is_sent: bool = False
    """Whether anything was sent to the provider."""
    is_ended: bool = False
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the account has the call."""

    @property
    def session_id(self) -> str | None:
        return stored_id(self.tenant, self.session) if self.session else None

    @property
    def used(self) -> Usage:
        """The reported usage within plausible limits, completed where an answer was cut off.

        Of a booked call, what a provider may have written in that time counts as well: thinking is often hidden.
        """
        used = believed(self.total)
        if not self.is_billed:
            return used
        if used.input_tokens == 0:
            used = replace(used, input_tokens=min(self.tokens, MAX_TOKENS))
        if not self.is_reported_whole:
            hidden = min(int(self.seconds * TOKENS_PER_SECOND) * self.limits.answers, self.booked_output_tokens)
            output = max(used.output_tokens, self.unreported_tokens, hidden)
            used = replace(used, output_tokens=min(output, MAX_TOKENS))
        return used

    @property
    def is_billed(self) -> bool:
        """Whether the provider may charge for it."""
        return self.status in OK_STATUSES or (self.is_sent and self.outcome in BILLED)

    @property
    def is_reported(self) -> bool:
        """Whether the provider reported input and output, so that nothing is estimated."""
        return believed(self.total) == self.used and self.total != Usage()

    @property
    def began_us(self) -> int:
        return int((time.time() - (time.perf_counter() - self.began)) * 1_000_000)

    def end(self) -> None:
        """Take the time."""
        self.is_ended = True
        self.seconds = time.perf_counter() - self.began


class ClientCalls:
    """Writes the notes of one server process to the store."""

    def __init__(
        self,
        store: Store,
        models: ModelsSettings,
        publish: Callable[[Event], None],
        *,
        keep_days: float = 90,
        kept_requests: int = 50,
        kept_mb: float = 16,
        watch: Callable[[CallNote, CallRow], object] = lambda *_: None,
    ) -> None:
        """`watch` gets each call with its price."""
        self._store = store
        self._models = models
        self._publish = publish
        self._watch = watch
        self._keep_us = int(keep_days * DAY_US)
        self._kept = kept_requests
        self._kept_bytes = int(kept_mb * 1_000_000)
        self._bodies = SentBodies(is_stored=kept_requests > 0)
        self._costs = CallCosts(models)
        self._counted: BoundedCache[str, tuple[int, int]] = BoundedCache(1_000)
        """A turn, and the raw tokens of all turns up to it, by session."""
        self._pending: list[CallNote] = []
        self._writing: list[CallNote] = []
        self._pending_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._is_hurried = asyncio.Event()
        """Set when notes wait for no others."""
        self._pruned_at = 0.0
        self._warned: BoundedCache[tuple[str, str, int], bool] = BoundedCache(10_000)
        self.dropped = 0
        """Notes that were lost because the store could not be written for long."""

    def add(self, note: CallNote) -> None:
        """Write a note of a finished call soon; never waits or fails."""
        if len(self._pending) >= MAX_PENDING:
            self.dropped += 1
            return
        if self._pending_bytes + len(note.body) > MAX_PENDING_BYTES:
            note.body = b""
        self._pending_bytes += len(note.body)
        self._pending.append(note)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_soon(), context=Context())

    async def close(self) -> None:
        """Write what is noted; a store that fails now loses it."""
        self._is_closing.set()
        self._is_hurried.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def settle(self) -> None:
        """Wait until everything noted so far is written."""
        while self._task is not None and not self._task.done():
            hurried, self._is_closing = self._is_closing, asyncio.Event()
            hurried.set()
            self._is_hurried.set()
            await asyncio.wait({self._task})

    async def check(self, note: CallNote, budget: KeyBudget) -> BudgetState:
        """Return whether the answer alone could exceed its key's hard limit, before anything is recorded."""
        if budget.usd is None:
            return BudgetState(budget)
        most = await asyncio.to_thread(self._costs.most, note, 0)
        room, since_us = int(budget.usd * NANO) - most, budget.began_us()
        spending = await self._store.calls.spent_by_key(note.key_id, since_us)
        if spending.nano_usd > room and await self._settle_key(note.key_id):
            spending = await self._store.calls.spent_by_key(note.key_id, since_us)
        is_exceeded = spending.nano_usd > room
        state = BudgetState(budget, spending, most, is_exceeded=is_exceeded)
        return self._watched(note, state) if is_exceeded else state

    async def book(self, note: CallNote, budget: KeyBudget, input_tokens: int) -> BudgetState:
        """Book the maximum cost of a call that is about to be made against its key's budget, and return its state.
        Nothing is booked if the call could exceed a hard limit.

        With a warning level alone nothing is booked in advance.
        """
        since_us = budget.began_us()
        if budget.usd is None:
            spending = await self._store.calls.spent_by_key(note.key_id, since_us)
            return self._watched(note, BudgetState(budget, spending))
        most, output = await asyncio.to_thread(self._most, note, input_tokens)
        row = replace(self._row(note, Usage(), nano_usd=most, is_estimate=True), outcome=RUNNING)
        limits = {"since_us": since_us, "limit_nano_usd": int(budget.usd * NANO)}
        number, spending = await self._store.calls.reserve_for_key(row, **limits)
        if number is None and await self._settle_key(note.key_id):
            number, spending = await self._store.calls.reserve_for_key(row, **limits)
        note.reservation, note.booked_nano_usd, note.booked_output_tokens = number, most, output
        return self._watched(note, BudgetState(budget, spending, most, is_exceeded=number is None))

    async def book_round(self, note: CallNote, budget: KeyBudget, used: Usage | None, input_tokens: int) -> BudgetState:
        """Book a further round of a call that is booked: what it has used so far and the maximum of the next round.

        `used` is None if the provider did not report it: its maximum stays booked."""
        if budget.usd is None or note.reservation is None:
            return BudgetState(budget)
        factor = max(1.0, note.first.input_tokens / note.tokens) if note.tokens else 1.0  # as the provider counts
        most, output = await asyncio.to_thread(self._most, note, int(input_tokens * factor))
        paid = self._costs.tariff(note, note.answered).nano_usd(believed(used)) if used else note.booked_nano_usd
        rebook = partial(
            self._store.calls.rebook_for_key,
            note.reservation,
            key_id=note.key_id,
            nano_usd=paid + most,
            since_us=budget.began_us(from_us(note.began_us)),  # a call counts in the period in which it began
            limit_nano_usd=int(budget.usd * NANO),
        )
        is_booked, spending = await rebook()
        if not is_booked and await self._settle_key(note.key_id):
            is_booked, spending = await rebook()
        if is_booked:
            note.booked_nano_usd, note.booked_output_tokens = paid + most, note.booked_output_tokens + output
        return self._watched(note, BudgetState(budget, spending, most, is_exceeded=not is_booked))

    def _most(self, note: CallNote, input_tokens: int) -> tuple[int, int]:
        """Return what one request may cost in nano-dollars, and its most output tokens."""
        return self._costs.most(note, input_tokens), self._costs.most_output(note)

    async def _settle_key(self, key_id: str) -> bool:
        """Write the ended calls of a key now, so that they count with their cost instead of their maximum. False if
        none waits, or if the store does not take them at once."""
        booked = [one for one in (*self._writing, *self._pending) if one.key_id == key_id and one.reservation]
        if not booked:
            return False
        self._is_hurried.set()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await booked[-1].written.wait()
        except TimeoutError:
            return False
        return True

    def _watched(self, note: CallNote, state: BudgetState) -> BudgetState:
        """Publish and log once per period that a limit is reached by what is spent; bookings reach none."""
        is_hard = state.is_exceeded and not state.is_only_booked
        level = "hard" if is_hard else "soft" if state.is_soft_reached else ""
        key = note.key_id, level, state.budget.began_us()
        if level and key not in self._warned:
            self._warned[key] = True
            data = {"key": note.key_id, "limit": level, **state.described()}
            session = stored_id(note.tenant, note.session)
            _log.warning("key %s reached its %s budget: %s", note.key_id, level, state.sentence())
            self._publish(Event("budget-reached", session, datetime.now(UTC), None, data))
        return state

    async def _write_soon(self) -> None:
        while self._pending:
            if len(self._pending) < BATCH:
                await self._pause(FLUSH_SECONDS, self._is_hurried)
            batch = self._writing = self._pending[:BATCH]
            del self._pending[: len(batch)]
            if not self._pending and not self._is_closing.is_set():
                self._is_hurried.clear()
            self._pending_bytes -= sum(len(note.body) for note in batch)
            raw = {note.request_id: await self._raw_tokens(note) for note in batch if note.fixed_tokens is not None}
            priced, sent = await asyncio.to_thread(self._priced, batch, raw)
            for note, row in priced:
                self._watch(note, row)
            await self._write_rows([(note.reservation, row) for note, row in priced])
            self._writing = []
            for note in batch:
                note.written.set()
            for session_id in await self._write_sent(sent):
                self._bodies.forget(session_id)
            await self._prune()

    async def _write_rows(self, rows: Sequence[tuple[int | None, CallRow]]) -> None:
        """Write until it succeeds, or until the server stops."""
        failures = 0
        while rows:
            try:
                await self._store.calls.add_clients_calls(rows)
            except FoveateError as error:
                failures += 1
                _log.warning("%d calls of clients could not be written: %s", len(rows), error)
                if self._is_closing.is_set():
                    self.dropped += len(rows)
                    return
                await self._pause(min(MAX_RETRY_SECONDS, 2.0**failures), self._is_closing)
            else:
                return

    async def _write_sent(self, sent: Sequence[tuple[str, SentRow, bytes]]) -> set[str]:
        """Write requests as they were sent; one whose base was removed is written whole. Return the sessions of those
        that were not written, whose next request has to be whole."""
        rows = [(session_id, row) for session_id, row, _ in sent]
        try:
            missing = rows and await self._store.sent.add(rows, kept=self._kept, most_bytes=self._kept_bytes)
            whole = [
                (session_id, in_full(row, body))
                for session_id, row, body in sent
                if row.request_id in missing and row.base
            ]
            if whole:
                missing = await self._store.sent.add(whole, kept=self._kept, most_bytes=self._kept_bytes)
        except FoveateError as error:
            _log.warning("%d requests could not be kept: %s", len(rows), error)
            return {session_id for session_id, _ in rows}
        return {session_id for session_id, row in rows if row.request_id in missing}

    async def _pause(self, seconds: float, until: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await until.wait()

    async def _raw_tokens(self, note: CallNote) -> int | None:
        """Return the tokens of the whole conversation, as the log counts them."""
        session_id, turn = note.session_id, note.turn
        if session_id is None or turn < 1:
            return None
        with contained(_log, "a conversation was not counted"), suppress(SessionNotFound):
            # Turns before the newest one don't grow: most are summed once, however long the conversation is.
            reached, closed = self._counted.get(session_id) or (0, 0)
            if reached >= turn:
                reached, closed = 0, 0
            if turn - reached > MAX_RECOUNTED:
                closed += await self._store.raw_tokens(session_id, reached + 1, turn - 1)
                reached = turn - 1
                self._counted[session_id] = reached, closed
            return closed + await self._store.raw_tokens(session_id, reached + 1, turn)
        return None

    def _priced(
        self, batch: Sequence[CallNote], raw: Mapping[str, int | None]
    ) -> tuple[list[tuple[CallNote, CallRow]], list[tuple[str, SentRow, bytes]]]:
        priced: list[tuple[CallNote, CallRow]] = []
        sent: list[tuple[str, SentRow, bytes]] = []
        for note in batch:
            with contained(_log, "a call of a client was not accounted"):
                body = self._bodies.take(note) if note.session_id and note.body else None
                row = self._accounted(note, body, raw.get(note.request_id))
                priced.append((note, row))
                if body is not None and body.row is not None and note.session_id:
                    paid = replace(body.row, predicted_tokens=row.predicted_tokens, nano_usd=row.nano_usd)
                    sent.append((note.session_id, paid, note.body))
        return priced, sent

    def _accounted(self, note: CallNote, body: SentBody | None, raw_tokens: int | None) -> CallRow:
        tariff, used = self._costs.tariff(note, note.answered), note.used
        is_estimate = used != Usage() and (tariff.is_estimate or not note.is_reported)
        row = self._row(note, used, nano_usd=tariff.nano_usd(used), is_estimate=is_estimate)
        first = believed(note.first)
        if body is not None and body.cached_share is not None and first.input_tokens:
            row = replace(row, predicted_tokens=body.predicted(first.input_tokens))
        whole = self._whole_tokens(note, first, raw_tokens)
        if whole is None or note.status not in OK_STATUSES:
            return row
        if note.fixed_tokens is None and note.first == note.total:
            return replace(row, whole_tokens=row.input_tokens, whole_nano_usd=row.nano_usd)
        before = self._bodies.note_whole(note, whole)
        is_cached = used.cache_read_tokens > 0 and before is not None
        read = min(before or 0, whole) if is_cached else 0
        written = whole - read if used.cache_write_tokens else 0
        cost = replace(used, input_tokens=whole, cache_read_tokens=read, cache_write_tokens=written)
        return replace(row, whole_tokens=whole, whole_nano_usd=tariff.nano_usd(cost))

    def _whole_tokens(self, note: CallNote, first: Usage, raw_tokens: int | None) -> int | None:
        """Return the input of this call, had the whole conversation been sent: as the provider counts, at most the
        model's window. None if it is unknown."""
        if note.fixed_tokens is None:
            if not note.session:
                return None
            whole = first.input_tokens or note.tokens
            self._bodies.note_whole(note, whole)
            return whole
        if raw_tokens is None or note.scale is None or not note.tokens:
            return None
        factor = first.input_tokens / note.tokens if first.input_tokens else 1.0
        factor = factor if 1 / MAX_FACTOR <= factor <= MAX_FACTOR else 1.0
        whole = int((note.scale(raw_tokens) + note.fixed_tokens) * factor)
        return min(whole, window_of(note.model, self._models) or whole, MAX_TOKENS)

    def _row(self, note: CallNote, used: Usage, *, nano_usd: int, is_estimate: bool) -> CallRow:
        return CallRow(
            session_id=note.session_id,
            turn=note.turn or None,
            at_us=note.began_us,
            provider=host_of(note.address),
            model=plain(note.model),
            purpose=GATEWAY,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cache_read_tokens,
            nano_usd=nano_usd,
            is_estimate=is_estimate,
            latency_us=int(note.seconds * 1_000_000),
            outcome=note.outcome,
            tenant=note.tenant,
            key_id=note.key_id,
            client=plain(note.client),
            request_id=note.request_id,
            status=note.status,
            first_byte_us=int(note.first_byte_seconds * 1_000_000),
            written_tokens=used.cache_write_tokens,
            thinking_tokens=used.reasoning_tokens,
        )

    async def _prune(self) -> None:
        """Remove what is older than the setting allows, at most once an hour."""
        if time.monotonic() - self._pruned_at < PRUNE_SECONDS and self._pruned_at:
            return
        self._pruned_at = time.monotonic()
        before_us = time.time_ns() // 1_000 - self._keep_us
        try:
            await self._store.calls.prune_clients_calls(before_us)
            await self._store.sent.prune(before_us)
        except FoveateError as error:
            _log.warning("old calls of clients could not be removed: %s", error)
