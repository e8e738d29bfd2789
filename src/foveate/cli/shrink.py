"""`foveate sessions shrink`: let a model decide which messages of a hybrid session to shorten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import TOKENS
from foveate.cli.ui.terminal import line, to_copy
from foveate.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from foveate.agents.shrink import ShrinkReport
    from foveate.client import Foveate
    from foveate.events import Event
    from foveate.session import Session

NO_MODEL = "no model is set for it; use --model, or set models.default ('foveate models' lists the settings)"


@store_command("shrink", "Let a model decide which messages of a hybrid session to shorten.")
@click.option("--model", help="The model. Default: models.shrink, or the one for compression.")
@click.option(
    "--window",
    "window_tokens",
    type=TOKENS,
    metavar="TOKENS",
    help="Limit of the history, e.g. 40k. Default: the strategy's.",
)
async def command(
    fov: Foveate, session: Session, progress: Progress, *, model: str | None, window_tokens: int | None
) -> Answer:
    """Run a compression agent that shortens messages until the session's history fits the target.

    The strategy shortens the rest automatically at the next context. Every message can still be read in full.

    \b
    foveate sessions shrink agent-7 --model openai:gpt-5-mini
    foveate sessions shrink agent-7 --window 40k --json
    """
    from foveate.agents.shrink import NAME, Shrinker

    if session.info.strategy != NAME:
        raise InputError(
            f"session {session.id!r} uses the strategy {session.info.strategy}, which has no agent; "
            f"{to_copy('sessions', 'strategy', session.id, NAME)} changes that"
        )
    models = (model,) if model else fov.models_for("shrink") or fov.models_for("compress")
    if not models:
        raise click.ClickException(NO_MODEL)
    task = progress.add_task("shortening messages", total=None)

    def show_progress(event: Event) -> None:
        progress.update(task, description=f"{event.data['accepted']} messages shortened")

    with fov.subscribe(show_progress, ["llm-summarizing"]):
        shrunk = await Shrinker.of(session).run(models, window_tokens=window_tokens)
    return Answer(shrunk, lambda out: _show(out, shrunk))


def _show(out: Console, shrunk: ShrinkReport) -> None:
    if shrunk.mode == "agent":
        out.print(line(f"Shortened: {shrunk.accepted:,}. Rejected: {shrunk.refused:,}."))
        sizes = f"{shrunk.tokens_before:,} tokens became {shrunk.tokens_after:,}"
        out.print(line(f"{sizes}; the model read and wrote {shrunk.model_tokens:,}."))
    else:
        out.print(line(f"Nothing was changed: {shrunk.reason}. The strategy shortens messages automatically."))
    if shrunk.mode == "agent" and not shrunk.is_target_reached:
        out.print(line((f"Stopped before the target was reached: {shrunk.reason}.", "dim")))
