"""`foveate prompts`: built-in prompts and your own, by key and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from foveate.cli.ui.answers import Answer, Cells, listing, store_group
from foveate.cli.ui.options import read_utf8
from foveate.cli.ui.terminal import Column, moment, print_exactly

if TYPE_CHECKING:
    from foveate.session.prompts import PromptInfo
    from foveate.sync import Foveate

CELLS: Cells[PromptInfo] = {
    Column("key"): lambda info: info.key,
    Column("version"): lambda info: "built-in" if info.is_built_in else str(info.version),
    Column("text", "cut"): lambda info: " ".join(info.text.split()),
    Column("variables"): lambda info: ", ".join(info.variables),
    Column("changed", expendable=1): lambda info: "" if info.is_built_in else moment(info.created),
}
VERSION_CELLS: Cells[PromptInfo] = {
    Column("version"): lambda info: str(info.version),
    Column("changed"): lambda info: moment(info.created) if info.created else "",
    Column("sha256", "cut", expendable=1): lambda info: info.sha256[:SHOWN_HASH_CHARS],
    Column("text", "cut"): lambda info: "(reset)" if info.is_built_in and info.version else " ".join(info.text.split()),
}
SHOWN_HASH_CHARS = 12


@store_group("prompts", "Built-in prompts and your own: list, show, set, history, reset.")
def command() -> None:
    """Manage the prompts for models, built-in ones and your own, by key. A change is stored as a new version.

    {name} is a variable, {{include:key}} another prompt. Keys that begin with modes/ are the modes of sessions.

    \b
    foveate prompts list
    foveate prompts show modes/developer
    foveate prompts set modes/reviewer reviewer.md
    foveate prompts reset compress/era
    """


@command.command(name="list", create=True)
def list_(fov: Foveate) -> Answer:
    """List all prompts, built-in ones and your own.

    \b
    foveate prompts list
    """
    return listing(fov.prompts.list(), CELLS)


@command.command(create=True)
@click.argument("key")
@click.option("--version", type=click.IntRange(min=0), help="An earlier version; 0 is the built-in text.")
@click.option("--composed", is_flag=True, help="With everything it includes.")
@click.option("--tier", type=click.IntRange(1, 5), help="As in a context of this tier.")
def show(fov: Foveate, *, key: str, version: int | None, composed: bool, tier: int | None) -> Answer:
    """Print a prompt.

    \b
    foveate prompts show compress/era
    foveate prompts show modes/developer --tier 3
    foveate prompts show modes/developer --version 1
    """
    if version is not None and (composed or tier):
        raise click.UsageError("--version shows the stored text; omit --composed and --tier")
    info = fov.prompts.get(key, version)
    text = fov.prompts.text(key, tier=tier) if composed or tier else info.text
    return Answer({"prompt": info, "text": text}, lambda _: print_exactly(text))


@command.command(name="set", create=True)
@click.argument("key")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
def set_(fov: Foveate, *, key: str, file: TextIO) -> Answer:
    """Store a new version of a prompt, from a file or standard input. Its variables and includes are checked first.

    \b
    foveate prompts set modes/reviewer reviewer.md
    echo "Answer in Latin." | foveate prompts set modes/latin
    """
    info = fov.prompts.set(key, read_utf8(file))
    return Answer(info, f"{key} is now version {info.version} (sha256 {info.sha256[:SHOWN_HASH_CHARS]}).")


@command.command(create=True)
@click.argument("key")
def history(fov: Foveate, key: str) -> Answer:
    """List the versions of a prompt, oldest first; 0 is the built-in text.

    \b
    foveate prompts history modes/developer
    """
    return listing(fov.prompts.history(key), VERSION_CELLS)


@command.command(create=True)
@click.argument("key")
def reset(fov: Foveate, key: str) -> Answer:
    """Restore the built-in text, or remove a prompt of your own. Earlier versions stay in the history.

    \b
    foveate prompts reset compress/era
    """
    info = fov.prompts.reset(key)
    return Answer({"key": key, "prompt": info}, f"{key} is {'the built-in prompt' if info else 'removed'}.")
