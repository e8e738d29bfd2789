"""The gateway's endpoints, each also under `/s/{session}` for clients that can only set a URL."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from foveate.additions import is_compaction
from foveate.client import Foveate
from foveate.errors import BadRequest, BadUpstream, FoveateError
from foveate.intake.project import folder_of
from foveate.intake.recorder import Recorder, SessionChoice
from foveate.intake.sessions import BRANCH, CLAUDE_CODE_ID, ClientId
from foveate.secrets import is_issued
from foveate.server.access import Principal, check_models, check_right, check_route, view_of
from foveate.server.bodies import check_values, decode_with_lone_surrogates, read_body
from foveate.server.gateway.bodies import content_of, is_large, read_answer
from foveate.server.gateway.exchange import Gateway
from foveate.server.gateway.headers import readable
from foveate.server.gateway.prepare import ClientCall
from foveate.server.gateway.reply import GatewayReply, error_reply
from foveate.server.gateway.state import unshared_state
from foveate.server.gateway.table import (
    HARMLESS,
    TABLE,
    GatewayPath,
    GatewayRoute,
    is_form,
    named_models,
    other_models,
    read_path,
)
from foveate.server.gateway.transport import upstream_client
from foveate.server.gateway.upstream import Target, accepted, answer_headers, choose
from foveate.server.gateway.wires import WIRES, ClientRequest, Wire
from foveate.server.problems import ProblemError, note_problem, problem_of, with_request_id
from foveate.server.request_log import request_id_of
from foveate.server.settings import ServerSettings
from foveate.session.call_costs import CallLimits
from foveate.session.client_calls import CallNote, CallRow, ClientCalls
from foveate.tokens import counter_for

NO_UPSTREAM: Final = (
    "no upstream is configured; start the gateway with --upstream URL, or set server.upstream in the configuration"
)
NOT_SHARED: Final = (
    "{name} requests are not sent with the server's provider key; send a provider key of your own (with the Foveate "
    "key in X-Foveate-Key), or let the operator add {name!r} to server.shared_routes"
)
FORBIDDEN: Final = 403
MAX_ID_CHARS: Final = 200
MAX_COUNT_BYTES: Final = 1_000_000
"""Size limit of a provider's token count."""
MAX_CAUSE_CHARS: Final = 200
_KEPT_PATH: Final = "foveate.gateway_path"


