"""Shell completion of sessions by id and title.

The library takes a second to load, too long for a key press, so the ids are read from the file directly.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from foveate.cli.ui.options import DEFAULT_STORE
from foveate.text import for_terminal

MAX_SESSIONS = 5_000
MAX_OFFERED = 200
TITLE_CHARS = 60
PARAMETERS = ("session_id", "session_ids")
_QUERY = "SELECT id, title FROM sessions ORDER BY updated_us DESC LIMIT ?"
_PLAIN = re.compile(r"([^\w@%+=:,./-])")


class SessionName(click.ParamType[str]):
    """A session, given by its id, a prefix of it, or its title."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem[str]]:
        """Complete ids, shown with their titles, then titles."""
        path = Path(ctx.params.get("store_path") or DEFAULT_STORE).expanduser()
        known = stored_sessions(path)
        ids = [CompletionItem(id_, help=_short(title) or None) for id_, title in known if id_.startswith(incomplete)]
        start = incomplete.casefold()
        titles = [title for _, title in known if incomplete and title.casefold().startswith(start)]
        shown = dict.fromkeys(title for title in titles if title.isprintable())
        return [*ids, *(CompletionItem(title) for title in shown)][:MAX_OFFERED]


def stored_sessions(path: Path) -> list[tuple[str, str]]:
    """Read the ids and titles of a store's sessions, most recently used first; none if the store is busy."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            return [(str(id_), str(title)) for id_, title in connection.execute(_QUERY, (MAX_SESSIONS,))]
    except sqlite3.Error:
        return []


def _short(title: str) -> str:
    text = for_terminal(" ".join(title.split()))
    return text if len(text) <= TITLE_CHARS else f"{text[: TITLE_CHARS - 1]}…"


def complete_sessions(command: click.Command) -> None:
    """Complete the session arguments of a command and of its subcommands."""
    for param in command.params:
        if isinstance(param, click.Argument) and param.name in PARAMETERS:
            param.type = SessionName()
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_sessions(inner)


class _Bash(BashComplete):
    """Escapes the spaces in titles, because Bash inserts completions unchanged; its script keeps the backslashes."""

    source_template = BashComplete.source_template.replace("read type value", "read -r type value")

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type}," + _PLAIN.sub(r"\\\1", item.value)


add_completion_class(_Bash, "bash")
