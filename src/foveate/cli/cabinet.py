"""`foveate cabinet`: whole tool results and fetched pages, by key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, listing, store_group
from foveate.cli.ui.terminal import Column, console, line, moment, print_exactly
from foveate.text import amount, several

if TYPE_CHECKING:
    from foveate.session.cabinet import CabinetEntry, Excerpt
    from foveate.sync import Foveate

CELLS: Cells[CabinetEntry] = {
    Column("key"): lambda entry: entry.key,
    Column("name", "cut"): lambda entry: entry.name,
    Column("size"): lambda entry: f"{amount(entry.size)}B",
    Column("type", expendable=1): lambda entry: entry.media_type,
    Column("session", "cut", expendable=3): lambda entry: entry.session_id or "",
    Column("turn", expendable=2): lambda entry: entry.turn_id or "",
    Column("expires"): lambda entry: moment(entry.expires),
    Column("source", "cut", expendable=4): lambda entry: entry.source,
}
EMPTY = "The file cabinet is empty. Long tool results and fetched pages are stored there."


@store_group("cabinet", "Whole tool results and fetched pages: list, show, save, prune.")
def command() -> None:
    """Read the file cabinet: fetched pages, and tool results that are too long for a conversation, in full and by key.

    \b
    foveate cabinet list
    foveate cabinet show f-1a2b3c4d5e6f --from 120 --lines 10
    foveate cabinet save f-1a2b3c4d5e6f page.html
    foveate cabinet prune --dry-run
    """


@command.command(name="list")
def list_(fov: Foveate) -> Answer:
    """List the keys that have not expired, newest first.

    \b
    foveate cabinet list
    """
    return listing(fov.cabinet.list(), CELLS, empty=EMPTY)


@command.command()
@click.argument("key")
@click.option("--from", "first_line", default=1, show_default=True, type=click.IntRange(min=1), help="First line.")
@click.option("--lines", default=200, show_default=True, type=click.IntRange(min=1), help="Number of lines.")
def show(fov: Foveate, *, key: str, first_line: int, lines: int) -> Answer:
    """Print lines of stored content. A line of more than 1,000 characters counts as several.

    \b
    foveate cabinet show f-1a2b3c4d5e6f
    foveate cabinet show f-1a2b3c4d5e6f --from 120 --lines 10
    """
    entry, excerpt = fov.cabinet.entry(key), fov.cabinet.excerpt(key, first_line, lines)
    return Answer({"entry": entry, "excerpt": excerpt}, lambda _: _print(excerpt, first_line))


@command.command()
@click.argument("key")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
def save(fov: Foveate, *, key: str, path: Path, force: bool) -> Answer:
    """Write stored content to a file, byte for byte.

    \b
    foveate cabinet save f-1a2b3c4d5e6f page.html
    """
    from foveate.tools.files import resolved, write_atomically

    if path.exists() and not force:
        raise click.ClickException(f"{path} exists; --force replaces it")
    content = fov.cabinet.content(key)
    write_atomically(resolved(path, str(path)), content, str(path))
    return Answer({"key": key, "path": str(path), "bytes": len(content)}, f"Wrote {path} ({amount(len(content))}B).")


@command.command()
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
def prune(fov: Foveate, *, dry_run: bool) -> Answer:
    """Remove expired keys, and content that no turn refers to.

    \b
    foveate cabinet prune --dry-run
    foveate cabinet prune
    """
    gone = fov.cabinet.prune(dry_run=dry_run)
    message = f"{several(len(gone), 'expired key')} {'would be removed' if dry_run else 'removed'}."
    return Answer({"dry_run": dry_run, "removed": gone}, message if gone else "No key is expired.")


def _print(excerpt: Excerpt, first_line: int) -> None:
    print_exactly(excerpt.text)
    if excerpt.last_line < excerpt.total_lines:
        shown = f"lines {first_line:,} to {excerpt.last_line:,}" if excerpt.last_line else "none"
        console(stderr=True).print(line((f"{shown} of {excerpt.total_lines:,}", "dim")))
