"""The id of each request, and one line in the log about it: never its content, path or keys."""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from typing import Any, Final, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.errors import contained
from foveate.events import REQUEST_ID
from foveate.server.metrics import ROUTINE_PATHS, method_of, route_of
from foveate.server.problems import STATIC_PATH
from foveate.server.settings import ServerSettings
from foveate.session.client_calls import CallNote

HEADER: Final = b"x-foveate-request-id"
ID_BYTES: Final = 8
LOGGERS: Final = ("foveate", "opentelemetry")
MAX_QUEUED: Final = 10_000
"""Lines that wait for a slow standard error; beyond it lines are dropped, and requests never wait."""
CLOSE_SECONDS: Final = 1.0
"""How long the end of the server waits for lines that are not written yet."""
MAX_MESSAGE_CHARS: Final = 10_000
CLIENT_CLOSED: Final = 499
"""Status in the log of a request whose client went away before the answer."""
FIRST_ERROR: Final = 400
DEFECT_STATUS: Final = 500
MAX_MODEL_CHARS: Final = 100
UPSTREAM: Final = "upstream-"
"""How the code of an error that a provider answered begins; its status follows."""
PROVIDER_FAILURES: Final = ("bad-upstream", "broken-off", "unreachable")
"""Codes of providers that gave no answer, or not to its end."""
_FIELDS: Final = "foveate_fields"

_log = logging.getLogger("foveate.requests")


def request_id_of(scope: Scope) -> str:
    """Return the id of a request; it gets one if it has none."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = f"req_{secrets.token_hex(ID_BYTES)}"
    found: str = state["request_id"]
    return found


class RequestLogMiddleware:
    """Gives every request an id, in its response's headers too, and logs it when it ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = request_id_of(scope)
        header = (HEADER, request_id.encode())
        status = CLIENT_CLOSED

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [pair for pair in message.get("headers", ()) if pair[0].lower() != HEADER]
                message = {**message, "headers": [*own, header]}
            await send(message)

        token = REQUEST_ID.set(request_id)
        try:
            await self._app(scope, receive, marked)
        except Exception:
            scope["state"]["error"] = "defect"
            status = DEFECT_STATUS if status == CLIENT_CLOSED else status
            raise
        finally:
            REQUEST_ID.reset(token)
            failure = _failure(scope["state"], status)
            if _log.isEnabledFor(level := _level(scope["path"], status, failure)):
                _write_line(scope, status, time.perf_counter() - began, failure, level)


def _level(path: str, status: int, failure: dict[str, str]) -> int:
    """Return the level of a request's line: a warning if the server or a provider failed."""
    error = failure.get("error", "")
    if status >= DEFECT_STATUS or error.startswith(UPSTREAM) or error in PROVIDER_FAILURES:
        return logging.WARNING
    is_routine = path in ROUTINE_PATHS or path.startswith(STATIC_PATH)
    return logging.DEBUG if is_routine and not failure else logging.INFO


def _write_line(scope: Scope, status: int, seconds: float, failure: dict[str, str], level: int) -> None:
    state = scope["state"]
    fields: dict[str, Any] = {
        "method": method_of(scope),
        "route": route_of(scope),
        "status": status,
        "ms": round(seconds * 1_000, 1),
    }
    principal = state.get("principal")
    known = {
        "key": getattr(principal, "key_id", ""),
        "tenant": getattr(principal, "tenant", ""),
        "model": state.get("model", "")[:MAX_MODEL_CHARS],
        **failure,
        "client": _stranger(scope) if failure else "",
    }
    fields |= {name: value for name, value in known.items() if value}
    call = state.get("call")
    if isinstance(call, CallNote) and call.is_ended:
        used = call.used
        fields |= {
            "in": used.input_tokens,
            "out": used.output_tokens,
            "cached": used.cache_read_tokens,
            "session": call.session,
        }
    fields["request"] = state["request_id"]
    _log.log(level, "", extra={_FIELDS: fields})


def _stranger(scope: Scope) -> str:
    """Return the address of a client without a key; empty for one with a key."""
    principal, client = scope["state"].get("principal"), scope.get("client")
    return str(client[0]) if client and principal is None else ""


