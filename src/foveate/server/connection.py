"""One HTTP/1.1 connection of a client, with limits on a request's head and on the time to send it.

uvicorn has limits for an idle connection only: without these, anyone who can connect holds memory, CPU time and
connections before a key is asked for.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES: Final = 65_536
"""Size limit of request line and headers: what uvicorn's other parser, h11, accepts."""
MAX_HEADERS: Final = 100
"""Maximum number of header lines, as in Apache and gunicorn."""
MIN_BODY_BYTES_PER_SECOND: Final = 500
"""Rate below which a body is too slow, as in Apache."""


class LimitedConnection(HttpToolsProtocol):
    """Answers 431 to a head that is too large, and 408 to a request that is sent too slowly."""

    head_seconds: ClassVar[float] = 30.0
    """Time to send request line and headers, from the connection's start or the request's first byte."""
    body_seconds: ClassVar[float] = 60.0
    """Interval in which a body's rate is checked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaits_head = True
        self._framing_bytes = 0
        """Bytes since the last complete head or part of a body: of a head, of a chunk's size or of trailers."""
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._problem: HTTPStatus | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._restart(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._framing_bytes += len(data)
        if self._awaits_head and self._timer is None:
            self._restart(self.head_seconds)
        super().data_received(data)
        if self._framing_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._restart(self.head_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._awaits_head:
            return  # a trailer; the request is checked without it
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._problem = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("too many headers")  # ends the parser, which calls send_400_response

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            self._problem = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the head is too large")
        self._awaits_head = False
        self._framing_bytes = self._body_bytes = 0
        self._restart(self.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop()
        self._awaits_head, self._framing_bytes = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._problem is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._problem)

    @property
    def _current(self) -> RequestResponseCycle | None:
        """The newest request; None before the first."""
        return cast("RequestResponseCycle | None", self.cycle)

    def _restart(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._check)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """Close a connection whose request is late, unless an answer is in progress or the server reads slowly."""
        cycle = self._current
        is_answering = cycle is not None and not cycle.response_complete
        if self._awaits_head:
            if is_answering:
                self._restart(self.head_seconds)
            else:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        elif self.flow.read_paused or self._body_bytes >= self.body_seconds * MIN_BODY_BYTES_PER_SECOND:
            self._body_bytes = 0
            self._restart(self.body_seconds)
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with this status if no answer was begun, and close the connection."""
        self._stop()
        cycle = self._current
        is_answered = cycle is not None and cycle.response_complete and self._awaits_head  # the next request is late
        is_begun = cycle is not None and cycle.response_started and not is_answered
        if not is_begun and not self.transport.is_closing():
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode())
        self.transport.close()
