"""`foveate run`: a model works on an epic unattended, until it is done, blocked, asks, or reaches a limit."""

from __future__ import annotations

import re
import sys
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from foveate.cli.ui.options import TOKENS, json_option, read_utf8, store_file, store_option
from foveate.cli.ui.tool_options import (
    TerminalApprover,
    ToolOptions,
    make_toolbox,
    open_mcp,
    start_worker,
    tool_options,
)
from foveate.errors import InputError, SessionNotFound

if TYPE_CHECKING:
    from foveate.agents.run import Caps, RunEnd
    from foveate.client import Foveate
    from foveate.session import Session

EXIT_CODES = {"done": 0, "blocked": 3, "cap": 4, "question": 5}
"""Exit codes by reason; 1 is a failure and 2 a usage error, as for every command."""
SECONDS_PER_MINUTE = 60
NO_SESSION = "give --epic FILE, which names the session, or --session NAME to start or resume one"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunOptions:
    """Options of the command line."""

    session_id: str
    model: str | None
    epic: str | None
    tasks: str | None
    answer: str | None
    budget_tokens: int | None
    max_output_tokens: int | None
    has_tools: bool
    tools: ToolOptions
    caps: Caps


class _RunSetup(NamedTuple):
    """The session and the model of a run, and the token limit of an answer."""

    session: Session
    model: str
    output_tokens: int


@click.command(name="run", short_help="Let a model work on an epic unattended; resumes where it stopped.")
@click.option("--epic", "epic_path", type=_FILE, help="The epic: what to do. Up to 5,000 tokens, fixed for the run.")
@click.option("--tasks", "tasks_path", type=_FILE, help="Tasks in Markdown, e.g. '- [ ] Write the tests'.")
@click.option("--model", metavar="NAME", help="The model to use, e.g. openai:gpt-5-mini.")
@click.option("--session", "session_id", metavar="NAME", help="The session. Default: run-FILE, from the epic's name.")
@click.option("--answer", metavar="TEXT", help="Answer to the model's question, or how to resolve a blocker.")
@click.option("--budget", type=TOKENS, metavar="TOKENS", help="Token limit of a prompt; stored with the session.")
@click.option("--max-iterations", type=click.IntRange(min=1), metavar="N", help="Limit of the whole run. Default: 100.")
@click.option("--max-tokens", type=TOKENS, metavar="TOKENS", help="Limit of the whole run, e.g. 500k.")
@click.option("--max-usd", type=click.FloatRange(min=0), metavar="USD", help="Limit of the whole run's cost.")
@click.option("--max-minutes", type=click.FloatRange(min=0), metavar="N", help="Time limit of this command.")
@click.option("--max-output", type=TOKENS, metavar="TOKENS", help="Token limit of an answer.")
@click.option("--tools/--no-tools", "has_tools", default=True, help="Whether the model gets tools.")
@tool_options
@click.option(
    "--write-tasks",
    "written_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the final task list here; the --tasks file is not changed.",
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
    budget: int | None,
    max_iterations: int | None,
    max_tokens: int | None,
    max_usd: float | None,
    max_minutes: float | None,
    max_output: int | None,
    has_tools: bool,
    tools: ToolOptions,
    written_path: Path | None,
    store_path: Path,
    as_json: bool,
) -> None:
    """Let a model work on an epic unattended: each call sees the epic, the tasks and the log, and adds to the log.

    The same command resumes the run, also after a crash. Exit codes: 0 done; 3 blocked and 5 a question, both resumed
    with --answer TEXT; 4 limit reached; 1 the model could not be called, or an input was rejected; 2 a usage error.
    --json prints a line for each iteration.

    With --pack the model gets tools for files, commands or the web, confined to --root. With --allow-exec, commands and
    changes to files there need no approval; other calls that need it ask at a terminal, or need --approve TOOL.

    \b
    foveate run --epic spec.md --tasks tasks.md --model openai:gpt-5-mini
    foveate run --session run-spec --answer "Use port 8443."
    foveate run --epic spec.md --max-iterations 300 --max-usd 5
    foveate run --epic fix.md --pack core-codex --allow-exec --root ~/src/shop
    """
    import asyncio

    from foveate.agents.run import DEFAULT_MAX_ITERATIONS, Caps

    if session_id is None and epic_path is None:
        raise click.UsageError(NO_SESSION)
    if answer is not None and not answer.strip():
        raise click.UsageError("--answer is empty; it must say what the model needs to know")
    options = _RunOptions(
        session_id=session_id or _session_id_for(epic_path),
        model=model,
        epic=read_utf8(epic_path) if epic_path else None,
        tasks=read_utf8(tasks_path) if tasks_path else None,
        answer=answer,
        budget_tokens=budget,
        max_output_tokens=max_output,
        has_tools=has_tools,
        tools=tools,
        caps=Caps(
            max_iterations=max_iterations or DEFAULT_MAX_ITERATIONS,
            max_tokens=max_tokens,
            max_usd=max_usd,
            max_seconds=None if max_minutes is None else max_minutes * SECONDS_PER_MINUTE,
        ),
    )
    ended = asyncio.run(_work(store_file(store_path, create=True), options, as_json=as_json))
    if written_path:
        written_path.write_text(ended.tasks.markdown(), "utf-8")
    raise SystemExit(EXIT_CODES[ended.reason])


