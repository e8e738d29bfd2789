"""`foveate ui`: the dashboard in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.serve import MISSING
from foveate.cli.ui.options import store_file, store_option
from foveate.cli.ui.terminal import console, line
from foveate.errors import InputError

if TYPE_CHECKING:
    from foveate.server.process import ServeReport

LOOPBACK = "127.0.0.1"


@click.command(name="ui", short_help="Open the dashboard in a browser.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on. Default: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, but do not open a browser.")
@store_option
def command(*, port: int, no_browser: bool, store_path: Path) -> None:
    """Serve the dashboard on this machine only, and open it in a browser. Ctrl+C stops it.

    \b
    foveate ui
    foveate ui --db team.db --port 8500 --no-browser
    """
    try:
        from foveate.server.process import serve
    except ImportError as error:
        raise InputError(f"{MISSING} ({error})") from error
    from foveate.settings import load_settings

    path = store_file(store_path, create=True)

    def report(ready: ServeReport) -> None:
        console().print(line(("Dashboard ", "green"), (ready.url, "bold"), f" of {path}; Ctrl+C stops it."))
        if ready.token:
            console().print(line(f"Log in with the token {ready.token}"), soft_wrap=True)
        if not no_browser and not webbrowser.open(ready.url):
            console().print(line("No browser was found; open the address yourself."))

    serve(path, load_settings(overrides={"server": {"host": LOOPBACK, "port": port}}), on_ready=report)
