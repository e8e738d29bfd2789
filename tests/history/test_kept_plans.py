"""The plan that a session keeps: consecutive contexts share their beginning byte for byte, until a rebuild is due."""

import asyncio
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.context.assemble import BlockText
from foveate.events import Event
from foveate.history import late_writes
from foveate.history.kept_plans import Kept, KeptPlans, report_of, unpack_plan, written_plan
from foveate.history.late_writes import LateWrites
from foveate.plan import Block, Cause, KeptPlan, Ledger, Plan
from foveate.store import bodies
from foveate.strategy.gradient import Gradient
from support.engine import assistant, prefix_shared, settings, talk, user, verified, view_history, with_store


def test_consecutive_contexts_share_their_prefix_until_a_rebuild(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        rebuilt: list[Event] = []
        session = await fov.session("s", budget_tokens=4_000)
        with fov.subscribe(rebuilt.append, ["gradient-recalculated"]) as subscription:
            before, count = "", 0
            for turn in range(1, 120):
                await talk(session, 1, first=turn)
                await fov.settle()  # so that no plan is made before its turns are compressed
                context = await verified(session)
                subscription.drain()
                if len(rebuilt) == count:
                    # The turn that was open before may have grown; all else stands.
                    assert prefix_shared(before, context.text) >= len(before) - 200
                count, before = len(rebuilt), context.text
        causes = [event.data["cause"] for event in rebuilt]
        assert causes[0] == "first"
        assert set(causes[1:]) == {"full"}
        assert 3 <= len(causes) <= 30

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_asking_twice_gives_the_same_bytes_and_another_handle_too(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 60)
        await fov.settle()
        first = await session.context("Now?")
        assert (await session.context("Now?")).text == first.text
        assert (await (await fov.session("s")).context("Now?")).text == first.text

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("schedule", ["interval", "adaptive"])
def test_other_schedules_rebuild_by_turns(tmp_path: Path, schedule: str) -> None:
    async def job(fov: Foveate) -> None:
        rebuilt: list[Event] = []
        session = await fov.session("s", budget_tokens=100_000)
        with fov.subscribe(rebuilt.append, ["gradient-recalculated"]) as subscription:
            for turn in range(1, 33):
                await talk(session, 1, first=turn)
                await verified(session)
            subscription.drain()
        causes = [event.data["cause"] for event in rebuilt]
        assert causes[0] == "first"
        # An adaptive schedule waits long where nothing changes.
        assert causes.count("interval") == (3 if schedule == "interval" else 0)

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(gradient={"schedule": schedule})))


