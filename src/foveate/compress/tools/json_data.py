"""JSON that a tool returned: lists of records as tables at S; counts, keys and informative values at C."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from foveate.compress.exchange import END_CHARS, ToolExchange, plain
from foveate.compress.lines import both_ends, brief, clip
from foveate.compress.tools import generic
from foveate.errors import InvalidMessage
from foveate.text import several
from foveate.turn import Json, check_json

tools = ("*json*",)
MAX_ROWS = 60
"""Maximum rows of a table; the rest is counted."""
MAX_DEPTH = 12
TELLING = re.compile(r"(?i)(?:^|_)(?:id|status|state|name|title|error|message|total|count|code|number|result|type)$")
_MAX_VALUES = 5
_Nothing = object()
_VALUE_CHARS = 300


def recognises(exchange: ToolExchange) -> bool:
    return data_of(exchange) is not None


def data_of(exchange: ToolExchange) -> Mapping[str, Json] | Sequence[Json] | None:
    """Return the object or list that the whole output is; None if it is neither."""
    text = exchange.output
    if text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]") or len(text) > 2 * END_CHARS:
        return None
    try:
        value = check_json(json.loads(text), "output")
    except (ValueError, RecursionError, InvalidMessage):
        return None
    return value if isinstance(value, Mapping | list) else None


def summarise(exchange: ToolExchange) -> str:
    data = data_of(exchange)
    if data is None:
        return generic.summarise(exchange)
    asked = generic.subject(exchange)
    said = "error, " if exchange.is_error else ""
    if isinstance(data, Mapping):
        pairs = [f"{key} {brief(plain(value), 40)}" for key, value in _telling(data) if plain(value) != asked]
        said += ", ".join(pairs[:_MAX_VALUES]) or f"{several(len(data), 'key')}: {', '.join(list(data)[:6])}"
    else:
        said += several(len(data), "item")
        first = data[0] if data else None
        if isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, Mapping):
            said += f" of {', '.join(list(first)[:5])}"
        elif data:
            said += f": {', '.join(brief(plain(item), 24) for item in data[:4])}"
    return f"{asked}: {said}" if asked else said


def key_lines(exchange: ToolExchange) -> list[str]:
    data = data_of(exchange)
    return generic.key_lines(exchange) if data is None else list(lines_of(data))


def smooth(exchange: ToolExchange) -> list[str]:
    data = data_of(exchange)
    if data is None:
        return generic.smooth(exchange)
    if isinstance(data, Mapping):
        # The call's arguments are right above its result.
        asked = exchange.arguments
        data = {key: value for key, value in data.items() if value != asked.get(key, _Nothing)} or data
    return both_ends(list(lines_of(data)), exchange.total_lines)


def _telling(data: Mapping[str, Json]) -> list[tuple[str, Json]]:
    """Return scalar members with informative names, then the other scalars."""
    scalars = [(key, value) for key, value in data.items() if isinstance(value, str | int | float)]
    return sorted(scalars, key=lambda pair: not TELLING.search(pair[0]))


def lines_of(data: Json, depth: int = 0) -> Iterator[str]:
    """Yield the data with all its values up to a size: short members share a line, records of one shape make a
    table."""
    if isinstance(data, Mapping) and depth < MAX_DEPTH:
        yield from _members(data, depth)
    elif isinstance(data, list) and data and depth < MAX_DEPTH:
        yield from _items(data, depth)
    else:
        yield " " * depth + clip(plain(data), _VALUE_CHARS)


def _members(data: Mapping[str, Json], depth: int) -> Iterator[str]:
    pad = " " * depth
    short = [f"{key}: {_bare(value)}" for key, value in data.items() if not _needs_lines(value)]
    if short:
        yield pad + ", ".join(short)
    for key, value in data.items():
        if not _needs_lines(value):
            continue
        inner = list(lines_of(_filed(value), depth + 1))
        if len(inner) == 1:
            yield f"{pad}{key}: {inner[0].strip()}"
        else:
            yield f"{pad}{key}:"
            yield from inner


def _items(data: Sequence[Json], depth: int) -> Iterator[str]:
    if records := _records(data):
        yield from _table(records, depth)
        return
    groups = [_records(item) for item in data if isinstance(item, list)]
    flat = [{"group": number, **row} for number, rows in enumerate(groups, 1) for row in rows or ()]
    if len(groups) == len(data) and all(groups) and (records := _records(flat)):
        yield from _table(records, depth)
        return
    for item in data[:MAX_ROWS]:
        if _needs_lines(item):
            yield from lines_of(item, depth)
        else:
            yield " " * depth + _bare(item)
    if len(data) > MAX_ROWS:
        yield f"{' ' * depth}(… {len(data) - MAX_ROWS} of {len(data)} items left out)"


def _table(records: Sequence[Mapping[str, Json]], depth: int) -> Iterator[str]:
    """Yield the keys once, then one row per record; values that all records share are written once."""
    pad = " " * depth
    if len(records) == 1:
        yield pad + ", ".join(f"{key}: {_bare(value)}" for key, value in records[0].items())
        return
    keys = list(records[0])
    shared = [key for key in keys if all(row[key] == records[0][key] for row in records)]
    varying = [key for key in keys if key not in shared]
    if shared:
        yield f"{pad}all: " + ", ".join(f"{key}: {_bare(records[0][key])}" for key in shared)
    inner = {key: names for key in varying if (names := _same_keys([row[key] for row in records]))}
    if varying:
        yield pad + " | ".join(f"{key} {'/'.join(inner[key])}" if key in inner else key for key in varying)
    for row in records[:MAX_ROWS] if varying else ():
        yield pad + " | ".join(_cell(row[key], inner.get(key)) for key in varying)
    if len(records) > MAX_ROWS or not varying:
        yield f"{pad}({several(len(records), 'row')})"


def _cell(value: Json, keys: Sequence[str] | None) -> str:
    if keys and isinstance(value, Mapping):
        return "/".join(plain(value[key]) for key in keys)
    return clip(plain(value), _VALUE_CHARS)


def _same_keys(values: Sequence[Json]) -> list[str] | None:
    """Return the keys of objects in one column, if they are the same and every value is a number."""
    first = values[0]
    if not isinstance(first, Mapping) or not first:
        return None
    same = all(
        isinstance(value, Mapping)
        and list(value) == list(first)
        and all(isinstance(child, int | float) for child in value.values())
        for value in values
    )
    return list(first) if same else None


def _records(items: Sequence[Json]) -> list[Mapping[str, Json]] | None:
    """Return the items, if they are flat records with the same keys."""
    records = [item for item in items if isinstance(item, Mapping)]
    if len(records) < max(len(items), 1) or not records[0]:
        return None
    keys = set(records[0])
    same = all(set(row) == keys and not any(map(_needs_lines, row.values())) for row in records)
    return records if same else None


def _bare(value: Json) -> str:
    """Write a member's value; an object's members in round brackets."""
    if isinstance(value, Mapping) and value:
        return clip(", ".join(f"{key} {plain(child)}" for key, child in value.items()).join("()"), _VALUE_CHARS)
    if isinstance(value, list) and value:
        return clip(", ".join(map(plain, value)).join("[]"), _VALUE_CHARS)
    return clip(plain(value), _VALUE_CHARS)


def _filed(value: Json) -> Json:
    """Remove from each record of an object the id that it is filed under."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: {key: child for key, child in record.items() if child != name} if isinstance(record, Mapping) else record
        for name, record in value.items()
    }


def _needs_lines(value: Json) -> bool:
    """Return whether a value is too deep or too long to share a line."""
    if value is None or isinstance(value, str | int | float):
        return False
    children = value.values() if isinstance(value, dict | Mapping) else value
    return (
        any(child and not isinstance(child, str | int | float) for child in children)
        or len(plain(value)) > _VALUE_CHARS
    )
