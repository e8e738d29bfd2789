"""`foveate mcp`: an MCP server over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.ui.options import store_file, store_option


@click.command(name="mcp", short_help="Give an agent access to all sessions, by MCP over stdio.")
@store_option
def command(*, store_path: Path) -> None:
    """Serve the stored conversations to an agent by MCP over standard input and output.

    The agent starts this command itself. Its tools: search_history, list_sessions, get_turn, get_turns, get_context
    and pin. Needs the extra: pip install 'foveate[server]'

    \b
    claude mcp add foveate -- foveate mcp
    codex mcp add foveate -- foveate mcp
    """
    import asyncio

    import foveate

    try:
        from foveate.server.mcp import serve_stdio
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error.name} is missing: pip install 'foveate[server]'") from error

    async def serve() -> None:
        async with foveate.open(store_file(store_path, create=True)) as fov:
            fov.warm()
            await serve_stdio(fov)

    asyncio.run(serve())
