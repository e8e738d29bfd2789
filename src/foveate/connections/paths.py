"""Paths in a settings file: keys of objects and indexes of list elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeGuard

from foveate.turn import Json

Key: TypeAlias = str | int
KeyPath: TypeAlias = tuple[Key, ...]


def is_list(data: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(data, Sequence) and not isinstance(data, str)


def value_at(data: Json, path: KeyPath) -> tuple[bool, Json]:
    """Return whether there is a value at a path, and the value."""
    for key in path:
        match data:
            case Mapping() if isinstance(key, str) and key in data:
                data = data[key]
            case list() | tuple() if isinstance(key, int) and key < len(data):
                data = data[key]
            case _:
                return False, None
    return True, data


def missing_part(path: KeyPath, value: Json) -> Json:
    """Return a value inside the objects that the rest of a path names."""
    for key in reversed(path):
        value = {str(key): value}
    return value


def with_value(data: Json, path: KeyPath, value: Json) -> Json:
    """Return the data with a value at a path; missing objects are created."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if is_list(data) and isinstance(key, int):
        return [with_value(one, rest, value) if place == key else one for place, one in enumerate(data)]
    known = dict(data) if isinstance(data, Mapping) else {}
    return {**known, str(key): with_value(known.get(str(key)), rest, value)}


def with_element(data: Json, path: KeyPath, value: Json) -> Json:
    """Return the data with one more element in the list at a path."""
    found, known = value_at(data, path)
    elements = list(known) if found and is_list(known) else []
    return with_value(data, path, [*elements, value])


def without(data: Json, path: KeyPath) -> Json:
    """Return the data without the value at a path."""
    key, rest = path[0], path[1:]
    if isinstance(data, Mapping):
        if not rest:
            return {name: value for name, value in data.items() if name != key}
        return {name: without(value, rest) if name == key else value for name, value in data.items()}
    if is_list(data):
        if not rest:
            return [value for place, value in enumerate(data) if place != key]
        return [without(value, rest) if place == key else value for place, value in enumerate(data)]
    return data