class TableRoute(Route):
    """A route of the table, matched against the normalised path, also under `/s/{session}`."""

    def __init__(self, row: GatewayRoute, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        super().__init__(row.pattern, endpoint)
        self.methods = set(row.methods)  # Starlette would add HEAD
        self._row = row

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        if _KEPT_PATH not in scope:
            scope[_KEPT_PATH] = read_path(_raw_path(scope))
        found: GatewayPath | None = scope[_KEPT_PATH]
        if found is None or (parameters := self._row.match(found.path)) is None:
            return Match.NONE, {}
        is_allowed = scope["method"] in self._row.methods
        return Match.FULL if is_allowed else Match.PARTIAL, {"endpoint": self.endpoint, "path_params": parameters}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the gateway with its route."""

    row: GatewayRoute
    wire: Wire
    request: Request
    path: str
    """The path at the provider."""

    @property
    def query(self) -> str:
        raw: bytes = self.request.scope["query_string"]  # `Request.url` also reads the Host
        return raw.decode(errors="replace")

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.request.headers)

    @property
    def session(self) -> str | None:
        """The session that the path names."""
        found: GatewayPath = self.request.scope[_KEPT_PATH]
        return found.session


class GatewayEndpoints:
    """The endpoints of one server."""

    def __init__(
        self, fov: Foveate, settings: ServerSettings, watch: Callable[[CallNote, CallRow], object] = lambda *_: None
    ) -> None:
        """`watch` gets each call of a client with its price."""
        self._fov = fov
        self._settings = settings
        self._gateways: dict[str, Gateway] = {}
        self._account = ClientCalls(
            fov.store,
            fov.settings.models,
            fov.publish,
            keep_days=settings.call_days,
            kept_requests=settings.kept_requests,
            kept_mb=settings.kept_requests_mb,
            watch=watch,
        )
        self._client: httpx2.AsyncClient | None = None
        self._large = asyncio.Lock()

    def routes(self) -> list[BaseRoute]:
        return [Route("/", self._alive, methods=["HEAD"]), *(TableRoute(row, self._endpoint(row)) for row in TABLE)]

    def use(self, client: httpx2.AsyncClient) -> None:
        """Send requests upstream with this client."""
        self._client = client

    @property
    def dropped(self) -> int:
        """Calls that were not accounted, because the store could not be written for long."""
        return self._account.dropped

    async def settle(self) -> None:
        """Wait until all calls that have ended are accounted."""
        await self._account.settle()

    async def close(self) -> None:
        """Wait until the requests of all clients are recorded, and close the connections to providers."""
        for gateway in self._gateways.values():
            await gateway.responses.settle()
        await self._account.close()
        if self._client is not None:
            await self._client.aclose()

    async def _alive(self, _request: Request) -> Response:
        return Response(status_code=200)

    def _endpoint(self, row: GatewayRoute) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a route, which answers errors in the protocol's format."""
        handlers = {
            "converse": self._converse,
            "compact": self._compact,
            "stored": self._stored_response,
            "count": self._count_tokens,
            "forward": self._forward,
        }
        handle = handlers[row.handling]

        async def endpoint(request: Request) -> Response:
            wire = WIRES[row.format or _format_of(request.headers)]
            try:
                check_right(request.state.principal, "gateway")
                check_route(request.state.principal, row.name)
                _check_countable(request.state.principal, row.name)
                return await handle(Asked(row, wire, request, row.upstream_path(request.path_params)))
            except ProblemError as error:
                note_problem(request.scope, error)
                headers = {**error.headers, "x-should-retry": "false"} if error.status == FORBIDDEN else error.headers
                body = with_request_id(wire.error(error.status, error.detail))
                return JSONResponse(body, error.status, headers=headers)
            except FoveateError as error:
                note_problem(request.scope, problem_of(error))
                if isinstance(error, BadUpstream):
                    request.state.cause = _cause(error)
                return error_reply(wire, error).response()

        return endpoint

    async def _converse(self, asked: Asked) -> Response:
        call = await self._read(asked, await self._raw(asked))
        is_stored = not self._settings.bypass and asked.headers.get("x-foveate-store", "").strip().lower() != "off"
        principal: Principal = asked.request.state.principal
        call.budget = principal.budget
        call.note = asked.request.state.call = CallNote(
            request_id=request_id_of(asked.request.scope),
            format=asked.wire.format,
            model=call.request.model,
            address=call.target.base,
            path=asked.path,
            tenant=principal.tenant,
            key_id=principal.key_id,
            client=call.choice.platform or "",
            limits=CallLimits(
                tuple(other_models(call.request.body)),
                call.request.answers,
                call.request.max_output_tokens,
            ),
        )
        reply = await self._gateway(asked.request).handle(call, store=is_stored)
        return reply.response()

    async def _read(self, asked: Asked, raw: bytes, target: Target | None = None) -> ClientCall:
        """Read a request, a large one in a thread: that takes as long as it has messages."""
        if not is_large(raw):
            return self._call(asked, raw, target)
        async with self._large:
            return await asyncio.to_thread(self._call, asked, raw, target)

    def _call(self, asked: Asked, raw: bytes, target: Target | None = None) -> ClientCall:
        wire, path, query = asked.wire, asked.path, asked.query
        read = wire.read(_decoded(raw), path=f"{path}?{query}" if query else path)
        if not read.messages and "previous_response_id" not in read.hints:
            raise BadRequest("is empty; send at least one message", "messages")
        return ClientCall(
            wire=wire,
            request=read,
            path=path,
            query=query,
            headers=asked.headers,
            target=target or self._target(asked, read.model),
            named=client_id(asked.headers, read.hints, asked.session),
            choice=_choice(asked.request, read, recalls_project=self._settings.recall_projects),
            raw=raw,
            check=view_of(self._fov, asked.request.state.principal).agents.check_directing,
        )

    async def _compact(self, asked: Asked) -> Response:
        """Return the compacted conversation, as items that a client sends instead of its history."""
        call = await self._read(asked, await self._raw(asked), Target(""))
        compacted = {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": await self._gateway(asked.request).compact(call),
        }
        return Response(msgspec.json.encode(compacted), media_type="application/json")

    async def _stored_response(self, asked: Asked) -> Response:
        request = asked.request
        response_id = request.path_params["id"]
        stored = self._gateway(request).responses
        if request.method == "DELETE":
            if await stored.delete_response(response_id):
                return JSONResponse({"id": response_id, "object": "response", "deleted": True})
        elif (found := await stored.get_response(response_id)) is not None:
            return Response(msgspec.json.encode(found.data), media_type="application/json")
        raise ProblemError(404, f"no response {response_id[:100]!r} is stored")

    async def _count_tokens(self, asked: Asked) -> Response:
        """Return the provider's token count of the client's body, or our own if it has no such endpoint."""
        raw = await self._raw(asked)
        read = asked.wire.read(_decoded(raw), path=asked.path)
        target = self._choose(asked, read.model)
        if target is not None:
            target, raw = self._kept_apart(asked, target, raw)
            headers = {"content-type": "application/json"}
            with suppress(httpx2.HTTPError, BadUpstream):
                counted = await self._send(asked, target, raw, headers)
                body = await read_answer(counted, MAX_COUNT_BYTES)
                if counted.status_code == httpx2.codes.OK:
                    return Response(body, media_type="application/json", headers=answer_headers(counted.headers))
        text = msgspec.json.encode({key: read.body.get(key) for key in ("system", "messages", "tools")}).decode()
        tokens = await asyncio.to_thread(counter_for(read.model or None).count, text)
        return JSONResponse({"input_tokens": tokens})

    async def _forward(self, asked: Asked) -> Response:
        """Pass a request and its answer on unchanged; nothing is recorded."""
        raw = await self._raw(asked)
        models = await named_models(asked.row, asked.request, raw)
        target = self._target(asked, models[0] if models else "")
        target, raw = self._kept_apart(asked, target, raw)
        try:
            answer = await self._send(asked, target, raw)
        except httpx2.HTTPError as error:
            raise BadUpstream(f"the upstream can't be reached: {error}") from error
        return GatewayReply(
            answer.status_code,
            answer_headers(answer.headers),
            stream=content_of(answer),
            close=answer.aclose,
            media_type=answer.headers.get("content-type", "application/octet-stream"),
        ).response()

    async def _send(
        self, asked: Asked, target: Target, raw: bytes, added: Mapping[str, str] = MappingProxyType({})
    ) -> httpx2.Response:
        """Send a request to a provider; return its answer, whose body is not read."""
        sent = self._http().build_request(
            asked.request.method,
            target.url(asked.path, asked.query),
            headers={**target.headers(asked.headers, asked.wire.format), **added},
            content=raw,
        )
        return await self._http().send(sent, stream=True)

    def _kept_apart(self, asked: Asked, target: Target, raw: bytes) -> tuple[Target, bytes]:
        """Return the target with the key that a request may use, and the body as it was checked."""
        if target.key is None:
            return target, raw
        row, shared = asked.row, self._settings.shared_routes
        if row.name not in (*HARMLESS, *shared):
            return target.of_client(asked.headers, asked.query, NOT_SHARED.format(name=row.name)), raw
        if not raw or row.model not in ("body", "path") or is_form(row, asked.request):
            return target, raw
        body = _decoded(raw)
        inner = body.get("generateContentRequest") if isinstance(body, dict) else None  # Gemini's
        for part in (body, inner):
            if isinstance(part, dict) and (problem := unshared_state(part, shared)):
                return target.of_client(asked.headers, asked.query, problem), raw
        return target, msgspec.json.encode(body)  # of a field that occurs twice, send the one that was checked

    async def _raw(self, asked: Asked) -> bytes:
        """Read the body, and check its models if the key has a list of them."""
        raw = await read_body(asked.request, max_mb=self._settings.max_body_mb)
        principal: Principal = asked.request.state.principal
        if not principal.models or asked.row.model == "none":
            return raw
        if asked.row.model == "inside":
            raise ProblemError(403, f"this key is limited to models, which can't be checked in {asked.row.name}")
        if asked.row.model == "body" and not is_form(asked.row, asked.request):
            raw = msgspec.json.encode(_decoded(raw))  # of a key that occurs twice, send the one that is checked
        models = await named_models(asked.row, asked.request, raw)
        asked.request.state.model = "" if not models or is_issued(models[0]) else models[0]  # for the log
        check_models(principal, models)
        return raw

    def _choose(self, asked: Asked, model: str) -> Target | None:
        """Return the provider of a request, noted for the log with the model."""
        state = asked.request.state
        if is_issued(model):  # it would be in the log, in metrics, and at the provider
            raise ProblemError(400, "the name of the model looks like a key; send keys in headers")
        state.model = model
        target = choose(self._settings, model, asked.wire.format)
        if target is not None:
            state.upstream = urlsplit(target.base).netloc.rpartition("@")[2]
        return target

    def _target(self, asked: Asked, model: str) -> Target:
        target = self._choose(asked, model)
        if target is None:
            if self._settings.upstreams:
                takers = "; ".join(accepted(self._settings))
                raise ProblemError(404, f"no upstream takes the model {model[:100]!r} in this format; {takers}")
            raise ProblemError(503, NO_UPSTREAM)
        return target

    def _gateway(self, request: Request) -> Gateway:
        tenant: str = request.state.principal.tenant
        if tenant not in self._gateways:
            view = self._fov.tenant(tenant) if tenant else self._fov
            self._gateways[tenant] = Gateway(
                Recorder(view, self._fov.clients, tenant),
                self._http(),
                window_of=self._fov.window_tokens,
                publish=view.publish,
                shared_routes=self._settings.shared_routes,
                account=self._account,
                large=self._large,
            )
        return self._gateways[tenant]

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = upstream_client()
        return self._client


def _cause(error: BadUpstream) -> str:
    """Return for the log why a provider gave no answer; what it answered stays out."""
    cause = error.__cause__
    if not isinstance(cause, httpx2.HTTPError):
        return "its answer can't be read"
    return f"{type(cause).__name__}: {cause}"[:MAX_CAUSE_CHARS]


def _check_countable(principal: Principal, route: str) -> None:
    """Raise `ProblemError` 403 if a key with a budget asks for what is paid but not accounted."""
    if principal.budget.usd is not None and route not in HARMLESS:
        allowed = ", ".join(sorted(HARMLESS))
        raise ProblemError(403, f"a key with a budget can't use {route}, whose cost is not known; it has: {allowed}")


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _decoded(raw: bytes) -> object:
    check_values(raw)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        if (repaired := decode_with_lone_surrogates(raw)) is not None:
            return repaired
        raise ProblemError(400, f"the body is not JSON: {error}") from error


def _format_of(headers: Mapping[str, str]) -> str:
    if "x-goog-api-key" in headers:
        return "gemini"
    return "anthropic" if "anthropic-version" in headers else "openai"


def _choice(request: Request, asked: ClientRequest, *, recalls_project: bool) -> SessionChoice:
    budget = request.headers.get("x-foveate-budget")
    if budget is not None and not re.fullmatch("0*[1-9][0-9]{0,8}", budget):
        raise ProblemError(400, f"X-Foveate-Budget takes a number of tokens, e.g. 32000; got {budget[:40]!r}")
    agent = request.headers.get("user-agent", "").split("/")[0].strip()[:40]
    return SessionChoice(
        strategy=request.headers.get("x-foveate-strategy"),
        budget_tokens=int(budget) if budget else None,
        model=asked.model,
        platform=agent or None,
        folder=folder_of(asked.system, asked.messages) if recalls_project else "",
    )


def client_id(headers: Mapping[str, str], hints: Mapping[str, str], path_session: str | None) -> ClientId | None:
    """Return the session that a request names, from the source with the highest priority; None without any."""
    headers = readable(headers)
    if ours := _clean(path_session or headers.get("x-foveate-session")):
        return ClientId(ours, "path" if path_session else "x-foveate-session", is_ours=True)
    if claude := _clean(headers.get(CLAUDE_CODE_ID)):
        return _with_agent("claude-code", claude, headers.get("x-claude-code-agent-id"), CLAUDE_CODE_ID)
    agent = headers.get("user-agent", "").lower()
    if "codex" in agent or "x-codex-turn-metadata" in headers:
        session, thread = _clean(headers.get("session-id")), _clean(headers.get("thread-id"))
        if session:
            codex = _with_agent("codex", session, thread if thread != session else None, "session-id")
            return replace(codex, is_summary=is_compaction(headers))
    for header in ("x-session-id", "x-session-affinity", "session_id"):
        if named := _clean(headers.get(header)):
            parent = _clean(headers.get("x-parent-session-id"))
            return ClientId(named, header, parent=parent)
    for hint in ("conversation", "session_id", "prompt_cache_key"):
        if named := _clean(hints.get(hint)):
            return ClientId(named, hint, is_ours=hint == "conversation")  # its client sends only what is new
    return None


def _with_agent(client: str, session: str, agent: str | None, source: str) -> ClientId:
    name = f"{client}-{session}"
    if agent := _clean(agent):
        return ClientId(f"{name}{BRANCH}{agent}", source, parent=name)
    return ClientId(name, source)


def _clean(value: str | None) -> str | None:
    """Return the id if it is valid, otherwise None; a key is none."""
    if not value or not value.strip() or len(value) > MAX_ID_CHARS or not value.isprintable() or is_issued(value):
        return None
    return value.strip()
