"""`update_plan`: the steps of the work as a goal of the session, or as its tasks where the strategy shows those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.agents.tasks import Task, TaskList, parse_tasks
from foveate.session import Session
from foveate.session.documents import RUN
from foveate.session.goals import Goal, GoalStep, StepStatus
from foveate.text import several
from foveate.tools.tool import Annotations, ToolError, tool
from foveate.tools.workspace import Workspace

DEFAULT_TITLE = "Plan"
_STATUS: dict[str, StepStatus] = {"pending": "pending", "in_progress": "in progress", "completed": "done"}


class PlanStep(Struct, forbid_unknown_fields=True):
    """A step of a plan."""

    step: Annotated[str, Meta(description="What to do, in a few words")]
    status: Literal["pending", "in_progress", "completed"] = "pending"


@tool(annotations=Annotations(destructive=False))
async def update_plan(
    workspace: Workspace,
    *,
    plan: Annotated[list[PlanStep], "All steps in order, those that are completed included"],
    explanation: Annotated[str | None, "What the plan is for"] = None,
) -> str:
    """Write down the steps of your work and their progress. The list replaces the previous one."""
    session = workspace.session
    if session is None:
        raise ToolError("update_plan writes to a session's goals, and no session was given")
    if not plan:
        raise ToolError("plan has no steps")
    if sum(step.status == "in_progress" for step in plan) > 1:
        raise ToolError("plan has several steps in progress; only one can be at a time")
    where = await (_as_goal if session.shows_goals else _as_tasks)(session, plan, explanation)
    done = sum(step.status == "completed" for step in plan)
    return f"{where} has {several(len(plan), 'step')}, {done} completed.\n"


async def _as_goal(session: Session, plan: Sequence[PlanStep], explanation: str | None) -> str:
    goal = _current(await session.goals.list(), plan)
    if goal is None:
        title = next(iter((explanation or "").strip().splitlines()), "") or DEFAULT_TITLE
        goal = await session.goals.add(title)
    steps = [GoalStep(step.step, _STATUS[step.status]) for step in plan]
    return f"Goal {(await session.goals.plan(goal.id, steps)).id}"


def _current(goals: Sequence[Goal], plan: Sequence[PlanStep]) -> Goal | None:
    """Return the newest active goal, unless all its steps are done and the plan is a different one."""
    goal = next((goal for goal in reversed(goals) if goal.status == "active"), None)
    if goal is None or not goal.steps or any(step.status != "done" for step in goal.steps):
        return goal
    known = {step.title for step in goal.steps}
    return goal if any(" ".join(step.step.split()) in known for step in plan) else None


async def _as_tasks(session: Session, plan: Sequence[PlanStep], _explanation: str | None) -> str:
    """Write the plan as tasks. Open tasks that the plan does not mention are kept."""
    if await session.documents.get(RUN):
        raise ToolError("a run keeps the tasks of this session; update_tasks changes them")
    before = parse_tasks(await session.documents.get("tasks"))
    planned = TaskList(tuple(Task(" ".join(step.step.split()), step.status == "completed") for step in plan))
    known = {task.text for task in planned.tasks}
    kept = tuple(entry for entry in before.entries if isinstance(entry, str) or entry.text not in known)
    merged = parse_tasks(TaskList((*kept, *planned.entries)).markdown())
    await session.documents.give("tasks", merged.markdown())
    return "The list of tasks"
