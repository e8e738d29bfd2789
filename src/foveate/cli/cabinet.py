"""`foveate cabinet`: whole tool results and fetched pages, by key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, console, line, moment, print_exactly, print_json, print_listing
from foveate.text import amount, several

if TYPE_CHECKING:
    from foveate.session.cabinet import CabinetEntry

COLUMNS = (
    Column("key"),
    Column("name", "cut"),
    Column("size"),
    Column("type", expendable=1),
    Column("session", "cut", expendable=3),
    Column("turn", expendable=2),
    Column("expires"),
    Column("source", "cut", expendable=4),
)


@click.group(name="cabinet", short_help="Whole tool results and fetched pages: list, show, save, prune.")
def command() -> None:
    """The file cabinet: tool results that are too long for a conversation, and fetched pages, whole, by key.

    \b
    foveate cabinet list
    foveate cabinet show f-1a2b3c4d5e6f --from 120 --lines 10
    foveate cabinet save f-1a2b3c4d5e6f page.html
    foveate cabinet prune --dry-run
    """


@command.command(name="list")
@store_option
@json_option
def list_(*, store_path: Path, as_json: bool) -> None:
    """List the keys that are not expired, the newest first.

    \b
    foveate cabinet list
    """
    with opened(store_path) as fov:
        found = fov.cabinet.list()
    empty = "The file cabinet is empty. Long tool results and fetched pages are put there."
    print_listing(found, COLUMNS, _row, as_json=as_json, empty=empty)


@command.command()
@click.argument("key")
@click.option("--from", "first_line", default=1, show_default=True, type=click.IntRange(min=1), help="First line.")
@click.option("--lines", default=200, show_default=True, type=click.IntRange(min=1), help="Number of lines.")
@store_option
@json_option
def show(*, key: str, first_line: int, lines: int, store_path: Path, as_json: bool) -> None:
    """Print lines of a content. A line of more than 1,000 characters counts as several.

    \b
    foveate cabinet show f-1a2b3c4d5e6f
    foveate cabinet show f-1a2b3c4d5e6f --from 120 --lines 10
    """
    with opened(store_path) as fov:
        entry = fov.cabinet.entry(key)
        excerpt = fov.cabinet.excerpt(key, first_line, lines)
    if as_json:
        print_json({"entry": entry, "excerpt": excerpt})
        return
    print_exactly(excerpt.text)
    if excerpt.last_line < excerpt.total_lines:
        shown = f"lines {first_line:,} to {excerpt.last_line:,}" if excerpt.last_line else "none"
        console(stderr=True).print(line((f"{shown} of {excerpt.total_lines:,}", "dim")))


@command.command()
@click.argument("key")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
@store_option
@json_option
def save(*, key: str, path: Path, force: bool, store_path: Path, as_json: bool) -> None:
    """Write a content to a file, byte for byte.

    \b
    foveate cabinet save f-1a2b3c4d5e6f page.html
    """
    from foveate.tools.files import resolved, write_atomically

    if path.exists() and not force:
        raise click.ClickException(f"{path} exists; --force replaces it")
    with opened(store_path) as fov:
        content = fov.cabinet.content(key)
    write_atomically(resolved(path, str(path)), content, str(path))
    if as_json:
        print_json({"key": key, "path": str(path), "bytes": len(content)})
    else:
        click.echo(f"Wrote {path} ({amount(len(content))}B).")


@command.command()
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@store_option
@json_option
def prune(*, dry_run: bool, store_path: Path, as_json: bool) -> None:
    """Remove expired keys, and contents that no turn refers to.

    \b
    foveate cabinet prune --dry-run
    foveate cabinet prune
    """
    with opened(store_path) as fov:
        gone = fov.cabinet.prune(dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "removed": gone})
        return
    said = "would be removed" if dry_run else "removed"
    click.echo(f"{several(len(gone), 'expired key')} {said}." if gone else "No key is expired.")


def _row(entry: CabinetEntry) -> tuple[str, ...]:
    return (
        entry.key,
        entry.name,
        f"{amount(entry.size)}B",
        entry.media_type,
        entry.session_id or "",
        entry.turn_id or "",
        moment(entry.expires),
        entry.source,
    )
