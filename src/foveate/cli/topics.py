"""`foveate topics`: what a conversation went through, topic by topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, console, line, print_json, print_table

if TYPE_CHECKING:
    from foveate.session.topics import Bulk, Topic, TopicsHistory

COLUMNS = (
    Column("id"),
    Column("turns"),
    Column("sealed by", expendable=1),
    Column("at", expendable=2),
    Column("tokens", "number", expendable=3),
    Column("about", "cut"),
)


@click.group(name="topics", short_help="The topics of a conversation; seal the current one, or undo that.")
def command() -> None:
    """Show a session that uses the topics strategy, topic by topic.

    \b
    foveate topics list demo
    foveate topics show demo topic-3
    foveate topics seal demo
    foveate topics unseal demo
    """


@command.command(name="list")
@click.argument("session_id", metavar="SESSION")
@store_option
@json_option
def list_(*, session_id: str, store_path: Path, as_json: bool) -> None:
    """List bulks, past topics and the current one, oldest first.

    \b
    foveate topics list demo
    """
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        history = session.topics.get_history()
        last = session.info.turns
    if as_json:
        print_json(history)
        return
    rows = [
        (bulk.id, _turns(bulk), "", "", f"{sum(topic.raw_tokens for topic in bulk.topics):,}", bulk.title)
        for bulk in history.bulks
    ]
    rows += [
        (topic.id, _turns(topic), topic.why, f"{topic.sealed_at:%Y-%m-%d %H:%M}", f"{topic.raw_tokens:,}", topic.title)
        for topic in history.topics
    ]
    current = f"{history.current_first} to T-{last}" if history.current_first else "empty"
    rows.append(("current", current, "", "", "", ""))
    print_table(console(), COLUMNS, rows)


@command.command(name="show")
@click.argument("session_id", metavar="SESSION")
@click.argument("topic_id", metavar="[TOPIC]", required=False)
@store_option
@json_option
def show(*, session_id: str, topic_id: str | None, store_path: Path, as_json: bool) -> None:
    """Show the summary of a topic or a bulk by its id, or of all of them.

    \b
    foveate topics show demo
    foveate topics show demo topic-3
    """
    with opened(store_path) as fov:
        history = fov.find_session(session_id).topics.get_history()
    found = [one for one in _all(history) if topic_id in (None, one.id)]
    if topic_id and not found:
        known = ", ".join(one.id for one in _all(history)) or "none yet"
        raise click.ClickException(f"no topic {topic_id!r} in session {session_id!r}; available: {known}")
    if as_json:
        print_json(found[0] if topic_id else found)
        return
    out = console()
    for one in found:
        out.print(line((one.id, "bold"), f" {_turns(one)}"))
        out.print(line(one.summary or "(not summed up: its turns are part of a bulk)"))
    if not found:
        out.print(line("No topic is over yet."))


@command.command(name="seal")
@click.argument("session_id", metavar="SESSION")
@store_option
@json_option
def seal(*, session_id: str, store_path: Path, as_json: bool) -> None:
    """End the current topic, and sum it up.

    \b
    foveate topics seal demo
    """
    with opened(store_path) as fov:
        topic = fov.find_session(session_id).topics.seal_current_topic()
    if as_json:
        print_json(topic)
        return
    out = console()
    out.print(line(("Sealed ", "green"), (topic.id, "bold"), f" {_turns(topic)}"))
    out.print(line(topic.summary))


@command.command(name="unseal")
@click.argument("session_id", metavar="SESSION")
@store_option
@json_option
def unseal(*, session_id: str, store_path: Path, as_json: bool) -> None:
    """Undo the last seal: its turns are the current topic again. Possible until the next message.

    \b
    foveate topics unseal demo
    """
    with opened(store_path) as fov:
        topics = fov.find_session(session_id).topics
        topics.unseal()
        history = topics.get_history()
    if as_json:
        print_json(history)
        return
    console().print(line(f"The current topic begins at {history.current_first} again."))


def _all(history: TopicsHistory) -> list[Topic | Bulk]:
    """Bulks with their topics, then the topics in none, oldest first."""
    found: list[Topic | Bulk] = []
    for bulk in history.bulks:
        found += [bulk, *bulk.topics]
    return [*found, *history.topics]


def _turns(one: Topic | Bulk) -> str:
    return one.first if one.first == one.last else f"{one.first} to {one.last}"
