"""Conformance cases of a store's accounts: what models were asked, and what it cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from foveate.errors import SessionNotFound
from foveate.store import Store
from foveate.store.access import AccessKeyRow
from foveate.store.calls import LONGEST_CALL_US, SPEND_DIMENSIONS, KeySpending
from foveate.store.rows import DAY_US, NANO, RUNNING, CallRow, CostRow
from foveate.store.sent import SentRow
from foveate.store.sql import now_us
from support.stores import Case, OpenStore, new_session

FIRST_DAY_US = 20_000 * DAY_US
"""2024-10-04, in UTC."""


def call(session_id: str | None = "s", *, nano_usd: int = 7, at_us: int = FIRST_DAY_US, outcome: str = "ok") -> CallRow:
    return CallRow(
        session_id=session_id,
        turn=1,
        at_us=at_us,
        provider="openai",
        model="openai:gpt-5-mini",
        purpose="compress",
        input_tokens=100,
        output_tokens=10,
        cached_tokens=40,
        nano_usd=nano_usd,
        is_estimate=False,
        latency_us=2_000,
        outcome=outcome,
    )


def booked_call(key_id: str, *, usd: float, seconds_ago: int = 0) -> CallRow:
    """Return a call in progress of a key, which may cost this much."""
    row = call(None, nano_usd=int(usd * NANO), at_us=now_us() - seconds_ago * 1_000_000, outcome=RUNNING)
    return replace(
        row,
        turn=None,
        purpose="gateway",
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        is_estimate=True,
        latency_us=0,
        key_id=key_id,
    )


async def calls_are_summed_by_session_day_model_and_purpose(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.create_session(new_session("other"))
    chat = replace(call(), purpose="chat", is_estimate=True)
    late = call(at_us=FIRST_DAY_US + DAY_US - 1, outcome="timeout")
    for each in (call(at_us=FIRST_DAY_US + DAY_US), call(), late, chat, call("other")):
        await store.calls.add(each)
    first = CostRow(
        "s", "2024-10-04", "openai:gpt-5-mini", "compress", 2, 1, 0, 4_000, 200, 20, 80, 14, is_estimate=False
    )
    assert await store.calls.costs("s") == [
        CostRow("s", "2024-10-04", "openai:gpt-5-mini", "chat", 1, 0, 0, 2_000, 100, 10, 40, 7, is_estimate=True),
        first,
        CostRow("s", "2024-10-05", "openai:gpt-5-mini", "compress", 1, 0, 0, 2_000, 100, 10, 40, 7, is_estimate=False),
    ]
    assert [row.session_id for row in await store.calls.costs()] == ["other", "s", "s", "s"]
    assert [row.day for row in await store.calls.costs(since_us=FIRST_DAY_US + DAY_US)] == ["2024-10-05"]


async def an_interrupted_call_is_paid_for_and_not_failed(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.calls.add(call(outcome="cancelled"))
    (row,) = await store.calls.costs("s")
    assert (row.calls, row.failed, row.nano_usd) == (1, 0, 7)


async def an_unknown_session_has_no_costs(store: Store, _: OpenStore) -> None:
    try:
        await store.calls.costs("nobody")
    except SessionNotFound:
        return
    raise AssertionError("SessionNotFound was not raised")


async def spending_is_that_of_all_sessions_since_a_moment(store: Store, open_store: OpenStore) -> None:
    await store.create_session(new_session())
    assert await store.calls.spent(0) == 0
    for each in (call(), call(None), call("gone"), call(at_us=FIRST_DAY_US - 1)):
        await store.calls.add(each)
    again = await open_store()
    try:
        assert await again.calls.spent(FIRST_DAY_US) == 21
        assert await again.calls.spent(0) == 28
    finally:
        await again.close()


async def what_a_deleted_session_spent_stays_spent(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.calls.add(call())
    await store.delete_session("s")
    assert await store.calls.spent(0) == 7
    assert [(row.session_id, row.calls) for row in await store.calls.costs()] == [(None, 1)]


async def a_reservation_is_spent_until_it_is_settled(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    reserved = await store.calls.reserve(call(nano_usd=50, outcome=RUNNING), since_us=0, limit_nano_usd=50)
    assert reserved is not None
    assert await store.calls.spent(0) == 50
    assert (await store.calls.costs("s"))[0].failed == 0
    await store.calls.settle(reserved, replace(call(nano_usd=9), model="another", outcome="empty"))
    assert await store.calls.spent(0) == 9
    (row,) = await store.calls.costs("s")
    assert (row.model, row.calls, row.failed, row.nano_usd) == ("another", 1, 1, 9)


def client_call(**values: Any) -> CallRow:
    return replace(call(None), purpose="gateway", tenant="acme", key_id="K-1", client="pi", status=200, **values)


async def a_clients_call_counts_for_its_key_and_for_no_limit_of_our_own(store: Store, _: OpenStore) -> None:
    await store.create_session(replace(new_session("acme:s"), tenant="acme"))
    own = client_call(session_id="acme:s", predicted_tokens=30, whole_tokens=500, whole_nano_usd=100)
    await store.calls.add_clients_calls([(None, own), (None, client_call(outcome="failed"))])
    await store.calls.add(call(None))
    assert (await store.calls.spent(0), await store.calls.spent_by_key("K-1", 0)) == (7, KeySpending(14, 0))
    assert [row.purpose for row in await store.calls.newest(0, limit=10)] == ["compress"]
    (row,) = await store.calls.spending("key", tenant="acme")
    assert (row.name, row.calls, row.failed, row.input_tokens, row.cached_tokens) == ("K-1", 2, 1, 200, 80)
    assert (row.predicted_tokens, row.confirmed_tokens, row.whole_tokens) == (30, 30, 600)
    assert (row.nano_usd, row.whole_nano_usd, row.saved_usd) == (14, 107, 93 / NANO)
    assert all(isinstance(getattr(row, name), int) for name in row.__dataclass_fields__ if name != "name")
    for by in SPEND_DIMENSIONS:
        rows = await store.calls.spending(by)
        assert sum(row.calls for row in rows) == 3
        assert sum(row.calls for row in await store.calls.spending(by, since_us=FIRST_DAY_US + DAY_US)) == 0
        alone = await store.for_tenant("acme").calls.spending(by, tenant="acme")
        assert sum(row.calls for row in alone) == 2
        assert await store.for_tenant("other").calls.spending(by, tenant="other") == []
    (day,) = await store.calls.spending("day", session_id="acme:s")
    assert (day.name, day.calls) == ("2024-10-04", 1)


async def a_keys_call_is_booked_within_its_budget_or_not_at_all(store: Store, open_store: OpenStore) -> None:
    again, now = await open_store(), now_us()
    try:
        books = [
            each.calls.reserve_for_key(
                client_call(nano_usd=30, outcome=RUNNING, at_us=now), since_us=0, limit_nano_usd=100
            )
            for each in (store, again) * 5
        ]
        numbers = [number for number, _ in await asyncio.gather(*books) if number is not None]
        assert len(numbers) == 3
        settled = client_call(nano_usd=4, predicted_tokens=None)
        await store.calls.add_clients_calls([(numbers[0], settled)])
        assert await again.calls.spent_by_key("K-1", 0) == KeySpending(4, 60, booked_us=now)
        other = replace(client_call(nano_usd=30), key_id="K-2")
        assert (await again.calls.reserve_for_key(other, since_us=0, limit_nano_usd=30))[0] is not None
        past = client_call(nano_usd=99)
        assert (await again.calls.reserve_for_key(past, since_us=now + 1, limit_nano_usd=100))[1].nano_usd == 0
    finally:
        await again.close()


async def a_booking_that_is_older_than_any_call_is_spent_and_not_in_progress(store: Store, _: OpenStore) -> None:
    old = now_us() - LONGEST_CALL_US - 1_000_000
    row = client_call(nano_usd=30, outcome=RUNNING, at_us=old)
    number, _spending = await store.calls.reserve_for_key(row, since_us=0, limit_nano_usd=100)
    assert number is not None
    assert await store.calls.spent_by_key("K-1", 0) == KeySpending(30, 0, lost_nano_usd=30)
    await store.calls.add_clients_calls([(number, client_call(nano_usd=4))])  # it only took long
    assert await store.calls.spent_by_key("K-1", 0) == KeySpending(4)


async def old_calls_of_clients_are_removed_and_no_others(store: Store, _: OpenStore) -> None:
    await store.calls.add(call(None, at_us=1))
    await store.calls.add_clients_calls([(None, client_call(at_us=at_us)) for at_us in (1, 2, 3)])
    assert await store.calls.prune_clients_calls(3) == 2
    assert len(await store.calls.costs()) == 2


async def sent_requests_are_kept_up_to_a_number_and_a_size(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())

    def sent(number: int, base: str = "") -> tuple[str, SentRow]:
        return "s", SentRow(
            number=0,
            request_id=f"r{number}",
            base=base,
            at_us=number,
            turn=1,
            provider="p",
            model="m",
            format="openai",
            path="/v1",
            status=200,
            tokens=1,
            input_tokens=1,
            cached_tokens=0,
            size=3,
            kept_bytes=0,
            digest=b"d",
            data=b"abc",
        )

    async def numbers() -> list[int]:
        return [row.number for row in await store.sent.list_sent("s", limit=100)]

    chain = [sent(0), *(sent(number, f"r{number - 1}") for number in range(1, 3))]
    assert await store.sent.add(chain, kept=2, most_bytes=1_000) == frozenset()
    assert await numbers() == [1, 2, 3], "a chain goes as a whole"
    assert [row.data for row in await store.sent.read_chain("s", 3)] == [b"abc"] * 3
    more = [sent(3), sent(4, "r3"), sent(5, "none"), ("gone", sent(6)[1])]
    assert await store.sent.add(more, kept=2, most_bytes=1_000) == {"r5", "r6"}
    assert await numbers() == [4, 5]
    assert await store.sent.add([sent(7)], kept=50, most_bytes=5) == frozenset()
    assert await numbers() == [6]
    assert await store.sent.prune(8) == 1
    assert await store.sent.add([sent(8)], kept=50, most_bytes=50) == frozenset()
    await store.delete_session("s")


async def a_budget_is_stored_with_its_key(store: Store, _: OpenStore) -> None:
    key = AccessKeyRow("k1", "laptop", b"hash", "", "gateway", 5, budget_nano_usd=7, soft_nano_usd=5, period="day")
    await store.access.add(key)
    assert await store.access.find(b"hash") == key
    assert await store.access.set_budget("k1", budget_nano_usd=None, soft_nano_usd=9, period="month")
    assert await store.access.find(b"hash") == replace(key, budget_nano_usd=None, soft_nano_usd=9, period="month")
    assert not await store.access.set_budget("k2", budget_nano_usd=1, soft_nano_usd=None, period="day")


async def an_answer_that_did_not_pass_is_paid_for_all_the_same(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    number = await store.calls.add(call())
    await store.calls.add(call())
    await store.calls.mark_unfit(number)
    (row,) = await store.calls.costs("s")
    assert (row.calls, row.failed, row.unfit, row.nano_usd) == (2, 0, 1, 14)


async def the_newest_calls_are_told_as_they_were_booked(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    booked = [call(at_us=FIRST_DAY_US + number) for number in range(5)]
    for each in (*booked[2:], call("gone", at_us=FIRST_DAY_US + 9), *booked[:2]):
        await store.calls.add(each)
    found = await store.calls.newest(FIRST_DAY_US + 1, limit=4)
    assert found == [*booked[2:], replace(call(None), at_us=FIRST_DAY_US + 9)]
    assert await store.calls.newest(FIRST_DAY_US + 10, limit=4) == []


async def no_reservation_goes_over_the_limit(store: Store, _: OpenStore) -> None:
    await store.calls.add(call(None, nano_usd=1_000, at_us=FIRST_DAY_US - 1))
    await store.calls.add(call(None, nano_usd=40))
    limits: Any = {"since_us": FIRST_DAY_US, "limit_nano_usd": 100}
    assert await store.calls.reserve(call(None, nano_usd=61), **limits) is None
    assert await store.calls.reserve(call(None, nano_usd=60), **limits) is not None
    assert await store.calls.reserve(call(None, nano_usd=1), **limits) is None
    assert await store.calls.reserve(call(None, nano_usd=0), **limits) is not None


async def two_that_reserve_at_once_do_not_both_get_the_last_of_it(store: Store, open_store: OpenStore) -> None:
    again = await open_store()
    try:
        found = await asyncio.gather(
            *(
                opened.calls.reserve(call(None, nano_usd=10), since_us=0, limit_nano_usd=100)
                for _ in range(10)
                for opened in (store, again)
            )
        )
    finally:
        await again.close()
    assert sum(reserved is not None for reserved in found) == 10
    assert await store.calls.spent(0) == 100


CASES: tuple[Case, ...] = (
    calls_are_summed_by_session_day_model_and_purpose,
    an_interrupted_call_is_paid_for_and_not_failed,
    an_unknown_session_has_no_costs,
    spending_is_that_of_all_sessions_since_a_moment,
    what_a_deleted_session_spent_stays_spent,
    a_reservation_is_spent_until_it_is_settled,
    a_clients_call_counts_for_its_key_and_for_no_limit_of_our_own,
    a_keys_call_is_booked_within_its_budget_or_not_at_all,
    a_booking_that_is_older_than_any_call_is_spent_and_not_in_progress,
    old_calls_of_clients_are_removed_and_no_others,
    sent_requests_are_kept_up_to_a_number_and_a_size,
    a_budget_is_stored_with_its_key,
    an_answer_that_did_not_pass_is_paid_for_all_the_same,
    the_newest_calls_are_told_as_they_were_booked,
    no_reservation_goes_over_the_limit,
    two_that_reserve_at_once_do_not_both_get_the_last_of_it,
)
