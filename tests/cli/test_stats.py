"""`foveate stats` tells what is kept, and `foveate fork` and `foveate demo` keep more."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from foveate.store import open_store
from foveate.store.rows import CallRow
from foveate.store.settings import StoreSettings
from support.command_line import Shell, shell_with
from support.stores.calls import call


def test_stats_of_all_sessions_or_of_one(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("fork", "s", "f")
    assert [row.split()[0] for row in shell("stats").splitlines()[2:4]] == ["f", "s"]
    answer = shell.json("stats", "s")
    assert list(answer["sessions"]) == ["s"]
    assert answer["file_bytes"] == shell.db.stat().st_size
    stats = answer["sessions"]["s"]
    assert (stats["stats"]["turns"], stats["stats"]["messages"]) == (3, 6)
    assert stats["compression_ratio"] > 0
    assert "no session 'nobody'" in shell.error("stats", "nobody")
    assert ": the whole store takes " in " ".join(shell("stats", "s").split())
    assert ": 2 sessions, " in " ".join(shell("stats").split())


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_row_of_stats_is_one_line(width: int, tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path, "d703a1a9-1b7b-4fb1-b512-c9738b1fe617").db, width)
    head, rule, row, *_ = shell("stats").splitlines()
    assert row.startswith("d703a1a9-1b7b-4fb1-b512-c9738b1fe617 ")
    assert len(row) <= width
    assert len(rule) <= width
    assert ("first" in head) == (width == 160)


def test_an_empty_store_has_stats_too(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("sessions", "delete", "s", "--yes")
    assert "0 sessions, " in " ".join(shell("stats").split())
    assert shell.json("stats")["sessions"] == {}


def test_a_fork_shares_what_came_before(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("fork", "s", "f", "--at", "T-2") == "f shares s up to T-2; its next turn is T-3.\n"
    assert shell("show", "f", "--plain") == "[user] Hello\n[assistant] Good day\n" * 2
    answer = shell.json("fork", "f", "g", "--title", "Another try")
    assert (answer["parent_id"], answer["fork_turn_id"], answer["title"]) == ("f", "T-2", "Another try")


def test_a_fork_that_cannot_be_is_refused(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "no turn T-9 in session 's'; it has T-1 to T-3" in shell.error("fork", "s", "f", "--at", "T-9")
    assert "session 's' already exists" in shell.error("fork", "s", "s")
    assert "can't be one" in shell.error("fork", "s", "two\nlines")


def test_the_demo_keeps_every_fact_and_adds_nothing_the_second_time(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    first = shell.json("demo", "--turns", "40", "--no-replay")
    assert first["facts"] == first["facts_kept"] > 0
    assert first["stats"]["turns"] == 40
    assert shell.json("demo", "--turns", "40", "--no-replay") == first
    shown = shell("demo", "--turns", "40", "--no-replay")
    assert "planted facts read back verbatim." in shown
    assert f"foveate --db {shell.db} doctor" in "".join(shown.splitlines())
    assert shell.json("doctor")["ok"]


def _called(shell: Shell, *calls: CallRow) -> None:
    async def add() -> None:
        store = await open_store(str(shell.db), StoreSettings())
        for each in calls:
            await store.calls.add(each)
        await store.close()

    asyncio.run(add())


def test_costs_are_told_by_day_session_purpose_and_model(tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path).db, 120)
    assert "No model was called yet." in shell("stats", "--cost")
    assert "Models:" not in shell("stats")
    now_us = time.time_ns() // 1000
    bought = call("s", nano_usd=12_300_000, at_us=now_us)
    _called(shell, bought, replace(bought, outcome="timeout", is_estimate=True), call(None, nano_usd=0))
    head, _, old, new, total, *providers, today = shell("stats", "--cost").splitlines()
    assert " ".join(head.split()) == "day session purpose model calls failed unfit seconds in cached out price"
    assert old.split()[:3] == ["2024-10-04", "-", "compress"]
    cells = ["s", "compress", "openai:gpt-5-mini", "2", "1", "0", "0.0", "200", "80", "20", "~$0.0246"]
    assert new.split()[1:] == cells
    assert providers[-1].split() == [
        "openai",
        "1",
        "failure:",
        "timeout",
        *["2", "a", "minute", "220", "a", "minute"],
    ]
    assert total == "3 calls, 1 of them failed, ~$0.0246 in total."
    assert today == "Foveate's own calls: ~$0.0246 today (UTC) of $5 a day."
    assert shell("stats").splitlines()[-1] == "Models: ~$0.0246 today (UTC) of $5 a day; --cost shows more"


def test_costs_of_one_session_for_programs(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("fork", "s", "f")
    now_us = time.time_ns() // 1000
    _called(shell, call("s", nano_usd=5, at_us=now_us), call("f", nano_usd=7, at_us=now_us), call("f", nano_usd=1))
    answer = shell.json("stats", "f", "--cost")
    assert [(row["session_id"], row["nano_usd"]) for row in answer["costs"]] == [("f", 1), ("f", 7)]
    assert (answer["total_usd"], answer["today_usd"], answer["daily_usd"]) == (8e-9, 12e-9, 5.0)
    assert "no session 'nobody'" in shell.error("stats", "nobody", "--cost")
    shell("sessions", "delete", "f", "--yes")
    assert shell.json("stats", "--cost")["total_usd"] == 13e-9


def test_who_is_left_alone_is_told_from_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__REQUESTS_PER_MINUTE", "60")
    shell = Shell(shell_with(tmp_path).db, 120)
    failed = call("s", at_us=time.time_ns() // 1000, outcome="timeout")
    fine = replace(failed, provider="anthropic", outcome="ok")
    _called(shell, *[failed] * 5, fine, replace(failed, provider=""))
    *_, openai, anthropic, _today = shell("stats", "--cost").splitlines()
    assert re.search(r"^openai +paused for \d+ s after 5 failures: timeout +5 of 60 a minute +550 a", openai)
    assert re.search(r"^anthropic +answers +1 of 60 a minute +110 a minute", anthropic)
    assert "openai: paused for" in shell("stats")
    assert "anthropic: " not in shell("stats")
    told = shell.json("stats", "--cost")["providers"]
    assert [(state["provider"], state["breaker"]) for state in told] == [("openai", "open"), ("anthropic", "closed")]


def test_costs_are_told_without_any_model_package(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    _called(shell, call("s"))
    refuse = tmp_path / "refuse"
    for name in ("pydantic_ai", "genai_prices", "openai", "xllamacpp"):
        (refuse / name).mkdir(parents=True)
        (refuse / name / "__init__.py").write_text("raise ImportError('not here')")
    run = shell.really("stats", "--cost", PYTHONPATH=str(refuse))
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"openai:gpt-5-mini" in run.stdout


def test_a_fork_can_be_asked_for_twice(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, turns=3)
    shell("fork", "s", "try", "--at", "T-2")
    assert "try" in shell.error("fork", "s", "try", "--at", "T-2")
    assert shell.json("fork", "s", "try", "--at", "T-2", "--exist-ok")["id"] == "try"
    assert "try" in shell.error("fork", "s", "try", "--at", "T-1", "--exist-ok")
