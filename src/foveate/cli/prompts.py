"""`foveate prompts`: the prompts that models are sent, and your own, by key and version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, moment, print_exactly, print_json, print_listing

if TYPE_CHECKING:
    from foveate.session.prompts import PromptInfo

COLUMNS = (
    Column("key"),
    Column("version"),
    Column("text", "cut"),
    Column("variables"),
    Column("changed", expendable=1),
)
VERSIONS = (Column("version"), Column("changed"), Column("sha256", "cut", expendable=1), Column("text", "cut"))
SHOWN_HASH_CHARS = 12


@click.group(name="prompts", short_help="Prompts that models are sent, and your own: list, show, set, history, reset.")
def command() -> None:
    """The prompts that models are sent, and your own, by key. A change is a new version; nothing is edited.

    {name} is a variable, {{include:key}} another prompt. Keys that begin with modes/ are the modes of sessions.

    \b
    foveate prompts list
    foveate prompts show modes/developer
    foveate prompts set modes/reviewer reviewer.md
    foveate prompts reset compress/era
    """


@command.command(name="list")
@store_option
@json_option
def list_(*, store_path: Path, as_json: bool) -> None:
    """List all prompts, built-in ones and your own.

    \b
    foveate prompts list
    """
    with opened(store_path, create=True) as fov:
        found = fov.prompts.list()
    print_listing(found, COLUMNS, _row, as_json=as_json)


@command.command()
@click.argument("key")
@click.option("--version", type=click.IntRange(min=0), help="An earlier version; 0 is the built-in text.")
@click.option("--composed", is_flag=True, help="With everything it includes.")
@click.option("--tier", type=click.IntRange(1, 5), help="As a context of this tier has it.")
@store_option
@json_option
def show(*, key: str, version: int | None, composed: bool, tier: int | None, store_path: Path, as_json: bool) -> None:
    """Print a prompt.

    \b
    foveate prompts show compress/era
    foveate prompts show modes/developer --tier 3
    foveate prompts show modes/developer --version 1
    """
    if version is not None and (composed or tier):
        raise click.UsageError("--version shows a text as it was stored, without --composed or --tier")
    with opened(store_path, create=True) as fov:
        info = fov.prompts.get(key, version)
        text = fov.prompts.text(key, tier=tier) if composed or tier else info.text
    if as_json:
        print_json({"prompt": info, "text": text})
    else:
        print_exactly(text)


@command.command(name="set")
@click.argument("key")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@store_option
@json_option
def set_(*, key: str, file: TextIO, store_path: Path, as_json: bool) -> None:
    """Store a new version of a prompt, from a file or standard input. Its variables and includes are checked first.

    \b
    foveate prompts set modes/reviewer reviewer.md
    echo "Answer in Latin." | foveate prompts set modes/latin
    """
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file.name} is not UTF-8 text: {error.reason}") from error
    with opened(store_path, create=True) as fov:
        info = fov.prompts.set(key, text)
    if as_json:
        print_json(info)
    else:
        click.echo(f"{key} is now version {info.version} (sha256 {info.sha256[:SHOWN_HASH_CHARS]}).")


@command.command()
@click.argument("key")
@store_option
@json_option
def history(*, key: str, store_path: Path, as_json: bool) -> None:
    """List the versions of a prompt, the oldest first; 0 is the built-in text.

    \b
    foveate prompts history modes/developer
    """
    with opened(store_path, create=True) as fov:
        found = fov.prompts.history(key)
    print_listing(found, VERSIONS, _version_row, as_json=as_json)


@command.command()
@click.argument("key")
@store_option
@json_option
def reset(*, key: str, store_path: Path, as_json: bool) -> None:
    """Bring the built-in text back, or remove a prompt of your own. Earlier versions stay in its history.

    \b
    foveate prompts reset compress/era
    """
    with opened(store_path, create=True) as fov:
        info = fov.prompts.reset(key)
    if as_json:
        print_json({"key": key, "prompt": info})
    else:
        click.echo(f"{key} is the built-in prompt." if info else f"{key} is removed.")


def _row(info: PromptInfo) -> tuple[str, ...]:
    return (
        info.key,
        "built-in" if info.is_built_in else str(info.version),
        " ".join(info.text.split()),
        ", ".join(info.variables),
        "" if info.is_built_in else moment(info.created),
    )


def _version_row(info: PromptInfo) -> tuple[str, ...]:
    return (
        str(info.version),
        moment(info.created) if info.created else "",
        info.sha256[:SHOWN_HASH_CHARS],
        "(reset)" if info.is_built_in and info.version else " ".join(info.text.split()),
    )
