"""Replaces a text by a mark, in messages and in stored JSON, in each form in which JSON escapes it.

Only what somebody said is replaced: formats, roles, types and the names of fields stay, so what is left can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import AnyStr, Final, Generic

from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MARK: Final = "[erased]"
"""What replaces an erased text."""
NAME_MARK: Final = "erased"
"""What replaces it in names and ids of calls, where providers allow no brackets."""
MOST_BACKSLASHES: Final = 8
"""Arguments of tool calls are JSON in a string, and may hold JSON in a string themselves: three levels of escapes."""
BEGINNING_CHARS: Final = 64
"""Characters of an erased text that are searched for; the others are compared where these are."""
_LETTERS: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_BARE: Final = '"/'
"""Characters that JSON escapes by a backslash before them."""
_FIXED: Final = frozenset((
    "type", "role", "format", "kind", "status", "state", "priority", "change", "phase", "detail", "object", "model",
    "media", "media_type", "mimeType", "mime_type", "stop_reason", "finish_reason",
))  # fmt: skip
"""Fields whose values, if they are one word, are words of a format, which nobody said."""


class Redactor:
    """Finds a text, also where it is escaped, and replaces it."""

    def __init__(self, text: str) -> None:
        units = _units(text)
        self._texts = _Finder(units)
        self._bytes = _Finder([unit.encode("utf-8", "surrogatepass") for unit in units])

    def is_in(self, data: str | bytes | None) -> bool:
        """Return whether a text, or encoded JSON, contains it."""
        if not data:
            return False
        places = self._bytes.places(data) if isinstance(data, bytes) else self._texts.places(data)
        return next(places, None) is not None

    def text(self, value: str, mark: str = MARK) -> str:
        kept, after = [], 0
        for start, end in self._texts.places(value):
            kept += [value[after:start], mark]
            after = end
        return "".join([*kept, value[after:]])

    def is_said(self, value: Json) -> bool:
        """Return whether a value of JSON contains it; names of fields and words of formats do not count."""
        if isinstance(value, str):
            return self.is_in(value)
        if isinstance(value, list):
            return any(map(self.is_said, value))
        if isinstance(value, dict):
            return any(self.is_said(item) for name, item in value.items() if not _is_fixed(name, item))
        return False

    def json_text(self, value: str) -> str:
        """Replace it in JSON that is stored as text."""
        try:
            data = json.loads(value)
        except ValueError:
            return self.text(value)
        return json.dumps(self.value(data), ensure_ascii=False)

    def value(self, value: Json) -> Json:
        """Replace it in the strings of a JSON value. Names of fields and words of formats stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return list(map(self.value, value))
        if isinstance(value, dict):
            return {name: item if _is_fixed(name, item) else self.value(item) for name, item in value.items()}
        return value

    def content(self, value: Json) -> Json:
        """Replace it in the strings of a JSON value that a model or a tool wrote, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return list(map(self.content, value))
        if isinstance(value, dict):
            redacted: dict[str, Json] = {}
            for name, item in value.items():
                redacted[_unused(self.text(name), redacted)] = self.content(item)
            return redacted
        return value

    def message(self, message: Message) -> Message:
        """Return the message without it and without its original, which has it in a form of its own."""
        parts = tuple(map(self._part, message.parts))
        return replace(message, parts=parts, name=self._optional(message.name), original=None)

    def _part(self, part: Part) -> Part:
        match part:
            case Text(text):
                return Text(self.text(text))
            case Reasoning(text):  # a provider rejects a signature of another text
                redacted = self.text(text)
                return part if redacted == text else Reasoning(redacted)
            case ToolCall(name, arguments):
                given = self.content(arguments)
                signature = part.signature if given == arguments else None
                return ToolCall(self.text(name, NAME_MARK), given, self._id(part.id), signature)
            case ToolResult():
                content = tuple(map(self._inner, part.content))
                return replace(part, content=content, call_id=self._id(part.call_id), name=self._id(part.name))
            case Attachment() | Opaque():
                return self._inner(part)

    def _inner(self, part: Text | Attachment | Opaque) -> Text | Attachment | Opaque:
        match part:
            case Text(text):
                return Text(self.text(text))
            case Attachment(uri=uri, file_id=file_id, name=name):
                uri, file_id, name = map(self._optional, (uri, file_id, name))
                return replace(part, uri=uri, file_id=file_id, name=name)
            case Opaque(data=dict() as data):
                said = {name: item if _is_fixed(name, item) else self.content(item) for name, item in data.items()}
                return replace(part, data=said)
            case Opaque(data=data):
                return replace(part, data=self.content(data))

    def _optional(self, text: str | None) -> str | None:
        return text and self.text(text)

    def _id(self, name: str | None) -> str | None:
        """Replace it in an id or name of a call; that of its result is the same afterwards too."""
        return name and self.text(name, NAME_MARK)


class _Finder(Generic[AnyStr]):
    """Finds a text by patterns of its characters.

    The first ones are one pattern, the others one for each different character: compiling one of all would take 90 µs a
    character.
    """

    def __init__(self, units: Sequence[AnyStr]) -> None:
        nothing = units[0][:0]
        self._begins: re.Pattern[AnyStr] = re.compile(nothing.join(units[:BEGINNING_CHARS]))
        compiled: dict[AnyStr, re.Pattern[AnyStr]] = {unit: re.compile(unit) for unit in units[BEGINNING_CHARS:]}
        self._rest: list[re.Pattern[AnyStr]] = [compiled[unit] for unit in units[BEGINNING_CHARS:]]

    def places(self, data: AnyStr) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each occurrence, none overlapping."""
        after = 0
        while begins := self._begins.search(data, after):
            end = self._end(data, begins.end())
            if end is None:
                after = begins.start() + 1
            else:
                yield begins.start(), end
                after = end

    def _end(self, data: AnyStr, place: int) -> int | None:
        """Return where the text ends whose beginning ends at a place; None if another text follows."""
        for unit in self._rest:
            found = unit.match(data, place)
            if found is None:
                return None
            place = found.end()
        return place


