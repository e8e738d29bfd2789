"""Conformance cases of a store's accounts: what models were asked, and what it cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from foveate.errors import SessionNotFound
from foveate.store import Store
from foveate.store.rows import DAY_US, RUNNING, CallRow, CostRow
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
    an_answer_that_did_not_pass_is_paid_for_all_the_same,
    the_newest_calls_are_told_as_they_were_booked,
    no_reservation_goes_over_the_limit,
    two_that_reserve_at_once_do_not_both_get_the_last_of_it,
)
