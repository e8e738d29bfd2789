"""`foveate learn`: find out what past sessions teach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, store_file, store_option
from foveate.cli.ui.terminal import console, line, print_json, printable, progress_bar
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.knowledge.report import KnowledgeChange, LearnReport, ModelUsage, ScopeReport
    from foveate.knowledge.run import LearnProgress

SIGNS = {"new": ("+", "green"), "changed": ("~", "yellow"), "retired": ("-", "red"), "merged": ("-", "red")}
SHOWN_CHARS = 200
"""Of a text that changed."""
SHOWN_SOURCES = 3
OUTCOMES = {
    "unchanged": "nothing new since the last run",
    "empty": "no turns",
    "in progress": "another run learns from it now",
}


@click.command(name="learn", short_help="Learn topics, lessons and preferences from past sessions.")
@click.option("--scope", metavar="SCOPE", help="E.g. project:shop or session:ID. Default: each project.")
@click.option("--dry-run", is_flag=True, help="Show what would be read, its price and what would change.")
@store_option
@json_option
def command(*, scope: str | None, dry_run: bool, store_path: Path, as_json: bool) -> None:
    """Read the turns of a scope, and store what they teach: topics, a profile, lessons, recommendations.

    Rules find it; if a model is set (knowledge.model, models.default), it finds and words more, within the limits
    knowledge.run_usd and knowledge.daily_usd. A second run over the same turns does nothing, and an interrupted one is
    resumed. Items are proposals until they are used or approved: 'foveate knowledge list' shows them.

    \b
    foveate learn --dry-run
    foveate learn --scope project:shop
    """
    import asyncio

    report = asyncio.run(_learn(store_file(store_path), scope, dry_run=dry_run, shown=not as_json))
    if as_json:
        import msgspec

        print_json({"dry_run": dry_run, "calls": report.calls, "scopes": msgspec.to_builtins(report.scopes)})
        return
    out = console()
    if not report.scopes:
        out.print(line("There are no turns to learn from."))
    for each in report.scopes:
        _show(out, each)


async def _learn(path: Path, scope: str | None, *, dry_run: bool, shown: bool) -> LearnReport:
    import foveate
    from foveate.knowledge.run import learn

    async with foveate.open(path) as fov:
        with progress_bar(shown=shown) as bar:
            task = bar.add_task("learning", total=None)

            def advance(progress: LearnProgress) -> None:
                description = printable(f"{progress.scope[:40]} {progress.step}")
                bar.update(task, description=description, completed=progress.done, total=progress.total)

            return await learn(fov, scope, dry_run=dry_run, progress=advance)


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
    told = f"{counts}; topics of {several(report.turns_with_topics, 'turn')}"
    note = " by rules; nothing was stored" if report.outcome == "preview" else ""
    out.print(line((f"{told}{note}.", "dim")))
    if report.usage and report.usage.problem:
        left = f"Not all turns were read by {report.usage.model}: {report.usage.problem}"
        out.print(line((f"{left}. The next run reads the rest.", "yellow")))


def _usage(report: ScopeReport) -> str:
    usage: ModelUsage | None = report.usage
    if usage is None:
        return "by rules"
    calls = several(usage.calls, "call")
    if report.outcome == "preview":
        price = f"about ${usage.usd:.2f}, at most ${usage.most_usd:.2f}"
        return f"by rules and {usage.model}: {usage.input_tokens:,} tokens in {calls}, {price}"
    answers = f"{usage.refused:,} rejected, {usage.nothing:,} times nothing to keep"
    return f"by rules and {usage.model}: {calls}, ${usage.usd:.4f}; {answers}"


def _show_change(out: Console, change: KnowledgeChange) -> None:
    sign, style = SIGNS[change.change]
    sources = [f"{source.session_id}/T-{source.turn}" for source in change.sources[-SHOWN_SOURCES:]]
    more = len(change.sources) - len(sources)
    where = ", ".join(sources) + (f" and {more} more" if more else "")
    out.print(line((f"{sign} ", style), (change.id, "bold"), f" {change.kind}: {change.title}", (f"  {where}", "dim")))
    if change.before:
        out.print(line((f"    - {_short(change.before)}", "red")))
        out.print(line((f"    + {_short(change.text)}", "green")))
    if change.reason:
        out.print(line((f"    {change.reason}", "dim")))


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN_CHARS else f"{words[:SHOWN_CHARS]}…"
