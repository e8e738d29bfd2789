"""A call's arguments at level S: short values stay, long ones become what they are and how long."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from foveate.compress.tools._exchange import read_exchange
from foveate.compress.tools._lines import brief, clip
from foveate.text import several
from foveate.turn import Json, ToolCall

VALUE_CHARS = 240
VALUE_LINES = 6
"""A value with more characters or lines than these is described."""
MAX_ARGUMENTS = 24
MAX_NAMES = 4
CHANGE_LINES = 8
"""An edit that comes to no more changed lines than this is shown as a diff."""
SCAN_LINES = 2_000

_PLAIN = re.compile(r"[^\s,:;{}\[\]\"'=][^\n,;{}\[\]\"=]*")
_DEFINITION = re.compile(
    r"^\s*(?:export |default |pub(?:\([a-z]+\))? |async |public |private |protected |static |abstract |final )*"
    r"(?:def|class|function|func|fn|struct|enum|trait|interface|type|module|impl)\s+([A-Za-z_$][\w$.]*)"
)
_OLD = ("old_string", "oldText", "old_str", "old_text", "search", "old")
_NEW = ("new_string", "newText", "new_str", "new_text", "replace", "replacement", "new")
_SCRIPTS = ("command", "cmd", "script", "code", "query", "sql")
SCRIPT_CHARS = 400


def smooth_arguments(call: ToolCall) -> str:
    """`path: src/jwt.py, content (120 lines: class Token, def sign)`."""
    arguments = read_exchange(call, None).arguments
    if not isinstance(call.arguments, Mapping) and set(arguments) == {"input"}:
        value = arguments["input"]
        return described("input", value) if _is_long(value) else plain(value)
    shown: list[str] = []
    old, new = _pair(arguments)
    for key, value in list(arguments.items())[:MAX_ARGUMENTS]:
        if old and new and key in (old, new):
            if key == new:
                shown.append(change(str(arguments[old]), str(value)))
        elif key in _SCRIPTS and isinstance(value, str) and len(value) <= SCRIPT_CHARS:
            shown.append(f"{key}: {value}" if len(arguments) > 1 else value)
        else:
            shown.append(described(key, value) if _is_long(value) else f"{key}: {plain(value)}")
    if len(arguments) > MAX_ARGUMENTS:
        shown.append(f"(… {len(arguments) - MAX_ARGUMENTS} more)")
    return _sentence(shown)


def _sentence(shown: Sequence[str]) -> str:
    """Arguments one behind the other; those of several lines last."""
    return ", ".join(sorted(shown, key=lambda text: "\n" in text))


def described(name: str, value: Json) -> str:
    """`patch (342 lines)`: what a long value is."""
    if isinstance(value, str):
        lines = value.strip("\n").split("\n")
        if len(lines) == 1:
            return f"{name}: {clip(lines[0], VALUE_CHARS)}"
        names = definitions(lines)
        return f"{name} ({several(len(lines), 'line')}{': ' + ', '.join(names) if names else ''})"
    if isinstance(value, Mapping):
        keys = ", ".join(brief(key, 24) for key in list(value)[:MAX_NAMES])
        return f"{name} ({several(len(value), 'key')}: {keys}{', …' if len(value) > MAX_NAMES else ''})"
    if isinstance(value, Sequence):
        return f"{name} ({several(len(value), 'item')}: {brief(plain(value[0]), 80)}, …)"
    return f"{name}: {plain(value)}"


def definitions(lines: Sequence[str], limit: int = MAX_NAMES) -> list[str]:
    """The names of functions and classes that the lines define, as far as the limit allows."""
    names: list[str] = []
    for line in lines[:SCAN_LINES]:
        if (found := _DEFINITION.match(line[:200])) and found[1] not in names:
            if len(names) == limit:
                return [*names, "…"]
            names.append(found[1])
    return names


def plain(value: Json) -> str:
    """A value without the quotes and braces that only a parser needs."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.strip() == value else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(child)}" for key, child in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(plain, value)) + "]"
    return json.dumps(value)


def change(old: str, new: str) -> str:
    """An edit as the lines it takes away and adds; only their number where they are many."""
    before, after = old.split("\n"), new.split("\n")
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    if len(before) + len(after) <= CHANGE_LINES:
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
        return "change:\n" + "\n".join(clip(line, VALUE_CHARS) for line in lines)
    names = definitions(after) or definitions(before)
    return f"change (-{len(before)} +{len(after)} lines{': ' + ', '.join(names) if names else ''})"


def _pair(arguments: Mapping[str, Json]) -> tuple[str | None, str | None]:
    """The keys of what an edit replaces and what it puts there, where both are text."""
    old = next((key for key in _OLD if isinstance(arguments.get(key), str)), None)
    new = next((key for key in _NEW if isinstance(arguments.get(key), str)), None)
    return (old, new) if old and new else (None, None)


def _is_long(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) > VALUE_CHARS or value.count("\n") >= VALUE_LINES
    if isinstance(value, Mapping | Sequence):
        return len(json.dumps(value, ensure_ascii=False)) > 2 * VALUE_CHARS
    return False
