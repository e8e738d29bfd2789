"""Changes to a settings file that can be undone after others edited the file.

A change sets one value, or adds one element to a list. After each edit the file is parsed again and compared with the
expected data: an edit that would change anything else is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from foveate.connections import jsonc, toml, yaml
from foveate.connections.paths import KeyPath, value_at, with_element, with_value, without
from foveate.errors import InputError
from foveate.turn import Json


class Syntax(Protocol):
    """Reads and changes values of a file; everything but the value keeps its bytes."""

    def parse(self, text: str) -> Json: ...

    def set_value(self, text: str, path: KeyPath, value: Json) -> str: ...

    def append_value(self, text: str, path: KeyPath, value: Json) -> str: ...

    def remove_value(self, text: str, path: KeyPath) -> str: ...


def read_file(path: Path) -> str | None:
    """Read the text of a settings file; None if there is none. A pipe or device is not read: it may never end."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} can't be read: is not a regular file")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise InputError(f"{path} can't be read: {reason}") from error


def parse_file(path: Path, text: str) -> Json:
    """Parse the text of a settings file; an error names the file."""
    try:
        return SYNTAXES[path.suffix].parse(text)
    except InputError as error:
        raise InputError(f"{path} {error}") from error


OWN_NAME = "foveate"
SYNTAXES: Mapping[str, Syntax] = {".json": jsonc, ".jsonc": jsonc, ".toml": toml, ".yml": yaml, ".yaml": yaml}


@dataclass(frozen=True, slots=True)
class Change:
    """A value to set in a file."""

    path: tuple[str | tuple[str, str], ...]
    """Keys of objects. A pair selects the element of a list that has this value under this key."""
    value: Json
    appends: bool = False
    """Whether to append the value to the list at the path."""


class AppliedChange(Struct, frozen=True, kw_only=True):
    """An applied change, with the data to undo it. Its values are JSON."""

    path: list[str | list[str]]
    value: Any
    appends: bool
    depth: int
    """Number of the path's keys that existed before."""
    has_previous: bool = False
    previous: Any = None


@dataclass(frozen=True, slots=True)
class UndoResult:
    """A text without some changes, and the values that are kept because others changed them."""

    text: str
    kept: tuple[str, ...] = ()


def apply(syntax: Syntax, text: str, change: Change) -> tuple[str, AppliedChange | None]:
    """Return the text with a change; None if it already has the value."""
    data = syntax.parse(text)
    path = _resolve(data, change.path)
    if path is None:
        raise InputError(f"has no {_shown(change.path)}")
    exists, old = value_at(data, path)
    if change.appends and exists and isinstance(old, list) and change.value in old:
        return text, None
    if not change.appends and exists and old == change.value:
        return text, None
    depth = next((number for number in range(len(path), 0, -1) if value_at(data, path[:number])[0]), 0)
    if change.appends:
        changed = syntax.append_value(text, path, change.value)
        expected = with_element(data, path, change.value)
    else:
        changed = syntax.set_value(text, path, change.value)
        expected = with_value(data, path, change.value)
    _check(syntax, changed, expected)
    kept = exists and not change.appends
    applied = AppliedChange(
        path=[part if isinstance(part, str) else list(part) for part in change.path],
        value=change.value,
        appends=change.appends,
        depth=depth,
        has_previous=kept,
        previous=old if kept else None,
    )
    return changed, applied


def is_applied(syntax: Syntax, text: str, change: AppliedChange) -> bool:
    """Check whether a file has the value of a change."""
    data = syntax.parse(text)
    path = _resolve(data, _parts(change))
    exists, value = value_at(data, path) if path is not None else (False, None)
    return exists and (change.value in value if change.appends and isinstance(value, list) else value == change.value)


def undo(syntax: Syntax, text: str, changes: Sequence[AppliedChange]) -> UndoResult:
    """Undo these changes, the last one first. Values that others changed since are kept and named."""
    kept: list[str] = []
    for change in reversed(changes):
        data = syntax.parse(text)
        path = _resolve(data, _parts(change))
        exists, value = value_at(data, path) if path is not None else (False, None)
        if path is None or not exists:
            continue
        if change.appends:
            if not isinstance(value, list) or change.value not in value:
                if OWN_NAME in json.dumps(value):  # the element was edited, not removed
                    kept.append(_shown(_parts(change)))
                continue
            text = _removed(syntax, text, (*path, value.index(change.value)))
        elif value != change.value:
            kept.append(_shown(_parts(change)))
            continue
        elif change.has_previous:
            text = syntax.set_value(text, path, change.previous)
            _check(syntax, text, with_value(data, path, change.previous))
        else:
            text = _removed(syntax, text, path)
        text = _without_empty(syntax, text, path, change.depth)
    return UndoResult(text, tuple(dict.fromkeys(kept)))


def _without_empty(syntax: Syntax, text: str, path: KeyPath, depth: int) -> str:
    """Return the text without the containers that a change created, if they are empty."""
    for length in range(len(path), depth, -1):
        exists, value = value_at(syntax.parse(text), path[:length])
        if exists and value in ({}, []):
            text = _removed(syntax, text, path[:length])
    return text


def _removed(syntax: Syntax, text: str, path: KeyPath) -> str:
    data = syntax.parse(text)
    changed = syntax.remove_value(text, path)
    expected = [without(data, path)]
    while len(path := path[:-1]) and value_at(expected[-1], path)[1] == {}:
        expected.append(without(expected[-1], path))  # in TOML a table without values does not exist
    _check(syntax, changed, *expected)
    return changed


def _check(syntax: Syntax, text: str, *expected: Json) -> None:
    if syntax.parse(text) not in expected:
        raise InputError("can't be changed without touching other values; edit it by hand")


def _parts(change: AppliedChange) -> tuple[str | tuple[str, str], ...]:
    return tuple(part if isinstance(part, str) else (part[0], part[1]) for part in change.path)


def _resolve(data: Json, path: Sequence[str | tuple[str, str]]) -> KeyPath | None:
    """Replace selectors in the path by indexes; None if an element does not exist."""
    found: KeyPath = ()
    for part in path:
        if isinstance(part, str):
            found = (*found, part)
            continue
        _, elements = value_at(data, found)
        places = [
            place
            for place, element in enumerate(elements if isinstance(elements, list) else [])
            if isinstance(element, dict) and element.get(part[0]) == part[1]
        ]
        if not places:
            return None
        found = (*found, places[0])
    return found


def _shown(path: Sequence[str | tuple[str, str]]) -> str:
    return ".".join(part if isinstance(part, str) else part[1] for part in path)
