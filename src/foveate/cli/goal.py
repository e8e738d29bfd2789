"""`foveate goal`: what a conversation is to achieve, its steps, and what was decided for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, print_json, to_copy

if TYPE_CHECKING:
    from foveate.session.goals import Goal
    from foveate.sync import Foveate, Session

MARKS = {"done": "✓", "in progress": "▸", "pending": "·"}


@click.group(name="goal", short_help="Goals, their steps, locked decisions and artifacts.")
def command() -> None:
    """Keep goals in every context of a session whose strategy shows them, never compressed.

    \b
    foveate goal add demo "Implement user authentication" --priority high
    foveate goal step demo G-1 "Add JWT" --status "in progress"
    foveate goal decide demo G-1 "Use JWT in httpOnly cookies"
    foveate goal artifact demo G-1 src/auth/jwt.ts
    foveate goal done demo G-1
    foveate goal list demo
    """


@command.command(name="add")
@click.argument("session_id", metavar="SESSION")
@click.argument("title")
@click.option("--priority", default="normal", show_default=True, help="low, normal or high.")
@click.option("--step", "steps", multiple=True, help="A step; repeatable.")
@store_option
@json_option
def add(*, session_id: str, title: str, priority: str, steps: tuple[str, ...], store_path: Path, as_json: bool) -> None:
    """Add a goal.

    \b
    foveate goal add demo "Implement user authentication" --priority high --step Design --step "Add JWT"
    """
    with opened(store_path) as fov:
        session = _find(fov, session_id)
        goal = session.goals.add(title, priority=priority, steps=steps)
    _show([goal], as_json=as_json)


@command.command(name="step")
@click.argument("session_id", metavar="SESSION")
@click.argument("goal_id", metavar="GOAL")
@click.argument("step")
@click.option("--status", default="pending", show_default=True, help="pending, in-progress or done.")
@store_option
@json_option
def step(*, session_id: str, goal_id: str, step: str, status: str, store_path: Path, as_json: bool) -> None:
    """Add a step by its title, or set the status of one by its title or number.

    \b
    foveate goal step demo G-1 "Add JWT"
    foveate goal step demo G-1 2 --status done
    """
    with opened(store_path) as fov:
        session = _find(fov, session_id)
        goal = session.goals.step(goal_id, step, status)
    _show([goal], as_json=as_json)


@command.command(name="decide")
@click.argument("session_id", metavar="SESSION")
@click.argument("goal_id", metavar="GOAL")
@click.argument("decision")
@store_option
@json_option
def decide(*, session_id: str, goal_id: str, decision: str, store_path: Path, as_json: bool) -> None:
    """Lock a decision: every context includes it verbatim.

    \b
    foveate goal decide demo G-1 "Store tokens in httpOnly cookies"
    """
    with opened(store_path) as fov:
        session = _find(fov, session_id)
        goal = session.goals.decide(goal_id, decision)
    _show([goal], as_json=as_json)


@command.command(name="artifact")
@click.argument("session_id", metavar="SESSION")
@click.argument("goal_id", metavar="GOAL")
@click.argument("path")
@click.option("--change", default="created", show_default=True, help="created, modified or deleted.")
@store_option
@json_option
def artifact(*, session_id: str, goal_id: str, path: str, change: str, store_path: Path, as_json: bool) -> None:
    """Record a file that the goal produced.

    \b
    foveate goal artifact demo G-1 src/routes/api.ts --change modified
    """
    with opened(store_path) as fov:
        session = _find(fov, session_id)
        goal = session.goals.artifact(goal_id, path, change)
    _show([goal], as_json=as_json)


@command.command(name="done")
@click.argument("session_id", metavar="SESSION")
@click.argument("goal_id", metavar="GOAL")
@store_option
@json_option
def done(*, session_id: str, goal_id: str, store_path: Path, as_json: bool) -> None:
    """Mark a goal as done; its locked decisions stay.

    \b
    foveate goal done demo G-1
    """
    with opened(store_path) as fov:
        session = _find(fov, session_id)
        goal = session.goals.done(goal_id)
    _show([goal], as_json=as_json)


@command.command(name="list")
@click.argument("session_id", metavar="SESSION")
@store_option
@json_option
def list_(*, session_id: str, store_path: Path, as_json: bool) -> None:
    """Show a session's goals.

    \b
    foveate goal list demo
    """
    with opened(store_path) as fov:
        goals = _find(fov, session_id).goals.list()
    if as_json or goals:
        _show(goals, as_json=as_json, is_list=True)
    else:
        console().print(line(f"No goals. '{to_copy('goal', 'add', session_id, 'TITLE')}' makes one."))


def _find(fov: Foveate, session_id: str) -> Session:
    """The session; a note says so if its contexts leave goals out."""
    session = fov.find_session(session_id)
    if not session.shows_goals:
        note = f"{session.info.strategy} does not show goals in its contexts; other strategies do."
        console(stderr=True).print(line((note, "yellow")), soft_wrap=True)
    return session


def _show(goals: Sequence[Goal], *, as_json: bool, is_list: bool = False) -> None:
    if as_json:
        print_json(goals if is_list else goals[0])
        return
    out = console()
    for goal in goals:
        out.print(line((goal.id, "bold"), f" {goal.title} (priority {goal.priority}, {goal.status})"))
        for place, one in enumerate(goal.steps, 1):
            out.print(line(f"  {MARKS[one.status]} {place}. {one.title}", (f"  {one.status}", "dim")))
        for decision in goal.decisions:
            out.print(line(f"  locked: {decision}"))
        for made in goal.artifacts:
            out.print(line(f"  {made.change} {made.path}"))
