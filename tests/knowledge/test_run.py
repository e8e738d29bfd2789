from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path

import pytest

import foveate
from foveate.client import Foveate
from foveate.errors import Refused, RunInProgress, RunLost
from foveate.knowledge import run as module
from foveate.knowledge.gather import Gathered, gather, vectors_of
from foveate.knowledge.report import LearnReport
from foveate.knowledge.run import LearnProgress, learn
from foveate.recall.scopes import Scope
from foveate.recall.table import Floats
from foveate.settings import load_settings
from foveate.store.knowledge import NewKnowledge, NewRun, TurnTopicRow
from support.knowledge import SHOP, in_store, record
from support.patience import PATIENCE_SECONDS

RULES = (
    "Always run the tests with make check before you push.",
    "The database migration failed again on staging.",
    "Never use tabs in Python files.",
    "Fix the migration of the orders table in the database.",
    "Which migration changed the database schema of orders?",
    "Roll the database migration back, then migrate again.",
    "Bake the rye bread for forty minutes in the hot oven.",
    "The rye bread dough needs more water and more salt.",
    "How long does rye bread dough rest before the oven?",
    "We decided that orders are stored in PostgreSQL.",
    "As decided, orders are stored in PostgreSQL.",
)
GERMAN = ("Verwende niemals Emojis in Commit-Nachrichten.", "Bitte antworte immer auf Deutsch.")


@pytest.fixture(autouse=True)
def _without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes two seconds to load, and what finds the topics is another test's matter."""
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)


async def fill(fov: Foveate) -> None:
    await record(fov, "a", *RULES)
    await record(fov, "b", *GERMAN, day=2)


async def learned(fov: Foveate) -> tuple[list[NewKnowledge], list[list[TurnTopicRow]]]:
    """The items without their times of creation, and the topics of all turns."""
    names = [field.name for field in fields(NewKnowledge)] + ["version"]
    rows = await fov.store.knowledge.list_items("")
    topics = [await fov.store.knowledge.turn_topics(name, 1, 99) for name in ("a", "b")]
    return [{name: getattr(row, name) for name in names} for row in rows], topics  # type: ignore[misc]


def in_file(location: Path, work: Callable[[Foveate], Awaitable[object]], **knowledge: object) -> object:
    """The result of work in the store of a file."""

    async def run() -> object:
        async with foveate.open(location, settings=load_settings(overrides={"knowledge": knowledge})) as fov:
            return await work(fov)

    return asyncio.run(run())


@in_store
async def test_a_run_over_unchanged_input_writes_nothing(fov: Foveate) -> None:
    await fill(fov)
    (first,) = (await learn(fov, SHOP)).scopes
    assert (first.outcome, first.sessions, first.turns) == ("learned", 2, len(RULES) + len(GERMAN))
    assert first.count("new") == len(first.changes) > 2
    assert all(change.sources for change in first.changes)
    before = await learned(fov)
    runs = await fov.store.knowledge.list_runs("")
    (again,) = (await learn(fov, SHOP)).scopes
    assert (again.outcome, again.changes) == ("unchanged", ())
    assert await fov.store.knowledge.list_runs("") == runs
    assert await learned(fov) == before


@in_store
async def test_a_new_turn_changes_only_what_it_is_about(fov: Foveate) -> None:
    await fill(fov)
    await learn(fov, SHOP)
    await record(fov, "c", "Never deploy to production on a Friday.", day=3)
    (report,) = (await learn(fov, SHOP)).scopes
    new = [change for change in report.changes if change.change == "new"]
    assert new
    assert all([source.session_id for source in change.sources] == ["c"] for change in new)
    assert report.count("retired") == 0


@in_store
async def test_a_dry_run_shows_the_changes_and_writes_nothing(fov: Foveate) -> None:
    await fill(fov)
    (preview,) = (await learn(fov, dry_run=True)).scopes
    assert preview.outcome == "preview"
    assert await fov.store.knowledge.list_items("") == []
    assert await fov.store.knowledge.list_runs("") == []
    (report,) = (await learn(fov)).scopes
    assert report.changes == preview.changes


@in_store
async def test_each_project_is_learned_from_by_itself(fov: Foveate) -> None:
    await record(fov, "a", "Never use tabs in Python files.", "ok")
    await record(fov, "b", "Always answer in German.", "ok", channel=None)
    await fov.session("idle", channel="nothing")
    tenant = fov.tenant("acme")
    await record(tenant, "a", "Always use Rust for tools.", "ok")
    report = await learn(fov)
    assert [(each.tenant, each.scope) for each in report.scopes] == [
        ("", "project:"),
        ("", "project:shop"),
        ("acme", "project:shop"),
    ]
    for tenant_name, scope, word in (("", "project:", "German"), ("", "project:shop", "tabs")):
        texts = [row.text for row in await fov.store.knowledge.list_items(tenant_name, scopes=[scope])]
        assert texts
        assert all(word in text for text in texts)
    (own,) = (await learn(tenant, dry_run=True)).scopes
    assert own.outcome == "unchanged"
    assert {source.session_id for change in report.scopes[2].changes for source in change.sources} == {"a"}


