"""`foveate sessions topics`: list, show, seal and unseal the topics of a session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_group
from foveate.cli.ui.terminal import Column, line, moment, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.topics import Bulk, Topic, TopicsHistory
    from foveate.sync import Session

COLUMNS = (
    Column("id"),
    Column("turns"),
    Column("sealed by", expendable=1),
    Column("at", expendable=2),
    Column("tokens", "number", expendable=3),
    Column("about", "cut"),
)


@store_group("topics", "The topics of a session; seal the current one, or undo that.")
def command() -> None:
    """Show a session that uses the topics strategy, topic by topic.

    \b
    foveate sessions topics list demo
    foveate sessions topics show demo topic-3
    foveate sessions topics seal demo
    foveate sessions topics unseal demo
    """


@command.command(name="list")
def list_(session: Session) -> Answer:
    """List bulks, past topics and the current one, oldest first.

    \b
    foveate sessions topics list demo
    """
    history, last = session.topics.get_history(), session.info.turns
    return Answer(history, lambda out: print_table(out, COLUMNS, _rows(history, last)))


@command.command()
@click.argument("topic_id", metavar="[TOPIC]", required=False)
def show(session: Session, *, session_id: str, topic_id: str | None) -> Answer:
    """Show the summary of a topic or a bulk by its id, or of all of them.

    \b
    foveate sessions topics show demo
    foveate sessions topics show demo topic-3
    """
    known = _all(session.topics.get_history())
    found = [one for one in known if topic_id in (None, one.id)]
    if topic_id and not found:
        available = ", ".join(one.id for one in known) or "none yet"
        raise click.ClickException(f"no topic {topic_id!r} in session {session_id!r}; available: {available}")
    return Answer(found[0] if topic_id else found, partial(_print, found) if found else "No topic has ended yet.")


@command.command()
def seal(session: Session) -> Answer:
    """End the current topic and summarise it.

    \b
    foveate sessions topics seal demo
    """
    topic = session.topics.seal_current_topic()
    return Answer(topic, partial(_print, [topic], before="Sealed "))


@command.command()
def unseal(session: Session) -> Answer:
    """Undo the last seal: its turns are the current topic again. Possible until the next message.

    \b
    foveate sessions topics unseal demo
    """
    session.topics.unseal()
    history = session.topics.get_history()
    return Answer(history, f"The current topic begins at {history.current_first} again.")


def _rows(history: TopicsHistory, last: int) -> list[tuple[str, ...]]:
    rows = [
        (bulk.id, _turns(bulk), "", "", f"{sum(topic.raw_tokens for topic in bulk.topics):,}", bulk.title)
        for bulk in history.bulks
    ]
    rows += [
        (topic.id, _turns(topic), topic.why, moment(topic.sealed_at), f"{topic.raw_tokens:,}", topic.title)
        for topic in history.topics
    ]
    current = f"{history.current_first} to T-{last}" if history.current_first else "empty"
    return [*rows, ("current", current, "", "", "", "")]


def _print(found: Sequence[Topic | Bulk], out: Console, before: str = "") -> None:
    for one in found:
        out.print(line((before, "green"), (one.id, "bold"), f" {_turns(one)}"))
        out.print(line(one.summary or "(no summary: its turns are part of a bulk)"))


def _all(history: TopicsHistory) -> list[Topic | Bulk]:
    """Return the bulks with their topics, then the topics outside bulks, oldest first."""
    found: list[Topic | Bulk] = []
    for bulk in history.bulks:
        found += [bulk, *bulk.topics]
    return [*found, *history.topics]


def _turns(one: Topic | Bulk) -> str:
    return one.first if one.first == one.last else f"{one.first} to {one.last}"
