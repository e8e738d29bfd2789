"""`foveate sessions`: list, rename, label and delete sessions, and set their strategy, mode and scope."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, print_values, store_group
from foveate.cli.ui.options import TOKENS, assignment, yes_option
from foveate.cli.ui.terminal import Column, age, line, printable, reliable
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.values import Reliability, SessionInfo
    from foveate.sync import Foveate, Session
    from foveate.turn import Json


@dataclass(frozen=True, slots=True)
class _Row:
    """A listed session."""

    info: SessionInfo
    short_id: str
    children: int
    trust: Reliability | None
    origin: str
    problem: str | None
    """Why a fallback strategy is used."""


CELLS: Cells[_Row] = {
    Column("session"): lambda row: row.short_id,
    Column("title", "cut"): lambda row: " ".join(row.info.title.split()),
    Column("project", "cut", expendable=5): lambda row: row.info.project,
    Column("age"): lambda row: age(row.info.updated_at),
    Column("turns", "number"): lambda row: f"{row.info.turns:,}",
    Column("children", "number", expendable=4): lambda row: f"+{row.children}" if row.children else "",
    Column("strategy", expendable=7): lambda row: row.info.strategy,
    Column("reliability", expendable=6): lambda row: reliable(row.trust),
    Column("platform", expendable=8): lambda row: row.info.platform or "",
}
EMPTY = "No sessions found. 'foveate import' adds some."


@store_group("sessions", "List the sessions; change, inspect, fork or delete one.", invoke_without_command=True)
@click.option("--platform", help="Only sessions of this platform, e.g. claude-code.")
@click.option("--channel", help="Only sessions of this channel.")
@click.option("--project", help="Only sessions of this project: a channel, or the last folder of its path.")
@click.option("--all", "every", is_flag=True, help="Also list children: sub-agents, forks and branches.")
@click.option("--origin", "with_origin", is_flag=True, help="Also show why the gateway started each session.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Maximum number; 0 for all.")
def command(
    fov: Foveate,
    *,
    platform: str | None,
    channel: str | None,
    project: str | None,
    every: bool,
    with_origin: bool,
    limit: int,
    as_json: bool,
) -> Answer:
    """List the sessions, most recently used first, with short ids. A session's age is the age of its newest message.

    Commands accept a session's id, any unique prefix of it, or its title. Sub-agents, forks and branches are counted
    with their parent; --all lists them.

    \b
    foveate sessions
    foveate sessions --project foveate
    foveate sessions rename SESSION "A better title"
    foveate sessions strategy SESSION topics
    foveate sessions budget SESSION 32k
    foveate sessions levels SESSION T-12
    foveate sessions delete SESSION
    """
    from foveate.session.address import short_ids

    known = fov.sessions()
    found = [info for info in known if _matches(info, platform=platform, channel=channel, project=project)]
    children = _children(found)
    shown = found if every else [info for info in found if info.id not in children]
    listed = shown[:limit] if limit else shown
    origins = {info.id: fov.origin(info.id) for info in listed} if with_origin or as_json else {}
    if as_json:
        value = [
            {**asdict(info), "reliability": fov.reliability(info.id), "origin": origins.get(info.id, "")}
            for info in found
        ]
        return Answer(value, "")
    short, counts = short_ids(info.id for info in known), Counter(children.values())
    rows = [
        _Row(
            info,
            short[info.id],
            counts[info.id],
            fov.reliability(info.id),
            origins.get(info.id, ""),
            fov.open_session(info.id).strategy_problem,
        )
        for info in listed
    ]
    hidden = len(found) - len(shown)
    return Answer(found, (lambda out: _print(out, rows, len(shown), hidden)) if found else EMPTY)


def _print(out: Console, rows: Sequence[_Row], total: int, hidden: int) -> None:
    print_values(out, CELLS, rows)
    if len(rows) < total:
        out.print(f"… and {total - len(rows)} more (--limit 0 lists all)")
    if hidden:
        out.print(line((f"{several(hidden, 'child', 'children')} not listed (--all lists them)", "dim")))
    for row in rows:
        if row.origin:
            out.print(line((f"{row.short_id}: {row.origin}", "dim")), soft_wrap=True)
    for row in rows:
        if row.problem:
            out.print(line((f"{row.short_id}: {row.problem}", "yellow")), soft_wrap=True)


def _matches(info: SessionInfo, *, platform: str | None, channel: str | None, project: str | None) -> bool:
    if platform not in (None, info.platform) or channel not in (None, info.channel):
        return False
    return not project or info.is_of_project(project)


def _children(found: Sequence[SessionInfo]) -> dict[str, str]:
    """Map each sub-agent, fork and branch among these sessions to its topmost ancestor."""
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
@click.argument("title")
def rename(session: Session, title: str) -> Answer:
    """Change a session's title.

    \b
    foveate sessions rename support-42 "The login that failed"
    """
    info = session.rename(title)
    return Answer(info, f"{info.id} is now called {info.title!r}.")


@command.command()
@click.option("--platform", help="The program or site of the conversation.")
@click.option("--channel", help="The room, thread or folder within the platform.")
def label(session: Session, platform: str | None, channel: str | None) -> Answer:
    """Label a session with its platform and channel.

    \b
    foveate sessions label support-42 --platform slack --channel "#help"
    """
    if platform is None and channel is None:
        raise click.UsageError("give --platform, --channel, or both")
    info = session.label(platform=platform, channel=channel)
    where = ", ".join(f"{name} {value!r}" for name, value in (("platform", platform), ("channel", channel)) if value)
    return Answer(info, f"{info.id} now has {where}.")


@command.command()
@click.argument("name", required=False)
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting of the strategy, for this session.")
def strategy(session: Session, name: str | None, given: tuple[str, ...]) -> Answer:
    """Set the strategy that shows a session's history; without a name, print the current one.

    \b
    foveate sessions strategy support-42
    foveate sessions strategy support-42 topics
    foveate sessions strategy support-42 standard --set when_full=fail
    """
    if given and name is None:
        raise click.UsageError("--set needs the name of a strategy before it")
    settings = dict(_setting(pair) for pair in given)
    info = session.use(name, **settings) if name is not None else session.info
    changed = ", ".join(f"{key} = {value}" for key, value in info.strategy_settings.items())
    return Answer(info, f"{info.id} uses the strategy {info.strategy}{f', with {changed}' if changed else ''}.")


@command.command()
@click.argument("tokens", type=TOKENS, required=False)
def budget(fov: Foveate, session: Session, tokens: int | None) -> Answer:
    """Set the token budget of a session's contexts; without a number, print the current one.

    \b
    foveate sessions budget support-42
    foveate sessions budget support-42 32k
    """
    info = session.info if tokens is None else fov.session(session.id, budget_tokens=tokens).info
    return Answer(info, f"{info.id} has a budget of {info.budget_tokens:,} tokens.")


@command.command()
@click.argument("name", required=False)
@click.option("--off", is_flag=True, help="Use no mode.")
def mode(session: Session, name: str | None, off: bool) -> Answer:
    """Set the mode of a session, a prompt that is added to each system prompt. Without a name, print the current one.

    Modes are stored prompts: 'foveate prompts list' lists them (modes/…), 'foveate prompts set' adds your own.

    \b
    foveate sessions mode support-42 developer
    foveate sessions mode support-42 --off
    """
    if off and name:
        raise click.UsageError("give the name of a mode, or --off")
    info = session.set_mode(name or "") if off or name else session.info
    return Answer(info, f"{info.id} {f'is in mode {info.mode}' if info.mode else 'has no mode'}.")


@command.command()
@click.argument("name", metavar="[SCOPE]", required=False)
@click.option("--off", is_flag=True, help="Use no scope.")
def scope(fov: Foveate, session: Session, name: str | None, off: bool) -> Answer:
    """Set the scope whose knowledge and past sessions a session may recall. Without a name, print the current one.

    The session joins that scope: its other sessions can recall this one too, and 'foveate knowledge learn' includes it.

    \b
    foveate sessions scope support-42 user:anna
    foveate sessions scope support-42 --off
    """
    if off and name:
        raise click.UsageError("give a scope, or --off")
    info = fov.session(session.id, scope=name or "").info if off or name else session.info
    return Answer(info, f"{info.id} {f'has the scope {info.scope}' if info.scope else 'has no scope'}.")


def _setting(pair: str) -> tuple[str, Json]:
    """Parse KEY=VALUE; a value that is not JSON is kept as a string."""
    key, value = assignment(pair, "KEY=VALUE", "when_full=fail")
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value


@command.command()
@yes_option("Don't ask for confirmation.")
def delete(fov: Foveate, session: Session, yes: bool) -> Answer:
    """Delete a session and its turns permanently.

    \b
    foveate sessions delete support-42
    foveate sessions delete support-42 --yes
    """
    info = session.info
    if not yes:
        titled = f" ({info.title})" if info.title else ""
        question = f"Delete session {info.id}{titled} and its {several(info.turns, 'turn')} permanently?"
        click.confirm(printable(question), abort=True, err=True)
    fov.delete_session(info.id)
    return Answer(info, f"Deleted {info.id}.")
