"""`foveate run`: what it shows, how it ends, and going on with the same command after the worst."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell, command

EPIC = "Move the shop to the new payment service, without losing an order.\n"
TASKS = "# Payment\n- [ ] Read the old code\n- [ ] Write the new client\n"
SCRIPT = r"""
price = { input = 1.0, output = 4.0 }
[[reply]]
contains = "Iteration 1:"
says = "The old client retries three times.\n\nTASKS:\n- [x] Read the old code\n- [ ] Write the new client"
[[reply]]
contains = "Iteration 2:"
says = "STATUS: question: Which port does the payment service use?"
[[reply]]
contains = "Iteration 3:"
calls_tool = "update_tasks"
arguments = { done = [2] }
[[reply]]
contains = "Iteration 4:"
calls_tool = "finish"
arguments = { summary = "The shop pays through the new service." }
[[reply]]
contains = "Iteration 5:"
says = "STATUS: blocked: no access"
[[reply]]
contains = "Iteration 6:"
fails = "server"
[[reply]]
says = "?"
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """What is said on the command line."""
    (tmp_path / "my spec.md").write_text(EPIC)
    (tmp_path / "tasks.md").write_text(TASKS)
    (tmp_path / "script.toml").write_text(SCRIPT)
    model = f"scripted:{tmp_path / 'script.toml'}"
    return ("--epic", str(tmp_path / "my spec.md"), "--tasks", str(tmp_path / "tasks.md"), "--model", model)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return replace(Shell(tmp_path / "chat.db"), width=200)


def test_a_run_shows_its_progress_and_stops_at_a_question(shell: Shell, files: tuple[str, ...]) -> None:
    said = shell("run", *files, "--budget", "8k", code=5)
    lines = said.splitlines()
    assert lines[0].startswith("run-my-spec  scripted:")
    assert lines[0].endswith(", 8,000 tokens")
    assert lines[1:5] == ["  # Payment", "  · Read the old code", "  · Write the new client", "── 1 ──"]
    assert "The old client retries three times.\n" in said
    assert "  ✓ Read the old code\n  · Write the new client\nT-1 " in said
    assert lines[-3] == "Question: Which port does the payment service use?"
    assert lines[-2].startswith("1 of 2 tasks done, 2 iterations, ")
    assert lines[-1] == 'To answer and resume: foveate run --session run-my-spec --answer "…"'


def test_it_goes_on_with_the_answer_until_it_is_done(shell: Shell, files: tuple[str, ...], tmp_path: Path) -> None:
    shell("run", *files, code=5)
    written = tmp_path / "out.md"
    said = shell("run", "--session", "run-my-spec", "--answer", "8443", "--write-tasks", str(written))
    assert "Resuming after 2 iterations." in said
    assert '→ update_tasks {"done": [2]}' in said
    assert "Done: The shop pays through the new service.\n2 of 2 tasks done, 4 iterations, " in said
    assert written.read_text() == "- [x] Read the old code\n- [x] Write the new client\n"
    assert (tmp_path / "tasks.md").read_text() == TASKS, "the user's own file is left alone"
    assert "The user answers: 8443" in shell("show", "run-my-spec", "T-3")
    assert "Done: " in shell("run", *files), "what is done stays done"


def test_json_has_a_line_for_each_iteration_and_one_for_the_end(shell: Shell, files: tuple[str, ...]) -> None:
    *iterations, end = map(json.loads, shell("run", *files, "--json", code=5).splitlines())
    assert [(line["iteration"], line["turn_id"]) for line in iterations] == [(1, "T-1"), (2, "T-2")]
    assert (end["session"], end["reason"], end["iterations"]) == ("run-my-spec", "question", 2)
    assert end["text"] == "Which port does the payment service use?"
    assert [task["is_done"] for task in end["tasks"]] == [True, False]
    assert end["usd"] == pytest.approx(sum(line["usd"] for line in iterations))


