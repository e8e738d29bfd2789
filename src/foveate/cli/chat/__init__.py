"""`foveate chat`: an endless conversation with a model, in a terminal or through a pipe."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from foveate.cli.ui.options import TOKENS, json_option, read_utf8, store_file, store_option
from foveate.cli.ui.terminal import console, line
from foveate.cli.ui.tool_options import ToolOptions, tool_options
from foveate.errors import InputError, ModelUnavailable, SessionExists, SessionNotFound

if TYPE_CHECKING:
    from foveate.cli.chat.lines import Lines
    from foveate.cli.chat.room import LoopThread, Room
    from foveate.client import Foveate
    from foveate.session.values import ModelsSettings
    from foveate.settings import Settings

EXAMPLE = "openai:gpt-5-mini, with its key in $OPENAI_API_KEY"
NO_MODEL = f"no model is configured; give --model NAME, or run 'foveate models set chat NAME', e.g. {EXAMPLE}"
LOCAL = "'--model local' is a small model on this machine that needs no key"
OFFER = f"""No model is configured. --model NAME or 'foveate models set chat NAME' names one, e.g. {EXAMPLE}.

A small model (SmolLM2, 135 million parameters) can run on this machine, without a key or a network. It shows how a \
chat works and costs nothing, but its answers are poor."""


@click.command(name="chat", short_help="Chat with a model; resume any session, imported ones too.")
@click.argument("session_id", metavar="[SESSION]", required=False)
@click.option("--new", "is_new", is_flag=True, help="Start a new session, with the id SESSION if given.")
@click.option("--continue", "is_continued", is_flag=True, help="Resume the most recently used session.")
@click.option("--model", metavar="NAME", help="The model that answers, e.g. openai:gpt-5-mini.")
@click.option("--strategy", metavar="NAME", help="How the history is shown, e.g. topics; stored with the session.")
@click.option(
    "--budget",
    "budget_tokens",
    type=TOKENS,
    metavar="TOKENS",
    help="Token limit of a prompt, e.g. 8k; stored with the session.",
)
@click.option(
    "--system",
    "system_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the system prompt.",
)
@click.option("--window", type=TOKENS, metavar="TOKENS", help="The model's context window: prompt and answer.")
@click.option("--max-output", type=TOKENS, metavar="TOKENS", help="Token limit of an answer.")
@click.option("--tools/--no-tools", "has_tools", default=True, help="Whether the model can read and search old turns.")
@tool_options
@store_option
@json_option
def command(
    *,
    session_id: str | None,
    is_new: bool,
    is_continued: bool,
    model: str | None,
    strategy: str | None,
    budget_tokens: int | None,
    system_path: Path | None,
    window: int | None,
    max_output: int | None,
    has_tools: bool,
    tools: ToolOptions,
    store_path: Path,
    as_json: bool,
) -> None:
    """Chat with a model within the session's budget. Nothing is lost, however long the chat gets.

    Without SESSION a new one is started. Each line is a prompt, also from a pipe; /help lists the commands. In a pipe
    the first failure ends the chat with exit code 1. --json prints one JSON object for each answer or error. The model
    is --model, or models.chat of the settings, or the session's last one.

    With --pack the model also gets tools for files, commands or the web, confined to --root. You are asked before a
    call that needs approval. In a pipe such calls are rejected unless --approve TOOL allows them, or --allow-exec,
    which also allows changes to files below --root.

    \b
    foveate chat --model openai:gpt-5-mini
    foveate chat --model qwen3@http://127.0.0.1:11434/v1 --budget 8k
    foveate import ~/.claude/projects && foveate chat 3fe1 --model anthropic:claude-sonnet-4-5
    echo "Which port did we choose?" | foveate chat demo --json
    foveate chat --continue --pack core-codex --allow-exec
    """
    from foveate.agents.budget import check_model
    from foveate.cli.chat.commands import COMMANDS
    from foveate.cli.chat.lines import Lines
    from foveate.cli.chat.room import LoopThread, Room, RoomOptions
    from foveate.settings import check_strategy, load_settings

    if is_continued and (session_id or is_new):
        raise click.UsageError("--continue resumes the most recently used session; omit SESSION and --new")
    settings = load_settings()
    if strategy is not None:
        check_strategy(strategy)
    options = RoomOptions(
        model=model,
        system=read_utf8(system_path) if system_path else "",
        window_tokens=window,
        max_output_tokens=max_output,
        has_tools=has_tools,
        strategy=strategy,
        tools=tools,
    )
    lines = Lines(is_typed=sys.stdin.isatty(), commands=[f"/{name}" for name in COMMANDS])
    with LoopThread() as loop:
        if not store_path.expanduser().exists():
            # Do not create a store for a chat that can't start.
            if session_id and not is_new:
                raise SessionNotFound(session_id)
            answering = _model(options.model, lines, settings=settings.models)
            loop.run(check_model(answering, settings.models))
            options = replace(options, model=answering)
        fov = loop.run(_open(store_file(store_path, create=True), settings))
        room = Room(fov, options, is_typed=lines.is_typed, as_json=as_json)
        try:
            chosen = loop.run(_find(room, session_id, is_new=is_new, is_continued=is_continued))
            answering = _model(options.model, lines, settings=settings.models, own=chosen.own_model)
            loop.run(room.enter(chosen.session_id, answering, budget_tokens=budget_tokens))
            with suppress(KeyboardInterrupt):  # Ctrl-C skips the wait
                loop.run(room.prepare())
            if lines.is_typed:
                loop.run(room.introduce())
            succeeded = _talk(loop, room, lines)
            is_kept = loop.run(room.leave())
        finally:
            loop.run(room.close())
            loop.run(fov.close())
    if lines.is_typed and is_kept:
        console().print(line(("Everything is saved. To resume: ", "dim"), room.command))
    if not succeeded:
        raise SystemExit(1)


class ChosenSession(NamedTuple):
    """The session to resume and its model, or the id of a session to start."""

    session_id: str
    own_model: str | None = None


async def _open(path: Path, settings: Settings) -> Foveate:
    import foveate

    return await foveate.open(path, settings=settings)


async def _find(room: Room, session_id: str | None, *, is_new: bool, is_continued: bool = False) -> ChosenSession:
    from foveate.cli.chat.room import new_name

    if is_continued and (known := await room.fov.sessions()):
        return ChosenSession(known[0].id, known[0].model)
    if session_id is None:
        return ChosenSession(await room.new_id(new_name()))
    if not is_new:
        session = await room.fov.find_session(session_id)
        return ChosenSession(session.id, session.info.model)
    if any(info.id == session_id for info in await room.fov.sessions()):
        raise SessionExists(session_id)
    return ChosenSession(session_id)


def _model(requested: str | None, lines: Lines, *, settings: ModelsSettings, own: str | None = None) -> str:
    """Return the model that answers; ask the user if none is configured."""
    from foveate.agents.budget import local_model, model_for

    if model := model_for(requested, own, settings=settings):
        return model
    try:
        local = local_model()
    except ModelUnavailable as error:
        raise click.ClickException(f"{NO_MODEL}. {LOCAL}, but {error.problem}") from error
    if not lines.is_typed:
        raise click.ClickException(f"{NO_MODEL}. {LOCAL}")
    console(stderr=True).print(line(OFFER))
    if not lines.ask("Use it?"):
        raise SystemExit(1)
    return local


def _talk(loop: LoopThread, room: Room, lines: Lines) -> bool:
    """Handle prompts and commands until the input ends; return False if one failed in a pipe."""
    from foveate.cli.chat.room import Leave

    while (text := _read(room, lines)) is not None:
        try:
            succeeded = not text.strip() or loop.run(room.handle(text))
        except Leave:
            return True
        except KeyboardInterrupt:
            room.end_line()
            if not lines.is_typed:
                raise
            room.notes.print(line(("Stopped; the answer so far is saved.", "dim")))
            continue
        if not succeeded and not lines.is_typed:
            return False
    return True


def _read(room: Room, lines: Lines) -> str | None:
    """Read the next line; Ctrl-C discards what was typed."""
    while True:
        try:
            return lines.read()
        except InputError as error:
            if not lines.is_typed:
                raise
            room.print_error(error)
        except KeyboardInterrupt:
            if not lines.is_typed:
                raise
            room.notes.print(line(("\n/quit or Ctrl-D ends the chat.", "dim")))
