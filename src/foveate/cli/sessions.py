"""`foveate sessions`: what there is; renaming, labelling and deleting it, and choosing its strategy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, refuse_options_before, store_option
from foveate.cli.ui.terminal import Column, console, moment, print_json, print_table, reliable
from foveate.text import several

if TYPE_CHECKING:
    from foveate.session.values import SessionInfo
    from foveate.turn import Json

COLUMNS = (
    Column("session", "fold"),
    Column("title", "cut"),
    Column("turns", "number"),
    Column("strategy", expendable=4),
    Column("reliability", expendable=3),
    Column("platform", expendable=1),
    Column("fork of", expendable=2),
    Column("last used"),
)


@click.group(
    name="sessions",
    invoke_without_command=True,
    short_help="List the sessions; rename, label or delete one, choose its strategy.",
)
@click.option("--platform", help="Only those of this platform, such as claude-code.")
@click.option("--channel", help="Only those of this channel.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="At most this many; 0 for all."
)
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, platform: str | None, channel: str | None, limit: int, store_path: Path, as_json: bool
) -> None:
    """List the sessions, most recently used first. A session's time is that of its newest message, so imported ones
    stand where they belong.

    \b
    foveate sessions
    foveate sessions --platform claude-code
    foveate sessions rename SESSION "A better title"
    foveate sessions strategy SESSION topics
    foveate sessions delete SESSION
    """
    if context.invoked_subcommand:
        refuse_options_before(context, context.invoked_subcommand)
        return
    with opened(store_path) as fov:
        found = fov.sessions(platform=platform, channel=channel)
        listed = found[:limit] if limit and not as_json else found
        trust = {info.id: fov.reliability(info.id) for info in listed}
    if as_json:
        print_json([{**asdict(info), "reliability": trust[info.id]} for info in found])
        return
    out = console()
    if not found:
        out.print("No sessions here. 'foveate import' brings some in, 'foveate demo' makes one.")
        return
    rows = []
    for info in listed:
        fork = f"{info.parent_id} {info.fork_turn_id}" if info.parent_id else ""
        title = " ".join(info.title.split())
        score, when = reliable(trust[info.id]), moment(info.updated_at)
        rows.append((info.id, title, str(info.turns), info.strategy, score, info.platform or "", fork, when))
    print_table(out, COLUMNS, rows)
    if len(listed) < len(found):
        out.print(f"… and {len(found) - len(listed)} more (--limit 0 lists all)")


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("title")
@store_option
@json_option
def rename(session_id: str, title: str, store_path: Path, as_json: bool) -> None:
    """Give a session another title.

    \b
    foveate sessions rename support-42 "The login that failed"
    """
    with opened(store_path) as fov:
        info = fov.find_session(session_id).rename(title)
    _show_change(info, f"{session_id} is called {info.title!r} now.", as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--platform", help="The program or site it takes place in.")
@click.option("--channel", help="The room, thread or folder there.")
@store_option
@json_option
def label(session_id: str, platform: str | None, channel: str | None, store_path: Path, as_json: bool) -> None:
    """Say where a session takes place.

    \b
    foveate sessions label support-42 --platform slack --channel "#help"
    """
    if platform is None and channel is None:
        raise click.UsageError("say --platform, --channel, or both")
    with opened(store_path) as fov:
        info = fov.find_session(session_id).label(platform=platform, channel=channel)
    where = ", ".join(f"{name} {value!r}" for name, value in (("platform", platform), ("channel", channel)) if value)
    _show_change(info, f"{session_id} has {where} now.", as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("name", required=False)
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting of the strategy, for this session.")
@store_option
@json_option
def strategy(session_id: str, name: str | None, given: tuple[str, ...], store_path: Path, as_json: bool) -> None:
    """Say how a session's history is shown from now on; without a name, say how it is now.

    \b
    foveate sessions strategy support-42
    foveate sessions strategy support-42 topics
    foveate sessions strategy support-42 standard --set when_full=fail
    """
    if given and name is None:
        raise click.UsageError("--set is for the strategy that is named before it")
    settings = dict(_setting(pair) for pair in given)
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        info = session.use(name, **settings) if name is not None else session.info
    changed = ", ".join(f"{key} = {value}" for key, value in info.strategy_settings.items())
    sentence = f"{info.id} is shown by {info.strategy}{f', with {changed}' if changed else ''}."
    _show_change(info, sentence, as_json=as_json)


def _setting(pair: str) -> tuple[str, Json]:
    """A key and what it is set to: JSON where it is JSON, else the words as they are."""
    key, equals, value = pair.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"--set takes KEY=VALUE, as in --set when_full=fail; got {pair!r}")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--yes", is_flag=True, help="Don't ask.")
@store_option
@json_option
def delete(session_id: str, yes: bool, store_path: Path, as_json: bool) -> None:
    """Delete a session and its turns for good.

    \b
    foveate sessions delete support-42
    foveate sessions delete support-42 --yes
    """
    with opened(store_path) as fov:
        info = fov.open_session(session_id).info
        if not yes:
            turns = several(info.turns, "turn")
            click.confirm(f"Delete session {session_id} and its {turns} for good?", abort=True, err=True)
        fov.delete_session(session_id)
    _show_change(info, f"Deleted {session_id}.", as_json=as_json)


def _show_change(info: SessionInfo, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(info)
    else:
        click.echo(sentence)