@in_store
async def test_no_history_and_one_turn_are_learned_from(fov: Foveate) -> None:
    assert (await learn(fov)).scopes == ()
    (none,) = (await learn(fov, "project:none")).scopes
    assert none.outcome == "empty"
    await record(fov, "a", "hello")
    (one,) = (await learn(fov, SHOP)).scopes
    assert (one.outcome, one.turns, one.changes) == ("learned", 1, ())


@in_store
async def test_of_two_runs_at_once_one_learns(fov: Foveate) -> None:
    await fill(fov)
    results = await asyncio.gather(learn(fov, SHOP), learn(fov, SHOP), return_exceptions=True)
    reports = [result for result in results if not isinstance(result, RunInProgress)]
    # The other is rejected or, if it comes late, finds nothing to do.
    outcomes = [report.scopes[0].outcome for report in reports if isinstance(report, LearnReport)]
    assert sorted(outcomes) in (["learned"], ["learned", "unchanged"])
    runs = await fov.store.knowledge.list_runs("")
    assert [run.state for run in runs].count("done") == 1


@in_store
async def test_a_scope_in_progress_is_skipped_while_others_are_learned_from(fov: Foveate) -> None:
    await fill(fov)
    await record(fov, "web", "Always use HTTPS.", channel="web")
    elsewhere = NewRun(
        id="elsewhere",
        tenant="",
        scope=str(SHOP),
        watermark=(await gather(fov, SHOP)).watermark,
        prompt_version="",
        owner="another process",
        lease_seconds=3_600,
    )
    await fov.store.knowledge.begin_run(elsewhere)
    report = await learn(fov)
    assert {(each.scope, each.outcome) for each in report.scopes} == {
        ("project:shop", "in progress"),
        ("project:web", "learned"),
    }


class Killed(Exception):
    """The end of a process."""


def kill_at(point: tuple[str, str]) -> Callable[[LearnProgress], None]:
    def kill(progress: LearnProgress) -> None:
        if (progress.step, progress.stage) == point:
            raise Killed

    return kill


def test_a_run_that_is_interrupted_at_any_point_twice_ends_as_one_that_was_not(tmp_path: Path) -> None:
    points: list[tuple[str, str]] = []

    async def whole(fov: Foveate) -> object:
        await fill(fov)
        await learn(fov, SHOP, progress=lambda progress: points.append((progress.step, progress.stage)))
        return await learned(fov)

    expected = in_file(tmp_path / "whole.db", whole)
    assert {step for step, _ in points} == set(module.STEPS)
    in_file(tmp_path / "killed.db", fill)

    async def interrupted(fov: Foveate) -> object:
        for point in points:
            for _ in range(2):
                try:
                    await learn(fov, SHOP, progress=kill_at(point))
                except Killed:
                    is_last = point == points[-1]
                    assert bool(await fov.store.knowledge.list_items("")) == is_last, point
        runs = await fov.store.knowledge.list_runs("")
        assert [run.state for run in runs] == ["done"]
        assert await fov.store.knowledge.steps(runs[0].id) == {}
        return await learned(fov)

    assert in_file(tmp_path / "killed.db", interrupted) == expected


def test_a_run_that_fails_inside_any_step_twice_ends_as_one_that_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise Killed

    async def interrupted(fov: Foveate) -> object:
        await fill(fov)
        for name in ("vectors_of", "find_topics", "find_lessons", "merge", "describe_changes"):
            real = getattr(module, name)
            for _ in range(2):
                monkeypatch.setattr(module, name, fail)
                with pytest.raises(Killed):
                    await learn(fov, SHOP)
                monkeypatch.setattr(module, name, real)
        await learn(fov, SHOP)
        return await learned(fov)

    async def whole(fov: Foveate) -> object:
        await fill(fov)
        await learn(fov, SHOP)
        return await learned(fov)

    assert in_file(tmp_path / "killed.db", interrupted) == in_file(tmp_path / "whole.db", whole)


KILLED = """
import asyncio, os, sys
sys.modules["sklearn.cluster"] = None
import foveate
from foveate.knowledge.run import learn
from foveate.settings import load_settings

def kill(progress):
    if [progress.step, progress.stage] == sys.argv[2:4]:
        os._exit(9)

async def main():
    settings = load_settings(overrides={"knowledge": {"lease_seconds": 0.2}})
    async with foveate.open(sys.argv[1], settings=settings) as fov:
        await learn(fov, "project:shop", progress=kill)

asyncio.run(main())
"""


def killed_process(location: Path, step: str, stage: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(location), step, stage], check=False, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 9


async def wait_and_learn(fov: Foveate) -> object:
    """Learn as soon as the lease of a process that was killed has ended."""
    while True:
        try:
            await learn(fov, SHOP)
        except RunInProgress:
            await asyncio.sleep(0.05)
        else:
            return await learned(fov)


