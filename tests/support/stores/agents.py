"""Conformance cases of agents: states, claims, waits and limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from foveate.errors import AgentEnded, AgentNotFound, ClaimLost, LimitReached
from foveate.store import Store
from foveate.store.agents import AgentLimits, AgentRow, CallLimit, ClaimRequest, NewAgent
from foveate.store.sql import now_us
from support.stores import Case, OpenStore, draft, new_session
from support.stores.calls import call

LIMITS = AgentLimits(max_depth=2, max_agents=3, max_tokens=1_000, max_nano_usd=1_000)
WANTED = ClaimRequest(owner="w", limit=10, lease_seconds=60.0, max_attempts=2)


def new_agent(agent_id: str = "a-1", parent: str | None = None, *, depth: int = 1) -> NewAgent:
    return NewAgent(
        id=agent_id,
        parent=parent,
        parent_session_id=None,
        tree="tree",
        depth=depth,
        kind="run",
        task="Build.",
        spec="{}",
    )


async def _spawned(store: Store, agent_id: str = "a-1", parent: str | None = None) -> AgentRow:
    depth = 2 if parent else 1
    return await store.agents.spawn(new_session(agent_id), new_agent(agent_id, parent, depth=depth), limits=LIMITS)


async def an_agent_is_added_with_its_session(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session("boss"))
    await store.append("boss", [draft("one")])
    given = replace(new_agent(), parent_session_id="boss")
    row = await store.agents.spawn(new_session("a-1"), given, limits=LIMITS, fork_turn=1)
    assert (row.state, row.parent_session_id, row.session_id) == ("queued", "boss", "a-1")
    assert (await store.get_session("a-1")).parent_id == "boss"
    assert await store.agents.of_session("a-1") == row
    assert await store.agents.of_session("boss") is None
    assert [agent.id for agent in await store.agents.list_agents(parent_session="boss")] == ["a-1"]
    try:
        await store.agents.get("a-2")
    except AgentNotFound:
        return
    raise AssertionError("there is no such agent")


async def two_workers_never_claim_the_same_agent(store: Store, open_store: OpenStore) -> None:
    again = await open_store()
    try:
        for number in range(3):
            await _spawned(store, f"a-{number}")
        claimed = await asyncio.gather(
            store.agents.claim(replace(WANTED, limit=2)), again.agents.claim(replace(WANTED, owner="v"))
        )
    finally:
        await again.close()
    assert sorted(row.id for rows in claimed for row in rows) == ["a-0", "a-1", "a-2"]
    assert not await store.agents.is_free()


async def only_the_newest_claim_ends_an_agent(store: Store, _: OpenStore) -> None:
    await _spawned(store)
    (old,) = await store.agents.claim(replace(WANTED, lease_seconds=-1.0))
    (new,) = await store.agents.claim(replace(WANTED, owner="v"))
    try:
        await store.agents.finish(old, "done", result="twice")
    except ClaimLost:
        assert (await store.agents.finish(new, "done", result="once")).result == "once"
        return
    raise AssertionError("an old claim ended the agent")


async def an_agent_is_lost_after_too_many_attempts_and_released_ones_do_not_count(store: Store, _: OpenStore) -> None:
    await _spawned(store)
    for _number in range(5):
        (row,) = await store.agents.claim(WANTED)
        await store.leases.release("agent", row.owner)
    for _number in range(2):
        assert await store.agents.claim(replace(WANTED, lease_seconds=-1.0))
    assert [row.state for row in await store.agents.claim(WANTED)] == ["lost"]
    assert await store.agents.claim(WANTED) == []


async def two_that_wait_for_one_are_both_queued_when_it_ends(store: Store, _: OpenStore) -> None:
    for agent_id in ("a-1", "a-2", "a-3"):
        await _spawned(store, agent_id)
    first, second, child = await store.agents.claim(WANTED)
    for row in (first, second):
        assert (await store.agents.park(row, "{}", [child.id])).state == "waiting"
    await store.agents.finish(child, "done", result="yes")
    assert {(await store.agents.get(row.id)).state for row in (first, second)} == {"queued"}
    (late, *_others) = await store.agents.claim(WANTED)
    assert (await store.agents.park(late, "{}", [child.id])).state == "queued"


async def an_agent_is_queued_when_the_session_that_it_waits_for_is_deleted(store: Store, _: OpenStore) -> None:
    for agent_id in ("a-1", "a-2"):
        await _spawned(store, agent_id)
    first, child = await store.agents.claim(WANTED)
    assert (await store.agents.park(first, "{}", [child.id])).state == "waiting"
    await store.delete_session(child.session_id)
    assert (await store.agents.get(first.id)).state == "queued"
    (again,) = await store.agents.claim(WANTED)
    assert (await store.agents.park(again, "{}", [child.id])).state == "queued"


async def a_wait_for_agents_times_out(store: Store, _: OpenStore) -> None:
    for agent_id in ("a-1", "a-2", "a-3"):
        await _spawned(store, agent_id)
    first, second, child = await store.agents.claim(WANTED)
    moment = now_us()
    await store.agents.park(first, "{}", [child.id], moment)
    await store.agents.park(second, "{}", [child.id], moment + 3_600_000_000)
    assert [row.id for row in await store.agents.claim(WANTED)] == [first.id]


async def the_end_of_an_agent_does_not_end_a_later_wait_for_a_person(store: Store, _: OpenStore) -> None:
    for agent_id in ("a-1", "a-2", "a-3"):
        await _spawned(store, agent_id)
    first, early, late = await store.agents.claim(WANTED)
    await store.agents.park(first, "{}", [early.id, late.id])
    await store.agents.finish(early, "done", result="yes")
    (again,) = await store.agents.claim(WANTED)
    await store.agents.park(again, '"approval"')
    await store.agents.finish(late, "done", result="yes")
    assert (await store.agents.get(first.id)).waits == '"approval"'


async def a_deleted_agent_still_counts_against_the_limits_of_its_tree(store: Store, _: OpenStore) -> None:
    one = replace(call("a-1", nano_usd=5), purpose="chat", input_tokens=50, output_tokens=50)
    for agent_id in ("a-1", "a-2"):
        await _spawned(store, agent_id)
        await store.calls.add(replace(one, session_id=agent_id))
    for agent_id in ("a-1", "a-2"):
        await store.delete_session(agent_id)
    totals = await store.agents.totals("tree", LIMITS)
    assert (totals.agents, totals.tokens, totals.nano_usd, totals.limits) == (0, 200, 10, LIMITS)
    await store.calls.add(replace(one, session_id=(await _spawned(store, "a-3")).session_id))
    assert (await store.agents.totals("tree", LIMITS)).tokens == 300


async def a_decision_is_for_one_claim(store: Store, _: OpenStore) -> None:
    await _spawned(store)
    (row,) = await store.agents.claim(WANTED)
    await store.agents.park(row, '"approval"')
    resumed = await store.agents.resume("a-1", expected='"approval"', grants='"g"', decision='"yes"')
    assert (resumed.state, resumed.grants) == ("queued", '"g"')
    (first,) = await store.agents.claim(replace(WANTED, lease_seconds=-1.0))
    (second,) = await store.agents.claim(WANTED)
    assert (first.decision, second.decision, second.grants) == ('"yes"', "", '"g"')
    try:
        await store.agents.resume("a-1", expected='"approval"', grants="")
    except AgentEnded:
        return
    raise AssertionError("it does not wait any more")


async def a_cancel_ends_all_below_and_takes_them_from_their_worker(store: Store, _: OpenStore) -> None:
    await _spawned(store)
    await _spawned(store, "a-2", "a-1")
    claimed = await store.agents.claim(WANTED)
    assert [await store.leases.renew("agent", row.owner, 60.0) for row in claimed] == [True, True]
    assert [row.id for row in await store.agents.cancel("a-1")] == ["a-1", "a-2"]
    assert [await store.leases.is_held("agent", row.owner) for row in claimed] == [False, False]
    for row in claimed:
        try:
            await store.agents.finish(row, "done", result="late")
        except ClaimLost:
            continue
        raise AssertionError("a cancelled agent got a result")


async def only_the_first_agent_of_a_tree_sets_its_limits(store: Store, _: OpenStore) -> None:
    one = replace(LIMITS, max_agents=1)
    await store.agents.spawn(new_session("a-1"), new_agent(), limits=one)
    try:
        await store.agents.spawn(
            new_session("a-2"), new_agent("a-2"), limits=one, override=replace(LIMITS, max_agents=9)
        )
    except LimitReached:
        return
    raise AssertionError("a later agent raised the limits of its tree")


async def limits_of_a_tree_are_checked_with_each_agent_and_call(store: Store, _: OpenStore) -> None:
    await store.agents.spawn(
        new_session("a-1"), new_agent(), limits=LIMITS, override=replace(LIMITS, max_agents=1, max_tokens=250)
    )
    for refused in (new_agent("a-2"), new_agent("a-3", depth=3)):
        try:
            await store.agents.spawn(new_session(refused.id), refused, limits=LIMITS)
        except LimitReached:
            continue
        raise AssertionError("a limit was exceeded")
    assert [row.id for row in await store.list_sessions()] == ["a-1"]
    (row,) = await store.agents.claim(WANTED)
    within = CallLimit(tree="tree", agent_id="a-1", owner=row.owner, limits=LIMITS)
    one = replace(call("a-1", nano_usd=1), purpose="chat", input_tokens=50, output_tokens=50)
    made = 0
    for _number in range(5):
        try:
            await store.calls.reserve(one, since_us=0, limit_nano_usd=10**9, within=within)
        except LimitReached:
            continue
        made += 1
    totals = await store.agents.totals("tree", LIMITS)
    assert (made, totals.tokens, totals.agents) == (2, 200, 1)
    try:
        await store.calls.reserve(one, since_us=0, limit_nano_usd=10**9, within=replace(within, owner="w/a-1/9"))
    except ClaimLost:
        return
    raise AssertionError("a call without a claim")


CASES: tuple[Case, ...] = (
    an_agent_is_added_with_its_session,
    two_workers_never_claim_the_same_agent,
    only_the_newest_claim_ends_an_agent,
    an_agent_is_lost_after_too_many_attempts_and_released_ones_do_not_count,
    two_that_wait_for_one_are_both_queued_when_it_ends,
    an_agent_is_queued_when_the_session_that_it_waits_for_is_deleted,
    a_wait_for_agents_times_out,
    the_end_of_an_agent_does_not_end_a_later_wait_for_a_person,
    a_deleted_agent_still_counts_against_the_limits_of_its_tree,
    a_decision_is_for_one_claim,
    a_cancel_ends_all_below_and_takes_them_from_their_worker,
    only_the_first_agent_of_a_tree_sets_its_limits,
    limits_of_a_tree_are_checked_with_each_agent_and_call,
)
