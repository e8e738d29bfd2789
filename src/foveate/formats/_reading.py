"""What the message formats share in taking a record apart: typed access that says where a record is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from foveate.errors import InvalidMessage
from foveate.formats._lines import encode_json
from foveate.turn import Json, Role, Text, check_json

Record = Mapping[str, Json]
T = TypeVar("T")


class Block(NamedTuple):
    """One typed element of a content list, and where it stands."""

    type: str
    data: Record
    path: str


def record(data: Json, path: str) -> Record:
    if not isinstance(data, Mapping):
        raise InvalidMessage(path, f"must be an object, not {_kind(data)}")
    return data


def role_of(data: Record, path: str, allowed: Mapping[str, Role]) -> Role:
    choices = ", ".join(allowed)
    role = data.get("role")
    if role is None:
        raise InvalidMessage(f"{path}.role", f"is missing; allowed are {choices}")
    if not isinstance(role, str) or role not in allowed:
        raise InvalidMessage(f"{path}.role", f"is {role!r}; allowed are {choices}")
    return allowed[role]


def text_in(data: Record, key: str, path: str) -> str:
    """The text that must stand under this key."""
    value = data.get(key)
    if not isinstance(value, str):
        problem = f"must be text, not {_kind(value)}" if key in data else "is missing; it must be text"
        raise InvalidMessage(f"{path}.{key}", problem)
    return value


def optional_text(data: Record, key: str, path: str) -> str | None:
    return None if data.get(key) is None else text_in(data, key, path)


def record_in(data: Record, key: str, path: str) -> Record:
    """The object that must stand under this key."""
    if key not in data:
        raise InvalidMessage(f"{path}.{key}", "is missing; it must be an object")
    return record(data[key], f"{path}.{key}")


def elements(value: Json, path: str, allowed: str = "must be a list") -> Iterator[tuple[Record, str]]:
    """The objects of a list, each with where it stands."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidMessage(path, f"{allowed}, not {_kind(value)}")
    for index, element in enumerate(value):
        where = f"{path}[{index}]"
        yield record(element, where), where


def blocks(value: Json, path: str) -> Iterator[Block]:
    """Typed elements of a content list."""
    for element, where in elements(value, path, "must be text or a list of blocks"):
        yield Block(text_in(element, "type", where), element, where)


def parse_content(value: Json, path: str, parse_block: Callable[[Block], T]) -> tuple[Text | T, ...]:
    """Content that is plain text or a list of blocks."""
    if isinstance(value, str):
        return (Text(value),) if value else ()
    return tuple(parse_block(block) for block in blocks(value, path))


def parse_arguments(value: Json, path: str) -> Json:
    """A call's arguments: the object its text spells, or the text itself where that would lose something."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        raise InvalidMessage(path, f"must be text or an object, not {_kind(value)}")
    try:
        parsed = json.loads(value, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique)
        return check_json(parsed, path) if isinstance(parsed, dict) else value
    except (ValueError, RecursionError, InvalidMessage):
        return value


def arguments_text(arguments: Json) -> str:
    """Arguments where only text will do."""
    return arguments if isinstance(arguments, str) else encode_json({} if arguments is None else arguments)


def arguments_object(arguments: Json) -> Record:
    """Arguments where only an object will do: anything else stands under `input`."""
    if isinstance(arguments, Mapping):
        return arguments
    return {} if arguments is None or arguments == "" else {"input": arguments}


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    keyed = dict(pairs)
    if len(keyed) < len(pairs):
        raise ValueError("a key occurs twice")
    return keyed


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    names = {bool: "true or false", str: "text", int: "a number", float: "a number"}
    return names.get(type(value), "a list")
