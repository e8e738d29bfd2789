"""`foveate run`: a model works on an epic by itself, until it is done, asks, is stuck, or meets a cap."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.options import json_option, store_file, store_option
from foveate.cli.terminal import console, line, print_json_line, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.api import Foveate
    from foveate.cli.chat_room import Wishes
    from foveate.running import Caps, RunEnded, RunEvent
    from foveate.session import Session
    from foveate.tasks import TaskList

EXIT_CODES = {"done": 0, "question": 2, "blocked": 3, "cap": 4}
CALL_CHARS = 100
NO_MODEL = (
    "no model is configured; give --model NAME or set $FOVEATE_MODELS__CHAT, as in openai:gpt-5-mini, with its key in "
    "$OPENAI_API_KEY"
)
NAMELESS = "give --epic FILE, which names the session, or --session NAME to begin or go on with one"
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="run", short_help="Let a model work on an epic by itself, and go on where it stopped.")
@click.option("--epic", "epic_path", type=_PATH, help="What is to be done; up to 5,000 tokens, fixed for the run.")
@click.option("--tasks", "tasks_path", type=_PATH, help="A list of tasks in Markdown, as in '- [ ] Write the tests'.")
@click.option("--model", metavar="NAME", help="Who works, as in openai:gpt-5-mini; the session remembers it.")
@click.option("--session", "session_id", metavar="NAME", help="The session; run-FILE after the epic, if not said.")
@click.option("--answer", metavar="TEXT", help="What the model asked for, or how to go on from a blocker.")
@click.option("--budget", metavar="TOKENS", help="The most a prompt may have, as in 32k; the session remembers it.")
@click.option("--max-iterations", type=click.IntRange(min=1), metavar="N", help="Of the whole run; 100 if not said.")
@click.option("--max-tokens", metavar="TOKENS", help="Read and written by the whole run, as in 500k.")
@click.option("--max-usd", type=click.FloatRange(min=0), metavar="USD", help="What the whole run may cost.")
@click.option("--max-minutes", type=click.FloatRange(min=0), metavar="N", help="How long it may go on this time.")
@click.option("--max-output", type=click.IntRange(min=1), metavar="TOKENS", help="The most an answer may have.")
@click.option("--window", type=click.IntRange(min=1), metavar="TOKENS", help="What the model takes, prompt and answer.")
@click.option("--system", "system_path", type=_PATH, help="A file with a system prompt to put before the run's own.")
@click.option("--tools/--no-tools", "has_tools", default=True, help="Whether the model is given tools to call.")
@click.option(
    "--write-tasks",
    "written_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the task list as it is in the end; --tasks itself is left as it is.",
)
@store_option
@json_option
def command(
    *,
    epic_path: Path | None,
    tasks_path: Path | None,
    model: str | None,
    session_id: str | None,
    answer: str | None,
    budget: str | None,
    max_iterations: int | None,
    max_tokens: str | None,
    max_usd: float | None,
    max_minutes: float | None,
    max_output: int | None,
    window: int | None,
    system_path: Path | None,
    has_tools: bool,
    written_path: Path | None,
    store_path: Path,
    as_json: bool,
) -> None:
    """Work on an epic without anyone watching: each call sees the epic, the tasks and the log, and adds to the log.

    The same command goes on where the run stopped, also after a crash. Exit code 0: the model says that all is done.
    2: it has a question; --answer TEXT goes on. 3: it is blocked; --answer TEXT goes on, too. 4: a cap was met.
    1: the model could not be asked, or the command was wrong.

    \b
    foveate run --epic spec.md --tasks tasks.md --model openai:gpt-5-mini
    foveate run --session run-spec --answer "Use port 8443."
    foveate run --epic spec.md --max-iterations 300 --max-usd 5
    foveate show run-spec T-12
    """
    import asyncio

    from foveate.cli.chat_room import Wishes, read_tokens
    from foveate.cli.context import read_text
    from foveate.running import DEFAULT_MAX_ITERATIONS, Caps

    name = session_id or (_name_after(epic_path) if epic_path else None)
    if name is None:
        raise click.UsageError(NAMELESS)
    if answer is not None and not answer.strip():
        raise click.UsageError("--answer is empty")
    wishes = Wishes(
        model=model,
        system=read_text(system_path),
        window_tokens=window,
        max_output_tokens=max_output,
        has_tools=has_tools,
    )
    caps = Caps(
        max_iterations=max_iterations or DEFAULT_MAX_ITERATIONS,
        max_tokens=read_tokens(max_tokens) if max_tokens else None,
        max_usd=max_usd,
        max_seconds=None if max_minutes is None else max_minutes * 60,
    )
    given = _Given(
        read_text(epic_path) if epic_path else None, read_text(tasks_path) if tasks_path else None, answer
    )
    budget_tokens = read_tokens(budget) if budget else None
    path = store_file(store_path, create=True)
    ended = asyncio.run(_work(path, name, wishes, caps, given, budget_tokens=budget_tokens, as_json=as_json))
    if written_path:
        written_path.write_text(ended.tasks.markdown(), "utf-8")
    raise SystemExit(EXIT_CODES[ended.reason])
