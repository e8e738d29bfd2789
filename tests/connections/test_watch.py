"""Watching imports each message once, goes on after a restart, and waits for lines that are being written."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import foveate
from foveate.connections.watch import SOURCES, Watcher, folder_patterns, known_patterns, state_file
from support.homes import connect


def line(number: int) -> str:
    return json.dumps({"role": "user" if number % 2 else "assistant", "content": f"Sentence {number}"}) + "\n"


@asynccontextmanager
async def watcher(folder: Path, now: list[float] | None = None) -> AsyncIterator[Watcher]:
    async with foveate.open(folder / "chat.db") as fov:
        talks = folder / "talks"
        talks.mkdir(exist_ok=True)
        clock = now if now is not None else [0.0]
        yield Watcher(fov, folder_patterns([talks]), folder / "state.json", clock=lambda: clock[0])


def test_what_grows_is_imported_once_and_a_restart_reads_only_what_changed(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "talks" / "deep" / "talk.jsonl"
        async with watcher(tmp_path) as first:
            path.parent.mkdir()
            path.write_text(line(1) + line(2))
            assert [event.report.added for event in await first.run_once() if event.report] == [2]
            assert await first.run_once() == []
        async with watcher(tmp_path) as second:
            assert await second.run_once() == []
            path.write_text(line(1) + line(2) + line(3))
            assert [event.report.added for event in await second.run_once() if event.report] == [1]

    asyncio.run(go())


def test_a_line_that_is_being_written_is_no_problem_and_comes_with_the_next_round(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "talks" / "talk.jsonl"
        async with watcher(tmp_path) as watched:
            path.write_text(line(1) + line(2)[:20])
            (event,) = await watched.run_once()
            assert event.report
            assert (event.report.added, event.report.problems) == (1, [])
            path.write_text(line(1) + line(2))
            (event,) = await watched.run_once()
            assert event.report
            assert event.report.added == 1

    asyncio.run(go())


def test_a_file_that_takes_long_rests_before_it_is_read_again(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "talks" / "talk.jsonl"
        now = [0.0]
        async with watcher(tmp_path, now) as watched:
            path.write_text(line(1))
            await watched.run_once()
            watched._due[str(path)] = 30.0
            path.write_text(line(1) + line(2))
            assert await watched.run_once() == []
            now[0] = 31.0
            assert len(await watched.run_once()) == 1

    asyncio.run(go())


def test_what_is_no_transcript_is_reported_once(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "talks" / "notes.json"
        async with watcher(tmp_path) as watched:
            path.write_text('{"a": 1}')
            (event,) = await watched.run_once()
            assert event.report is None
            assert "notes.json" in event.problem
            assert await watched.run_once() == []

    asyncio.run(go())


def test_the_journal_of_a_database_counts_as_its_change(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "talks" / "talk.jsonl"
        async with watcher(tmp_path) as watched:
            path.write_text(line(1))
            await watched.run_once()
            path.with_name("talk.jsonl-wal").write_text("new")
            assert len(await watched.run_once()) == 1

    asyncio.run(go())


def test_folders_of_known_programs_are_found_below_a_home(tmp_path: Path) -> None:
    assert known_patterns(tmp_path) == []
    for patterns in SOURCES.values():
        for pattern in patterns:
            path = tmp_path / pattern.replace("**", "a/b").replace("json*", "json").replace("*", "x")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
    found = [path for folder, pattern in known_patterns(tmp_path) for path in folder.glob(pattern)]
    assert len(found) == sum(map(len, SOURCES.values()))


def test_a_client_that_goes_through_the_gateway_is_not_watched(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects"
    folder.mkdir(parents=True)
    assert known_patterns(tmp_path) == [(folder, "**/*.jsonl")]
    connect(tmp_path, "claude", "gateway")
    assert known_patterns(tmp_path) == []
    connect(tmp_path, "claude", "hooks")
    assert known_patterns(tmp_path) == [(folder, "**/*.jsonl")]


def test_each_store_has_a_state_of_its_own(tmp_path: Path) -> None:
    assert state_file(tmp_path, "/a.db") != state_file(tmp_path, "/b.db")
    assert os.fspath(tmp_path) in str(state_file(tmp_path, "/a.db"))