def test_a_changed_budget_rebuilds(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        rebuilt: list[Event] = []
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 50)
        with fov.subscribe(rebuilt.append, ["gradient-recalculated"]) as subscription:
            await verified(session)
            session = await fov.session("s", budget_tokens=6_000)
            await verified(session)
            subscription.drain()
        assert [event.data["cause"] for event in rebuilt] == ["first", "budget"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_cold_cache_rebuilds_and_a_clock_that_jumps_does_no_harm(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 60)
        await fov.settle()
        room = Ledger(budget_tokens=4_000, history_tokens=2_500, cache_ttl_seconds=300)

        async def cause_at(moment: float) -> str | None:
            view = await view_history(session, "gradient", Gradient(), replace(room, now=moment))
            assert sum(block.tokens for block in view.blocks) <= 2_500
            return view.planned.cause if view.planned.is_new else None

        assert await cause_at(1_000_000) == "first"
        await talk(session, 2, first=61)
        assert [await cause_at(moment) for moment in (1_000_200, 1_000_450, 1_000_700)] == [None, None, None]
        assert await cause_at(5) is None
        assert await cause_at(1_000_900) is None
        assert await cause_at(9_000_000_000) == "cold"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_result_larger_than_the_room_is_shown_cut_and_the_plan_stays_usable(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=2_000)
        await talk(session, 20)
        await verified(session)
        await session.record([user("Show me everything."), assistant("everything " * 5_000)])
        for _ in range(2):
            assert "cut: " in (await verified(session)).text
        await talk(session, 3, first=22)
        await fov.settle()
        await verified(session)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_plan_made_before_its_turns_were_compressed_is_made_anew_once_they_are(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 80, words=60)
        await session.record(user("Thanks."))
        first = await verified(session)
        assert re.search(r"<T-1-through-\d+-E>\n\(not shown", first.text)
        assert "uncompressed" in first.planned.notes
        assert (await verified(session)).text == first.text

    async def later(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await fov.settle()
        made = await verified(session)
        assert (made.planned.cause, made.planned.is_new) == ("made", True)
        assert "not shown here" not in made.text
        assert re.search(r"<T-1-through-\d+-[CT]>\n", made.text)
        assert not made.planned.notes
        again = await verified(session)
        assert (again.planned.is_new, again.text) == (False, made.text)

    idle = settings(compress={"processes": 0, "enabled": False})
    asyncio.run(with_store(tmp_path / "chat.db", job, idle))
    asyncio.run(with_store(tmp_path / "chat.db", later))


def test_a_turn_with_signed_thinking_has_the_room_that_such_turns_need_and_no_rebuild_within(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=6_000, model="claude-sonnet-4-5")
        rebuilt = 0
        for turn in range(1, 25):
            await session.record({"role": "user", "content": f"Which files changed in release {turn}?"})
            for step in range(3):
                context = await session.context()
                rebuilt += context.planned.is_new and turn > 1
                assert not (step and context.planned.is_new), (turn, step)
                thinking = {"type": "thinking", "thinking": "Look first.", "signature": f"s-{turn}-{step}"}
                call = {"type": "tool_use", "id": f"c-{turn}-{step}", "name": "ls", "input": {"release": turn}}
                last = [{"type": "text", "text": f"Release {turn} changed them."}] if step == 2 else [call]
                await session.record({"role": "assistant", "content": [thinking, *last]}, format="anthropic")
                if step < 2:
                    listing = " ".join(f"src/module{turn}_{step}_{number}.py" for number in range(40))
                    result = {"type": "tool_result", "tool_use_id": call["id"], "content": listing}
                    await session.record({"role": "user", "content": [result]}, format="anthropic")
        assert rebuilt > 2

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_full_history_is_rebuilt_once_within_a_turn_whose_thinking_postpones_other_causes(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 60)
        await session.record({"role": "user", "content": "Which files are there?"})
        first = await session.context()
        assert first.planned.notes["uncompressed"], "a plan of turns that have no renditions yet"
        thinking = {"type": "thinking", "thinking": "Look first.", "signature": "s"}
        call = {"type": "tool_use", "id": "c", "name": "ls", "input": {}}
        await session.record({"role": "assistant", "content": [thinking, call]}, format="anthropic")
        listing = " ".join(f"src/module{number}.py" for number in range(373))
        result = {"type": "tool_result", "tool_use_id": "c", "content": listing}
        await session.record({"role": "user", "content": [result]}, format="anthropic")
        await fov.settle()  # the renditions are a cause to rebuild, which waits for the end of the turn
        contexts = [await verified(session) for _ in range(2)]
        assert [context.planned.is_new for context in contexts] == [True, False]
        assert contexts[0].planned.cause == "full"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_long_prompt_needs_no_more_room_kept_free_and_displaces_no_turn(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=800)
        thinking = {"type": "thinking", "thinking": "Look first.", "signature": "s"}
        for turn in (1, 2):
            await session.record({"role": "user", "content": f"Which files changed in release {turn}?"})
            answer = {"type": "text", "text": "All of " + " ".join(f"module{number}.py" for number in range(20))}
            await session.record({"role": "assistant", "content": [thinking, answer]}, format="anthropic")
        await fov.settle()
        await session.record({"role": "user", "content": "Why " + " ".join(f"w{number}" for number in range(120))})
        contexts = [await verified(session) for _ in range(2)]  # each turn is shown
        assert not contexts[1].planned.is_new

    asyncio.run(with_store(tmp_path / "chat.db", job))


def _planned(*rows: Block, cause: Cause = "interval") -> Plan:
    return Plan(rows, (), sum(row.tokens for row in rows), 1_000, cause=cause, reach=(rows[-1].last, 0))


def test_the_changed_share_counts_turns_whose_level_changes_not_blocks_that_are_written_again() -> None:
    def written(plan: Plan, old: KeptPlan | None) -> KeptPlan:
        return written_plan(plan, [BlockText(row, "", row.tokens) for row in plan.rows], old, now=0.0, turn=12)

    first = written(_planned(Block(1, 8, "T", 80, is_range=True), Block(9, 9, "R", 100)), None)
    longer = _planned(Block(1, 9, "T", 90, is_range=True), Block(10, 10, "R", 110))
    kept = written(longer, first)
    assert kept.churn == pytest.approx(10 / 200)
    assert "changes" not in report_of(kept, longer).notes
    smaller = _planned(Block(1, 8, "E", 80, era_level=1), Block(9, 9, "R", 120))
    assert report_of(written(smaller, first), smaller).notes == {
        "changes": "the budget made 40% of the tokens change their level, more than a fifth"
    }


def test_a_plan_that_an_earlier_version_stored_is_still_in_use() -> None:
    stored: Any = json.loads(STORED_PLAN)
    kept = unpack_plan(bodies.squeeze(stored))
    assert kept.plan is not None
    assert (kept.plan.last_turn, kept.plan.framed_tokens, kept.plan.churn, kept.plan.cause) == (3, 95, 0.25, "full")
    assert (kept.plan.rows[0].sizes, kept.plan.raw_tokens, kept.plan.changes[0].after) == ((40, 40, 0), 700, "C")
    assert kept.state == {"budget_tokens": 4_000, "settings_key": "{}", "awaited_turn": 2, "low_tokens": 1_600}
    assert unpack_plan(kept.pack()) == kept
    again: Any = bodies.expand(kept.pack())
    assert again["state"] == stored["state"], "an earlier version reads what this one stores"


STORED_PLAN = """
{"state": {"base_tokens": 95, "last_turn": 3, "last_step": 0, "settings_key": "{}", "made_at": 10.0, "used_at": 12.0,
           "churn": 0.25, "trigger_turn": 4, "budget_tokens": 4000, "awaited_turn": 2, "low_tokens": 1600},
 "cause": "full", "texts": ["<T-1-through-3-C>…"], "tokens": [90], "raw_tokens": 700,
 "rows": [{"first": 1, "last": 3, "level": "C", "tokens": 90, "first_step": 0, "last_step": 0, "is_cut": false,
           "is_range": true, "era_level": 0, "artefact": "", "short": [], "levels": "cC-", "sizes": [40, 40, 0]}],
 "bands": [{"level": "C", "first": 1, "last": 3, "turns": 2, "target_share": 0.3, "tokens": 90}],
 "changes": [{"first": 1, "last": 1, "before": "R", "after": "C"}]}
"""


def test_a_state_that_another_process_sets_back_is_used(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.session("s")
        kept, stored = KeptPlans(fov.store, "s", LateWrites()), fov.store.artefacts
        await kept.keep_state("topics", {"sealed": 0})
        await kept.keep_state("topics", {"sealed": 1})
        await stored.keep_state("s", "topics", bodies.squeeze({"sealed": 0}))
        assert kept.state("topics", await stored.state("s", "topics"), time.perf_counter()) == {"sealed": 0}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_snapshot_from_before_two_saves_sets_no_state_back(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.session("s")
        kept, began = KeptPlans(fov.store, "s", LateWrites()), time.perf_counter()
        for sealed in (1, 2):
            await kept.keep_state("topics", {"sealed": sealed})
        assert kept.state("topics", None, began) == {"sealed": 2}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_is_saved_late_replaces_nothing_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_writes, "WAIT_SECONDS", 0.01)

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 50)
        await session.context("Now?")
        made = unpack_plan(await fov.store.derived.plan("s", "gradient") or b"")
        kept, is_free = KeptPlans(fov.store, "s", LateWrites()), asyncio.Event()
        written = {"keep_plan": asyncio.Event(), "keep_state": asyncio.Event()}

        def held_up(part: Any, name: str) -> None:
            write = getattr(part, name)

            async def late(*given: Any) -> None:
                await is_free.wait()
                await write(*given)
                written[name].set()

            monkeypatch.setattr(part, name, late)

        held_up(fov.store.derived, "keep_plan")
        held_up(fov.store.artefacts, "keep_state")
        older, newer = (Kept({**made.state, "low_tokens": tokens}, made.plan) for tokens in (1, 2))
        origin = (await fov.store.snapshot("s")).origin
        kept.forget(origin)
        await kept.keep_plan("gradient", older, origin)
        await kept.keep_plan("gradient", newer, origin)
        saving = asyncio.create_task(kept.keep_state("topics", older.state))
        await asyncio.sleep(0)
        kept.use_state("topics", None, newer.state)
        is_free.set()
        await saving
        await written["keep_plan"].wait()
        stored = await fov.store.derived.plan("s", "gradient"), await fov.store.artefacts.state("s", "topics")
        assert await kept.plan("gradient", stored[0], time.perf_counter()) == newer
        assert kept.state("topics", stored[1], time.perf_counter()) == newer.state

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_plan_of_a_later_version_is_made_again(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 50)
        await fov.settle()
        shown = await session.context("Now?")
        stored: Any = bodies.expand(await fov.store.derived.plan("s", "gradient") or b"")
        stored["added_later"] = 1
        await fov.store.derived.keep_plan("s", "gradient", bodies.squeeze(stored))
        assert (await session.context("Now?")).text == shown.text

    asyncio.run(with_store(tmp_path / "chat.db", job))
