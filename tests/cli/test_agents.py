"""`foveate agents` and `foveate worker`."""

from __future__ import annotations

from pathlib import Path

from support.command_line import Shell

SCRIPT = """
[[reply]]
says = "STATUS: done: It stands."
"""


def shell_in(folder: Path) -> tuple[Shell, str]:
    script = folder / "script.toml"
    script.write_text(SCRIPT, "utf-8")
    return Shell(folder / "chat.db", width=120), f"scripted:{script}"


def test_an_agent_is_spawned_run_by_a_worker_and_read(tmp_path: Path) -> None:
    shell, model = shell_in(tmp_path)
    made = shell.json("agents", "spawn", "Build a house.", "--model", model, "--max-tokens", "50k")
    assert (made["state"], made["kind"]) == ("queued", "run")
    assert "queued" in shell("agents", "list")
    assert shell.json("agents", "wait", made["id"], "--timeout", "0", code=3)["state"] == "queued"
    assert f"{made['id']} done" in shell("worker", "--drain")
    assert shell("agents", "wait", made["id"]) == "It stands.\n"
    shown = shell.json("agents", "show", made["id"])
    assert (shown["result"], shown["totals"]["limits"]["max_tokens"]) == ("It stands.", 50_000)
    assert "had ended already" in shell("agents", "cancel", made["id"])
    assert [agent["id"] for agent in shell.json("agents", "list", "--state", "done")] == [made["id"]]


def test_an_agent_is_cancelled_before_it_began(tmp_path: Path) -> None:
    shell, model = shell_in(tmp_path)
    made = shell.json("agents", "spawn", "Build a house.", "--model", model)
    assert [agent["state"] for agent in shell.json("agents", "cancel", made["id"])] == ["cancelled"]
    assert "0 agents ended here" in shell("worker", "--drain")


def test_an_agent_is_run_here_to_its_end(tmp_path: Path) -> None:
    shell, model = shell_in(tmp_path)
    assert shell("agents", "run", "Build a house.", "--model", model) == "It stands.\n"
    ended = shell.json("agents", "run", "Build a house.", "--model", model)
    assert (ended["state"], ended["kind"], ended["result"]) == ("done", "run", "It stands.")
    failed = shell.json("agents", "run", "Build a house.", "--model", model, "--max-tokens", "10", code=3)
    assert failed["state"] == "failed"


def test_a_stored_prompt_is_asked_with_its_variables_which_are_checked(tmp_path: Path) -> None:
    shell, model = shell_in(tmp_path)
    shell("prompts", "set", "review", given="Review this {language}: {code}")
    ask = ("agents", "call", "--model", model, "--prompt", "review", "--set", "language=Python")
    ended = shell.json(*ask, "--set", "code=x = 1")
    assert (ended["kind"], ended["task"].strip()) == ("call", "Review this Python: x = 1")
    assert "code" in shell.error(*ask)
    assert "colour" in shell.error(*ask, "--set", "code=x", "--set", "colour=red")
    assert "--set takes NAME=VALUE" in shell.error(*ask, "--set", "code", code=2)
    assert "variables are for a stored prompt" in shell.error("agents", "call", "Hello", "--set", "code=x")
    assert len(shell.json("agents", "list")) == 1


def test_wrong_calls_say_what_to_do(tmp_path: Path) -> None:
    shell, model = shell_in(tmp_path)
    made = shell.json("agents", "spawn", "Build a house.", "--model", model)
    assert "is not waiting for an approval" in shell.error("agents", "approve", made["id"])
    assert "is not waiting for an answer" in shell.error("agents", "answer", made["id"], "Yes.")
    assert "'foveate agents list' lists them" in shell.error("agents", "show", "a-0")
    assert "one of queued, running" in shell.error("agents", "list", "--state", "busy")
    assert "--fork needs --session" in shell.error("agents", "spawn", "x", "--fork", code=2)
