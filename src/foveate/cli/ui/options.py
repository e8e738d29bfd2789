"""Options that commands share, and opening the store that they name."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from foveate.errors import Damaged, InputError, StoreError
from foveate.text import without_password

if TYPE_CHECKING:
    from foveate import sync

F = TypeVar("F", bound=Callable[..., Any])

UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
MAX_DIGITS = 12
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)", re.IGNORECASE | re.ASCII)
CREATION_SECONDS = 5.0
"""A process that creates a store has written its file by then, on a busy machine too."""
LOOK_SECONDS = 0.05
DEFAULT_STORE = Path("~/.foveate/foveate.db")


class StoreUrl:
    """The URL of a database where a command expects the path of a file. Messages show it without the password."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __fspath__(self) -> str:
        return self._url

    def __str__(self) -> str:
        return without_password(self._url)

    def expanduser(self) -> StoreUrl:
        return self

    def exists(self) -> bool:
        """Always true: only opening the database shows whether it exists."""
        return True


class _StoreType(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, StoreUrl) or (isinstance(value, str) and "://" in value):
            return StoreUrl(value) if isinstance(value, str) else value
        return super().convert(value, param, ctx)


STORE_VARIABLE = "FOVEATE_DB"
STORE = _StoreType(dir_okay=False, path_type=Path)


def store_option(function: F, default: Path = DEFAULT_STORE) -> F:
    return click.option(
        "--db",
        "store_path",
        envvar=STORE_VARIABLE,
        type=STORE,
        default=default,
        show_default=True,
        metavar="FILE",
        help="The store: a file or a postgresql:// URL; also $FOVEATE_DB.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def stacked(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combine several options into one decorator, in this order."""
    return lambda function: functools.reduce(lambda inner, add: add(inner), reversed(options), function)


def yes_option(what: str) -> Callable[[F], F]:
    """Return the option `--yes`, with its old name `--really` hidden."""
    return stacked(
        click.option("--yes", "yes", is_flag=True, help=what),
        click.option("--really", "yes", is_flag=True, hidden=True, help="Old name of --yes."),
    )


def force_option(what: str) -> Callable[[F], F]:
    """Return the option `--force`, with its old name `--even-if-locked` hidden."""
    return stacked(
        click.option("--force", "force", is_flag=True, help=what),
        click.option("--even-if-locked", "force", is_flag=True, hidden=True, help="Old name of --force."),
    )


def read_tokens(text: str) -> int:
    """Parse a number of tokens: 8000, 8,000, 8k or 1.5m."""
    found = _AMOUNT.fullmatch(text.strip().replace(",", "").replace("_", ""))
    tokens = int(float(found[1][:MAX_DIGITS]) * UNITS[found[2].casefold()]) if found else 0
    if tokens < 1:
        raise InputError(f"{text.strip()!r} is not a number of tokens; write it as 8000 or 8k")
    return tokens


class _Tokens(click.ParamType[int]):
    """A number of tokens: `8000`, `8,000` or `8k`."""

    name = "tokens"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return read_tokens(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


TOKENS = _Tokens()


@contextmanager
def opened(store_path: Path, *, create: bool = False) -> Iterator[sync.Foveate]:
    """Open the store at the path; create it only with `create`."""
    from foveate import sync

    with sync.open(store_file(store_path, create=create)) as fov:
        yield fov


def store_file(store_path: Path, *, create: bool = False) -> Path:
    """Return the path of the store; with `create`, make the folder of the default store. Without, a file of zero
    bytes is an error: opening it would make it a new store."""
    path = store_path.expanduser()
    if create and "://" not in os.fspath(path) and path.parent == DEFAULT_STORE.parent.expanduser():
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(str(path.parent), f"can't be created: {error.strerror}; name a file with --db") from error
    if not create and not path.exists():
        raise StoreError(
            str(store_path),
            "does not exist yet; 'foveate import' creates it, and --db names another",
        )
    if not create and _stays_empty(path):
        raise Damaged(str(store_path), "has zero bytes; restore it from a backup, or remove it to begin a new store")
    return path


def _stays_empty(path: Path) -> bool:
    """Return whether a file has zero bytes. One that was changed just now may be a store in creation: wait for it."""
    while Path(path).is_file() and not (status := Path(path).stat()).st_size:  # a URL is no file
        if abs(time.time() - status.st_mtime) > CREATION_SECONDS:
            return True
        time.sleep(LOOK_SECONDS)
    return False


def read_utf8(file: TextIO | Path) -> str:
    """Read a file as UTF-8; the error for another encoding names the file."""
    try:
        return file.read_text("utf-8") if isinstance(file, Path) else file.read()
    except UnicodeDecodeError as error:
        name = file if isinstance(file, Path) else file.name
        raise click.ClickException(f"{name} is not UTF-8 text (byte {error.start})") from error


def assignment(pair: str, form: str, example: str) -> tuple[str, str]:
    """Split the value of an option `--set NAME=VALUE` into name and value."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--set takes {form}, e.g. --set {example}; got {pair!r}")
    return name, value


def refuse_options_before(context: click.Context, subcommand: str) -> None:
    """Reject options before a subcommand, which would be ignored."""
    for option in context.command.params:
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"put {option.opts[0]} after {subcommand!r}, not before it", context)


def write_setting(path: Path, section: str, key: str, value: str | None) -> None:
    """Set or remove one key of a TOML file; the rest of the file stays unchanged."""
    import json
    import tomllib

    text = path.read_text("utf-8") if path.exists() else ""
    lines = text.splitlines()
    header = next((place for place, line in enumerate(lines) if line.strip() == f"[{section}]"), None)
    if header is None:
        header = len(lines)
        lines += [f"[{section}]"]
    end = next((place for place in range(header + 1, len(lines)) if lines[place].lstrip().startswith("[")), len(lines))
    old = [place for place in range(header + 1, end) if re.match(rf"\s*{key}\s*=", lines[place])]
    new = [] if value is None else [f"{key} = {json.dumps(value)}"]
    if old:
        lines[old[0] : old[0] + 1] = new
    else:
        lines[header + 1 : header + 1] = new
    written = "\n".join(lines) + "\n"
    try:
        changed = tomllib.loads(written).get(section, {}).get(key)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} can't be changed: {error}; set {section}.{key} in it by hand") from error
    if changed != value:
        raise InputError(f"{path} can't be changed; set {section}.{key} in it by hand")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written, "utf-8")
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror}") from error
