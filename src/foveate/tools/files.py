"""Files as tools read and write them: regular files only, text in its own encoding, written atomically."""

from __future__ import annotations

import codecs
import difflib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from foveate.tools import folders
from foveate.tools.tool import ToolError

HEAD_BYTES = 8_192
"""Bytes that decide whether a file is text."""
NEW_FILE_MODE = 0o666
MAX_VOTES = 200
"""Occurrences of one line that are considered, e.g. of a lone brace."""
MAX_COMPARED = 5_000
"""Lines that are compared character by character."""
MAX_COMPARED_CHARS = 200
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "PNG image",
    b"\xff\xd8\xff": "JPEG image",
    b"GIF8": "GIF image",
    b"%PDF-": "PDF document",
    b"PK\x03\x04": "ZIP archive",
    b"\x1f\x8b": "gzip archive",
    b"\x7fELF": "ELF program",
    b"SQLite format 3\0": "SQLite database",
}
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file. `encode` returns the same bytes for the same text."""

    text: str
    encoding: str = "utf-8"
    is_big_endian: bool = False

    @property
    def newline(self) -> str:
        """The line end of most lines."""
        return "\r\n" if 2 * self.text.count("\r\n") > self.text.count("\n") else "\n"

    def encode(self, text: str, given: str) -> bytes:
        """Encode a new text in the file's encoding; `ToolError` names a character that the encoding lacks."""
        try:
            if self.encoding == "utf-16":
                order, mark = ("be", codecs.BOM_UTF16_BE) if self.is_big_endian else ("le", codecs.BOM_UTF16_LE)
                return mark + text.encode(f"utf-16-{order}")
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            wrong = text[error.start]
            raise ToolError(f"{given} is encoded in {self.encoding}, which has no {wrong!r}") from None


@contextmanager
def file_errors(given: str) -> Iterator[None]:
    """Turn errors of the operating system into a `ToolError` about the path."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"{given}: {(error.strerror or str(error)).lower()}") from None


def resolved(path: Path, given: str) -> Path:
    """Return the real path, without links; `ToolError` for a loop of links or an invalid name."""
    try:
        return path.resolve()
    except UnicodeError:
        raise ToolError("a path has no lone surrogates") from None
    except (OSError, RuntimeError):
        raise ToolError(f"{given} can't be resolved: too many symbolic links") from None


def open_file(path: Path, given: str) -> BinaryIO:
    """Open a regular file for reading. Never follows a link, and never waits for a pipe."""
    with file_errors(given):
        try:
            handle = folders.open_at(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise ToolError(f"{given} does not exist{_similar_names(path)}") from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise ToolError(f"{given} is {'a folder; list_dir lists it' if stat.S_ISDIR(mode) else 'not a regular file'}")


def read_whole(path: Path, given: str, limit_bytes: int) -> bytes:
    """Read all bytes of a file that is not larger than the limit."""
    with open_file(path, given) as opened, file_errors(given):
        size = os.fstat(opened.fileno()).st_size
        if size > limit_bytes:
            raise ToolError(f"{given} has {size:,} bytes, more than tools.max_file_bytes ({limit_bytes:,})")
        return opened.read(limit_bytes)


def decode_text(data: bytes, given: str) -> TextFile:
    """Decode a file as UTF-8, or UTF-16 with a byte order mark, else Latin-1. `ToolError` if it is binary."""
    encoding = encoding_of(data[:HEAD_BYTES])
    if encoding is None:
        raise ToolError(binary_problem(given, data[:HEAD_BYTES], len(data)))
    try:
        return TextFile(data.decode(encoding), encoding, data.startswith(codecs.BOM_UTF16_BE))
    except UnicodeDecodeError:
        return TextFile(data.decode("latin-1"), "latin-1")


def split_lines(text: str) -> list[str]:
    """Return the lines without their line ends. Only line feeds end a line, with or without a carriage return."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def encoding_of(head: bytes) -> str | None:
    """Return the encoding that the first bytes suggest; None for a binary file."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    return None if b"\0" in head else "utf-8"


def binary_problem(given: str, head: bytes, size: int) -> str:
    """Return why a file can't be read as text, with its kind if that is known."""
    kind = next((name for start, name in _SIGNATURES.items() if head.startswith(start)), "")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "WebP image"
    hint = "; view_image shows it" if kind.endswith("image") else ""
    return f"{given} is a binary file ({f'{kind}, ' if kind else ''}{size:,} bytes), not text{hint}"


def write_atomically(path: Path, data: bytes, given: str) -> bool:
    """Write a file through a temporary one in its folder; return whether it is new. An existing file keeps its mode."""
    with file_errors(given):
        mode = writable_mode(path, given)
        with folders.opened_folder(path.parent, create=True):
            pass
        temporary = path.with_name(f".foveate-{secrets.token_hex(8)}.tmp")
        create_file(temporary, data, mode, like=None if mode is None else path)
        try:
            folders.replace(temporary, path)
        except OSError:
            folders.remove(temporary)
            raise
    return mode is None


def writable_mode(path: Path, given: str) -> int | None:
    """Return the mode of an existing file, None for a new one; `ToolError` if it is not a regular file."""
    try:
        mode = folders.status(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ToolError(f"{given} is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
    return stat.S_IMODE(mode)


def create_file(path: Path, data: bytes, mode: int | None, *, like: Path | None = None) -> None:
    """Create a file durably, with the owner of another one; remove it if that fails."""
    handle = folders.open_at(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_FILE_MODE)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            if like is not None:
                owner = folders.status(like)
                with suppress(PermissionError):  # only root can change the owner
                    os.fchown(opened.fileno(), owner.st_uid, owner.st_gid)
            if mode is not None:
                os.fchmod(opened.fileno(), mode)
            os.fsync(opened.fileno())
    except OSError:
        with suppress(OSError):
            folders.remove(path)
        raise


def nearest_place(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index where most of the expected lines are, ignoring white space; None if nothing is close."""
    known: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        known.setdefault("".join(line.split()), []).append(place)
    votes: dict[int, int] = {}
    for offset, line in enumerate(wanted):
        key = "".join(line.split())
        places = known.get(key, ()) if key else ()
        for place in places[:MAX_VOTES]:
            start = max(0, place - offset)
            votes[start] = votes.get(start, 0) + len(key)
    if votes:
        return max(votes, key=lambda start: (votes[start], -start))
    first = next((line.strip()[:MAX_COMPARED_CHARS] for line in wanted if line.strip()), "")
    starts = [line.strip()[:MAX_COMPARED_CHARS] for line in lines[:MAX_COMPARED]]
    close = difflib.get_close_matches(first, starts, n=1) if first else []
    return starts.index(close[0]) if close else None


def excerpt(lines: Sequence[str], start: int, count: int) -> str:
    """Return some lines with their numbers."""
    chosen = lines[start : start + count]
    return "".join(f"{number:>6}\t{line.rstrip()}\n" for number, line in enumerate(chosen, start + 1))


def _similar_names(path: Path) -> str:
    try:
        with folders.opened_folder(path.parent, readable=True) as folder:
            names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return "; list_dir shows what there is"
    close = difflib.get_close_matches(path.name, names[:MAX_COMPARED], n=3)
    return f"; did you mean {' or '.join(close)}?" if close else "; list_dir or file_search show what there is"
