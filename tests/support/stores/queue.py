"""Conformance cases of the queue for models: what is due is claimed once, and no turn costs more than its limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from foveate.store import Store, bodies
from foveate.store.leases import SessionJob
from foveate.store.rows import DueTurn, EraRow, NewRendition, PostponedTurn, RedoRequest, RefinedTurn
from support.stores import Case, OpenStore, draft, new_session
from support.stores.derived import LONG_SECONDS, rendition

MAX_CALLS = 6
NOW_US = 1_000


def _due(turn: int, due_us: int | None = NOW_US, *, messages: int = 1) -> NewRendition:
    return replace(rendition(turn, messages=messages), maker="local", due_us=due_us)


def _refined(maker: str = "m", *, version: int = 1, calls: int = 1) -> RefinedTurn:
    return RefinedTurn(
        maker=maker,
        version=version,
        calls=calls,
        refusals=0,
        compressed=bodies.squeeze("better"),
        compressed_tokens=15,
        tiny="best",
        tiny_tokens=5,
    )


async def _talked(store: Store, turns: int, session_id: str = "s") -> None:
    """A session with this number of closed turns, all due, and an open one."""
    await store.create_session(new_session(session_id))
    await store.append(session_id, [draft(f"q{turn}") for turn in range(1, turns + 2)])
    await store.derived.add_renditions(session_id, [_due(turn) for turn in range(1, turns + 1)])


async def _claim(
    store: Store,
    session_id: str = "s",
    *,
    limit: int = 99,
    lease: float = LONG_SECONDS,
    max_calls: int = MAX_CALLS,
    now_us: int = NOW_US,
) -> list[DueTurn]:
    return await store.derived.due.claim(
        session_id, owner="a", limit=limit, lease_seconds=lease, max_calls=max_calls, now_us=now_us
    )


async def _turns(store: Store, session_id: str = "s", *, now_us: int = NOW_US) -> list[int]:
    return [due.turn for due in await _claim(store, session_id, now_us=now_us)]


async def what_is_due_is_claimed_once(store: Store, _: OpenStore) -> None:
    await _talked(store, 4)
    assert await store.derived.due.sessions() == [("s", NOW_US)]
    assert [due.turn for due in await _claim(store, limit=2)] == [1, 2]
    assert [due.turn for due in await _claim(store)] == [3, 4]
    assert await _claim(store) == []


async def concurrent_claims_share_what_is_due(store: Store, _: OpenStore) -> None:
    await _talked(store, 20)
    found = await asyncio.gather(*(_claim(store, limit=4) for _ in range(7)))
    assert sorted(due.turn for claims in found for due in claims) == list(range(1, 21))


async def nothing_is_claimed_before_it_is_due(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one"), draft("two"), draft("three"), draft("open")])
    await store.derived.add_renditions("s", [_due(1, 500), _due(2, 300), _due(3, None)])
    assert await store.derived.due.sessions() == [("s", 300)]
    assert await _turns(store, now_us=299) == []
    assert await _turns(store, now_us=500) == [2, 1]


async def an_open_turn_waits_until_it_is_closed(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    await store.derived.add_renditions("s", [_due(1)])
    assert await store.derived.due.sessions() == []
    assert await _turns(store) == []
    assert (await store.derived.backlog("s")).waiting == 0
    await store.append("s", [draft("two")])
    assert await store.derived.due.sessions() == [("s", NOW_US)]
    assert await _turns(store) == [1]


async def a_turn_that_has_grown_is_due_with_its_new_renditions(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    await store.derived.add_renditions("s", [_due(1)])
    await store.append("s", [draft("more", "assistant"), draft("two")])
    assert await _turns(store) == []
    assert await store.derived.due.sessions() == []
    await store.derived.add_renditions("s", [_due(1, messages=2)])
    (due,) = await _claim(store)
    assert (due.turn, due.messages) == (1, 2)


async def half_the_calls_left_are_reserved_with_a_claim_and_survive_its_owner(store: Store, open_it: OpenStore) -> None:
    await _talked(store, 1)
    reserved = []
    for _ in range(4):
        again = await open_it()
        try:
            reserved += [(due.calls, due.reserved) for due in await _claim(again, lease=0.0)]
        finally:
            await again.close()
    assert reserved == [(0, 3), (3, 2), (5, 1)]
    backlog = await store.derived.backlog("s")
    assert (backlog.waiting, backlog.incomplete) == (0, 1)


async def a_reservation_can_be_raised_and_given_back(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    (due,) = await _claim(store)
    await store.derived.due.reserve(due, 5)
    await store.derived.due.postpone(due, PostponedTurn(due_us=NOW_US, calls=2))
    (due,) = await _claim(store)
    assert (due.calls, due.reserved) == (2, 2)


async def what_a_model_made_is_the_newest_and_the_rest_stays(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    first, second = await _claim(store)
    assert await store.derived.due.refine(first, _refined(calls=2))
    await store.derived.due.postpone(second, PostponedTurn(due_us=None, calls=0))
    one, two = await store.derived.renditions("s", 1, 2)
    assert (one.maker, one.version, one.tiny, one.tiny_tokens, one.compressed_tokens) == ("m", 1, "best", 5, 15)
    assert (bodies.expand(one.compressed), bodies.expand(one.smoothed)) == ("better", "smoothed said")
    assert (two.maker, two.tiny) == ("local", "tiny said")
    backlog = await store.derived.backlog("s")
    assert (backlog.complete, backlog.by_model, backlog.waiting, backlog.pending) == (2, 1, 0, 1)
    assert await _turns(store, now_us=2**60) == []
    assert await store.derived.counts("s", 1, 2, chunk_turns=1) == {0: 2, 1: 1}


async def what_a_model_made_of_a_turn_that_has_grown_is_not_kept(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    (due,) = await _claim(store)
    await store.derived.add_renditions("s", [_due(1, messages=2)])
    assert not await store.derived.due.refine(due, _refined())
    assert (await store.derived.backlog("s")).by_model == 0


async def what_a_model_made_of_what_is_gone_is_not_kept(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("old", at_us=10), draft("new", at_us=90), draft("open", at_us=95)])
    await store.derived.add_renditions("s", [_due(1), _due(2)])
    first, second = await _claim(store)
    await store.prune("s", before_us=50, dry_run=False)
    assert not await store.derived.due.refine(first, _refined())
    await store.delete_session("s")
    assert not await store.derived.due.refine(second, _refined())
    await store.derived.due.postpone(second, PostponedTurn(due_us=5, calls=1))
    assert await store.derived.due.sessions() == []


async def a_turn_that_is_put_off_is_marked_and_due_later(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    first, second = await _claim(store)
    await store.derived.due.postpone(first, PostponedTurn(due_us=NOW_US + 9, calls=2, refusals=2, is_marked=True))
    await store.derived.due.postpone(second, PostponedTurn(due_us=None, calls=6, is_marked=True))
    backlog = await store.derived.backlog("s")
    assert (backlog.incomplete, backlog.waiting, backlog.refusals) == (2, 1, 2)
    assert await _turns(store, now_us=NOW_US + 8) == []
    (due,) = await _claim(store, now_us=NOW_US + 9)
    assert await store.derived.due.refine(due, _refined(calls=3))
    backlog = await store.derived.backlog("s")
    assert (backlog.complete, backlog.incomplete, backlog.waiting, backlog.by_model) == (1, 1, 0, 1)


async def holding_a_session_leaves_others_as_they_are(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    await _talked(store, 1, "other")
    await store.derived.due.hold("s", NOW_US + 5)
    assert await store.derived.due.sessions() == [("other", NOW_US), ("s", NOW_US + 5)]
    assert await _turns(store) == []
    assert await _turns(store, "other") == [1]


async def what_was_put_off_can_be_hurried_in_every_session(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    first, second = await _claim(store)
    await store.derived.due.postpone(first, PostponedTurn(due_us=NOW_US + 10**9, calls=1, is_marked=True))
    await store.derived.due.postpone(second, PostponedTurn(due_us=None, calls=1, is_marked=True))
    assert await _claim(store) == []
    await store.derived.due.hurry(NOW_US)
    assert [(due.turn, due.calls) for due in await _claim(store)] == [(first.turn, 1)]


async def what_was_made_in_part_is_marked_and_made_anew_when_wanted(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    (due,) = await _claim(store)
    assert await store.derived.due.refine(due, replace(_refined(version=2), is_complete=False))
    backlog = await store.derived.backlog("s")
    assert (backlog.complete, backlog.incomplete, backlog.by_model) == (0, 1, 1)
    assert await store.derived.due.want_again("s", RedoRequest(local_version=1, model_version=None), NOW_US) == 0
    assert await store.derived.due.want_again("s", RedoRequest(local_version=1, model_version=2), NOW_US) == 1
    claims = await store.derived.claim("s", owner="a", limit=9, lease_seconds=LONG_SECONDS, include_open=False)
    assert [claim.turn for claim in claims] == [1]


async def a_renewed_lease_holds_until_it_is_given_back(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    await _claim(store, lease=0.05)
    assert await store.leases.renew("session", "a", LONG_SECONDS)
    await asyncio.sleep(0.1)
    assert await _claim(store) == []
    await store.leases.release("session", "b")
    assert await _claim(store) == []
    await store.leases.release("session", "a")
    assert not await store.leases.renew("session", "a", LONG_SECONDS)
    assert [due.calls for due in await _claim(store)] == [3]


async def work_in_a_session_is_leased_to_one_owner(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    jobs: tuple[SessionJob, ...] = ("roll-ups", "shrink")
    for job in jobs:
        assert not await store.leases.is_taken("s", job)
        assert await store.leases.take("s", job, job, LONG_SECONDS)
        assert not await store.leases.take("s", job, "b", LONG_SECONDS)
    assert [claim.turn for claim in await _claim(store)] == [1]
    assert (await store.derived.due.state(limit=0)).leased == 2  # the turn, and the roll-ups
    for job in jobs:
        assert await store.leases.is_taken("s", job)
        assert await store.leases.is_held("session", job)
        await store.leases.release("session", job)
        assert not await store.leases.is_held("session", job)
        assert await store.leases.take("s", job, "b", 0.0)
        assert not await store.leases.is_taken("s", job)
        assert await store.leases.take("s", job, "a", LONG_SECONDS)


async def a_fork_leaves_its_ancestors_turns_to_the_ancestor(store: Store, _: OpenStore) -> None:
    await _talked(store, 3)
    await store.fork_session(new_session("f"), "s", 3)
    await store.append("f", [draft("own"), draft("open")])
    await store.derived.add_renditions("f", [_due(4)])
    assert await _turns(store, "f") == [4]
    first = (await _claim(store))[0]
    assert await store.derived.due.refine(first, _refined())
    assert [tiny for _, tiny, _ in await store.derived.tinies("f", 1, 1)] == ["best"]
    assert (await store.derived.counts("f", 1, 9, chunk_turns=99)) == {0: 5}


async def a_local_rendition_is_made_again_if_it_is_old_or_incomplete(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft(f"q{turn}") for turn in range(1, 6)])
    made = [replace(_due(turn, None), is_complete=turn != 2) for turn in range(1, 5)]
    await store.derived.add_renditions("s", [*made[:3], replace(made[3], version=2)])
    wanted = RedoRequest(local_version=2, model_version=None)
    assert await store.derived.due.want_again("s", wanted, NOW_US) == 3
    claims = await store.derived.claim("s", owner="a", limit=9, lease_seconds=LONG_SECONDS, include_open=False)
    assert [claim.turn for claim in claims] == [1, 2, 3]
    assert await store.derived.due.want_again("s", wanted, NOW_US) == 0


async def eras_are_made_again_with_their_turns(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft(f"q{turn}") for turn in range(1, 6)])
    await store.derived.add_renditions("s", [_due(turn, None) for turn in range(1, 5)])
    await store.derived.add_eras("s", [EraRow(1, 0, 9, b"units")])
    await store.derived.due.note_requested("s", "era", "1", 1)
    await store.derived.due.want_again("s", RedoRequest(local_version=1, model_version=None), NOW_US)
    assert await store.derived.next_era("s", 1) == 1
    await store.derived.due.want_again("s", RedoRequest(local_version=2, model_version=None), NOW_US)
    assert await store.derived.next_era("s", 1) == 0
    assert await store.derived.due.requested("s", "era", "1") == 0


async def what_no_model_or_an_older_prompt_made_can_be_wanted_again(store: Store, _: OpenStore) -> None:
    await _talked(store, 4)
    first, second, third, fourth = await _claim(store)
    await store.derived.due.refine(first, _refined(version=2))
    await store.derived.due.refine(second, _refined(version=1))
    await store.derived.due.postpone(third, PostponedTurn(due_us=None, calls=MAX_CALLS, is_marked=True))
    await store.derived.due.postpone(fourth, PostponedTurn(due_us=None, calls=0))
    wanted = RedoRequest(local_version=1, model_version=2)
    assert await store.derived.due.want_again("s", wanted, NOW_US) == 3
    claims = await _claim(store)
    assert sorted((due.turn, due.calls) for due in claims) == [(2, 0), (3, 0), (4, 0)]
    for due in claims:
        assert await store.derived.due.refine(due, _refined(version=2))
    backlog = await store.derived.backlog("s")
    assert (backlog.complete, backlog.incomplete, backlog.by_model) == (4, 0, 4)


async def the_result_of_a_worker_that_lost_its_turn_is_rejected(store: Store, _: OpenStore) -> None:
    due = store.derived.due
    await _talked(store, 1)
    (late,) = await due.claim("s", owner="late", limit=9, lease_seconds=0, max_calls=MAX_CALLS, now_us=NOW_US)
    (held,) = await _claim(store)
    assert not await due.reserve(late, 6)
    assert not await due.refine(late, _refined("late", calls=3))
    assert not await due.postpone(late, PostponedTurn(due_us=None, calls=0))
    assert await due.refine(held, _refined("held", calls=4))
    assert not await due.refine(late, _refined("late", calls=3))
    (row,) = await store.derived.renditions("s", 1, 1)
    assert row.maker == "held"


async def a_turn_whose_workers_died_is_parked_until_it_is_wanted_again(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    for _attempt in range(3):
        await _claim(store, limit=1, lease=0.0)
    assert [claimed.turn for claimed in await _claim(store)] == [2]
    state = await store.derived.due.state(limit=10)
    assert [(parked.session_id, parked.turn, parked.calls) for parked in state.parked_turns] == [("s", 1, MAX_CALLS)]
    assert (state.parked, state.model_turns, state.leased, state.expired) == (1, 1, 1, 1)
    await store.derived.due.want_again("s", RedoRequest(local_version=1, model_version=2), NOW_US)
    assert (await store.derived.due.state(limit=10)).parked == 0


async def a_session_with_something_new_is_taken_once(store: Store, _: OpenStore) -> None:
    due = store.derived.due
    for name in ("a", "b"):
        await store.create_session(new_session(name))
        await store.append(name, [draft("one")])
    taken = await due.take_sessions(limit=1, lease_seconds=LONG_SECONDS)
    taken += await due.take_sessions(limit=9, lease_seconds=LONG_SECONDS)
    assert [(work.session_id, work.is_new) for work in taken] == [("a", True), ("b", True)]
    assert await due.take_sessions(limit=9, lease_seconds=LONG_SECONDS) == []
    await store.append("a", [draft("two")])
    for work in taken:
        await due.put_back(work, None)
    (again,) = await due.take_sessions(limit=9, lease_seconds=LONG_SECONDS)
    assert (again.session_id, again.is_new) == ("a", True)


async def a_session_is_put_back_behind_those_with_something_new(store: Store, _: OpenStore) -> None:
    due = store.derived.due
    await store.create_session(new_session("large"))
    await store.append("large", [draft("one")])
    (large,) = await due.take_sessions(limit=9, lease_seconds=LONG_SECONDS)
    await due.put_back(large, 0.0)
    await store.create_session(new_session("small"))
    await store.append("small", [draft("one")])
    taken = await due.take_sessions(limit=9, lease_seconds=0.0)
    assert [(work.session_id, work.is_new) for work in taken] == [("small", True), ("large", False)]
    # The worker that took them died.
    assert len(await due.take_sessions(limit=9, lease_seconds=LONG_SECONDS)) == 2


CASES: tuple[Case, ...] = (
    the_result_of_a_worker_that_lost_its_turn_is_rejected,
    a_turn_whose_workers_died_is_parked_until_it_is_wanted_again,
    a_session_with_something_new_is_taken_once,
    a_session_is_put_back_behind_those_with_something_new,
    what_is_due_is_claimed_once,
    concurrent_claims_share_what_is_due,
    nothing_is_claimed_before_it_is_due,
    an_open_turn_waits_until_it_is_closed,
    a_turn_that_has_grown_is_due_with_its_new_renditions,
    half_the_calls_left_are_reserved_with_a_claim_and_survive_its_owner,
    a_reservation_can_be_raised_and_given_back,
    what_a_model_made_is_the_newest_and_the_rest_stays,
    what_a_model_made_of_a_turn_that_has_grown_is_not_kept,
    what_a_model_made_of_what_is_gone_is_not_kept,
    a_turn_that_is_put_off_is_marked_and_due_later,
    holding_a_session_leaves_others_as_they_are,
    what_was_put_off_can_be_hurried_in_every_session,
    what_was_made_in_part_is_marked_and_made_anew_when_wanted,
    a_renewed_lease_holds_until_it_is_given_back,
    work_in_a_session_is_leased_to_one_owner,
    a_fork_leaves_its_ancestors_turns_to_the_ancestor,
    a_local_rendition_is_made_again_if_it_is_old_or_incomplete,
    eras_are_made_again_with_their_turns,
    what_no_model_or_an_older_prompt_made_can_be_wanted_again,
)
