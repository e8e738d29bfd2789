"""Declares endpoints, reads their requests and writes their responses.

    routes = Endpoints("sessions")

    @routes.add("GET", "/sessions/{session}", right="read")
    async def get_session(session: Session) -> SessionResource:
        \"\"\"A session.\"\"\"

This is the only declaration: the types of `query`, `body` and the response are read from the annotations, and the
OpenAPI document is generated from them. A handler's parameters select its arguments: the call, the open session, a
part of the path, `query` and `body`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, get_type_hints
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.cache import BoundedCache
from foveate.client import Foveate
from foveate.server.access import AccessControl, Principal, check_right, view_of
from foveate.server.bodies import decode_json, read_body
from foveate.server.problems import BUSY_SECONDS, ProblemError
from foveate.server.settings import ServerSettings
from foveate.server.time_limits import LONG_SECONDS, note_kept
from foveate.session import Session
from foveate.session.keys import Right

if TYPE_CHECKING:
    from foveate.server.api.context import OpenSessions
    from foveate.server.api.events import EventHub
    from foveate.server.api.jobs import Jobs
    from foveate.server.dashboard.approvals import Approvals

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
BASE = "/api/v1"
IDEMPOTENCY_KEY = "idempotency-key"
MAX_KEY_CHARS = 255
KEY_PATTERN = "^[!-~]([ -~]*[!-~])?$"
"""Of an Idempotency-Key; spaces around a header are not part of it."""
JSON = "application/json"
_PARAMETER = re.compile(r"\{(\w+)\}")
Where = tuple[str, ...]
"""Caller, endpoint, path and Idempotency-Key of a request."""
SERVER_ERROR = 500
MAX_KEPT_BYTES = 65_536
"""Larger responses are not kept: those are contexts, which can be made again."""
MAX_ALL_KEPT_BYTES = 64 * 1_048_576
"""Responses of all keys together; beyond it the oldest are dropped."""
CALLER = 2
"""Parts of a `Where` that name the caller."""
MAX_RUNNING = 256
"""Calls of one caller in progress: they continue without their requests, which have a limit of their own."""


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Objects that all endpoints of a server share."""

    fov: Foveate
    settings: ServerSettings
    access: AccessControl
    events: EventHub
    jobs: Jobs
    replies: Replies
    open_sessions: OpenSessions
    approvals: Approvals


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an endpoint."""

    request: Request
    principal: Principal
    view: Foveate
    """The store as the principal sees it."""
    parts: ApiParts

    @classmethod
    def of(cls, request: Request, parts: ApiParts) -> Self:
        principal: Principal = request.state.principal
        return cls(request, principal, view_of(parts.fov, principal), parts)

    def path_arguments(self) -> dict[str, Any]:
        """The path parameters as arguments of the handler."""
        return {name: unquote(value) for name, value in self.request.path_params.items()}

    @property
    def idempotency_key(self) -> str | None:
        """The Idempotency-Key; `ProblemError` 400 if it is not valid."""
        key = self.request.headers.get(IDEMPOTENCY_KEY)
        if key is None or self.request.method == "GET":
            return None
        if len(key) > MAX_KEY_CHARS or not re.fullmatch(KEY_PATTERN, key):
            raise ProblemError(400, f"Idempotency-Key takes 1 to {MAX_KEY_CHARS} printable ASCII characters")
        return key


def bound(handler: Handler, *, changes: bool) -> Handler:
    """Wrap a handler so that it gets the call only if it has a parameter for it, and an open `Session` for the id in
    the path. One that `changes` the session is refused if that would direct an agent beyond the caller's right."""
    hints = get_type_hints(handler)
    opens_session = hints.get("session") is Session
    takes_call = any(isinstance(kind, type) and issubclass(kind, Call) for kind in hints.values())

    @wraps(handler)
    async def run(call: Call, **arguments: Any) -> Any:
        if changes and "session" in arguments:
            await call.view.agents.check_directing(arguments["session"])
        if opens_session:
            arguments["session"] = await call.view.open_session(arguments["session"])
        return await (handler(call, **arguments) if takes_call else handler(**arguments))

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The declaration of an endpoint."""

    tag: str
    method: Method
    path: str
    """Below `/api/v1`."""
    right: Right
    handler: Handler
    summary: str
    query: type[Struct] | None
    body: type[Any] | None
    answer: Any
    """The type of the response; None for no content."""
    status: int
    media: str
    """Media type of the response."""
    takes: str | None
    """Media type of a body that the handler reads itself."""
    is_replayed: bool
    """Whether the response is kept and repeated for the same Idempotency-Key."""

    @property
    def parameters(self) -> list[str]:
        """The path parameters."""
        return _PARAMETER.findall(self.path)


class Endpoints:
    """The endpoints of one resource."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.listed: list[Endpoint] = []

    def add(
        self,
        method: Method,
        path: str,
        *,
        right: Right,
        status: int = 200,
        media: str = JSON,
        takes: str | None = None,
    ) -> Callable[[H], H]:
        """Declare a handler. It may take the `Call`; path parameters, `query` and `body` are its other arguments."""

        def declare(handler: H) -> H:
            hints = get_type_hints(handler)
            answer = hints["return"]
            is_empty = answer is NoneType
            self.listed.append(
                Endpoint(
                    tag=self.tag,
                    method=method,
                    path=path,
                    right=right,
                    handler=bound(handler, changes=method != "GET" and right != "read"),
                    summary=inspect.getdoc(handler) or "",
                    query=hints.get("query"),
                    body=hints.get("body"),
                    answer=None if is_empty else answer,
                    status=204 if is_empty else status,
                    media=media,
                    takes=takes,
                    is_replayed=method != "GET" and media == JSON and takes is None,
                )
            )
            return handler

        return declare


