from __future__ import annotations

from pathlib import Path

import pytest

import foveate.sync as foveate
from foveate.errors import InputError, NotFound
from foveate.session.goals import MAX_GOALS, MAX_PARTS, Artifact, Goal, GoalStep, write_goals
from support.command_line import Shell

HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
LOCKED = "Store tokens in <T-1-R> httpOnly cookies,\nnever in localStorage"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A store with a session that shows its goals."""
    store = tmp_path / "chat.db"
    with foveate.open(store) as fov:
        fov.session("shop", strategy="checkpoint", budget_tokens=16_000).record(HELLO)
    return store


def test_a_goal_keeps_its_steps_decisions_and_artifacts_over_a_restart(chat: Path) -> None:
    with foveate.open(chat) as fov:
        goals = fov.find_session("shop").goals
        goal = goals.add("  Implement user\n authentication ", priority="high", steps=["Design", "Login"])
        assert goal.id == "G-1"
        goals.step("G-1", "Design", "done")
        goals.step("G-1", 2, "in-progress")
        goals.step("G-1", "Add JWT")
        goals.decide("G-1", "Use JWT")
        goals.decide("G-1", "Use JWT")
        goals.artifact("G-1", "src/auth/login.ts")
        goals.artifact("G-1", "src/auth/login.ts", "modified")
    with foveate.open(chat) as fov:
        (kept,) = fov.find_session("shop").goals.list()
    assert (kept.title, kept.priority, kept.status) == ("Implement user authentication", "high", "active")
    assert kept.steps == (GoalStep("Design", "done"), GoalStep("Login", "in progress"), GoalStep("Add JWT"))
    assert kept.decisions == ("Use JWT",)
    assert kept.artifacts == (Artifact("src/auth/login.ts", "modified"),)
    assert kept.created_at
    assert kept.updated_at
    assert kept.created_at <= kept.updated_at


def test_locked_decisions_stand_verbatim_in_every_checkpoint_context_even_when_the_goal_is_done(chat: Path) -> None:
    with foveate.open(chat) as fov:
        session = fov.find_session("shop")
        session.goals.add("Authentication")
        session.goals.decide("G-1", LOCKED)
        session.goals.artifact("G-1", "src/auth/jwt.ts")
        active = session.context("And now?").text
        session.goals.done("G-1")
        done = session.context("And now?").text
    shown = LOCKED.replace("<T-", "<\\T-")
    assert f"Locked decisions:\n- {shown}\n" in active
    assert f"Locked decisions:\n- {shown}\n" in done
    assert "created src/auth/jwt.ts" in active
    assert "created src/auth/jwt.ts" not in done
    assert active.index("<goals>") < active.index("<T-1-R>")


def test_the_document_reads_as_it_should() -> None:
    goal = Goal(
        "G-1",
        "Implement user authentication",
        "high",
        steps=(GoalStep("Design", "done"), GoalStep("Add JWT", "in progress"), GoalStep("Registration")),
        decisions=("Use JWT", "httpOnly cookies"),
        artifacts=(Artifact("src/auth/login.ts"), Artifact("src/routes/api.ts", "modified")),
    )
    assert write_goals([goal, Goal("G-2", "Ship it", status="done")]) == (
        "G-1 Implement user authentication (priority high, active)\n"
        "Steps: [done] Design; [in progress] Add JWT; [pending] Registration\n"
        "Locked decisions:\n"
        "- Use JWT\n"
        "- httpOnly cookies\n"
        "Artifacts: created src/auth/login.ts, modified src/routes/api.ts\n"
        "G-2 Ship it (priority normal, done)\n"
    )


def test_mistakes_are_explained(chat: Path) -> None:
    with foveate.open(chat) as fov:
        goals = fov.find_session("shop").goals
        with pytest.raises(InputError, match="title can't be empty"):
            goals.add("  ")
        with pytest.raises(InputError, match="no priority 'urgent'; available: low, normal, high"):
            goals.add("x", priority="urgent")
        with pytest.raises(InputError, match="up to 500 characters"):
            goals.add("x" * 501)
        with pytest.raises(InputError, match="lone surrogate"):
            goals.add("\ud800")
        with pytest.raises(NotFound, match="no goal 'G-1' in session 'shop'; there are none yet"):
            goals.done("G-1")
        goals.add("Something")
        with pytest.raises(NotFound, match="no goal 'G-7' in session 'shop'; available: G-1"):
            goals.step("G-7", "x")
        with pytest.raises(NotFound, match="no goal 'first'"):
            goals.decide("first", "x")
        with pytest.raises(NotFound, match="has no step 3; it has none yet"):
            goals.step("G-1", 3, "done")
        with pytest.raises(NotFound, match="has no step 999"):
            goals.step("G-1", "9" * 5_000, "done")
        with pytest.raises(InputError, match="no status 'started'"):
            goals.step("G-1", "x", "started")
        with pytest.raises(InputError, match="no change 'burnt'"):
            goals.artifact("G-1", "x", "burnt")
        assert goals.list()[0].steps == ()


def test_goals_and_their_parts_have_limits(chat: Path) -> None:
    with foveate.open(chat) as fov:
        goals = fov.find_session("shop").goals
        with pytest.raises(InputError, match=f"up to {MAX_PARTS} steps"):
            goals.add("Long", steps=[f"step {number}" for number in range(MAX_PARTS + 1)])
        for number in range(MAX_GOALS):
            goals.add(f"Goal {number}")
        with pytest.raises(InputError, match=f"has {MAX_GOALS} goals already"):
            goals.add("One more")


def test_the_command_line_does_the_same(chat: Path) -> None:
    shell = Shell(chat)
    added = shell.json("goal", "add", "shop", "Authentication", "--step", "Design")
    assert (added["id"], added["steps"]) == ("G-1", [{"title": "Design", "status": "pending"}])
    assert "✓ 1. Design" in shell("goal", "step", "shop", "G-1", "1", "--status", "done")
    assert "locked: Use JWT" in shell("goal", "decide", "shop", "G-1", "Use JWT")
    assert "modified a.py" in shell("goal", "artifact", "shop", "G-1", "a.py", "--change", "modified")
    assert "done" in shell("goal", "done", "shop", "G-1")
    assert [goal["status"] for goal in shell.json("goal", "list", "shop")] == ["done"]
    assert "G-1 Authentication" in shell("goal", "list", "shop")


def test_the_command_line_explains_mistakes(chat: Path) -> None:
    shell = Shell(chat)
    assert "No goals." in shell("goal", "list", "shop")
    assert shell.json("goal", "list", "shop") == []
    assert "title can't be empty" in shell.error("goal", "add", "shop", " ")
    assert "Missing argument" in shell.error("goal", "add", "shop", code=2)
    assert "no goal 'G-9'" in shell.error("goal", "done", "shop", "G-9")
    assert "no session 'shoop'" in shell.error("goal", "list", "shoop")


@pytest.mark.parametrize("strategy", ["gradient", "standard", "checkpoint", "topics", "hybrid"])
def test_goals_are_shown_in_every_strategy(tmp_path: Path, strategy: str) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s", strategy=strategy, budget_tokens=8_000)
        chat.goals.add("Implement user authentication")
        chat.record([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}])
        assert "G-1 Implement user authentication" in chat.context(prompt="Next?").text


def test_the_command_line_says_where_goals_are_not_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    with foveate.open(shell.db) as fov:
        fov.session("plain")
        fov.session("once", strategy="oneshot")
    assert shell.run("goal", "add", "plain", "Ship it").stderr == ""
    assert "oneshot does not show goals" in shell.run("goal", "add", "once", "Ship it").stderr
    assert "oneshot does not show goals" in shell.run("goal", "list", "once", "--json").stderr