@pytest.mark.parametrize(
    "points",
    [
        [("topics", "kept"), ("finish", "begin")],
        pytest.param(
            [
                (step, stage)
                for step in module.STEPS
                for stage in ("begin", "made", "kept")
                if (step, stage) not in {("merge", "kept"), ("finish", "made"), ("finish", "kept")}
                for _ in range(2)
            ],
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_process_that_is_killed_leaves_a_run_that_the_next_one_finishes(
    points: list[tuple[str, str]], tmp_path: Path
) -> None:
    location = tmp_path / "killed.db"
    in_file(location, fill)
    for step, stage in points:
        _killed_once(location, step, stage)
    ended = in_file(location, wait_and_learn)

    async def whole(fov: Foveate) -> object:
        await fill(fov)
        return await wait_and_learn(fov)

    assert ended == in_file(tmp_path / "whole.db", whole)


def _killed_once(location: Path, step: str, stage: str) -> None:
    """Kill a process at a point. A step that is kept begins no more: its end is the next point there is."""

    async def released(fov: Foveate) -> object:
        runs = await fov.store.knowledge.list_runs("")
        await asyncio.sleep(max(0, runs[0].until_us / 1e6 - time.time()) if runs else 0)
        return await fov.store.knowledge.steps(runs[0].id) if runs else {}

    kept = in_file(location, released)
    assert isinstance(kept, dict)
    killed_process(location, step, "kept" if step in kept else stage)


@in_store
async def test_a_run_that_another_process_has_taken_over_stops_and_stores_nothing(fov: Foveate) -> None:
    await fill(fov)
    rows = fov.store.knowledge

    async def steal() -> None:
        (run,) = await rows.list_runs("")
        await fov.store.leases.release("run", run.owner)

    stolen: list[asyncio.Task[None]] = []

    def at(progress: LearnProgress) -> None:
        if (progress.step, progress.stage) == ("topics", "begin"):
            stolen.append(asyncio.create_task(steal()))

    with pytest.raises(RunLost):
        await learn(fov, SHOP, progress=at)
    await stolen[0]
    assert await rows.list_items("") == []
    (report,) = (await learn(fov, SHOP)).scopes
    assert report.outcome == "learned"


@in_store
async def test_turns_from_the_future_and_a_clock_set_back_make_nothing_stale(fov: Foveate) -> None:
    await fill(fov)
    await learn(fov, SHOP)
    session = await fov.session("b", channel="shop")
    await session.record([{"role": "user", "content": "Good morning."}], at="2099-01-01T00:00:00Z")
    await session.record([{"role": "user", "content": "And good night."}], at="1999-01-01T00:00:00Z")
    (report,) = (await learn(fov, SHOP)).scopes
    assert report.outcome == "learned"
    assert report.count("retired") == 0
    assert all(row.state == "proposed" for row in await fov.store.knowledge.list_items("") if row.kind != "topic")


def test_a_scope_that_fails_does_not_keep_others_from_being_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(fov: Foveate, scope: Scope) -> Gathered:
        if scope.name == "a":
            raise Refused("broken")
        return await gather(fov, scope)

    async def job(fov: Foveate) -> None:
        for name in ("a", "b"):
            await record(fov, name, "Never deploy on a Friday.", channel=name)
        with pytest.raises(Refused, match="broken"):
            await learn(fov)
        assert {row.scope for row in await fov.store.knowledge.list_items("")} == {"project:b"}

    monkeypatch.setattr(module, "gather", broken)
    in_store(job)(tmp_path)


@in_store
async def test_an_interrupted_run_whose_input_changed_begins_anew(fov: Foveate) -> None:
    await fill(fov)
    with pytest.raises(Killed):
        await learn(fov, SHOP, progress=kill_at(("lessons", "kept")))
    await record(fov, "c", "Never deploy on a Friday.", day=3)
    await learn(fov, SHOP)
    assert [run.state for run in await fov.store.knowledge.list_runs("")] == ["done", "replaced"]
    assert any("Friday" in row.text for row in await fov.store.knowledge.list_items("", scopes=[str(SHOP)]))
    assert Scope.parse(str(SHOP)) == SHOP


def test_what_is_deleted_or_pruned_while_a_run_works_is_not_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vectors_of
    erased: list[str] = []

    async def erase(fov: Foveate, gathered: Gathered) -> Floats:
        if not erased:
            await fov.delete_session("b")
        elif len(erased) == 1:
            await fov.prune("a", before="2026-01-01T00:30:00Z", dry_run=False)
        erased.append("once")
        return await real(fov, gathered)

    async def work(fov: Foveate) -> None:
        await fill(fov)
        monkeypatch.setattr(module, "vectors_of", erase)
        (report,) = (await learn(fov, SHOP)).scopes
        assert (report.outcome, report.sessions, len(erased)) == ("learned", 1, 3)
        texts = [row.text for row in await fov.store.knowledge.list_items("")]
        assert texts
        assert not any("make check" in text or "Emojis" in text for text in texts)

    in_file(tmp_path / "chat.db", work)
