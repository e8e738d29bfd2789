"""`foveate worker`: a process that runs background agents."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, store_file, store_option
from foveate.cli.ui.terminal import console, line, print_json_line
from foveate.text import several

if TYPE_CHECKING:
    from foveate.events import Event


@click.command(name="worker", short_help="Run background agents; any number of workers share a store.")
@click.option("--concurrency", type=click.IntRange(1, 1_000), metavar="N", help="Agents at the same time. Default: 4.")
@click.option("--drain", is_flag=True, help="End once no agent is queued or running.")
@store_option
@json_option
def command(*, concurrency: int | None, drain: bool, store_path: Path, as_json: bool) -> None:
    """Run the agents that 'foveate agents spawn', the library or a model has started, until it is stopped.

    Several workers can run on the same store. If one is killed, another goes on with its agents. Compression that
    earlier programs left is done too. --json prints a line for each change of an agent's state.

    \b
    foveate worker
    foveate worker --concurrency 8 --drain
    """
    import asyncio

    ended = asyncio.run(_work(store_file(store_path, create=True), concurrency, drain=drain, as_json=as_json))
    if not as_json:
        console().print(line(f"Stopped; {several(ended, 'agent')} ended here."))


async def _work(path: Path, concurrency: int | None, *, drain: bool, as_json: bool) -> int:
    import asyncio

    import foveate
    from foveate.agents.worker import AgentWorker

    out = console()

    def show(event: Event) -> None:
        if as_json:
            print_json_line(dict(event.data))
        else:
            out.print(line((f"{event.data['agent']} ", "bold"), str(event.data["state"])))

    async with foveate.open(path) as fov:
        worker = AgentWorker(fov, concurrency=concurrency)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        with fov.subscribe(show, ["agent-changed"]) as subscription:
            if not as_json and not drain:
                out.print(line(("Running agents", "green"), f" of {path}; Ctrl+C stops it."))
            await worker.run(drain=drain)
            subscription.drain()
        return worker.ended
