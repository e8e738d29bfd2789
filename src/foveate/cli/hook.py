"""`foveate hook`: the command that hooks of Claude Code and Codex run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import DEFAULT_STORE, store_file, store_option
from foveate.errors import contained

if TYPE_CHECKING:
    from foveate.connections.hook import HookCall

MAX_INPUT_BYTES = 16_000_000
MAX_LOG_BYTES = 1_000_000
CHECK_EVENT = "foveate-check"


@click.command(name="hook", short_help="Record and recall for a coding agent; its hooks run this.")
@click.argument("client", type=click.Choice(["claude", "codex"]))
@click.option("--wait", is_flag=True, help="Record before returning, instead of in the background.")
@store_option
def command(*, client: str, wait: bool, store_path: Path) -> None:
    """Handle one hook call; 'foveate connect CLIENT --mode hooks' makes a client run this.

    Reads the hook's JSON from standard input. For a prompt it prints matching earlier turns as additional context; at
    the end of a turn it records the transcript. It never breaks the client: errors are logged in ~/.foveate/hooks.log.

    \b
    foveate hook claude < call.json
    foveate hook codex --wait < call.json
    """
    with contained() as outcome:
        _answer(client, store_path, sys.stdin.buffer.read(MAX_INPUT_BYTES), wait=wait)
    if outcome.error:
        with contained():
            _log(client, outcome.error)


def _answer(client: str, store_path: Path, given: bytes, *, wait: bool) -> None:
    import json

    from foveate.connections.clients import START_EVENT
    from foveate.connections.hook import HookCall

    call = HookCall.read(client, json.loads(given))
    if call.event == CHECK_EVENT:
        _check(client, store_path)
    elif call.event == START_EVENT:
        if problem := _gateway_problem(client):
            click.echo(json.dumps({"systemMessage": f"Foveate: {problem}"}))
    elif call.recalls:
        found = _run_recall(call, store_path)
        if found:
            output = {"hookEventName": call.event, "additionalContext": found}
            click.echo(json.dumps({"hookSpecificOutput": output}))
    elif call.records and wait:
        _run_record(call, store_path)
    elif call.records:
        _record_later(client, store_path, given)


def _check(client: str, store_path: Path) -> None:
    """Print problems that the hook would run into."""
    import foveate.client  # noqa: F401

    with contained() as outcome:
        store_file(store_path, create=True)
    if outcome.error:
        click.echo(f"{client}: {outcome.error}")


def _gateway_problem(client: str) -> str:
    """Return why the gateway of a client does not answer; empty if it does, or if there is none."""
    from foveate.connections.check import check_gateway
    from foveate.connections.clients import CLIENTS
    from foveate.connections.connection import Connections

    record = Connections(Path.home()).record(CLIENTS[client])
    if record is None or record.mode != "gateway":
        return ""
    finding = check_gateway(CLIENTS[client], record.url)
    return "" if finding.is_ok else finding.text


def _run_recall(call: HookCall, store_path: Path) -> str:
    import asyncio

    from foveate.client import open as open_store
    from foveate.connections.hook import recall
    from foveate.settings import load_settings

    # The recording process compresses; a prompt should not wait for it.
    settings = load_settings(overrides={"compress": {"close_seconds": 0}})

    async def run() -> str:
        async with open_store(store_file(store_path, create=True), settings=settings) as fov:
            return await recall(fov, call)

    return asyncio.run(run())


def _run_record(call: HookCall, store_path: Path) -> None:
    import asyncio

    from foveate.client import open as open_store
    from foveate.connections.hook import record

    async def run() -> None:
        async with open_store(store_file(store_path, create=True)) as fov:
            await record(fov, call.transcripts)

    asyncio.run(run())


def _record_later(client: str, store_path: Path, given: bytes) -> None:
    """Start a process that records after this one has returned."""
    import subprocess

    command = [sys.executable, "-m", "foveate", "hook", client, "--wait", "--db", str(store_path.expanduser())]
    recorder = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert recorder.stdin is not None
    recorder.stdin.write(given)
    recorder.stdin.close()
    recorder.returncode = 0  # the process is detached, nobody waits for it


def _log(client: str, error: Exception) -> None:
    import time
    import traceback

    path = DEFAULT_STORE.expanduser().with_name("hooks.log")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.old"))
    lines = "".join(traceback.format_exception(error))
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {client}\n{lines}\n")
