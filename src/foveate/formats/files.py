"""The common part of the transcript formats: reading lines of JSON exactly, and reporting what can't be read."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import struct
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from io import SEEK_CUR
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, TranscriptMessage, TranscriptProblem, parse_message
from foveate.text import json_slices
from foveate.turn import Json, check_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foveate.turn import Message


class Readable(Protocol):
    """The methods of a stream that record readers use; a member of a zip file has them too."""

    def read(self, size: int, /) -> bytes: ...


MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is reported, not read: it would not fit one row of the store."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


MAX_FILE_BYTES = 256 * 1024 * 1024
"""The longest file that is read at once."""


def read_whole(stream: BinaryIO) -> bytes:
    """Read a file completely; `ValueError` if it is longer than the limit."""
    raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"longer than {MAX_FILE_BYTES:,} bytes")
    return raw


def decode_json(raw: bytes) -> Json:
    """Decode JSON bytes; `ValueError` with a readable reason if they are not JSON in UTF-8."""
    try:
        return check_json(json.loads(raw.decode("utf-8", "strict")), "record")
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except (RecursionError, InvalidMessage) as error:
        raise ValueError("nested too deeply") from error


def encode_json(value: Json) -> str:
    """Encode JSON on one line, with unescaped UTF-8; lone surrogates are escaped, so every value can be written."""
    text = "".join(json_slices(value))
    return text if text.isascii() or not _has_surrogates(text) else json.dumps(value, separators=(",", ":"))


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


class PlacedRecord(NamedTuple):
    """A value of a file: its number, from 1, and its place for people."""

    number: int
    value: Json
    place: str


Placed = PlacedRecord | TranscriptProblem


def read_each(
    records: Iterable[Placed], read: Callable[[PlacedRecord], Iterable[TranscriptItem]]
) -> Iterator[TranscriptItem]:
    """Yield the result of reading each record; a Problem at its place if it can't be read."""
    for record in records:
        if isinstance(record, TranscriptProblem):
            yield record
            continue
        try:
            yield from read(record)
        except InvalidMessage as error:
            yield TranscriptProblem(record.place, str(error))


def read_list(session: str, records: Sequence[Json], format_name: str, where: str = "") -> Iterator[TranscriptItem]:
    """Yield the messages of a list, with keys from their place and content."""

    def read(record: PlacedRecord) -> Iterator[TranscriptItem]:
        message = parse_message(format_name, record.value)
        yield TranscriptMessage(session, content_key(record.number - 1, record.value), message, record.place)

    placed = (PlacedRecord(number, value, f"{where}message {number}") for number, value in enumerate(records, 1))
    return read_each(placed, read)


def json_lines(stream: BinaryIO) -> Iterator[Placed]:
    """Yield each line's number and value, with one line in memory at a time; blank lines are skipped."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        raw = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
        if len(raw) > MAX_LINE_BYTES:
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            yield TranscriptProblem(f"line {number}", f"longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if not raw.strip():
            continue
        try:
            yield PlacedRecord(number, decode_json(raw), f"line {number}")
        except ValueError as error:
            cut = "" if raw.endswith(b"\n") else " (the file ends here: its last line looks cut off)"
            yield TranscriptProblem(f"line {number}", f"{error}{cut}")


def first_json_line(head: bytes) -> Json:
    """Return the first line's value, to detect the format of a file; None if it is not JSON."""
    for raw in head.splitlines():
        if raw.strip():
            try:
                return decode_json(raw)
            except ValueError:
                return None
    return None


def content_key(position: int, value: Json) -> str:
    """Return a stable key for a record without one, from its place and content."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"{position}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


CHUNK_BYTES = 65_536
MAX_ELEMENT_CHARACTERS = 256 * 1024 * 1024
"""A longer element is reported and ends the reading: it does not fit one row of the store."""

_SPACE = re.compile(r"[ \t\n\r]*")
_LONGEST_LITERAL = len("-Infinity")
_DECODER = json.JSONDecoder()


class _Stop(Exception):
    """Reading can't continue; the message contains the reason."""


class _Text:
    """A stream's text, read on demand: consumed text is released, and bytes that can't be decoded end it."""

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
        """Add at least `wanted` characters; False if there are none: at the end, or before undecodable bytes."""
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
            # The text before the bad byte is valid, and may complete an element.
            start_of_raw = self._bytes_read + len(raw) - len(error.object)
            self.fault = f"invalid UTF-8 at byte {start_of_raw + error.start}"
            self._decoder.reset()
            return error.object[: error.start].decode()
        self._bytes_read += len(raw)
        return piece

    def next_mark(self) -> str:
        """Return the next character that is not white space, without consuming it; empty at the end."""
        while True:
            self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.more(1):
                return ""

    def why_it_ends(self) -> str:
        return self.fault or "the file ends in the middle of the list; it looks cut off"


def array_elements(stream: BinaryIO | Readable, noun: str) -> Iterator[Placed]:
    """Yield each element's number, from 1, and its value. If reading fails, the last item is a Problem."""
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
                yield PlacedRecord(number, check_json(value, noun), f"{noun} {number}")
            except InvalidMessage:
                yield TranscriptProblem(f"{noun} {number}", "nested too deeply")
            number += 1
            mark = _separator(text)
        text.position += 1
        if text.next_mark() or text.fault:
            yield TranscriptProblem(
                f"after {noun} {number - 1}", "more text follows the end of the list; it was not read"
            )
    except _Stop as stop:
        yield TranscriptProblem(f"{noun} {number}", f"{stop}; nothing from here on was read")


