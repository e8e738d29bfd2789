"""`foveate sessions`: what there is; renaming, labelling and deleting it, and choosing its strategy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, refuse_options_before, store_option, yes_option
from foveate.cli.ui.terminal import Column, age, console, line, print_json, print_table, printable, reliable
from foveate.text import several

if TYPE_CHECKING:
    from foveate.session.values import Reliability, SessionInfo
    from foveate.turn import Json

COLUMNS = (
    Column("session"),
    Column("title", "cut"),
    Column("project", "cut", expendable=5),
    Column("age"),
    Column("turns", "number"),
    Column("children", "number", expendable=4),
    Column("strategy", expendable=7),
    Column("reliability", expendable=6),
    Column("platform", expendable=8),
)


@click.group(
    name="sessions",
    invoke_without_command=True,
    short_help="List the sessions; rename, label or delete one, choose its strategy.",
)
@click.option("--platform", help="Only sessions of this platform, e.g. claude-code.")
@click.option("--channel", help="Only sessions of this channel.")
@click.option("--project", help="Only sessions of this project: the channel, or the last folder of its path.")
@click.option("--all", "every", is_flag=True, help="Also list children: sub-agents, forks and branches.")
@click.option("--origin", "with_origin", is_flag=True, help="Also say why the gateway began each session.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="At most this many; 0 for all."
)
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    platform: str | None,
    channel: str | None,
    project: str | None,
    every: bool,
    with_origin: bool,
    limit: int,
    store_path: Path,
    as_json: bool,
) -> None:
    """List the sessions, most recently used first, with short ids. A session's age is that of its newest message.

    A command takes a session by its id, any unique beginning of it, or its title. Sub-agents, forks and branches are
    counted at their parent; --all lists them.

    \b
    foveate sessions
    foveate sessions --project foveate
    foveate sessions rename SESSION "A better title"
    foveate sessions strategy SESSION topics
    foveate sessions delete SESSION
    """
    if context.invoked_subcommand:
        refuse_options_before(context, context.invoked_subcommand)
        return
    from foveate.session.address import short_ids

    with opened(store_path) as fov:
        known = fov.sessions()
        found = [info for info in known if _is_wanted(info, platform=platform, channel=channel, project=project)]
        children = _children(found)
        shown = found if every else [info for info in found if info.id not in children]
        listed = shown[:limit] if limit else shown
        trust = {info.id: fov.reliability(info.id) for info in (found if as_json else listed)}
        origins = {info.id: fov.origin(info.id) for info in listed} if with_origin or as_json else {}
        problems = [fov.open_session(info.id).strategy_problem for info in listed]
    if as_json:
        print_json(
            [{**asdict(info), "reliability": trust[info.id], "origin": origins.get(info.id, "")} for info in found]
        )
        return
    out = console()
    if not found:
        out.print("No sessions found. 'foveate import' adds some, 'foveate demo' makes one.")
        return
    short = short_ids(info.id for info in known)
    counts = Counter(children.values())
    print_table(out, COLUMNS, [_row(info, short[info.id], counts[info.id], trust[info.id]) for info in listed])
    if len(listed) < len(shown):
        out.print(f"… and {len(shown) - len(listed)} more (--limit 0 lists all)")
    if len(shown) < len(found):
        out.print(line((f"{several(len(found) - len(shown), 'child', 'children')} not listed (--all does)", "dim")))
    for session_id, origin in origins.items():
        if origin:
            out.print(line((f"{short[session_id]}: {origin}", "dim")), soft_wrap=True)
    for info, problem in zip(listed, problems, strict=True):
        if problem:
            out.print(line((f"{short[info.id]}: {problem}", "yellow")), soft_wrap=True)


def _row(info: SessionInfo, short: str, children: int, trust: Reliability | None) -> tuple[str, ...]:
    return (
        short,
        " ".join(info.title.split()),
        info.project,
        age(info.updated_at),
        f"{info.turns:,}",
        f"+{children}" if children else "",
        info.strategy,
        reliable(trust),
        info.platform or "",
    )


def _is_wanted(info: SessionInfo, *, platform: str | None, channel: str | None, project: str | None) -> bool:
    if platform not in (None, info.platform) or channel not in (None, info.channel):
        return False
    return not project or info.is_of_project(project)


def _children(found: Sequence[SessionInfo]) -> dict[str, str]:
    """The sub-agents, forks and branches among these sessions, each with the topmost session it came from."""
    from foveate.session.address import parent_id

    known = {info.id: info for info in found}
    children: dict[str, str] = {}
    for info in found:
        top = info
        while above := known.get(parent_id(top.id, known) or top.parent_id or ""):
            top = above
        if top is not info:
            children[info.id] = top.id
    return children


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
    _show_change(info, f"{info.id} is now called {info.title!r}.", as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--platform", help="The program or site it takes place in.")
@click.option("--channel", help="The room, thread or folder there.")
@store_option
@json_option
def label(session_id: str, platform: str | None, channel: str | None, store_path: Path, as_json: bool) -> None:
    """Label a session with its platform and channel.

    \b
    foveate sessions label support-42 --platform slack --channel "#help"
    """
    if platform is None and channel is None:
        raise click.UsageError("give --platform, --channel, or both")
    with opened(store_path) as fov:
        info = fov.find_session(session_id).label(platform=platform, channel=channel)
    where = ", ".join(f"{name} {value!r}" for name, value in (("platform", platform), ("channel", channel)) if value)
    _show_change(info, f"{info.id} now has {where}.", as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("name", required=False)
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting of the strategy, for this session.")
@store_option
@json_option
def strategy(session_id: str, name: str | None, given: tuple[str, ...], store_path: Path, as_json: bool) -> None:
    """Set the strategy that shows a session's history; without a name, print the current one.

    \b
    foveate sessions strategy support-42
    foveate sessions strategy support-42 topics
    foveate sessions strategy support-42 standard --set when_full=fail
    """
    if given and name is None:
        raise click.UsageError("--set needs the name of a strategy before it")
    settings = dict(_setting(pair) for pair in given)
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        info = session.use(name, **settings) if name is not None else session.info
    changed = ", ".join(f"{key} = {value}" for key, value in info.strategy_settings.items())
    sentence = f"{info.id} uses the strategy {info.strategy}{f', with {changed}' if changed else ''}."
    _show_change(info, sentence, as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("name", required=False)
@click.option("--off", is_flag=True, help="Use no mode.")
@store_option
@json_option
def mode(session_id: str, name: str | None, off: bool, store_path: Path, as_json: bool) -> None:
    """Set the mode of a session: a prompt that is part of every system prompt. Without a name, print the current one.

    Modes are stored prompts: 'foveate prompts list' lists them (modes/…), 'foveate prompts set' adds your own.

    \b
    foveate sessions mode support-42 developer
    foveate sessions mode support-42 --off
    """
    if off and name:
        raise click.UsageError("give the name of a mode, or --off")
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        info = session.set_mode(name or "") if off or name else session.info
    _show_change(info, f"{info.id} {f'is in mode {info.mode}' if info.mode else 'has no mode'}.", as_json=as_json)


@command.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("name", metavar="[SCOPE]", required=False)
@click.option("--off", is_flag=True, help="Use no scope.")
@store_option
@json_option
def scope(session_id: str, name: str | None, off: bool, store_path: Path, as_json: bool) -> None:
    """Set the scope of a session, whose knowledge and past sessions it may recall. Without one, print the current one.

    The session becomes one of that scope: others of it can recall this session too, and 'foveate learn' reads it there.

    \b
    foveate sessions scope support-42 user:anna
    foveate sessions scope support-42 --off
    """
    if off and name:
        raise click.UsageError("give a scope, or --off")
    with opened(store_path) as fov:
        info = fov.find_session(session_id).info
        if off or name:
            info = fov.session(info.id, scope=name or "").info
    _show_change(info, f"{info.id} {f'has the scope {info.scope}' if info.scope else 'has no scope'}.", as_json=as_json)


def _setting(pair: str) -> tuple[str, Json]:
    """A key and what it is set to: JSON where it is JSON, else the words as they are."""
    key, equals, value = pair.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"--set takes KEY=VALUE, e.g. --set when_full=fail; got {pair!r}")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


@command.command()
@click.argument("session_id", metavar="SESSION")
@yes_option("Don't ask for confirmation.")
@store_option
@json_option
def delete(session_id: str, yes: bool, store_path: Path, as_json: bool) -> None:
    """Delete a session and its turns permanently.

    \b
    foveate sessions delete support-42
    foveate sessions delete support-42 --yes
    """
    with opened(store_path) as fov:
        info = fov.find_session(session_id).info
        if not yes:
            turns = several(info.turns, "turn")
            titled = f" ({info.title})" if info.title else ""
            question = f"Delete session {info.id}{titled} and its {turns} permanently?"
            click.confirm(printable(question), abort=True, err=True)
        fov.delete_session(info.id)
    _show_change(info, f"Deleted {info.id}.", as_json=as_json)


def _show_change(info: SessionInfo, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(info)
    else:
        click.echo(sentence)
