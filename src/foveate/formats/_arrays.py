"""A JSON array of any length, read element by element: one element is in memory at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from foveate.errors import InvalidMessage
from foveate.formats import Problem
from foveate.turn import Json, check_json

CHUNK_BYTES = 65_536
MAX_ELEMENT_CHARACTERS = 256 * 1024 * 1024
"""A longer element is reported and ends the reading: it would not fit one row of the store."""

_SPACE = re.compile(r"[ \t\n\r]*")
_LONGEST_LITERAL = len("-Infinity")
_DECODER = json.JSONDecoder()


class Readable(Protocol):
    """All that reading an array asks of a stream; a member of a zip file has it too."""

    def read(self, size: int, /) -> bytes: ...


class _Stop(Exception):
    """Reading can't go on; the message says why."""


class _Text:
    """A stream's text as far as it is needed: what was consumed is let go, and what can't be decoded ends it."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self.fault: str | None = None
        """Why the text ends before the stream does."""
        self._bytes_read = 0
        self.text = ""
        self.position = 0
        self.ended = False

    def more(self, wanted: int) -> bool:
        """Add at least `wanted` characters; False if there are none: at the end, or before bytes that are no text."""
        self.text = self.text[self.position :]
        self.position = 0
        pieces = []
        while wanted > 0 and not self.ended:
            pieces.append(self._piece())
            wanted -= len(pieces[-1])
        added = "".join(pieces)
        self.text += added
        return bool(added)

    def _piece(self) -> str:
        raw = b"" if self.fault else self._stream.read(CHUNK_BYTES)
        self.ended = not raw
        try:
            piece = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            # What stands before the bad byte is still good, and may complete an element.
            start_of_raw = self._bytes_read + len(raw) - len(error.object)
            self.fault = f"invalid UTF-8 at byte {start_of_raw + error.start}"
            self._decoder.reset()
            return error.object[: error.start].decode()
        self._bytes_read += len(raw)
        return piece

    def next_mark(self) -> str:
        """The next character that is not white space, not consumed; empty at the end."""
        while True:
            self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.more(1):
                return ""

    def why_it_ends(self) -> str:
        return self.fault or "the file ends in the middle of the list; it looks cut off"


def array_elements(stream: BinaryIO | Readable, noun: str) -> Iterator[tuple[int, Json] | Problem]:
    """Each element's number, from 1, and its value. Where it can't go on, a Problem says so and is the last item."""
    text = _Text(stream)
    number = 1
    try:
        if text.next_mark() != "[":
            raise _Stop("is not a JSON list" if text.text else text.why_it_ends())
        text.position += 1
        mark = text.next_mark()
        while mark != "]":
            value = _element(text)
            try:
                yield number, check_json(value, noun)
            except InvalidMessage:
                yield Problem(f"{noun} {number}", "nested too deeply")
            number += 1
            mark = _separator(text)
        text.position += 1
        if text.next_mark() or text.fault:
            yield Problem(f"after {noun} {number - 1}", "more text follows the end of the list; it was not read")
    except _Stop as stop:
        yield Problem(f"{noun} {number}", f"{stop}; nothing from here on was read")


def _separator(text: _Text) -> str:
    """Step over the comma after an element; the mark that comes next."""
    mark = text.next_mark()
    if mark == "]":
        return mark
    if mark != ",":
        raise _Stop(f"a comma was expected, not {mark!r}" if mark else text.why_it_ends())
    text.position += 1
    mark = text.next_mark()
    if mark == "]":
        raise _Stop("a value was expected after the comma")
    return mark


def _element(text: _Text) -> Json:
    """One value. Each new try has twice the text, so that a long element costs no more than a few readings of it."""
    while True:
        try:
            value, end = _DECODER.raw_decode(text.text, text.position)
        except json.JSONDecodeError as error:
            if not _may_be_cut(error, text):
                raise _Stop(f"invalid JSON: {error.msg}") from error
        except RecursionError as error:
            raise _Stop("nested too deeply") from error
        except ValueError as error:  # a whole number with more digits than Python reads
            raise _Stop(f"invalid JSON: {error}") from error
        else:
            # `1` may be the beginning of `12`, of `1.5` or of `1e-9`.
            is_open = isinstance(value, int | float) and text.text[end:] in ("", ".", "e", "E", "e-", "E-", "e+", "E+")
            if not is_open or text.ended:
                text.position = end
                return value  # type: ignore[no-any-return]
        length = len(text.text) - text.position
        if length > MAX_ELEMENT_CHARACTERS:
            raise _Stop(f"longer than {MAX_ELEMENT_CHARACTERS:,} characters")
        if not text.more(max(length, 1)):
            raise _Stop(text.why_it_ends())


def _may_be_cut(error: json.JSONDecodeError, text: _Text) -> bool:
    """Whether more text could mend it: the decoder met the end, not something wrong."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.text) - _LONGEST_LITERAL
