"""`foveate search`: find turns, in one session or in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import console, line, moment, to_copy
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.values import Hit
    from foveate.sync import Foveate

SNIPPET_CHARS = 240
MARKED = "bold yellow"
ROLES = ("user", "assistant", "tool", "system")
ORDERS = ("relevance", "time")


@store_command("search", "Find turns by words and by meaning.")
@click.argument("words", metavar="WORDS...", nargs=-1)
@click.option("-s", "--session", "session_name", metavar="SESSION", help="Only in this session.")
@click.option("--all", "every", is_flag=True, hidden=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Maximum number of turns.")
@click.option("--role", type=click.Choice(ROLES), help="Only messages of this role.")
@click.option("--speaker", metavar="NAME", help="Only messages that begin with this name: 'Anna: …'.")
@click.option("--tool", metavar="NAME", help="Only the calls and results of this tool.")
@click.option("--file", metavar="PATH", help="Only turns that name this file, or the end of its path.")
@click.option("--after", metavar="TIME", help="Only turns that began then or later: 2026-11-15, 7d, 12h, last May.")
@click.option("--before", metavar="TIME", help="Only turns that began before then.")
@click.option(
    "--order", type=click.Choice(ORDERS), default="relevance", show_default=True, help="Best first, or oldest first."
)
def command(
    fov: Foveate,
    *,
    words: tuple[str, ...],
    session_name: str | None,
    every: bool,
    limit: int,
    role: str | None,
    speaker: str | None,
    tool: str | None,
    file: str | None,
    after: str | None,
    before: str | None,
    order: str,
    as_json: bool,
) -> Answer:
    """Find turns by words and by meaning in all sessions, or in one. Each turn is shown with its best passage.

    Words match in any form (port, ports); identifiers and paths match whole and in parts. No character has a special
    meaning. With --order time no words are needed: it lists the turns by date.

    \b
    foveate search storage port
    foveate search -s demo how do we take backups --limit 3
    foveate search timeout --role user --after 7d
    foveate search getUserById --before yesterday
    foveate search -s demo --order time --role user --after "last week"
    """
    if not words and order == "relevance":
        raise click.UsageError("Missing argument 'WORDS...'; only --order time needs none.")
    if words and session_name is None and not every:
        session_name, words = _old_form(fov, words)
    query = " ".join(words)
    session_id = None if session_name is None else fov.find_session(session_name).id
    unsearched = fov.unsearched_turns(session_id)
    if unsearched and not as_json:
        _print_unsearched(unsearched, session_id)
    found = fov.search(
        query,
        limit,
        session_id=session_id,
        role=role,
        speaker=speaker,
        tool=tool,
        after=after,
        before=before,
        file=file,
        order=order,
    )
    titles = {} if session_id or as_json else {info.id: info.title for info in fov.sessions()}
    value = {"found": found, "unsearched_turns": unsearched}
    return Answer(value, lambda out: print_found(out, found, query, titles))


def _old_form(fov: Foveate, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Accept a session as the first word, the syntax before `-s`, for one more release."""
    if len(words) == 1 or words[0] not in {info.id for info in fov.sessions()}:
        return None, words
    advice = f"'{words[0]}' is taken as the session; write '{to_copy('search', '-s', *words)}'"
    console(stderr=True).print(line((f"{advice}, or --all to search for the word.", "yellow")))
    return words[0], words[1:]


def _print_unsearched(unsearched: int, session_id: str | None) -> None:
    advice = f"'{to_copy('store', 'compress', session_id or '--all')}' finishes it"
    unindexed = several(unsearched, "older turn")
    console().print(line((f"Indexing is not finished: {unindexed} not searched; {advice}.", "yellow")))


def print_found(out: Console, found: Sequence[Hit], query: str, titles: Mapping[str, str] | None = None) -> None:
    """Print hits by session, the session with the best hit first; without titles, all are of one session.

    Nothing is wrapped where the output is not a terminal.
    """
    if not found:
        out.print(line(f"Nothing was found for {query!r}."))
    sessions = list(dict.fromkeys(each.session_id for each in found))
    for session_id in sessions:
        if titles:
            title = " ".join(titles.get(session_id, "").split())
            named = line((session_id, "bold"), (f"  {title}" if title != session_id else "", "dim"))
            out.print(named, soft_wrap=not out.is_terminal)
        indent = "  " if titles else ""
        for each in found:
            if each.session_id == session_id:
                _print_hit(out, each, query, indent)


def _print_hit(out: Console, hit: Hit, query: str, indent: str) -> None:
    out.print(line(indent, (hit.turn_id, "bold"), (f"  {hit.tool or hit.role}, {moment(hit.at)}", "dim")))
    pieces = hit.snippet(query, SNIPPET_CHARS)
    passage = line(f"{indent}  ", *((piece, MARKED if is_word else "") for piece, is_word in pieces))
    out.print(passage, soft_wrap=not out.is_terminal)
