"""TOML files: single values are changed, comments and layout are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foveate.connections.paths import KeyPath
from foveate.errors import InputError
from foveate.turn import Json

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def parse(text: str) -> Json:
    """Parse the value of a text."""
    value: Json = _parse(text).unwrap()
    return value


def set_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with this value at the path. A new table is written at the end of the file."""
    import tomlkit  # noqa: PLC0415 - loaded with the first edit

    document = _parse(text)
    *parents, key = (str(part) for part in path)
    table: Any = document
    for depth, name in enumerate(parents):
        if name not in table:
            return _with_table(text, [*parents[: depth + 1]], [*parents[depth + 1 :], key], value)
        table = table[name]
    if isinstance(value, dict) and key not in table:
        return _with_table(text, [*parents, key], [], value)
    table[key] = value
    return tomlkit.dumps(document)


def append_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with one more element in the list at the path."""
    import tomlkit  # noqa: PLC0415

    document = _parse(text)
    table: Any = document
    for name in path:
        if name not in table:
            return set_value(text, path, [value])
        table = table[name]
    table.append(value)
    return tomlkit.dumps(document)


def remove_value(text: str, path: KeyPath) -> str:
    """Return the text without the value at the path."""
    import tomlkit  # noqa: PLC0415

    document = _parse(text)
    table: Any = document
    for name in path[:-1]:
        if name not in table:
            return text
        table = table[name]
    del table[path[-1]]
    return _without_blank_line(tomlkit.dumps(document), text)


def _without_blank_line(result: str, before: str) -> str:
    """Return the result of a removal without the blank line that separated the removed part from the rest."""
    for line_end in ("\r\n", "\n"):
        if before.startswith(result) and result.endswith(line_end * 2):
            return result.removesuffix(line_end)
        if result.startswith(line_end) and not before.startswith(line_end):
            return result.removeprefix(line_end)
    return result


def _with_table(text: str, names: list[str], rest: list[str], value: Json) -> str:
    """Return the text with a new table at its end."""
    import tomlkit  # noqa: PLC0415

    for name in reversed(rest):
        value = {name: value}
    outer: dict[str, Json] = {}
    inner = outer
    for name in names[:-1]:
        inner[name] = inner = {}
    inner[names[-1]] = value
    line_end = "\r\n" if "\r\n" in text else "\n"
    made = tomlkit.dumps(outer).replace("\n", line_end)
    if not text:
        return made
    return f"{text}{'' if text.endswith(chr(10)) else line_end}{line_end}{made}"


def _parse(text: str) -> TOMLDocument:
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise InputError(f"is not TOML: {error}") from error
    if tomlkit.dumps(document) != text:
        raise InputError("has a layout that can't be kept")
    return document
