"""`foveate store compress`: finish pending compression now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import Column, line, print_table, printable, waiting_for_model
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from foveate.events import Event, EventKind
    from foveate.session.values import SessionStats
    from foveate.sync import Foveate
    from foveate.turn import Json

COLUMNS = (
    Column("session"),
    Column("turns", "number"),
    Column("done now", "number"),
    Column("by model", "number"),
    Column("rejected", "number", expendable=1),
    Column("fallbacks", "number"),
    Column("queued", "number"),
)


@dataclass(slots=True)
class Trouble:
    """Model failures during the run."""

    problem: str = ""
    """The last failure: the model and its error."""
    given_up: int = 0
    """Turns for which no model is retried automatically."""

    def note(self, event: Event) -> None:
        if "problem" in event.data:  # rules may fail too, but report no problem
            self.problem = f"{event.data.get('model')}: {event.data['problem']}"
            self.given_up += event.data.get("is_given_up") is True

    @property
    def why(self) -> str:
        return f" ({self.problem})" if self.problem else ""


@store_command("compress", "Finish what the background has not compressed yet.")
@click.argument("session_ids", metavar="[SESSION]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every session.")
@click.option(
    "--again",
    is_flag=True,
    help="Also redo what may improve: fallbacks, turns of an older version, and, where a model is set, turns that "
    "no model has compressed.",
)
def command(fov: Foveate, progress: Progress, *, session_ids: tuple[str, ...], every: bool, again: bool) -> Answer:
    """Make the missing renditions of sessions, and ask the configured model (models.default) for better ones.

    'rejected' counts versions that lost too much and were redone; 'fallbacks' are turns that show a longer level, or
    the rule-based version because a model failed; 'queued' are turns for which the model is called later, after a
    failure or when a limit allows.

    \b
    foveate store compress demo
    foveate store compress --all
    foveate store compress demo --again
    """
    from foveate.session.address import short_ids

    if bool(session_ids) == every:
        raise click.UsageError("name sessions, or use --all")
    trouble = Trouble()
    ids = [fov.find_session(name).id for name in session_ids] or [info.id for info in fov.sessions()]
    if again:
        for name in ids:
            fov.compress_again(session_id=name)
    before = {name: fov.open_session(name).stats() for name in ids}
    kinds: list[EventKind] = ["model-failed", "model-held-back", "compression-failed"]
    with fov.subscribe(trouble.note, kinds) as subscription:
        _settle(fov, before, progress)
        subscription.drain()
    after = {name: fov.open_session(name).stats() for name in ids}
    value = {name: _counts(before[name], stats, trouble.problem) for name, stats in after.items()}
    names = short_ids((info.id for info in fov.sessions()), of=after)
    return Answer(value, (lambda out: _show(out, names, before, after, trouble)) if ids else "There are no sessions.")


def _settle(fov: Foveate, before: Mapping[str, SessionStats], progress: Progress) -> None:
    is_twice = bool(fov.settings.models.default or fov.settings.models.compress or fov.settings.models.tiny)
    # With a model, the turns that rules compressed are sent to it if they are worth that: they count twice.
    total = sum(stats.pending * (1 + is_twice) + stats.waiting for stats in before.values())
    task = progress.add_task("compressing", total=total)
    for name in before:
        progress.update(task, description=printable(name[:40]))
        fov.settle(session_id=name, progress=partial(progress.advance, task))
    progress.update(task, completed=total)


def _show(
    out: Console,
    names: Mapping[str, str],
    before: Mapping[str, SessionStats],
    after: Mapping[str, SessionStats],
    trouble: Trouble,
) -> None:
    rows = [
        (
            names.get(name, name),
            f"{stats.turns:,}",
            f"{_done(before[name], stats):,}",
            f"{stats.by_model:,}",
            f"{stats.refusals:,}",
            f"{stats.fallbacks:,}",
            f"{stats.waiting:,}",
        )
        for name, stats in after.items()
    ]
    print_table(out, COLUMNS, rows)
    if waiting := waiting_for_model(after.values()):
        by_whom = "by the next 'foveate store compress', or by a program that has the store open, e.g. a chat"
        out.print(line((f"{waiting}{trouble.why}, {by_whom}. Until then the rule-based version is used.", "dim")))
    if trouble.given_up:
        message = f"No model is retried for {several(trouble.given_up, 'turn')}{trouble.why}"
        out.print(
            line((f"{message}: the rule-based version is used. 'foveate store compress --again' retries.", "dim"))
        )


def _done(before: SessionStats, after: SessionStats) -> int:
    """Count the turns that were finished, by rules or by a model."""
    return max(before.pending - after.pending, after.by_model - before.by_model)


def _counts(before: SessionStats, after: SessionStats, problem: str) -> dict[str, Json]:
    return {
        "done": _done(before, after),
        "turns": after.turns,
        "pending": after.pending,
        "rendered": after.rendered,
        "by_model": after.by_model,
        "fallbacks": after.fallbacks,
        "refusals": after.refusals,
        "waiting": after.waiting,
        "waiting_until": after.waiting_until.isoformat() if after.waiting_until else None,
        "problem": problem or None,
    }
