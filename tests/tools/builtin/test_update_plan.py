"""`update_plan`: steps of a goal, or tasks where the strategy shows those."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import foveate
from foveate.tools import Toolbox, Workspace, registry

READ = {"step": "Read  the code", "status": "completed"}
WRITE = {"step": "Write the fix", "status": "in_progress"}
DONE = {"step": "Write the fix", "status": "completed"}


async def _plan(session: foveate.Session, *steps: dict[str, str], why: str | None = None) -> str:
    box = Toolbox([registry.find("update_plan")], Workspace(session=session))
    arguments: dict[str, Any] = {"plan": list(steps), "explanation": why}
    return (await box.call("update_plan", arguments)).text


def test_a_plan_is_the_steps_of_a_goal(tmp_path: Path) -> None:
    async def check() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            assert await _plan(session, READ, WRITE, why="Fix it") == "Goal G-1 has 2 steps, 1 completed.\n"
            assert await _plan(session, READ, DONE) == "Goal G-1 has 2 steps, 2 completed.\n"
            (goal,) = await session.goals.list()
            assert [(step.title, step.status) for step in goal.steps] == [
                ("Read the code", "done"), ("Write the fix", "done")
            ]  # fmt: skip
            assert "Goal G-2" in await _plan(session, {"step": "Ship it"}), "the first plan is done"

    asyncio.run(check())


def test_a_plan_is_the_tasks_of_a_oneshot_session(tmp_path: Path) -> None:
    async def check() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s", strategy="oneshot")
            await session.documents.give("tasks", "- [ ] Ask Ada\n- [ ] Read the code\n")
            await _plan(session, READ, WRITE)
            tasks = await session.documents.get("tasks")
            assert tasks == "- [ ] Ask Ada\n- [x] Read the code\n- [ ] Write the fix\n"

    asyncio.run(check())


def test_a_wrong_plan_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            assert "several steps in progress" in await _plan(session, WRITE, {**WRITE, "step": "Test it"})
            assert "plan[0].status: invalid enum value 'soon'" in await _plan(session, {**READ, "status": "soon"})
            assert "has no steps" in await _plan(session)

    asyncio.run(check())
