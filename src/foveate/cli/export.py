"""`foveate export`: write a session to a file or to standard output."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import print_exactly
from foveate.errors import InputError
from foveate.text import amount

if TYPE_CHECKING:
    from foveate.sync import Session


@store_command("export", "Write a session as JSON, Markdown, or in a message or transcript format.")
@click.option("--format", "format_name", default="json", show_default=True, help="json, markdown, openai, …")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--from", "first", default="T-1", show_default=True, metavar="TURN", help="The first turn.")
@click.option("--to", "last", metavar="TURN", help="The last turn. Default: the newest.")
@click.option("--after", metavar="TIME", help="Only turns that began then or later, e.g. 2026-11-15 or 7d.")
@click.option("--before", metavar="TIME", help="Only turns that began before then.")
def command(
    session: Session,
    *,
    format_name: str,
    output: Path | None,
    first: str,
    last: str | None,
    after: str | None,
    before: str | None,
    as_json: bool,
) -> Answer | None:
    """Write a session to a file or to standard output.

    `json` is the full record: every message, normalised and as received. A message format (openai, openai-responses,
    anthropic, gemini) writes a list ready to send; a transcript format writes the file of its program. JSON and
    Markdown name the turns that were pruned; the other formats leave them out.

    \b
    foveate export demo > demo.json
    foveate export demo --format markdown -o demo.md
    foveate export demo --format anthropic --from T-10 --to T-12
    foveate export demo --format markdown --after 2026-11-01
    """
    pieces = session.export(format_name, first=first, last=last, after=after, before=before)
    pruned = sum(turn.is_pruned for turn in session.outline(first, last))
    if pruned and format_name not in ("json", "markdown"):
        click.echo(f"{pruned:,} turns were removed by a command; the export does not have them.", err=True)
    if output is not None:
        size = _write(output.expanduser(), pieces)
        return Answer({"output": str(output), "bytes": size}, f"Wrote {output} ({amount(size)}B).")
    if as_json:
        return Answer(_as_json(format_name, "".join(pieces)), "")
    for piece in pieces:
        print_exactly(piece)
    return None


def _as_json(format_name: str, text: str) -> object:
    """Return a JSON export as its value, and any other as a string."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return {"format": format_name, "content": text}


def write_new(path: Path, pieces: Iterable[str]) -> int:
    """Write a file that does not exist yet."""
    if path.exists():
        raise InputError(f"{path} exists already; name another file")
    return _write(path, pieces)


def _write(path: Path, pieces: Iterable[str]) -> int:
    """Write to a temporary file in the same folder and rename it, so that a failed export leaves no partial file.

    The temporary file is created exclusively, with a random name and mode 0600: nobody else can place a link there or
    read the export.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device is written to, not replaced
        if path.stat().st_uid not in {0, os.geteuid()}:
            raise InputError(f"{path} belongs to another user; name another file")
        try:
            with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                return sum(map(file.write, pieces))
        except OSError as error:
            raise InputError(f"{path}: can't be written: {error.strerror}") from error
    try:
        descriptor, name = tempfile.mkstemp(prefix=".foveate-", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from error
    temporary = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:  # noqa: PTH123
            file.writelines(pieces)
        size = temporary.stat().st_size
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path}: can't be written: {error.strerror}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size
