"""`foveate hook` records a transcript, brings earlier turns back for a prompt, and never fails its client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foveate import sync
from foveate.connections.hook import LEAD, MAX_CONTEXT_CHARS, shortened
from foveate.history import memory_layer
from support.command_line import Shell
from support.patience import wait_until

FACT = "Remember: the port of the harbour service is 8443."


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Shell(tmp_path / "chat.db")


def payload(event: str, session: str = "s-2", **more: str) -> str:
    return json.dumps({"hook_event_name": event, "session_id": session, "cwd": "/work/shop", **more})


def transcript(folder: Path, prompts: list[str], session: str = "s-1") -> Path:
    """A session file of Claude Code."""
    lines = []
    for number, prompt in enumerate(prompts):
        shared = {"sessionId": session, "cwd": "/work/shop", "timestamp": f"2026-11-01T10:{number:02}:00Z"}
        user = {"type": "user", "message": {"role": "user", "content": prompt}}
        answer = {"role": "assistant", "content": [{"type": "text", "text": f"Done, step {number}."}]}
        lines += [
            {**user, "uuid": f"u{number}", "parentUuid": f"a{number - 1}" if number else None, **shared},
            {"type": "assistant", "message": answer, "uuid": f"a{number}", "parentUuid": f"u{number}", **shared},
        ]
    path = folder / f"{session}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_turn_is_recorded_once_and_a_later_session_of_the_folder_gets_it_back(tmp_path: Path, shell: Shell) -> None:
    prompts = [FACT, *(f"Refactor module {number} of the lighthouse project." for number in range(12))]
    path = transcript(tmp_path, prompts)
    for event in ("Stop", "SessionEnd"):
        assert shell("hook", "claude", "--wait", given=payload(event, "s-1", transcript_path=str(path))) == ""
    with sync.open(shell.db) as fov:
        (info,) = fov.sessions()
    assert (info.id, info.turns, info.platform) == ("s-1", len(prompts), "claude-code")
    question = payload("UserPromptSubmit", prompt="What is the port of the harbour service?")
    output = json.loads(shell("hook", "claude", given=question))["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    assert output["additionalContext"].startswith(f"{LEAD}<memory>\n")
    assert memory_layer.LEAD_OF_SCOPE not in output["additionalContext"], "one caption, with the tool of the MCP server"
    assert FACT in output["additionalContext"]
    assert output["additionalContext"].endswith("</memory>\n")
    elsewhere = json.loads(question) | {"cwd": "/work/other", "session_id": "s-3"}
    assert shell("hook", "codex", given=json.dumps(elsewhere)) == ""


def test_a_session_that_starts_without_its_gateway_says_so_and_what_to_do(tmp_path: Path, shell: Shell) -> None:
    assert shell("hook", "claude", given=payload("SessionStart")) == ""
    shell("connect", "claude", "--yes", "--url", "http://127.0.0.1:9")
    (hook,) = json.loads((tmp_path / ".claude/settings.json").read_text())["hooks"]["SessionStart"]
    assert " hook claude" in hook["hooks"][0]["command"]
    said = json.loads(shell("hook", "claude", given=payload("SessionStart")))["systemMessage"]
    assert "no gateway at http://127.0.0.1:9" in said
    assert "start 'foveate serve --upstream URL', or run 'foveate disconnect claude'" in said
    shell("disconnect", "claude", "--yes")
    assert shell("hook", "claude", given=payload("SessionStart")) == ""


@pytest.mark.parametrize("prompt", ["go on", "/compact", "", "Thanks!"])
def test_a_prompt_that_needs_nothing_does_not_open_the_store(shell: Shell, prompt: str) -> None:
    assert shell("hook", "claude", given=payload("UserPromptSubmit", prompt=prompt)) == ""
    assert not shell.db.exists()


@pytest.mark.parametrize(
    "given",
    [
        "",
        "not JSON",
        "[1]",
        payload("Unknown"),
        payload("UserPromptSubmit", prompt="What is the port of the harbour service?"),
        payload("Stop", transcript_path="/nowhere/at/all.jsonl"),
    ],
)
def test_a_hook_never_fails_its_client(tmp_path: Path, shell: Shell, given: str) -> None:
    shell.db.write_text("not a database, and long enough to be one" * 100)
    result = shell.run("hook", "claude", "--wait", given=given)
    assert (result.stdout, result.stderr) == ("", "")


def test_the_error_is_in_the_log(tmp_path: Path, shell: Shell) -> None:
    shell("hook", "codex", given="not JSON")
    assert "JSONDecodeError" in (tmp_path / ".foveate/hooks.log").read_text()


def test_recording_goes_on_after_the_hook_has_returned(tmp_path: Path, shell: Shell) -> None:
    path = transcript(tmp_path, [FACT])
    done = shell.really("hook", "claude", given=payload("Stop", transcript_path=str(path)).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def has_session() -> bool:
        with sync.open(shell.db) as fov:
            return [info.id for info in fov.sessions()] == ["s-1"]

    wait_until(lambda: shell.db.exists() and has_session())


def test_a_long_memory_is_cut_at_a_line_and_stays_closed() -> None:
    text = "<memory>\n" + memory_layer.LEAD + "".join(f"Turn {number}: {'x' * 80}\n" for number in range(200))
    cut = shortened(text + "</memory>\n")
    assert len(LEAD + cut) <= MAX_CONTEXT_CHARS
    assert cut.startswith("<memory>\nTurn 0: ")
    assert cut.endswith("x\n</memory>\n")