def test_caps_and_blockers_have_exit_codes_of_their_own(shell: Shell, files: tuple[str, ...], tmp_path: Path) -> None:
    said = shell("run", *files, "--max-iterations", "1", code=4)
    assert "Limit reached: 1 of at most 1 iterations\n" in said
    assert "of at most 5 tokens" in shell("run", *files, "--max-tokens", "5", code=4)
    shell("run", *files, code=5)
    shell("run", *files, "--answer", "8443")
    (tmp_path / "tasks.md").write_text(f"{TASKS}- [ ] Tell support\n")
    said = shell("run", *files, code=3)
    assert "have changed since they were read (new: Tell support)" in said
    assert "Blocked: no access\n" in said
    assert '--answer "what has changed"' in said


def test_a_model_that_fails_is_told_of_and_the_run_can_go_on(
    shell: Shell, files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__MAX_RETRIES", "0")
    (tmp_path / "script.toml").write_text('[[reply]]\nfails = "server"\n')
    told = shell.error("run", *files)
    assert "Everything so far is kept. To resume: foveate run --session run-my-spec" in told
    (tmp_path / "script.toml").write_text('[[reply]]\nsays = "STATUS: done"\n')
    assert "── 1 (retry) ──" in shell("run", "--session", "run-my-spec")


def test_what_is_wrong_is_said_in_a_sentence(shell: Shell, files: tuple[str, ...], tmp_path: Path) -> None:
    assert "give --epic FILE" in shell.error("run", code=2)
    assert "no session 'nobody' to resume" in shell.error("run", "--session", "nobody")
    assert "--answer is empty" in shell.error("run", *files, "--answer", " ", code=2)
    assert "is not a number of tokens" in shell.error("run", *files, "--max-tokens", "many", code=2)
    assert "no model is configured" in shell.error("run", *files[:4])
    (tmp_path / "long.md").write_text("word " * 6_000)
    told = shell.error("run", "--epic", str(tmp_path / "long.md"), *files[4:])
    assert "6,001 tokens, 1,001 more than the 5,000 it may have" in told
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in shell.error("run", "--epic", str(tmp_path / "binary.md"), *files[4:])
    shell("run", *files, code=5)
    (tmp_path / "my spec.md").write_text("Something else.")
    assert "has a different epic" in shell.error("run", *files)


def test_a_budget_that_nobody_chose_is_fitted_to_the_window_and_another_is_refused(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "200000")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path / "long.md").write_text("word " * 6_000)  # refused before the model is asked
    with sync.open(shell.db) as fov:
        fov.session("s")
        fov.session("chosen", budget_tokens=150_000)
    asked = ("run", "--epic", str(tmp_path / "long.md"), "--model", "openai:gpt-4o", "--session")
    assert "than the 5,000 it may have" in shell.error(*asked, "s")
    assert shell.json("show", "s")["session"]["budget_tokens"] == 200_000
    for more in (("chosen",), ("s", "--budget", "150k")):
        assert re.search(r"use a budget of at most 1[12]\d,\d{3}, e\.g\. --budget 1[12]\dk", shell.error(*asked, *more))


def test_a_session_of_a_model_that_can_not_be_asked_is_gone_on_with_by_the_configured_one(
    shell: Shell, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync.open(shell.db) as fov:
        fov.session("imported", model="claude-opus-4-1")
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", files[-1])
    said = shell("run", *files[:4], "--session", "imported", code=5)
    assert said.startswith("imported  scripted:")


def test_killed_in_the_middle_of_an_answer_the_same_command_goes_on(
    shell: Shell, files: tuple[str, ...], tmp_path: Path
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT.replace('says = "STATUS: question', 'delay_seconds = 600\nsays = "STATUS: question'))
    words = command("run", *files)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=shell.environment(PYTHONUNBUFFERED="1")) as child:
        assert child.stdout
        while child.stdout.readline() != "── 2 ──\n".encode():
            pass
        child.send_signal(signal.SIGKILL)
    script.write_text(SCRIPT)
    said = shell("run", *files, code=5)
    assert "Resuming after 1 iteration.\n" in said
    assert [turn["messages"] for turn in shell.json("show", "run-my-spec")["turns"]] == [2, 2]
