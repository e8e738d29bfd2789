"""`foveate search`: the turns that speak of something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, moment, print_json, printable, to_copy
from foveate.errors import InputError, SessionNotFound
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.recall.search import Hit
    from foveate.sync import Foveate

SNIPPET_CHARS = 240
MARKED = "bold yellow"
ROLES = ("user", "assistant", "tool", "system")


@click.command(name="search", short_help="Find the turns that speak of something.")
@click.argument("words", metavar="[SESSION] WORDS...", nargs=-1, required=True)
@click.option("--all", "every", is_flag=True, help="In every session: all words are what to look for.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="At most this many turns.")
@click.option("--role", type=click.Choice(ROLES), help="Only what is said by this one.")
@click.option("--tool", metavar="NAME", help="Only the calls and results of this tool.")
@click.option("--file", metavar="PATH", help="Only turns that name this file, or the end of its path.")
@click.option("--after", metavar="TIME", help="Only turns that began then or later, as in 2026-11-15.")
@click.option("--before", metavar="TIME", help="Only turns that began before then.")
@store_option
@json_option
def command(
    *,
    words: tuple[str, ...],
    every: bool,
    limit: int,
    role: str | None,
    tool: str | None,
    file: str | None,
    after: str | None,
    before: str | None,
    store_path: Path,
    as_json: bool,
) -> None:
    """Find turns by words and by meaning, the best first, each with the passage that says it best.

    A single argument is searched for in every session; with more, the first names the session, unless --all is
    given.

    Words are found in any form (port, ports); identifiers and paths whole and in parts. No sign in the query has a
    meaning of its own.

    \b
    foveate search "storage port"
    foveate search demo storage port
    foveate search demo "how do we take backups?" --limit 3
    foveate search demo timeout --role user --after 2026-11-01
    foveate search --all getUserById
    """
    every = every or len(words) == 1
    query = " ".join(words if every else words[1:])
    with opened(store_path) as fov:
        session_id = None if every else _find(fov, words)
        found = fov.search(
            query,
            limit,
            session_id=session_id,
            role=role,
            tool=tool,
            after=after,
            before=before,
            file=file,
        )
        unsearched = fov.unsearched_turns(session_id)
    if as_json:
        print_json({"found": found, "unsearched_turns": unsearched})
        return
    print_found(console(), found, query, names_session=every)
    if unsearched:
        advice = f"'{to_copy('compress', session_id or '--all')}' does it"
        left_out = several(unsearched, "older turn")
        console().print(line((f"Not indexed yet, and so not searched: {left_out}; {advice}.", "yellow")))


def _find(fov: Foveate, words: Sequence[str]) -> str:
    """The session that the first word names."""
    try:
        return fov.find_session(words[0]).id
    except SessionNotFound as error:
        raise InputError(f"{error}; '{to_copy('search', '--all', *words)}' looks in all of them") from error


def print_found(out: Console, found: Sequence[Hit], query: str, *, names_session: bool = False) -> None:
    if not found:
        out.print(line(f"Nothing was found for {query!r}."))
    for each in found:
        who = each.tool or each.role
        where = f"{each.session_id}  " if names_session else ""
        out.print(line((f"{where}{each.turn_id}", "bold"), (f"  {who}, {moment(each.at)}", "dim")))
        out.print(_marked(each.text, query))


def _marked(text: str, query: str) -> Text:
    """The stretch of a passage that says it, with the words that were asked for."""
    from rich.text import Text

    from foveate.recall.words import find_words, snippet

    shown = printable(snippet(text, query, SNIPPET_CHARS))
    marked = Text(f"  {shown}")
    for start, end in find_words(shown, query):
        marked.stylize(MARKED, start + 2, end + 2)
    return marked