def _units(text: str) -> list[str]:
    """Return a pattern for each character of a text, and for each run of backslashes: of its every form in JSON, and in
    JSON inside strings of JSON.

    Backslashes are matched as runs that are never given back, so a search takes linear time.
    """
    units = []
    for run, char in re.findall(r"(\\*)([^\\]|\Z)", text):
        if run:
            units.append(rf"\\{{{len(run)},{MOST_BACKSLASHES * len(run)}}}+")
        if char:
            units.append(_forms(char, least=0 if run else 1))
    return units


def _forms(char: str, least: int) -> str:
    """Return a pattern of the forms of a character; `least` is 0 where its backslashes are part of a run before it."""
    slashes = rf"\\{{{least},{MOST_BACKSLASHES}}}"
    units = char.encode("utf-16-be", "surrogatepass")
    codes = [f"u(?i:{units[place : place + 2].hex()})" for place in range(0, len(units), 2)]
    bare = rf"\\{{0,{MOST_BACKSLASHES}}}{char}" if char in _BARE else re.escape(char)
    forms = [bare, slashes + rf"\\{{1,{MOST_BACKSLASHES}}}".join(codes)]
    if char in _LETTERS:
        forms.append(f"{slashes}{_LETTERS[char]}")
    return f"(?:{'|'.join(forms)})"


def _unused(name: str, taken: dict[str, Json]) -> str:
    """Return the name, with a number if another field has it: what was erased twice is still two fields."""
    number, found = 2, name
    while found in taken:
        found, number = f"{name} {number}", number + 1
    return found


def _is_fixed(name: str, value: Json) -> bool:
    """Return whether a field has a word of a format; what has several words was said by somebody."""
    return name in _FIXED and isinstance(value, str) and " " not in value