async def _work(path: Path, options: _RunOptions, *, as_json: bool) -> RunEnd:
    import foveate
    from foveate.agents.options import ChatOptions
    from foveate.agents.run import RunEnd, run
    from foveate.cli.run.view import RunView
    from foveate.errors import ModelError

    async with foveate.open(path) as fov, AsyncExitStack() as stack:
        setup = await _enter(fov, options)
        session, model = setup.session, setup.model
        view = RunView(session.id, as_json=as_json)
        view.introduce(model, session.info.budget_tokens)
        toolbox = None
        if options.has_tools:
            approve = TerminalApprover(
                sys.stdin.isatty(), set(options.tools.approved), view.end_line, is_unattended=True
            )
            extra = await open_mcp(stack, fov, options.tools, approve)
            toolbox = await make_toolbox(fov, session, options.tools, approve=approve, extra=extra)
            await start_worker(stack, fov, session, toolbox)
        events = run(
            session,
            fov.caller,
            tuple(dict.fromkeys((model, *fov.settings.models.fallbacks))),
            ChatOptions.of(fov, toolbox, max_output_tokens=setup.output_tokens, has_tools=options.has_tools),
            epic=options.epic,
            tasks=options.tasks,
            answer=options.answer,
            caps=options.caps,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    view.show(event)
                    if isinstance(event, RunEnd):
                        return event
        except ModelError:
            view.give_up()
            raise
    raise AssertionError("unreachable: a run ends, or fails")


async def _enter(fov: Foveate, options: _RunOptions) -> _RunSetup:
    from foveate.agents.budget import fitting_budget, model_for, most_output
    from foveate.cli.chat import NO_MODEL

    settings = fov.settings
    try:
        known = (await fov.open_session(options.session_id)).info
    except SessionNotFound:
        known = None
    if known is None and options.epic is None:
        raise InputError(f"there is no session {options.session_id!r} to resume; --epic FILE starts one")
    model = model_for(options.model, known.model if known else None, settings=settings.models)
    if model is None:
        raise click.ClickException(NO_MODEL)
    await fov.check_model(model)
    window_tokens = fov.window_tokens(model)
    output_tokens = options.max_output_tokens or most_output(window_tokens)
    budget_tokens = fitting_budget(
        options.budget_tokens,
        known,
        default_tokens=settings.session.budget_tokens,
        output_tokens=output_tokens,
        window_tokens=window_tokens,
        option="--budget",
    )
    # An existing session keeps the settings of its strategy.
    strategy = "oneshot" if known is None or known.strategy != "oneshot" else None
    session = await fov.session(options.session_id, strategy=strategy, model=model, budget_tokens=options.budget_tokens)
    session.engine.limit_budget(budget_tokens)
    return _RunSetup(session, model, output_tokens)


def _session_id_for(epic_path: Path | None) -> str:
    """Return the session id for an epic, so that the same command resumes it."""
    stem = re.sub(r"[^\w.-]+", "-", epic_path.stem if epic_path else "").strip("-")
    return f"run-{stem or 'epic'}"
