"""`foveate context` shows what a model would be shown, as a picture, text, messages or figures."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conversation import make_conversation
from foveate import sync
from support.command_line import HELLO, Shell, shell_with


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A store with a long conversation, compressed."""
    shell = Shell(tmp_path_factory.mktemp("talk") / "chat.db")
    with sync.open(shell.db) as fov:
        session = fov.session("demo", budget_tokens=8_000)
        for turn in make_conversation(60, 42).turns:
            session.record(turn)
        fov.settle()
    return shell


def test_the_picture_has_a_column_for_every_turn_and_a_row_for_every_level(talk: Shell) -> None:
    shown = talk("context", "demo", "--budget", "6000")
    assert shown.startswith("60 turns in ")
    (bottom,) = re.findall(r"tiny, eras ([^\n]+)", shown)
    assert len(bottom) == 60
    rows = re.findall(r"^ [A-Z□] +\D+ (\d+) +T-\d+ +T-\d+ +[\d,]+ *$", shown, re.MULTILINE)
    assert sum(map(int, rows)) == 60
    assert "of 6,000 tokens" in shown
    assert "Preview at a different budget" in shown


def test_a_turn_is_explained_with_its_level_its_size_and_how_to_show_more(talk: Shell) -> None:
    shown = " ".join(talk("context", "demo", "--budget", "6000", "--why", "T-3").split())
    assert re.search(r"T-3: (smoothed|compressed|tiny|eras|without words)", shown)
    assert re.search(r"\d+ of its [\d,]+ tokens", shown)
    assert re.search(r"Word for word it needs [\d,]+ tokens more; [\d,]+ of [\d,]+ are free", shown)
    assert "57 newer turns take" in shown
    assert 'the model calls get_turn("T-3")' in shown
    newest = talk.json("context", "demo", "--budget", "6000", "--why", "60")
    assert (newest["id"], newest["level"], newest["raise_by"]) == ("T-60", "R", [])
    assert "T-99" in talk.error("context", "demo", "--budget", "6000", "--why", "T-99")
    assert "shortens turns, not messages" in talk.error("context", "demo", "--budget", "6000", "--why")


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits_the_terminal(talk: Shell, width: int) -> None:
    shown = Shell(talk.db, width)("context", "demo", "--budget", "6000")
    assert max(map(len, shown.splitlines())) <= width


def test_at_its_own_budget_a_session_tells_why_it_was_planned_and_what_stays_cached(talk: Shell) -> None:
    assert "Plan made now" in talk("context", "demo")
    shown = talk("context", "demo")
    assert re.search(r"Plan made at T-\d+: the first one", shown)
    assert re.search(r"\d+% of this prompt is the beginning of the next one", shown)


def test_the_figures_add_up(talk: Shell) -> None:
    answer = talk.json("context", "demo", "--budget", "6000", "--prompt", "What now?")
    assert sum(part["tokens"] for part in answer["segments"]) == answer["tokens"] <= 6000
    assert answer["one_off"]
    assert answer["pending_turns"] == 0
    assert 0 <= answer["cached_share"] <= 1
    assert answer["plan"]["turns_without_words"] == 0
    assert sum(band["share"] for band in answer["bands"]) == pytest.approx(1)
    assert {"level", "first", "last", "target_share", "tokens"} <= set(answer["bands"][0])
    assert not any("text" in part for part in answer["segments"])


def test_the_text_and_the_request_are_for_programs(talk: Shell, tmp_path: Path) -> None:
    system = tmp_path / "system.md"
    system.write_text("You are a harbour master.")
    text = talk("context", "demo", "--text", "--system", str(system))
    assert text.startswith("[system]\nYou are a harbour master.\n")
    asked = ("context", "demo", "--prompt", "What now?", "--system", str(system), "--request")
    request = json.loads(talk(*asked, "openai"))
    assert request["messages"][-1]["role"] == "user"
    assert "What now?" in json.dumps(request["messages"][-1])
    assert json.loads(talk(*asked, "anthropic"))["system"].startswith("You are a harbour master.\n")


def test_turns_that_are_not_compressed_yet_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_COMPRESS__ENABLED", "false")
    shell = Shell(tmp_path / "chat.db", width=120)
    with sync.open(shell.db) as fov:
        fov.session("a talk").record([*HELLO, *HELLO])
    assert "2 turns not compressed yet; run 'foveate store compress 'a talk''." in shell("context", "a talk")
    assert "'foveate store compress 'a talk'' makes them." in shell("levels", "a talk", "T-1")
    assert "'foveate pin 'a talk' TEXT' makes one." in shell("pin", "a talk")


def test_a_session_without_turns_has_a_picture_too(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, turns=0)
    assert "nothing yet" in shell("context", "s")


def test_mistakes_are_told_in_a_sentence(talk: Shell, tmp_path: Path) -> None:
    assert "the budget is 10 tokens" in talk.error("context", "demo", "--budget", "10")
    assert "morse" in talk.error("context", "demo", "--request", "morse")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "not UTF-8 text" in talk.error("context", "demo", "--system", str(tmp_path / "binary"))
    assert "does not exist" in talk.error("context", "demo", "--system", str(tmp_path / "nothing"), code=2)