def make_routes(endpoints: Sequence[Endpoint], parts: ApiParts) -> list[Route]:
    """Return the routes of these endpoints."""
    # Starlette would add HEAD to each GET, which streams can't answer.
    routes = []
    for endpoint in endpoints:
        route = Route(f"{BASE}{endpoint.path}", _runner(endpoint, parts), methods=[endpoint.method])
        route.methods = {endpoint.method}
        routes.append(route)
    return routes


def _runner(endpoint: Endpoint, parts: ApiParts) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        call = Call.of(request, parts)
        principal = call.principal
        check_right(principal, endpoint.right)
        key = call.idempotency_key
        arguments = call.path_arguments()
        if endpoint.query:
            arguments["query"] = _read_query(request, endpoint.query)
        raw = b""
        if endpoint.body:
            raw = await read_body(request, max_mb=parts.settings.max_body_mb)
            arguments["body"] = decode_json(raw or b"{}", endpoint.body)

        async def answer() -> Response:
            return _write(endpoint, await endpoint.handler(call, **arguments))

        if key is None or not endpoint.is_replayed:
            return await answer()
        where = (
            principal.tenant,
            principal.key_id,
            endpoint.method,
            request.scope["path"],
            str(request.query_params),
            key,
        )
        note_kept(request)
        return await parts.replies.once(where, hashlib.sha256(raw).digest(), answer)

    return run


def _read_query(request: Request, kind: type[Struct]) -> Struct:
    given = dict(request.query_params.multi_items())
    repeated = [name for name in given if len(request.query_params.getlist(name)) > 1]
    if repeated:
        raise ProblemError(422, f"the query has {repeated[0][:50]!r} more than once")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise ProblemError(422, f"the query is not valid: {error}; it accepts {known}") from error


def _write(endpoint: Endpoint, result: object) -> Response:
    if isinstance(result, Response):
        return result
    if result is None:
        return Response(status_code=endpoint.status)
    return Response(encode(result), endpoint.status, media_type=JSON)


def encode(value: object) -> bytes:
    """Encode a value as JSON; lone surrogates, which old logs may contain, are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


@dataclass(slots=True)
class _Reply:
    """The response to a request with this body, as the task that makes it."""

    digest: bytes
    answer: asyncio.Task[Response]
    is_outdated: bool = False
    """Something was erased since it began."""


class Replies:
    """The latest responses of one server, by Idempotency-Key."""

    def __init__(self, limit: int) -> None:
        self._kept: BoundedCache[Where, _Reply] = BoundedCache(
            limit, most_bytes=MAX_ALL_KEPT_BYTES, size=lambda reply: len(reply.answer.result().body)
        )
        self._running: dict[Where, _Reply] = {}
        """Calls in progress, which no number of others removes."""

    async def once(self, where: Where, digest: bytes, make: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """Return the kept response, or make and keep it, even if the request is cancelled meanwhile.

        Its repetition waits for it instead of writing again. `ProblemError` 422 if the key was used for another body.
        Errors are not kept, so the request may be repeated.
        """
        known = self._running.get(where) or self._kept.get(where)
        if known is None:
            if sum(running[:CALLER] == where[:CALLER] for running in self._running) >= MAX_RUNNING:
                problem = f"{MAX_RUNNING} calls with an Idempotency-Key are in progress; repeat theirs, or wait"
                raise ProblemError(429, problem, headers={"Retry-After": str(BUSY_SECONDS)})
            made = self._running[where] = _Reply(digest, asyncio.create_task(_within_limit(make)))
            made.answer.add_done_callback(lambda _: self._end(where, made))
            return await _result(made.answer)
        if known.digest != digest:
            raise ProblemError(422, "this Idempotency-Key was used for a different request", kind="key-reused")
        return _again(await _result(known.answer))

    def forget(self) -> None:
        """Drop all kept responses, and later those in progress: they may contain what was erased."""
        self._kept.clear()
        for reply in self._running.values():
            reply.is_outdated = True

    async def stop(self) -> None:
        """Cancel the calls in progress."""
        running = [reply.answer for reply in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _end(self, where: Where, reply: _Reply) -> None:
        """Keep the response of a call that has ended, unless it is large or an error of the server."""
        del self._running[where]
        # Reading the exception marks it as retrieved: its request may have ended.
        if reply.answer.cancelled() or reply.answer.exception() is not None:
            return
        made = reply.answer.result()
        if made.status_code < SERVER_ERROR and len(made.body) <= MAX_KEPT_BYTES and not reply.is_outdated:
            self._kept[where] = reply


async def _within_limit(make: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
    try:
        async with asyncio.timeout(LONG_SECONDS) as limit:
            return await make()
    except TimeoutError as error:
        if not limit.expired():
            raise
        detail = f"the call took longer than {LONG_SECONDS:,.0f} s and was stopped; ask for less at a time"
        raise ProblemError(503, detail, kind="time-limit", headers={"Retry-After": str(BUSY_SECONDS)}) from error


async def _result(task: asyncio.Task[Response]) -> Response:
    """Return the result of a task, which continues if the caller is cancelled."""
    await asyncio.wait([task])
    if task.cancelled():
        raise ProblemError(503, "the server is stopping; try again", headers={"Retry-After": str(BUSY_SECONDS)})
    return task.result()


def _again(made: Response) -> Response:
    headers = {**dict(made.headers), "idempotent-replayed": "true"}
    return Response(made.body, made.status_code, headers)
