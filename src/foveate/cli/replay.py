"""`foveate sessions replay`: replay a session at a budget, and report what it would have cost."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import TOKENS, opened
from foveate.cli.ui.terminal import line
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from foveate.replay.replay import ReplayReport
    from foveate.settings import Settings
    from foveate.turn import Turn


@store_command("replay", "Replay a session turn by turn at a budget: cached share, price, overruns.")
@click.argument("session_id", metavar="SESSION")
@click.option("--budget", type=TOKENS, metavar="TOKENS", help="Default: the session's own.")
@click.option("--schedule", type=click.Choice(["watermark", "interval", "adaptive"]), help="When plans are rebuilt.")
@click.option("--order", type=click.Choice(["cache-first", "documented"]), help="Where the board is placed.")
@click.option("--low-water", type=click.FloatRange(0.1, 1), help="Share of the history's room that a rebuild fills.")
@click.option(
    "--retrieve-every",
    type=click.IntRange(min=0),
    default=0,
    metavar="TURNS",
    help="Let the model read an old turn every N turns. Default: never.",
)
@click.option("--turns", "limit", type=click.IntRange(min=1), metavar="N", help="Only the first N turns.")
def command(
    progress: Progress,
    *,
    session_id: str,
    budget: int | None,
    schedule: str | None,
    order: str | None,
    low_water: float | None,
    retrieve_every: int,
    limit: int | None,
    store_path: Path,
) -> Answer:
    """Replay a session, with one model call per assistant message, and compare the prompts.

    Each prompt is the live context of a session with this budget, not a preview. Nothing is sent, and the session is
    not changed. 'cached' is the share of all prompt tokens that the previous prompt
    began with; 'price' is relative to a provider without a cache (cache reads 0.1, writes 1.25).

    \b
    foveate sessions replay demo --budget 16000
    foveate sessions replay demo --budget 16000 --schedule interval --order documented --retrieve-every 10
    """
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        budget = budget or session.info.budget_tokens
        turns = session.load_turns(1, limit)
        settings = _with_options(fov.settings, schedule, order, low_water)
    report = _replay(progress, turns, budget, settings, retrieve_every)
    return Answer(report.summary(), lambda out: _show(out, report), 1 if report.overruns else 0)


def _with_options(settings: Settings, schedule: str | None, order: str | None, low_water: float | None) -> Settings:
    from msgspec.structs import replace

    gradient: dict[str, Any] = {"schedule": schedule, "low_water": low_water}
    given = {name: value for name, value in gradient.items() if value is not None}
    context = replace(settings.context, **({"order": order} if order else {}))
    return replace(settings.with_strategy("gradient", **given), context=context)


def _replay(
    progress: Progress, turns: list[Turn], budget: int, settings: Settings, retrieve_every: int
) -> ReplayReport:
    import asyncio

    from foveate.replay.replay import replay
    from foveate.replay.script import prepare

    packing = progress.add_task("compressing", total=len(turns))
    replaying = progress.add_task("replaying", total=len(turns))

    async def play() -> ReplayReport:
        script = await prepare(turns, settings=settings, progress=partial(progress.advance, packing))
        return await replay(
            script,
            budget_tokens=budget,
            settings=settings,
            retrieve_every_turns=retrieve_every,
            progress=partial(progress.advance, replaying),
        )

    return asyncio.run(play())


def _show(out: Console, report: ReplayReport) -> None:
    rebuilds = ", ".join(f"{count} {cause}" for cause, count in report.rebuilds.items())
    most = max((call.tokens for call in report.calls), default=0)
    turns = several(report.turns, "turn")
    rows = [
        ("replayed", f"{turns}, {amount(report.raw_tokens)} tokens, {several(len(report.calls), 'call')}"),
        ("at", f"{report.budget_tokens:,} tokens, {report.schedule}, {report.order}"),
        ("overruns", f"{report.overruns} (largest prompt: {most:,} tokens)"),
        ("cached", f"{report.cached_share:.1%} of all prompts' tokens"),
        ("price", f"{report.price:.2f} of the price without a cache"),
        ("rebuilds", rebuilds or "none"),
    ]
    if report.mean_use is not None and report.mean_history_use is not None:
        use = f"{report.mean_use:.0%} of the budget on average once full, {report.mean_history_use:.0%} of the "
        rows.append(("in use", f"{use}history's room"))
        fewest = several(report.fewest_turns_shown or 0, "turn")
        rows.append(("shown singly", f"{fewest} at the fewest, the others in eras"))
    rows.append(("time", f"{report.cpu_ms:.1f} ms of CPU per call"))
    for name, value in rows:
        out.print(line((f"{name:<14}", "dim"), value))
