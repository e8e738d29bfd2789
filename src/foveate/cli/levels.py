"""`foveate sessions levels`: show a turn at its four levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import cut_middle, line, to_copy
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.session.values import TurnContent, TurnDetails
    from foveate.sync import Session

NAMES = {"R": "raw", "S": "smoothed", "C": "compressed", "T": "tiny"}
SIDE_BY_SIDE_WIDTH = 140
"""Narrowest terminal in which four columns are readable."""


@store_command("levels", "A turn at its four levels, with their sizes.")
@click.argument("turn", metavar="TURN")
@click.option("--full", is_flag=True, help="Don't cut long text.")
def command(session: Session, *, session_id: str, turn: str, full: bool) -> Answer:
    """Show a turn raw, smoothed, compressed and tiny, with their sizes.

    \b
    foveate sessions levels demo T-87
    foveate sessions levels demo T-87 --full | less
    """
    raw = session.get_turn(turn, "R", format="plain")
    found = [raw if level == "R" else session.get_turn(turn, level, "plain") for level in raw.available_levels]
    details = session.turn_details(turn)

    def show(out: Console) -> None:
        print_levels(out, found, full=full)
        if len(found) == 1:
            advice = f"'{to_copy('store', 'compress', session_id)}' makes them"
            out.print(line((f"The other levels are not made yet; {advice}.", "yellow")))

    return Answer([{**_described(each, raw, details), "content": each.content} for each in found], show)


def print_levels(out: Console, found: list[TurnContent], *, full: bool) -> None:
    """Print a turn at each level, raw first; side by side if the terminal is wide enough."""
    show = _side_by_side if out.width >= SIDE_BY_SIDE_WIDTH else _stacked
    show(out, found, found[0], full=full)


def _described(content: TurnContent, raw: TurnContent, details: TurnDetails) -> dict[str, object]:
    share = content.tokens / raw.tokens if raw.tokens else 1.0
    origin = next((level for level in details.levels if level.level == content.level), None)
    return {
        "turn_id": content.turn_id,
        "level": content.level,
        "tokens": content.tokens,
        "share": round(share, 3),
        "maker": origin and origin.maker,
        "version": origin and origin.version,
        "made_at": origin and origin.made_at,
        "prompt_tokens": details.prompt_tokens,
        "answer_tokens": details.answer_tokens,
        "tool_calls": details.tool_calls,
        "topics": details.topics,
        "is_complete": details.is_complete,
    }


def _head(content: TurnContent, raw: TurnContent, between: str) -> Text:
    from foveate.cli.ui.picture import STYLES

    style = next(style for level, style in STYLES.items() if level == content.level)
    share = f", {content.tokens / raw.tokens:.0%} of raw" if raw.tokens and content.level != "R" else ""
    name = f" {content.turn_id}-{content.level} {NAMES[content.level]} "
    return line((name, style), f"{between}{several(content.tokens, 'token')}{share}")


def _stacked(out: Console, found: list[TurnContent], raw: TurnContent, *, full: bool) -> None:
    from rich.rule import Rule

    for content in found:
        out.print(Rule(_head(content, raw, " "), align="left", style="dim"))
        out.print(line(cut_middle(content.content.strip("\n"), full=full)))
        out.print()


def _side_by_side(out: Console, found: list[TurnContent], raw: TurnContent, *, full: bool) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), expand=True)
    for content in found:
        ratio = {"R": 4, "S": 4, "C": 3, "T": 2}[content.level]
        table.add_column(_head(content, raw, "\n"), ratio=ratio, overflow="fold")
    table.add_row(*(line(cut_middle(content.content.strip("\n"), full=full)) for content in found))
    out.print(table)
