"""Server-sent events: an incremental parser of bytes, and a writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from foveate.errors import BadUpstream

EVENT_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""Default limit of one event; a provider's final event can repeat the whole answer."""

STREAM_LIMIT_BYTES: Final = 512 * 1024 * 1024
"""Default limit of one stream, which is held in memory until it ends."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its `name` (empty if it has none) and its data as UTF-8, lines joined by a newline."""

    name: str
    data: bytes

    def encode(self) -> bytes:
        return write_event(self.data, name=self.name)


def write_event(data: bytes, *, name: str = "", event_id: str = "") -> bytes:
    """Encode one event. `name` and `event_id` must be single lines."""
    if "\n" in name or "\r" in name or "\n" in event_id or "\r" in event_id:
        raise ValueError("the name and the id of an event must be single lines")
    head = f"id: {event_id}\n".encode() if event_id else b""
    if name:
        head += f"event: {name}\n".encode()
    if b"\n" in data or b"\r" in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    return head + b"data: " + data + b"\n\n"


class SseParser:
    """Splits a byte stream into events, independent of its chunks.

    Lines may end in LF, CRLF or CR. Comments, the fields `id` and `retry`, and events without data are skipped. `close`
    returns the last event if the blank line after it is missing.
    """

    def __init__(self, *, limit_bytes: int = EVENT_LIMIT_BYTES, stream_limit_bytes: int = STREAM_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest_bytes = stream_limit_bytes
        self._buffer = bytearray()
        self._searched = 0
        """The buffer has no blank line before this position, so a long event is not searched again with every chunk."""
        self._ends_in_cr = False
        self._has_begun = False

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Add a chunk and yield the events that are now complete. Raises `BadUpstream` above a limit."""
        self._rest_bytes -= len(chunk)
        if self._rest_bytes < 0:
            raise BadUpstream("the stream is larger than the limit")
        if self._ends_in_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._ends_in_cr = False
        if chunk:
            self._ends_in_cr = chunk.endswith(b"\r")
            if b"\r" in chunk:
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            self._buffer += chunk
        return self._events()

    def close(self) -> Iterator[SseEvent]:
        """Yield the remaining event at the end of the stream."""
        self._has_begun = True
        self._buffer += b"\n\n"
        return self._events()

    def _events(self) -> Iterator[SseEvent]:
        buffer = self._buffer
        if not self._has_begun:
            if len(buffer) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(buffer):
                return
            self._has_begun = True
            if buffer.startswith(BYTE_ORDER_MARK):
                del buffer[: len(BYTE_ORDER_MARK)]
        while (end := buffer.find(b"\n\n", self._searched)) >= 0:
            if end > self._limit_bytes:
                raise self._too_large()
            block = bytes(buffer[:end])
            del buffer[: end + 2]
            self._searched = 0
            if (event := _event(block)) is not None:
                yield event
        self._searched = max(0, len(buffer) - 1)
        if len(buffer) > self._limit_bytes + 1:
            raise self._too_large()

    def _too_large(self) -> BadUpstream:
        return BadUpstream(f"an event of the stream is larger than the limit of {self._limit_bytes:,} bytes")


def _event(block: bytes) -> SseEvent | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if not data:
        return None
    return SseEvent(name.decode(errors="replace"), data[0] if len(data) == 1 else b"\n".join(data))
