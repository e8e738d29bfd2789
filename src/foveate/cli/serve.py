"""`foveate serve`: the gateway, the HTTP API and MCP in one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, store_file, store_option
from foveate.cli.ui.terminal import console, line, print_json_line
from foveate.errors import InputError

if TYPE_CHECKING:
    from foveate.server.process import ServeReport

MISSING = "foveate serve needs the extra 'server': pip install 'foveate[server]'"


@click.command(name="serve", short_help="Serve the gateway, the HTTP API and MCP.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 chooses one. Default: 8484.")
@click.option("--upstream", metavar="URL", help="Base URL of the provider that the gateway forwards to.")
@click.option("--bypass", is_flag=True, help="Forward requests unchanged and record nothing.")
@click.option("--allow-exec", is_flag=True, help="Let agents and tool calls execute commands, in a sandbox.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Folder for the tools of agents and of /tools; repeatable. Default: agents.roots.",
)
@store_option
@json_option
def command(
    *,
    host: str | None,
    port: int | None,
    upstream: str | None,
    bypass: bool,
    allow_exec: bool,
    roots: tuple[str, ...],
    store_path: Path,
    as_json: bool,
) -> None:
    """Serve the gateway under /v1, the HTTP API under /api/v1 and MCP under /mcp, until it is stopped.

    Without keys only your own requests from this machine are served; 'foveate keys create' makes a key. Where the
    system does not tell whose a request is (all but Linux), a token is printed that all but the gateway asks for.

    Exit codes: 0 after SIGTERM or Ctrl+C; 1 if the store can't be opened or the port is taken, where a restart may
    help; 2 for an invalid option or setting, or no key where one is needed, where it can't.

    \b
    foveate serve --upstream https://api.anthropic.com
    ANTHROPIC_BASE_URL=http://127.0.0.1:8484 claude
    """
    try:
        from foveate.server.process import serve
    except ImportError as error:
        raise InputError(f"{MISSING} ({error})") from error
    from foveate.settings import load_settings

    given = {"host": host, "port": port, "upstream": upstream, "bypass": bypass or None}
    overrides: dict[str, dict[str, object]] = {
        "server": {name: value for name, value in given.items() if value is not None},
        "tools": {"allow_exec": True} if allow_exec else {},
        "agents": {"roots": list(roots)} if roots else {},
    }
    path = store_file(store_path, create=True)

    def report(ready: ServeReport) -> None:
        if as_json:
            addresses = {"url": ready.url, "gateway": f"{ready.url}/v1", "dashboard": f"{ready.url}/"}
            print_json_line({**addresses, "pid": ready.pid, "db": str(path)})
            return
        out = console()
        out.print(line(("Serving ", "green"), (ready.url, "bold"), "; Ctrl+C stops it."))
        out.print(line(("Dashboard ", ""), (f"{ready.url}/", "bold")))
        out.print(line(f"Gateway   {ready.url}/v1 {_upstream(ready)}"))
        for warning in ready.warnings:
            out.print(line(("Warning   ", "yellow"), warning))
        out.print(line(f"HTTP API  {ready.url}/api/v1 (described by /api/v1/openapi.json)"))
        out.print(line(f"MCP       {ready.url}/mcp"))
        out.print(line(f"Store     {path}"))
        if ready.schedule:
            out.print(line(f"Learning  {ready.schedule} (knowledge.schedule)"))
        if not ready.needs_key:
            out.print(line(("No keys: only your own requests from this machine are served.", "dim")))
        if ready.token:
            from foveate.server.local import TOKEN_FILE

            out.print(line(f"Token     {ready.token} (a key for all but the gateway, also in {TOKEN_FILE})"))

    serve(path, load_settings(overrides=overrides), on_ready=report)


def _upstream(ready: ServeReport) -> str:
    if not ready.upstreams:
        return "has no upstream yet; --upstream URL sets one"
    return f"forwards to {', '.join(ready.upstreams)}"
