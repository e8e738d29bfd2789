"""The limits of a provider keep their promises in whatever order things happen."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from foveate.models.limits import MINUTE_SECONDS, Breaker, Rates, Slots
from support.examples import times

MAX_FAILURES = 3
OPEN_SECONDS = 10.0


class BreakerMachine(RuleBasedStateMachine):
    """Calls begin, and end well or badly, as time passes; a call is only begun when the breaker lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(MAX_FAILURES, OPEN_SECONDS)
        self.now = 0.0
        self.running: list[bool] = []
        self.in_a_row = 0
        self.opened_at = -1.0

    @rule(seconds=st.sampled_from([0.5, 4.0, OPEN_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.breaker.wait_seconds(self.now) == 0)
    @rule()
    def a_call_begins(self) -> None:
        if self.breaker.state != "closed":
            assert self.now >= self.opened_at + OPEN_SECONDS
            assert not any(self.running), "two calls try at once"
        self.running.append(self.breaker.begin())

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_call_answers(self, data: st.DataObject) -> None:
        self._ends(data)
        self.in_a_row = 0
        self.breaker.succeed()
        self.running = [False] * len(self.running)
        assert self.breaker.state == "closed"

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_call_fails(self, data: st.DataObject) -> None:
        was = self.breaker.state
        self._ends(data)
        self.in_a_row += 1
        self.breaker.fail(self.now)
        if was == "trying" or (was == "closed" and self.in_a_row >= MAX_FAILURES):
            self.opened_at = self.now
        self.running = [False] * len(self.running)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_call_is_cancelled(self, data: st.DataObject) -> None:
        if self._ends(data):
            self.breaker.abandon()

    @invariant()
    def it_is_open_after_enough_failures_in_a_row(self) -> None:
        assert (self.breaker.state == "closed") == (self.in_a_row < MAX_FAILURES)
        assert self.breaker.failures == self.in_a_row

    @invariant()
    def it_never_waits_longer_than_its_time(self) -> None:
        assert 0 <= self.breaker.wait_seconds(self.now) <= OPEN_SECONDS

    def _ends(self, data: st.DataObject) -> bool:
        return self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=times(20), stateful_step_count=40, deadline=None)

REQUESTS = st.lists(st.tuples(st.floats(0, 30), st.integers(0, 60)), max_size=60)


@given(requests=REQUESTS, per_minute=st.integers(1, 5), tokens_per_minute=st.integers(1, 100))
def test_no_minute_has_more_requests_or_tokens_than_its_rate(
    requests: list[tuple[float, int]], per_minute: int, tokens_per_minute: int
) -> None:
    rates, now, made = Rates(per_minute, tokens_per_minute), 0.0, list[tuple[float, int]]()
    for pause, tokens in requests:
        now += pause
        wait = rates.wait_seconds(now, tokens)
        assert 0 <= wait <= MINUTE_SECONDS + 1e-6
        if wait:
            continue
        rates.take(now, tokens)
        made.append((now, tokens))
        last_minute = [size for at, size in made if at + MINUTE_SECONDS > now]
        assert len(last_minute) == rates.requests(now) <= per_minute
        assert sum(last_minute) <= tokens_per_minute or len(last_minute) == 1 or not sum(last_minute[:-1])


@given(requests=REQUESTS, per_minute=st.integers(1, 5), tokens_per_minute=st.integers(1, 100))
def test_whoever_waits_as_told_is_let_through(
    requests: list[tuple[float, int]], per_minute: int, tokens_per_minute: int
) -> None:
    rates, now = Rates(per_minute, tokens_per_minute), 0.0
    for _, tokens in requests:
        now += rates.wait_seconds(now, tokens) + 1e-6
        assert rates.wait_seconds(now, tokens) == 0
        rates.take(now, tokens)


def test_what_was_not_made_is_given_back() -> None:
    rates = Rates(1, None)
    taken = rates.take(0.0, 5)
    assert rates.wait_seconds(1.0, 5) == 59.0
    rates.give_back(taken)
    rates.give_back(taken)
    assert rates.wait_seconds(1.0, 5) == 0


@given(
    limit=st.integers(1, 4),
    jobs=st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.booleans()), max_size=25),
)
def test_slots_are_never_exceeded_lost_or_kept(limit: int, jobs: list[tuple[bool, int, bool]]) -> None:
    async def run() -> None:
        slots, most, done = Slots(limit), 0, 0

        async def job(is_urgent: bool, steps: int) -> None:
            nonlocal most, done
            async with slots.taken(is_urgent=is_urgent):
                most = max(most, slots.running)
                for _ in range(steps):
                    await asyncio.sleep(0)
            done += 1

        tasks = [asyncio.create_task(job(is_urgent, steps)) for is_urgent, steps, _ in jobs]
        for task, (_, steps, is_cancelled) in zip(tasks, jobs, strict=True):
            if is_cancelled:
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= limit
        assert slots.running == 0
        assert done >= sum(not is_cancelled for _, _, is_cancelled in jobs)
        async with slots.taken(is_urgent=False):
            assert slots.running == 1

    asyncio.run(run())
