"""JSON with comments and trailing commas: single values are changed in the text, and all other bytes are kept.

No maintained Python library edits such a file in place, so a small parser records the position of each value, and an
edit replaces, inserts or removes exactly that part of the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from foveate.connections.paths import Key, KeyPath, missing_part
from foveate.errors import InputError
from foveate.turn import Json

MAX_DEPTH = 100
INDENT = "  "
_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\r\n]*)?")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class _Node:
    """A value and its position in the text."""

    start: int
    end: int = 0
    value: Json = None
    items: list[_Item] = field(default_factory=list)
    """The members of an object, the elements of a list."""


@dataclass(slots=True)
class _Item:
    key: Key
    start: int
    """Start of the key, or of the element itself."""
    node: _Node


def parse(text: str) -> Json:
    """Parse the value of a text; an empty text is an empty object."""
    return _parse(text).value if text.strip("\ufeff \t\r\n") else {}


def set_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with this value at the path; missing objects are created."""
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    node = _parse(text)
    for depth, key in enumerate(path):
        item = _item(node, key)
        if item is None:
            made = missing_part(path[depth + 1 :], value)
            return _insert(text, node, f"{json.dumps(key)}: ", made, path[: depth + 1])
        node = item.node
    return text[: node.start] + _render(value, _indent_at(text, node.start), text) + text[node.end :]


def append_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with one more element in the list at the path."""
    node = _find(_parse(text or "{}\n"), path)
    if node is None:
        return set_value(text, path, [value])
    return _insert(text, node, "", value, path)


def remove_value(text: str, path: KeyPath) -> str:
    """Return the text without the value at the path and its comma; comments are kept."""
    root = _parse(text)
    parent = _find(root, path[:-1])
    item = _item(parent, path[-1]) if parent else None
    if parent is None or item is None:
        return text
    start = _before(text, item.start)
    comma = _BLANK.match(text, item.node.end).end()  # type: ignore[union-attr]
    if text[comma : comma + 1] == ",":
        # Comments between the value and its comma are kept; usually there are none.
        result = text[:start] + text[item.node.end : comma] + text[comma + 1 :]
    else:
        place = parent.items.index(item)
        result = text[:start] + text[item.node.end :]
        if place:
            previous = parent.items[place - 1].node.end
            before = _BLANK.match(text, previous).end()  # type: ignore[union-attr]
            result = result[:before] + result[before + 1 :]
    return _collapsed(result, path[:-1])


def _collapsed(text: str, path: KeyPath) -> str:
    """Return the text with `{}` for an object at the path that contains only white space."""
    node = _find(_parse(text), path)
    if node is None or node.items or text[node.start + 1 : node.end - 1].strip():
        return text
    return text[: node.start + 1] + text[node.end - 1 :]


def _before(text: str, start: int) -> int:
    """Return where the white space before an item begins, including its line break."""
    while start and text[start - 1] in " \t":
        start -= 1
    if text[start - 1 : start] == "\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    return start


def _insert(text: str, container: _Node, prefix: str, value: Json, path: KeyPath) -> str:
    """Return the text with one more item at the end of an object or list."""
    expected = dict if prefix else list
    if not isinstance(container.value, expected):
        raise InputError(f"{'.'.join(map(str, path[:-1]))} is not {'an object' if prefix else 'a list'} in this file")
    line_end = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, container.start)
    if not container.items:
        indent = outer + _unit(text)
        made = f"{line_end}{indent}{prefix}{_render(value, indent, text)}"
        inside = text[container.start + 1 : container.end - 1]
        closing = "" if inside.lstrip(" \t").startswith(("\n", "\r\n")) else line_end + outer
        return text[: container.start + 1] + made + closing + text[container.start + 1 :]
    last = container.items[-1]
    after = _BLANK.match(text, last.node.end).end()  # type: ignore[union-attr]
    has_comma = text[after : after + 1] == ","
    if "\n" not in text[container.start : last.start]:
        return f"{text[: last.node.end]}, {prefix}{json.dumps(value, ensure_ascii=False)}{text[last.node.end :]}"
    indent = _indent_at(text, last.start)
    made = f"{line_end}{indent}{prefix}{_render(value, indent, text)}" + ("," if has_comma else "")
    place = _REST_OF_LINE.match(text, after + 1 if has_comma else last.node.end).end()  # type: ignore[union-attr]
    comma = "" if has_comma else ","
    return text[: last.node.end] + comma + text[last.node.end : place] + made + text[place:]


def _render(value: Json, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return ("\r\n" if "\r\n" in text else "\n").join([lines[0], *(indent + line for line in lines[1:])])


def _unit(text: str) -> str:
    """Return one level of the file's indentation."""
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    return found[1] if found else INDENT


def _indent_at(text: str, place: int) -> str:
    """Return the white space at the beginning of a place's line."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _item(node: _Node, key: Key) -> _Item | None:
    # Of a key that occurs twice, programs read the last one.
    return next((item for item in reversed(node.items) if item.key == key and type(item.key) is type(key)), None)


def _find(node: _Node, path: KeyPath) -> _Node | None:
    for key in path:
        item = _item(node, key)
        if item is None:
            return None
        node = item.node
    return node


def _parse(text: str) -> _Node:
    reader = _Reader(text)
    root = reader.value(0, 0)
    if reader.skip(root.end) != len(text):
        raise reader.error(root.end)
    return root


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, place: int) -> int:
        """Return the next place that is neither white space nor a comment."""
        return _BLANK.match(self._text, place).end()  # type: ignore[union-attr]

    def error(self, place: int) -> InputError:
        return InputError(f"is not JSON at line {self._text.count(chr(10), 0, place) + 1}")

    def value(self, place: int, depth: int) -> _Node:
        place = self.skip(place)
        if depth > MAX_DEPTH:
            raise InputError(f"is nested more than {MAX_DEPTH} levels deep")
        mark = self._text[place : place + 1]
        if mark in ("{", "["):
            return self._container(place, "}" if mark == "{" else "]", depth)
        try:
            value, end = _DECODER.raw_decode(self._text, place)
        except ValueError as error:
            raise self.error(place) from error
        return _Node(place, end, value)

    def _container(self, start: int, closing: str, depth: int) -> _Node:
        node = _Node(start)
        place = self.skip(start + 1)
        while self._text[place : place + 1] != closing:
            item = self._item(place, closing, len(node.items), depth)
            node.items.append(item)
            place = self.skip(item.node.end)
            if self._text[place : place + 1] == ",":
                place = self.skip(place + 1)
            elif self._text[place : place + 1] != closing:
                raise self.error(place)
        node.end = place + 1
        values = {item.key: item.node.value for item in node.items}
        node.value = {str(key): value for key, value in values.items()} if closing == "}" else [*values.values()]
        return node

    def _item(self, place: int, closing: str, number: int, depth: int) -> _Item:
        if closing == "]":
            node = self.value(place, depth + 1)
            return _Item(number, node.start, node)
        key = self.value(place, depth + 1)
        colon = self.skip(key.end)
        if not isinstance(key.value, str) or self._text[colon : colon + 1] != ":":
            raise self.error(place)
        return _Item(key.value, place, self.value(colon + 1, depth + 1))
