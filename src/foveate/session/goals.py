"""Goals of a conversation, with steps and locked decisions.

    <goals>
    G-1 Implement user authentication (priority high, active)
    Steps: [done] Design the flow; [in progress] JWT; [pending] Registration
    Locked decisions:
    - Use JWT for authentication
    Artifacts: created src/auth/login.ts
    </goals>

Strategies that show goals include them in the fixed part of every context, never compressed. Checkpoints give more
weight to clauses about open goals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from foveate.errors import InputError, NotFound
from foveate.store import Store, bodies
from foveate.store.rows import GoalRow
from foveate.turn import from_us

Priority = Literal["low", "normal", "high"]
GoalStatus = Literal["active", "done"]
StepStatus = Literal["pending", "in progress", "done"]
Change = Literal["created", "modified", "deleted"]

DOCUMENT = "goals"
"""Name of the document in which contexts show the goals."""
MAX_TITLE_CHARS = 500
MAX_DECISION_CHARS = 4_000
MAX_GOALS = 100
MAX_PARTS = 200
"""Maximum number of steps, locked decisions or artifacts of one goal."""
MAX_DIGITS = 18
"""Digits read of a step's number: Python converts no more than 4,300."""
_GOAL_ID = re.compile(r"G-([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class GoalStep:
    """One step of a goal; steps are numbered from 1."""

    title: str
    status: StepStatus = "pending"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that was created, modified or deleted for a goal."""

    path: str
    change: Change = "created"


@dataclass(frozen=True, slots=True)
class Goal:
    """An aim of the conversation."""

    id: str
    title: str
    priority: Priority = "normal"
    status: GoalStatus = "active"
    steps: tuple[GoalStep, ...] = ()
    decisions: tuple[str, ...] = ()
    """Locked decisions, included verbatim in every context."""
    artifacts: tuple[Artifact, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Goals:
    """The goals of one session. Every change is durable when its method returns."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def add(self, title: str, *, priority: str = "normal", steps: Sequence[str] = ()) -> Goal:
        """Add a goal, optionally with steps."""
        checked: Priority = _one_of("priority", priority, get_args(Priority))
        planned = tuple(GoalStep(_line("step", step)) for step in steps)
        goal = Goal("", _line("title", title), checked, steps=planned)
        _limit("steps", planned)
        if len(await self._store.artefacts.goals(self._session_id)) >= MAX_GOALS:
            raise InputError(f"session {self._session_id!r} has {MAX_GOALS} goals already, the maximum")
        row = await self._store.artefacts.add_goal(self._session_id, _pack(goal))
        await self._show()
        return _read(row)

    async def step(self, goal_id: str, step: str | int, status: str = "pending") -> Goal:
        """Set the status of a step, identified by its number from 1 or its title. An unknown title adds a step."""
        checked: StepStatus = _one_of("status", status.replace("-", " "), get_args(StepStatus))
        goal = await self._get(goal_id)
        titles = [known.title for known in goal.steps]
        if isinstance(step, int) or step.strip().isdecimal():
            place = int(str(step)[:MAX_DIGITS]) - 1
            if not 0 <= place < len(titles):
                have = f"it has 1 to {len(titles)}" if titles else "it has none yet"
                raise NotFound(f"goal {goal.id} has no step {step}; {have}")
        else:
            title = _line("step", step)
            place = titles.index(title) if title in titles else len(titles)
            titles[place:] = titles[place:] or [title]
        changed = [*goal.steps, GoalStep(titles[-1])][: len(titles)]
        changed[place] = GoalStep(titles[place], checked)
        return await self._update(replace(goal, steps=_limit("steps", tuple(changed))))

    async def plan(self, goal_id: str, steps: Sequence[GoalStep]) -> Goal:
        """Replace all steps of a goal with new ones."""
        status: Any = get_args(StepStatus)
        checked = tuple(GoalStep(_line("step", step.title), _one_of("status", step.status, status)) for step in steps)
        return await self._update(replace(await self._get(goal_id), steps=_limit("steps", checked)))

    async def decide(self, goal_id: str, decision: str) -> Goal:
        """Add a locked decision, which every context includes verbatim. Adding it again changes nothing."""
        goal = await self._get(goal_id)
        text = _text("decision", decision, MAX_DECISION_CHARS)
        kept = goal.decisions if text in goal.decisions else (*goal.decisions, text)
        return await self._update(replace(goal, decisions=_limit("decisions", kept)))

    async def artifact(self, goal_id: str, path: str, change: str = "created") -> Goal:
        """Add a file that was created, modified or deleted for the goal. The last change of each path is kept."""
        checked: Change = _one_of("change", change, get_args(Change))
        goal = await self._get(goal_id)
        artifact = Artifact(_line("artifact", path), checked)
        others = tuple(known for known in goal.artifacts if known.path != artifact.path)
        return await self._update(replace(goal, artifacts=_limit("artifacts", (*others, artifact))))

    async def done(self, goal_id: str) -> Goal:
        """Mark a goal as done. From then on, contexts show only its title and its locked decisions."""
        return await self._update(replace(await self._get(goal_id), status="done"))

    async def list(self) -> Sequence[Goal]:
        """List all goals in the order they were added."""
        return [_read(row) for row in await self._store.artefacts.goals(self._session_id)]

    async def _get(self, goal_id: str) -> Goal:
        goals = await self.list()
        number = _GOAL_ID.fullmatch(goal_id.strip())
        found = next((goal for goal in goals if number and goal.id == number.group()), None)
        if found is None:
            have = f"available: {', '.join(goal.id for goal in goals)}" if goals else "there are none yet"
            raise NotFound(f"no goal {goal_id!r} in session {self._session_id!r}; {have}")
        return found

    async def _update(self, goal: Goal) -> Goal:
        number = int(goal.id.removeprefix("G-"))
        row = await self._store.artefacts.update_goal(self._session_id, number, _pack(goal))
        assert row is not None, f"{goal.id} was read just now"
        await self._show()
        return _read(row)

    async def _show(self) -> None:
        """Store the goals as the document that contexts show."""
        await self._store.artefacts.keep_document(self._session_id, DOCUMENT, write_goals(await self.list()))


def write_goals(goals: Sequence[Goal]) -> str:
    """Write the goals as contexts show them; a goal that is done has only its title and locked decisions."""
    return "".join(f"{_write(goal)}\n" for goal in goals)


def _write(goal: Goal) -> str:
    lines = [f"{goal.id} {goal.title} (priority {goal.priority}, {goal.status})"]
    if goal.status == "active" and goal.steps:
        lines.append("Steps: " + "; ".join(f"[{step.status}] {step.title}" for step in goal.steps))
    if goal.decisions:
        lines += ["Locked decisions:", *(f"- {decision}" for decision in goal.decisions)]
    if goal.status == "active" and goal.artifacts:
        lines.append("Artifacts: " + ", ".join(f"{one.change} {one.path}" for one in goal.artifacts))
    return "\n".join(lines)


def _pack(goal: Goal) -> bytes:
    kept = asdict(goal)
    for derived in ("id", "created_at", "updated_at"):
        del kept[derived]
    return bodies.squeeze(kept)


def _read(row: GoalRow) -> Goal:
    kept: Any = bodies.expand(row.data)
    assert isinstance(kept, Mapping), "a goal is kept as an object"
    return Goal(
        f"G-{row.number}",
        kept["title"],
        kept["priority"],
        kept["status"],
        tuple(GoalStep(**step) for step in kept["steps"]),
        tuple(kept["decisions"]),
        tuple(Artifact(**artifact) for artifact in kept["artifacts"]),
        from_us(row.created_us),
        from_us(row.updated_us),
    )


def _text(what: str, given: str, most_chars: int) -> str:
    """Return the text without surrounding white space; `InputError` if it is empty, too long or can't be stored."""
    text = given.strip()
    if not text:
        raise InputError(f"a goal's {what} can't be empty")
    if len(text) > most_chars:
        raise InputError(f"a goal's {what} may have up to {most_chars:,} characters; got {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"a goal's {what} has a lone surrogate at character {error.start}") from error
    return text


def _line(what: str, given: str) -> str:
    return " ".join(_text(what, given, MAX_TITLE_CHARS).split())


def _one_of(what: str, given: str, known: tuple[Any, ...]) -> Any:
    if given not in known:
        raise InputError(f"no {what} {given!r}; available: {', '.join(known)}")
    return given


def _limit(what: str, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(parts) > MAX_PARTS:
        raise InputError(f"a goal may have up to {MAX_PARTS} {what}; mark it as done and add another goal")
    return parts