def _separator(text: _Text) -> str:
    """Consume the comma after an element; return the character that comes next."""
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
    """Read one value. Each attempt doubles the text, so that a long element is decoded only a few times."""
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
    """Check whether more text could complete the value: the decoder failed at the end of the text."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.text) - _LONGEST_LITERAL


TITLE_CHARACTERS = 80

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


_SLASH_COMMAND = re.compile(r"/[a-z][\w:-]*(?:\s|$)", re.IGNORECASE)


class TitleRank(IntEnum):
    """The source of a title: a higher one replaces a lower, a later one an equal one, except for the first prompt."""

    NONE = 0
    PROMPT = 1
    SUMMARY = 2
    GENERATED = 3
    CHOSEN = 4


@dataclass(slots=True)
class _Session:
    header: SessionHeader
    rank: TitleRank = TitleRank.NONE
    found: int = 0


class Sessions:
    """The sessions of one file: their headers, updated as metadata is found, and their messages' keys."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._known: dict[str, _Session] = {}

    def learn(
        self,
        name: str,
        *,
        title: str | None = None,
        rank: TitleRank = TitleRank.NONE,
        model: str | None = None,
        channel: str | None = None,
    ) -> Iterator[SessionHeader]:
        """Yield a header if the session is new or its metadata changed."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Session(SessionHeader(name, platform=self._platform))
            before = None
        else:
            before = known.header
        header = replace(known.header, model=model or known.header.model, channel=channel or known.header.channel)
        if rank == TitleRank.PROMPT and title and _SLASH_COMMAND.match(title):
            title = None  # `/model` or `/clear` says nothing about the conversation
        if title and (rank > known.rank or rank == known.rank != TitleRank.PROMPT):
            header = replace(header, title=short_title(title))
            known.rank = rank
        known.header = header
        if header != before:
            yield header

    def channel(self, name: str) -> str | None:
        return self._known[name].header.channel if name in self._known else None

    def found(
        self, name: str, record: Mapping[str, Json], message: Message, *, place: str, id_: str | None
    ) -> TranscriptMessage:
        """Return the message with its key: the record's id if it has one, else its place in the session."""
        session = self._known[name]
        key = content_key(session.found, record)
        if id_:
            # Claude Code repeats some records under their old id, with another parent: their content differs.
            key = f"{id_}-{key.partition('-')[2]}"
        session.found += 1
        return TranscriptMessage(name, key, message, place)


def short_title(text: str) -> str:
    """Return one line of at most TITLE_CHARACTERS characters."""
    title = " ".join(text.split())
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1].rstrip() + "…"


def session_in_name(name: str) -> str:
    """Return the session that a file's name contains: the first UUID in it, else the name without its extension."""
    file_name = PurePath(name).name
    found = _UUID.search(file_name)
    return found[0] if found else PurePath(name).stem or "session"


def made_session(messages: Sequence[Message]) -> str:
    """Return an id for a session without one: derived from its messages, so that the same messages get the same id."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(repr(message.without_original()).encode("utf-8", "backslashreplace"))
    return str(uuid.UUID(bytes=digest.digest()[:16], version=4))


ZIP = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_DEFLATED = 8


_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)
"""The errors of reading a damaged, encrypted or foreign zip file."""


def read_export(
    stream: BinaryIO,
    name: str,
    wanted: re.Pattern[str],
    read: Callable[[Readable, str], Iterable[TranscriptItem]],
    missing: str = "",
) -> Iterator[TranscriptItem]:
    """Read a data export: a file, or the files of that name in a zip, which `read` gets with the name of each.

    A zip file must be seekable: its directory is at its end.
    """
    start = stream.read(len(ZIP)) if stream.seekable() else b""
    if start:
        stream.seek(-len(start), SEEK_CUR)
    if start != ZIP:
        yield from read(stream, "")
        return
    try:
        with zipfile.ZipFile(stream) as archive:
            found = sorted(member for member in archive.namelist() if wanted.fullmatch(PurePath(member).name))
            found = [member for member in found if "__MACOSX" not in member]
            if missing and not found:
                yield TranscriptProblem(name, missing)
            for member in found:
                with archive.open(member) as file:
                    yield from read(file, member)
    except _DAMAGED as error:
        yield TranscriptProblem(name, f"the zip file can't be read: {str(error) or type(error).__name__}")


def zip_start(head: bytes, wanted: str) -> bytes:
    """Return the beginning of a file in a zip, from the beginning of the zip; empty if it is not there."""
    place = 0
    while head[place : place + len(ZIP)] == ZIP and place + _LOCAL_HEADER.size <= len(head):
        fields = _LOCAL_HEADER.unpack_from(head, place)
        method, size, name_size, extra_size = fields[3], fields[7], fields[9], fields[10]
        begin = place + _LOCAL_HEADER.size
        name = head[begin : begin + name_size].decode("utf-8", "replace")
        begin += name_size + extra_size
        text, end = head[begin : begin + size], begin + size
        if method == _DEFLATED:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                text = inflater.decompress(head[begin:], CHUNK_BYTES)
            except zlib.error:
                return b""
            end = end if size else len(head) - len(inflater.unused_data)
        if PurePath(name).name == wanted:
            return text
        place = head.find(ZIP, end)
        if place < 0:
            return b""
    return b""