def test_a_session_can_be_looked_at_through_another_strategy(talk: Shell) -> None:
    shown = talk("context", "demo", "--strategy", "standard")
    assert "Strategy: standard." in shown
    assert re.search(r"dropped turns \d+", shown)
    assert "Preview with a different strategy" in shown
    answer = talk.json("context", "demo", "--strategy", "standard", "--budget", "4000")
    assert (answer["strategy"], answer["one_off"]) == ("standard", True)
    assert answer["notes"]["dropped_turns"] > 0
    assert talk.json("context", "demo")["strategy"] == "gradient"
    assert "available: checkpoint" in talk.error("context", "demo", "--strategy", "nosuch")


def test_the_picture_has_a_row_for_summaries_and_for_the_users_words(talk: Shell) -> None:
    shown = talk("context", "demo", "--strategy", "checkpoint")
    for name in ("summaries", "user's words"):
        assert re.search(rf"\b{name} .+ \d+ +T-\d+ +T-\d+ +[\d,]+", shown), name


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch, turns: int) -> tuple[Shell, str]:
    """A session that is larger than its budget, and not compressed; and a model that answers."""
    (folder / "script.toml").write_text('[[reply]]\nsays = "Yes."\n')
    lines = [json.dumps({"role": "user", "content": f"Turn {turn}. " + "A long story. " * 40}) for turn in range(turns)]
    (folder / "talk.jsonl").write_text("\n".join(lines))
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "4000")
    monkeypatch.setenv("FOVEATE_COMPRESS__ENABLED", "false")
    shell = Shell(folder / "chat.db")
    shell("import", str(folder / "talk.jsonl"))
    return shell, f"scripted:{folder / 'script.toml'}"


def test_a_look_at_an_imported_session_waits_for_rules_and_asks_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, model = imported(tmp_path, monkeypatch, turns=60)
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", model)
    assert shell.json("context", "talk")["notes"]
    monkeypatch.delenv("FOVEATE_COMPRESS__ENABLED")
    seen = shell.json("context", "talk")
    assert (seen["notes"], seen["pending_turns"]) == ({}, 0)
    assert shell.json("stats", "--cost")["costs"] == []


def test_a_damaged_message_that_is_not_in_sight_stops_neither_a_look_nor_a_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, model = imported(tmp_path, monkeypatch, turns=60)
    with closing(sqlite3.connect(shell.db)) as connection:
        connection.execute("UPDATE bodies SET data = x'00' WHERE message = (SELECT id FROM messages WHERE turn = 5)")
        connection.commit()
    monkeypatch.delenv("FOVEATE_COMPRESS__ENABLED")
    looked = shell.really("context", "talk")
    assert (looked.returncode, b"does not match its hash" in looked.stderr) == (0, True)
    talked = shell.really("chat", "talk", "--model", model, given=b"Is it there?\n")
    assert (talked.returncode, talked.stdout) == (0, b"Yes.\n")
    assert b"Traceback" not in talked.stderr


def test_the_text_comes_as_json_too(talk: Shell) -> None:
    answer = talk.json("context", "demo", "--budget", "6k", "--text")
    assert answer["budget_tokens"] == 6_000
    assert answer["tokens"] <= 6_000
    assert "<" in answer["text"]


def test_the_text_is_that_of_the_request_in_its_order(talk: Shell) -> None:
    asked = ("context", "demo", "--budget", "6k", "--prompt", "What now?")
    text = talk(*asked, "--text")
    request = json.loads(talk(*asked, "--request", "openai"))
    place = 0
    for message in request["messages"]:
        content = message.get("content") or ""
        said = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if message["role"] != "tool":
            assert said in text[place:], message
            place += text[place:].index(said) + len(said)
    assert text.endswith("What now?\n")


def test_the_demo_shows_the_live_context_at_the_sessions_own_budget(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "demo.db")
    shown = shell("demo", "--turns", "60", "--no-replay")
    assert "Live: what a model gets now" in shown
    assert "Preview" not in shown
    answer = shell.json("context", "demo")
    assert (answer["budget_tokens"], answer["one_off"], answer["plan"]["turns_without_words"]) == (16_000, False, 0)


def test_what_each_message_of_a_hybrid_context_became_is_printed_with_the_reason(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", 160)
    with sync.open(shell.db) as fov:
        chat = fov.session("agent", strategy="hybrid")
        chat.record(
            [{"role": "user", "content": "What does jwt.py do?"}, {"role": "assistant", "content": "It signs."}]
        )
    shown = shell("context", "agent", "--why")
    assert re.search(r"T-1\.0 +user +whole +\d+ +\d+ +one of the 5 newest messages of user and assistant", shown)
    (first, _) = json.loads(shell("context", "agent", "--why", "--json"))
    assert (first["turn"], first["position"], first["form"]) == ("T-1", 0, "whole")
