"""`foveate demo`: a made-up conversation, recorded for real, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import Column, amount, console, line, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from foveate.answers import SessionStats
    from foveate.sync import Session
    from foveate.testing.conversation import Conversation, PlantedFact

COLUMNS = (Column("told once", "fold"), Column("in"), Column("asked for later", "cut"), Column("kept"))
FACTS_SHOWN = 6


@click.command(name="demo", short_help="Record a made-up conversation and show what is kept.")
@click.option("--turns", default=300, show_default=True, type=click.IntRange(1, 5000), help="How long it is.")
@click.option("--seed", default=42, show_default=True, help="Another number makes another conversation.")
@click.option("--session", "session_id", default="demo", show_default=True, metavar="ID", help="What to call it.")
@store_option
@json_option
def command(*, turns: int, seed: int, session_id: str, store_path: Path, as_json: bool) -> None:
    """Record a conversation of a few hundred turns, written for this purpose, and look at what is kept.

    It has planted facts, decisions, tool calls and errors. Running it again adds nothing.

    \b
    foveate demo
    foveate show demo T-7
    foveate export demo --format markdown | less
    """
    from foveate.testing.conversation import make_conversation

    conversation = make_conversation(turns, seed)
    with opened(store_path, create=True) as fov:
        session = fov.session(session_id, title=conversation.title, platform="demo")
        with progress_bar(shown=not as_json) as progress:
            task = progress.add_task("recording", total=turns)
            for number, turn in enumerate(conversation.turns, 1):
                session.record(turn, key=f"demo-{seed}-{turns}-{number}")
                progress.advance(task)
        stats = session.stats()
        found = {fact.id: _is_kept(session, fact) for fact in conversation.facts}
    if as_json:
        kept = sum(found.values())
        print_json({"session": session_id, "stats": stats, "facts": len(found), "facts_kept": kept})
    else:
        _show(session_id, store_path, conversation, stats, found)
    if not all(found.values()):
        raise click.exceptions.Exit(1)


def _is_kept(session: Session, fact: PlantedFact) -> bool:
    return fact.needle in session.get_turn(fact.turn, "R", format="plain").content


def _show(
    session_id: str, store_path: Path, conversation: Conversation, stats: SessionStats, found: dict[str, bool]
) -> None:
    out = console()
    out.print(line(("\n" + conversation.title, "bold")))
    out.print(
        f"{stats.turns} turns, {stats.messages:,} messages, {stats.tool_calls} tool calls, "
        f"{amount(stats.tokens)} tokens; "
        f"{amount(stats.raw_bytes)}B kept in {amount(stats.stored_bytes)}B ({stats.compression_ratio:.1f}x)\n"
    )
    step = max(1, len(conversation.facts) // FACTS_SHOWN)
    rows = []
    for fact in conversation.facts[::step][:FACTS_SHOWN]:
        mark = line(("✓", "green") if found[fact.id] else ("✗", "red"))
        rows.append((fact.answer, f"T-{fact.turn}", fact.question, mark))
    print_table(out, COLUMNS, rows)
    out.print(f"\n{sum(found.values())} of {len(found)} planted facts read back, to the letter.\n")
    where = "" if str(store_path) == "~/.foveate/foveate.db" else f" --db {store_path}"
    for call, note in (
        (f"foveate show {session_id} T-{conversation.facts[0].turn}{where}", "read a turn"),
        (f"foveate export {session_id} --format markdown{where}", "read it all"),
        (f"foveate doctor{where}", "verify every byte"),
    ):
        out.print(line((f"  {call:<52}", "bold"), (f" {note}", "dim")))
