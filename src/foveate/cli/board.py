"""`foveate sessions board`: retrieved items that contexts include for a few turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import Column, line, print_table, shorten, to_copy
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.values import Board
    from foveate.sync import Session

COLUMNS = (Column("name"), Column("stays"), Column("page"), Column("content", "cut"))
MAX_CHARS = 300


@store_command("board", "What a model retrieved and still sees; save or dismiss it.")
@click.argument("action", metavar="[save|dismiss]", required=False, type=click.Choice(["save", "dismiss"]))
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--prompt", default="", metavar="TEXT", help="Also show what would be prefetched for this prompt.")
def command(session: Session, *, session_id: str, action: str | None, name: str | None, prompt: str) -> Answer:
    """Show a session's board; save an item on it until it is dismissed, or dismiss one.

    \b
    foveate sessions board demo
    foveate sessions board demo --prompt "Which port did we choose?"
    foveate sessions board demo save T-87-R
    foveate sessions board demo dismiss T-87-R
    """
    if action and not name:
        raise click.UsageError(
            f"name what to {action}, e.g. {to_copy('sessions', 'board', session_id, action, 'T-87-R')}"
        )
    board = session.board()
    if action and name:
        names = [entry.name for entry in board.retrieved] + [note.key for note in board.notes]
        if name not in names:
            there = f"available: {', '.join(names)}" if names else "it is empty"
            raise click.ClickException(f"{name} is not on the board of {session_id}; {there}")
        change = session.save if action == "save" else session.dismiss
        change(name)
        board = session.board()
    if prompt:
        board = session.context(prompt).board
    now_turn = session.info.turns
    return Answer(board, lambda out: print_board(out, board, now_turn))


def print_board(out: Console, board: Board, now_turn: int) -> None:
    if not (board.retrieved or board.notes or board.prefetched):
        out.print(line("The board is empty. What a model retrieves stays on it for a few turns."))
        return
    rows = []
    for entry in board.retrieved:
        left = entry.until_turn - now_turn
        stays = "saved" if entry.is_saved else several(left, "more turn") if left > 0 else "last turn"
        page = f"{entry.page} of {entry.pages}" if entry.pages > 1 else ""
        rows.append((entry.name, stays, page, shorten(entry.text, MAX_CHARS)))
    rows += [(entry.name, "this prompt", "", shorten(entry.text, MAX_CHARS)) for entry in board.prefetched]
    rows += [(note.key, note.kind, "", shorten(note.text, MAX_CHARS)) for note in board.notes]
    print_table(out, COLUMNS, rows)
