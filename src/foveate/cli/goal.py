"""`foveate sessions goal`: goals of a session, their steps, locked decisions and artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, each, store_group
from foveate.cli.ui.terminal import console, line, to_copy

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.goals import Goal
    from foveate.sync import Goals, Session

MARKS = {"done": "✓", "in progress": "▸", "pending": "·"}
goal_argument = click.argument("goal_id", metavar="GOAL")


@store_group("goal", "Goals, their steps, locked decisions and artifacts.")
def command() -> None:
    """Manage a session's goals. Contexts include them uncompressed, if the strategy shows goals.

    \b
    foveate sessions goal add demo "Implement user authentication" --priority high
    foveate sessions goal step demo G-1 "Add JWT" --status "in progress"
    foveate sessions goal decide demo G-1 "Use JWT in httpOnly cookies"
    foveate sessions goal artifact demo G-1 src/auth/jwt.ts
    foveate sessions goal done demo G-1
    foveate sessions goal list demo
    """


@command.command()
@click.argument("title")
@click.option("--priority", default="normal", show_default=True, help="low, normal or high.")
@click.option("--step", "steps", multiple=True, help="A step; repeatable.")
def add(session: Session, *, title: str, priority: str, steps: tuple[str, ...]) -> Answer:
    """Add a goal.

    \b
    foveate sessions goal add demo "Implement user authentication" --priority high --step Design --step "Add JWT"
    """
    return _shown(_goals(session).add(title, priority=priority, steps=steps))


@command.command()
@goal_argument
@click.argument("step")
@click.option("--status", default="pending", show_default=True, help="pending, in-progress or done.")
def step(session: Session, *, goal_id: str, step: str, status: str) -> Answer:
    """Add a step by its title, or set the status of one by its title or number.

    \b
    foveate sessions goal step demo G-1 "Add JWT"
    foveate sessions goal step demo G-1 2 --status done
    """
    return _shown(_goals(session).step(goal_id, step, status))


@command.command()
@goal_argument
@click.argument("decision")
def decide(session: Session, *, goal_id: str, decision: str) -> Answer:
    """Lock a decision: every context includes it verbatim.

    \b
    foveate sessions goal decide demo G-1 "Store tokens in httpOnly cookies"
    """
    return _shown(_goals(session).decide(goal_id, decision))


@command.command()
@goal_argument
@click.argument("path")
@click.option("--change", default="created", show_default=True, help="created, modified or deleted.")
def artifact(session: Session, *, goal_id: str, path: str, change: str) -> Answer:
    """Record a file that the goal produced.

    \b
    foveate sessions goal artifact demo G-1 src/routes/api.ts --change modified
    """
    return _shown(_goals(session).artifact(goal_id, path, change))


@command.command()
@goal_argument
def done(session: Session, *, goal_id: str) -> Answer:
    """Mark a goal as done; its locked decisions stay.

    \b
    foveate sessions goal done demo G-1
    """
    return _shown(_goals(session).done(goal_id))


@command.command(name="list")
def list_(session: Session, *, session_id: str) -> Answer:
    """Show a session's goals.

    \b
    foveate sessions goal list demo
    """
    goals = _goals(session).list()
    empty = f"No goals. '{to_copy('sessions', 'goal', 'add', session_id, 'TITLE')}' makes one."
    return Answer(goals, each(goals, _print) if goals else empty)


def _goals(session: Session) -> Goals:
    """Return the session's goals; warn if its contexts do not include them."""
    if not session.shows_goals:
        note = f"{session.info.strategy} does not show goals in its contexts; other strategies do."
        console(stderr=True).print(line((note, "yellow")), soft_wrap=True)
    return session.goals


def _shown(goal: Goal) -> Answer:
    return Answer(goal, lambda out: _print(out, goal))


def _print(out: Console, goal: Goal) -> None:
    out.print(line((goal.id, "bold"), f" {goal.title} (priority {goal.priority}, {goal.status})"))
    for place, one in enumerate(goal.steps, 1):
        out.print(line(f"  {MARKS[one.status]} {place}. {one.title}", (f"  {one.status}", "dim")))
    for decision in goal.decisions:
        out.print(line(f"  locked: {decision}"))
    for made in goal.artifacts:
        out.print(line(f"  {made.change} {made.path}"))
