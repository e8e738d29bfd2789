"""`foveate worker`: run the background work of a store."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import opened, store_file
from foveate.cli.ui.terminal import console, duration, line, print_json_line
from foveate.text import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from foveate import Foveate
    from foveate.agents.worker import AgentWorker
    from foveate.events import Event
    from foveate.session.values import QueueState, RunningWorker
    from foveate.settings import Settings

MAX_PARKED = 20
MAX_WORKERS = 20


@store_command("worker", "Run the background work of a store; any number of workers share it.")
@click.option("--concurrency", type=click.IntRange(1, 1_000), metavar="N", help="Concurrent agents. Default: 4.")
@click.option("--drain", is_flag=True, help="Exit once nothing is left to do.")
@click.option("--status", is_flag=True, help="Show the running workers and the queue, and exit.")
@click.option("--alive", is_flag=True, help="Exit with 0 if a worker runs on this machine, else with 1.")
def command(
    *, concurrency: int | None, drain: bool, status: bool, alive: bool, store_path: Path, as_json: bool
) -> Answer | None:
    """Compress and index what is recorded in a store, call models for it, and run background agents, until stopped.

    Any number of workers can share a store, on any machine that reaches it. If one is killed, another resumes its work.
    SIGTERM or Ctrl+C stops it cleanly. To leave the work to workers, set compress.enabled = false for the programs that
    record. --json prints a line for each change of an agent's state.

    Exit codes: 0 after SIGTERM, Ctrl+C or --drain; 1 if the store can't be opened, where a restart may help; 2 for an
    invalid option or setting, where it can't. A store that fails later does not end a worker; it tries again.

    \b
    foveate worker --db postgresql://foveate@db.example.com/foveate
    foveate worker --concurrency 8 --drain
    foveate worker --status
    """
    if status or alive:
        with opened(store_path) as fov:
            state = fov.queue_state(limit=MAX_PARKED)
        return _alive(state.workers) if alive else Answer(state, lambda out: _show_status(out, state))
    import asyncio

    from foveate.settings import load_settings
    from foveate.telemetry import exporting

    path, settings = store_file(store_path, create=True), load_settings()
    with exporting(settings.telemetry):
        ended = asyncio.run(_work(path, settings, concurrency, drain=drain, as_json=as_json))
    return None if as_json else Answer(ended, f"Stopped; {several(ended, 'agent')} ended here.")


async def _work(path: Path, settings: Settings, concurrency: int | None, *, drain: bool, as_json: bool) -> int:
    import asyncio

    import foveate
    from foveate.agents.heartbeat import beating
    from foveate.agents.worker import AgentWorker

    out = console()

    def show(event: Event) -> None:
        if as_json:
            print_json_line(dict(event.data))
        else:
            out.print(line((f"{event.data['agent']} ", "bold"), str(event.data["state"])))

    async with foveate.open(path, settings=settings) as fov:
        worker = AgentWorker(fov, concurrency=concurrency)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        heartbeat, subscription = beating(fov, "worker"), fov.subscribe(show, ["agent-changed"])
        with subscription:
            if not as_json and not drain:
                out.print(line(("Working", "green"), f" on {path}; Ctrl+C stops it."))
            async with heartbeat:
                await _run(fov, worker, drain=drain)
            subscription.drain()
        return worker.ended


async def _run(fov: Foveate, worker: AgentWorker, *, drain: bool) -> None:
    """Run agents and compression concurrently; with `drain`, compress what the agents left."""
    import asyncio

    agents = asyncio.create_task(worker.run(drain=drain))
    await fov.run_worker(is_stopping=agents.done)
    await agents
    if drain:
        await fov.run_worker(is_stopping=lambda: worker.is_stopping, drain=True)


def _alive(workers: Sequence[RunningWorker]) -> Answer:
    import socket

    here = [worker for worker in workers if worker.kind == "worker" and worker.host == socket.gethostname()]
    running = f"{several(len(here), 'worker')} on this machine"
    return Answer({"alive": bool(here), "workers": here}, running, 0 if here else 1)


def _show_status(out: Console, state: QueueState) -> None:
    out.print(line(f"Workers running      {len(state.workers):,}"))
    for worker in state.workers[:MAX_WORKERS]:
        work = "" if worker.compresses else ", agents only"
        seen = f"for {duration(worker.running_seconds)}, seen {duration(worker.seen_seconds)} ago"
        out.print(line((f"  {worker.kind} {worker.host}:{worker.pid} {worker.version}{work}, {seen}", "dim")))
    if len(state.workers) > MAX_WORKERS:
        out.print(line((f"  … and {len(state.workers) - MAX_WORKERS} more (--json lists all)", "dim")))
    out.print(line(f"Sessions with work   {state.sessions:,} ({state.due_sessions:,} now)"))
    out.print(line(f"Turns for models     {state.model_turns:,} ({state.due_model_turns:,} now)"))
    out.print(line(f"Turns in progress    {state.leased:,}, by {several(state.owners, 'worker')}"))
    if state.expired:
        out.print(line(f"Expired leases       {state.expired:,}; other workers claim them"))
    if not state.parked:
        return
    out.print(line((f"Parked               {several(state.parked, 'turn')}", "yellow")))
    for turn in state.parked_turns[:MAX_PARKED]:
        out.print(line((f"  {turn.session_id} T-{turn.turn}: {turn.reason}", "dim")))
    out.print(line(("  'foveate store compress --all --again' retries them", "dim")))
