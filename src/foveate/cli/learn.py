"""`foveate knowledge learn`: learn topics, lessons and preferences from past sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, each, store_command
from foveate.cli.ui.terminal import line, printable, shorten
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from foveate.client import Foveate
    from foveate.knowledge.report import KnowledgeChange, ModelUsage, ScopeReport
    from foveate.knowledge.run import LearnProgress

SIGNS = {"new": ("+", "green"), "changed": ("~", "yellow"), "retired": ("-", "red"), "merged": ("-", "red")}
SHOWN_CHARS = 200
"""Characters shown of a changed text."""
SHOWN_SOURCES = 3
OUTCOMES = {
    "unchanged": "nothing new since the last run",
    "empty": "no turns",
    "in progress": "another run is in progress",
}


@store_command("learn", "Learn topics, lessons and preferences from past sessions.")
@click.option("--scope", metavar="SCOPE", help="E.g. project:shop or session:ID. Default: each project.")
@click.option("--dry-run", is_flag=True, help="Show what would be read, its price and what would change.")
async def command(fov: Foveate, progress: Progress, *, scope: str | None, dry_run: bool) -> Answer:
    """Learn from the turns of a scope: topics, a profile, lessons, recommendations.

    Rules extract the items; a model (knowledge.model or models.default), if set, adds more and improves their wording,
    within the limits knowledge.run_usd and knowledge.daily_usd. A second run over the same turns does nothing; an
    interrupted run is resumed. Items are proposals until they are used or approved: see 'foveate knowledge list'.

    \b
    foveate knowledge learn --dry-run
    foveate knowledge learn --scope project:shop
    """
    import msgspec

    from foveate.knowledge.run import learn

    task = progress.add_task("learning", total=None)

    def advance(step: LearnProgress) -> None:
        description = printable(f"{step.scope[:40]} {step.step}")
        progress.update(task, description=description, completed=step.done, total=step.total)

    report = await learn(fov, scope, dry_run=dry_run, progress=advance)
    value = {"dry_run": dry_run, "calls": report.calls, "scopes": msgspec.to_builtins(report.scopes)}
    empty = "There are no turns to learn from."
    return Answer(value, each(report.scopes, _show) if report.scopes else empty)


def _show(out: Console, report: ScopeReport) -> None:
    name = f"{report.tenant}:{report.scope}" if report.tenant else report.scope
    if report.outcome in OUTCOMES:
        out.print(line((f"{name}  ", "bold"), OUTCOMES[report.outcome]))
        return
    read = f"{several(report.turns, 'turn')} of {several(report.sessions, 'session')}"
    out.print(line((f"{name}  ", "bold"), f"{read}, {_usage(report)}"))
    for change in report.changes:
        _show_change(out, change)
    counts = ", ".join(f"{report.count(kind):,} {kind}" for kind in ("new", "changed", "retired", "merged"))
    summary = f"{counts}; topics of {several(report.turns_with_topics, 'turn')}"
    note = " by rules; nothing was stored" if report.outcome == "preview" else ""
    out.print(line((f"{summary}{note}.", "dim")))
    if report.usage and report.usage.problem:
        unread = f"Not all turns were read by {report.usage.model}: {report.usage.problem}"
        out.print(line((f"{unread}. The next run reads the rest.", "yellow")))


def _usage(report: ScopeReport) -> str:
    usage: ModelUsage | None = report.usage
    if usage is None:
        return "by rules"
    calls = several(usage.calls, "call")
    if report.outcome == "preview":
        price = f"about ${usage.usd:.2f}, at most ${usage.most_usd:.2f}"
        return f"by rules and {usage.model}: {usage.input_tokens:,} tokens in {calls}, {price}"
    answers = f"{usage.refused:,} rejected, {usage.nothing:,} with nothing to keep"
    return f"by rules and {usage.model}: {calls}, ${usage.usd:.4f}; {answers}"


def _show_change(out: Console, change: KnowledgeChange) -> None:
    sign, style = SIGNS[change.change]
    sources = [f"{source.session_id}/T-{source.turn}" for source in change.sources[-SHOWN_SOURCES:]]
    more = len(change.sources) - len(sources)
    where = ", ".join(sources) + (f" and {more} more" if more else "")
    out.print(line((f"{sign} ", style), (change.id, "bold"), f" {change.kind}: {change.title}", (f"  {where}", "dim")))
    if change.before:
        out.print(line((f"    - {shorten(change.before, SHOWN_CHARS)}", "red")))
        out.print(line((f"    + {shorten(change.text, SHOWN_CHARS)}", "green")))
    if change.reason:
        out.print(line((f"    {change.reason}", "dim")))
