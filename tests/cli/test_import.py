"""`foveate import` takes what it can read, says line by line what it can't, and never takes anything twice."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from foveate import sync
from support.command_line import Shell
from support.transcripts import FIXTURES

COMMAND = "<command-name>/model</command-name><command-message>model</command-message><command-args></command-args>"
LINE = '{"role": "user", "content": "Hello"}\n'


def shell_at(folder: Path) -> Shell:
    return Shell(folder / "chat.db")


def sessions_of(answer: Any) -> dict[str, tuple[int, int]]:
    return {
        session["id"]: (session["found"], session["added"])
        for report in answer["reports"]
        for session in report["sessions"]
    }


def test_a_file_is_taken_and_told_of(tmp_path: Path) -> None:
    shown = shell_at(tmp_path)("import", str(FIXTURES / "pi" / "tidebook.jsonl"))
    assert " pi " in shown
    assert "1 session, " in shown
    assert "B read" in shown


def test_a_dash_reads_standard_input(tmp_path: Path) -> None:
    shell = shell_at(tmp_path)
    shell("import", "-", given=(LINE * 2).encode())
    shell("import", "-", "--session", "named", given=f"[{LINE.strip()}]")
    assert "stdin.md" in shell.error("import", "-", given="no transcript")
    with sync.open(shell.db) as fov:
        assert {info.id for info in fov.sessions()} == {"stdin", "named"}


def test_importing_twice_adds_nothing(tmp_path: Path) -> None:
    shell = shell_at(tmp_path)
    first = sessions_of(shell.json("import", str(FIXTURES / "pi")))
    assert all(found == added > 0 for found, added in first.values())
    again = sessions_of(shell.json("import", str(FIXTURES / "pi")))
    assert again == {name: (found, 0) for name, (found, _) in first.items()}


def test_importing_a_file_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "talk.jsonl"
    path.write_text(LINE * 2)
    shell("import", str(path))
    path.write_text(LINE * 3)
    assert sessions_of(shell.json("import", str(path))) == {"talk": (3, 1)}


def test_a_name_that_another_file_has_is_told(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", 400)
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "talk.jsonl").write_text(LINE.replace("Hello", f"Hello from {name}"))
    shown = shell("import", str(tmp_path / "a"), str(tmp_path / "b"))
    assert f"{tmp_path}/b/talk.jsonl became talk-2: the session talk is of another file" in shown
    assert "holds another" not in shell("import", str(tmp_path / "b" / "talk.jsonl"), "--session", "mine")


def test_a_folder_is_searched_for_transcripts_of_every_kind(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for name in ("pi/tidebook.jsonl", "swe_agent/sundays.traj", "aider/history.md", "jsonl/openai.jsonl"):
        target = folder / "deep" / name
        target.parent.mkdir(parents=True)
        shutil.copy(FIXTURES / name, target)
    (folder / "notes.txt").write_text("not looked at")
    shell = shell_at(tmp_path)
    answer = shell.json("import", str(folder))
    assert sorted(report["format"] for report in answer["reports"]) == ["aider", "jsonl", "pi", "swe-agent"]
    assert answer["failures"] == []
    assert len(shell.json("sessions")) == len(sessions_of(answer))


def test_what_cannot_be_read_is_told_line_by_line_and_the_rest_is_taken(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "talk.jsonl"
    path.write_bytes(LINE.encode() + b"{broken\n" + LINE.encode() + b'{"role": "user", "content": "\xff"}\n')
    shown = shell("import", str(path), code=1)
    lines = [line for line in shown.splitlines() if line.startswith("not read")]
    assert [line.split(":")[0] for line in lines] == ["not read  talk.jsonl, line 2", "not read  talk.jsonl, line 4"]
    assert "2 messages, 2 of them new, 2 lines not read" in shown
    answer = shell.json("import", str(path), code=1)
    assert [problem["place"] for problem in answer["reports"][0]["problems"]] == ["line 2", "line 4"]
    assert sessions_of(answer) == {"talk": (2, 0)}


def test_many_problems_are_cut_short_on_the_screen_and_all_there_in_json(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "talk.jsonl"
    path.write_text(LINE + "{broken\n" * 50)
    shown = shell("import", str(path), code=1)
    assert shown.count("not read  talk.jsonl") == 20
    assert "… and 30 more (--json lists them)" in shown
    assert len(shell.json("import", str(path), code=1)["reports"][0]["problems"]) == 50


def test_a_file_of_no_known_format_fails_alone_and_is_passed_over_in_company(tmp_path: Path) -> None:
    shell = shell_at(tmp_path)
    (tmp_path / "in").mkdir()
    odd, good = tmp_path / "in" / "odd.json", tmp_path / "in" / "talk.jsonl"
    odd.write_text("some words, and no transcript")
    good.write_text(LINE)
    assert "odd.json" in shell.error("import", str(odd))
    shown = shell("import", str(tmp_path / "in"), code=1)
    assert "skipped" in shown
    assert "Skipped: 1 unreadable file (--json lists them)." in shown
    assert "odd.json" in shown
    assert "1 session, 1 message, 1 of them new" in shown


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    shell = shell_at(tmp_path)
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.jsonl").write_text(LINE)
    (tmp_path / "in" / "a.jsonl").chmod(0)
    answer = shell.json("import", str(tmp_path / "in"), code=1)
    assert list(sessions_of(answer)) == ["b"]
    assert "can't be read: Permission denied" in answer["failures"][0]


def test_a_session_may_be_named_where_there_is_one_file(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "talk.jsonl"
    path.write_text(LINE)
    shell("import", str(path), "--session", "support-42")
    assert [info["id"] for info in shell.json("sessions")] == ["support-42"]
    assert "--session is for a single file; got 2" in shell.error("import", str(path), str(path), "--session", "x")


def test_the_format_may_be_named(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "talk.txt"
    path.write_text(LINE)
    assert shell.json("import", str(path), "--format", "jsonl")["reports"][0]["format"] == "jsonl"
    assert "nonsense" in shell.error("import", str(path), "--format", "nonsense")


@pytest.mark.parametrize("make_folder", [False, True])
def test_a_path_without_transcripts_is_a_mistake(make_folder: bool, tmp_path: Path) -> None:
    shell = shell_at(tmp_path)
    path = tmp_path / "nothing"
    if make_folder:
        path.mkdir()
    said = shell.error("import", str(path))
    assert ("no transcripts in this folder" if make_folder else "there is no such file or folder") in said
    assert not shell.db.exists()
    assert "Missing argument" in shell.error("import", code=2)


def test_many_sessions_are_cut_short_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(45):
        (tmp_path / "in" / f"talk-{number}.jsonl").write_text(LINE)
    shown = shell_at(tmp_path)("import", str(tmp_path / "in"))
    assert "… and 5 more sessions ('foveate sessions' lists all)" in shown
    assert "45 sessions, 45 messages, 45 of them new" in shown


def test_the_real_command_keeps_its_output_clean_for_programs(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(LINE + "{broken\n")
    run = shell_at(tmp_path).really("import", str(path), "--json")
    assert (run.returncode, run.stderr) == (1, b"")
    assert json.loads(run.stdout)["reports"][0]["sessions"][0]["added"] == 1


def test_one_bad_conversation_id_does_not_stop_an_import_of_many(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    whole = json.loads((FIXTURES / "chatgpt" / "conversations.json").read_text())
    good = next(one for one in whole if one.get("conversation_id") or one.get("id"))
    bad = {**good, "id": "x" * 5_000, "conversation_id": "x" * 5_000}
    path.write_text(json.dumps([bad, good]))
    answer = shell_at(tmp_path).json("import", str(path), code=1)
    (report,) = answer["reports"]
    assert [session["id"] for session in report["sessions"]][:1] == [good.get("conversation_id") or good["id"]]
    assert "can't be one" in report["problems"][0]["reason"]


def test_importing_again_keeps_what_the_user_changed(tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), FIXTURES / "pi" / "tidebook.jsonl"
    session_id = shell.json("import", str(path))["reports"][0]["sessions"][0]["id"]
    shell("sessions", "rename", session_id, "My title")
    shell("sessions", "label", session_id, "--platform", "mine", "--channel", "here")
    with sync.open(shell.db) as fov:
        fov.session(session_id, model="openai:gpt-5-mini", budget_tokens=5_000)
    shell("import", str(path))
    info = shell.json("show", session_id)["session"]
    kept = {name: info[name] for name in ("title", "platform", "channel", "model", "budget_tokens")}
    assert kept == {
        "title": "My title",
        "platform": "mine",
        "channel": "here",
        "model": "openai:gpt-5-mini",
        "budget_tokens": 5_000,
    }


@pytest.mark.parametrize("text", ['{"role": "admin", "theme": "dark"}', '[{"role": 1}]', "", '{"messages": 3}'])
def test_json_without_a_message_is_not_imported_and_the_error_says_why(text: str, tmp_path: Path) -> None:
    shell, path = shell_at(tmp_path), tmp_path / "settings.json"
    path.write_text(text)
    assert "settings.json" in shell.run("import", str(path), code=1).output
    assert not shell.db.exists() or shell.json("sessions") == []


def test_a_session_is_not_named_after_a_slash_command(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "uuid": "1", "sessionId": "s", "message": {"role": "user", "content": COMMAND}},
        {"type": "user", "uuid": "2", "sessionId": "s", "message": {"role": "user", "content": "Why is it slow?"}},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell = shell_at(tmp_path)
    shell("import", str(path))
    assert shell.json("show", "s")["session"]["title"] == "Why is it slow?"


def test_an_import_compresses_when_asked_to_and_else_says_what_is_left(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    talk = tmp_path / "talk.jsonl"
    roles = ("user", "assistant") * 4
    said = [{"role": role, "content": f"The pump of shed {n} runs at 12 bar."} for n, role in enumerate(roles)]
    talk.write_text("".join(json.dumps(message) + "\n" for message in said))
    waiting = r"Not indexed and compressed yet: \d turns?\. 'foveate store compress --all' does it now"
    assert re.search(waiting, " ".join(shell("import", str(talk)).split()))
    assert not re.search("(?i)not indexed", shell("import", str(talk), "--session", "other", "--compress"))
    with sync.open(shell.db) as fov:
        assert fov.open_session("other").stats().pending == 0
