"""The options that commands share, and opening the store they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from foveate.errors import StoreError

if TYPE_CHECKING:
    from foveate import sync

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_STORE = Path("~/.foveate/foveate.db")


def store_option(function: F) -> F:
    return click.option(
        "--db",
        "store_path",
        envvar="FOVEATE_DB",
        type=click.Path(dir_okay=False, path_type=Path),
        default=DEFAULT_STORE,
        show_default=True,
        help="The file that keeps everything; $FOVEATE_DB names another.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")(function)


@contextmanager
def opened(store_path: Path, *, create: bool = False) -> Iterator[sync.Foveate]:
    """The store at the path; only commands that record create it."""
    from foveate import sync

    with sync.open(store_file(store_path, create=create)) as fov:
        yield fov


def store_file(store_path: Path, *, create: bool = False) -> Path:
    """Where the store is; the folder of the default one is made if the command records."""
    path = store_path.expanduser()
    if create and store_path == DEFAULT_STORE:
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(str(path.parent), f"can't be made: {error.strerror}; name a file with --db") from error
    if not create and not path.exists():
        raise StoreError(str(store_path), "does not exist yet; 'foveate import' or 'foveate demo' creates it")
    return path