def _failure(state: dict[str, Any], status: int) -> dict[str, str]:
    """Return why a request failed, as a short code with a reason; empty if it did not."""
    call = state.get("call")
    outcome = call.outcome if isinstance(call, CallNote) and call.is_ended and call.outcome != "ok" else ""
    upstream = state.get("upstream", "")
    error = state.get("error") or outcome
    if not error and status >= FIRST_ERROR and status != CLIENT_CLOSED:
        error = "refused" if upstream else "failed"
    if error == "refused":
        error = f"{UPSTREAM}{status}" if status >= FIRST_ERROR else f"{UPSTREAM}failed"
    if not error:
        return {}
    reason, cause = state.get("reason", ""), state.get("cause", "")
    return {"error": error, "reason": reason, "upstream": upstream, "cause": cause}


class LineFormatter(logging.Formatter):
    """Formats a record as one line, which nothing that a client sent can break."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        when = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1_000:03d}Z"
        fields: dict[str, Any] = getattr(record, _FIELDS, {})
        message = record.getMessage()[:MAX_MESSAGE_CHARS]
        request = fields.get("request") or getattr(record, "request", "")
        if self._is_json:
            shown = {"time": when, "level": record.levelname.lower(), "logger": record.name, **fields}
            more = {"message": message, "trace": record.exc_text or "", "request": request}
            return json.dumps({**shown, **{key: value for key, value in more.items() if value}})
        if fields:
            rest = (f"{key}={_quoted(value)}" for key, value in fields.items() if key not in _LEADING and value != "")
            words = " ".join((fields["method"], _quoted(fields["route"]), str(fields["status"]), f"{fields['ms']} ms"))
            return f"{when} {record.levelname} {words} {' '.join(rest)}"
        trace = "".join(f"\n    {_plain(line)}" for line in (record.exc_text or "").splitlines())
        end = f" request={request}" if request else ""
        return f"{when} {record.levelname} {record.name}: {_plain(message)}{end}{trace}"


_LEADING: Final = ("method", "route", "status", "ms")


class _QueueingHandler(QueueHandler):
    """Hands records to the writing thread; drops them if it is too far behind."""

    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        record.request = REQUEST_ID.get()
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


@contextmanager
def logging_to_stderr(settings: ServerSettings) -> Iterator[None]:
    """Write the log of Foveate and of its exporter to standard error, by the settings, in a thread of its own."""
    formatter = LineFormatter(is_json=settings.log_format == "json")
    put = _put_to(sys.stderr)
    is_over = threading.Event()
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(MAX_QUEUED)
    handler = _QueueingHandler(waiting)

    def write() -> None:
        while (record := waiting.get()) is not None and not is_over.is_set():
            with contained():  # neither a closed error stream nor a record that can't be formatted ends the log
                put(f"{formatter.format(record)}\n")

    writer = threading.Thread(target=write, name="foveate-log", daemon=True)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(settings.log_level.upper())
        logger.propagate = False
    writer.start()
    try:
        yield
    finally:
        for logger, level, propagates in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
        with suppress(queue.Full):
            waiting.put_nowait(None)
            writer.join(CLOSE_SECONDS)  # a standard error that nobody reads must not keep the server from stopping
        is_over.set()


def _put_to(stream: TextIO) -> Callable[[str], object]:
    """Return a function that writes to a stream, by its file descriptor: the stream's own lock would keep the
    interpreter from ending while a write waits for a reader."""
    try:
        number = os.dup(stream.fileno())  # of our own, so that no late write reaches another file
    except (OSError, ValueError):
        return stream.write
    return lambda text: os.write(number, text.encode("utf-8", "backslashreplace"))


def _quoted(value: object) -> str:
    """Return a value as one word, in quotes if it is not plain."""
    text = str(value)
    return text if text.isprintable() and not set(text) & set(' "=') and text else json.dumps(text)


def _plain(text: str) -> str:
    """Return a text without characters that begin another line or move the cursor."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
