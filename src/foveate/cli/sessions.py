"""`foveate sessions`: what there is; renaming, labelling and deleting it."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import console, moment, plain_table, print_json, safe, shorten


@click.group(name="sessions", invoke_without_command=True, short_help="List the sessions; rename, label, delete one.")
@click.option("--platform", help="Only those of this platform, such as claude-code.")
@click.option("--channel", help="Only those of this channel.")
@click.option("--limit", default=50, show_default=True, help="At most this many; 0 for all.")
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, platform: str | None, channel: str | None, limit: int, store_path: Path, as_json: bool
) -> None:
    """List the sessions, the one used last first.

    \b
    foveate sessions
    foveate sessions --platform claude-code
    foveate sessions rename SESSION "A better title"
    foveate sessions delete SESSION
    """
    if context.invoked_subcommand:
        return
    with opened(store_path) as fov:
        found = fov.sessions(platform=platform, channel=channel)
    if as_json:
        print_json(found)
        return
    listed = found[:limit] if limit else found
    table = plain_table("session", "title", "turns", "platform", "fork of", "updated", right=("turns",))
    for info in listed:
        fork = f"{info.parent_id} {info.fork_turn_id}" if info.parent_id else ""
        title = safe(shorten(info.title, 50))
        when = moment(info.updated_at)
        table.add_row(safe(info.id), title, str(info.turns), info.platform or "", safe(fork), when)
    out = console()
    if not found:
        out.print("No sessions yet. 'foveate import' brings some in, 'foveate demo' makes one.")
        return
    out.print(table)
    if len(listed) < len(found):
        out.print(f"… and {len(found) - len(listed)} more (--limit 0 lists all)")


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("title")
@store_option
def rename(session_id: str, title: str, store_path: Path) -> None:
    """Give a session another title."""
    with opened(store_path) as fov:
        fov.open_session(session_id).rename(title)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--platform")
@click.option("--channel")
@store_option
def label(session_id: str, platform: str | None, channel: str | None, store_path: Path) -> None:
    """Say where a session takes place."""
    with opened(store_path) as fov:
        fov.open_session(session_id).label(platform=platform, channel=channel)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--yes", is_flag=True, help="Don't ask.")
@store_option
def delete(session_id: str, yes: bool, store_path: Path) -> None:
    """Delete a session and its turns for good."""
    with opened(store_path) as fov:
        turns = fov.open_session(session_id).info.turns
        if not yes:
            click.confirm(f"Delete session {session_id} and its {turns} turns for good?", abort=True)
        fov.delete_session(session_id)
    click.echo(f"Deleted {session_id}.")
