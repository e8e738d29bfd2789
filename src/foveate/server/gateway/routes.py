"""The gateway's endpoints, each also under `/s/{session}` for clients that can only set a URL."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import httpx2
import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from foveate.additions import is_compaction
from foveate.client import Foveate
from foveate.errors import BadRequest, FoveateError
from foveate.intake.project import folder_of
from foveate.intake.recorder import Recorder, SessionChoice
from foveate.intake.sessions import BRANCH, CLAUDE_CODE_ID, ClientId
from foveate.server.bodies import decode_with_lone_surrogates, read_body
from foveate.server.gateway.exchange import ClientCall, Gateway
from foveate.server.gateway.reply import error_reply
from foveate.server.gateway.transport import upstream_client
from foveate.server.gateway.upstream import Target, answer_headers, choose
from foveate.server.gateway.wires import WIRES, ClientRequest, Wire
from foveate.server.problems import ProblemError
from foveate.server.settings import ServerSettings
from foveate.tokens import counter_for

NO_UPSTREAM: Final = (
    "no upstream is configured; start the gateway with --upstream URL, or set server.upstream in the configuration"
)
_PATHS: Final = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
}
MAX_ID_CHARS: Final = 200


class GatewayEndpoints:
    """The endpoints of one server."""

    def __init__(self, fov: Foveate, settings: ServerSettings) -> None:
        self._fov = fov
        self._settings = settings
        self._gateways: dict[str, Gateway] = {}
        self._client: httpx2.AsyncClient | None = None

    def routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = [Route("/", self._alive, methods=["HEAD"])]
        for before in ("", "/s/{session}"):
            for format_name, path in _PATHS.items():
                found.append(Route(f"{before}{path}", self._answering(WIRES[format_name]), methods=["POST"]))
            found += [
                Route(f"{before}/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
                Route(f"{before}/v1/models", self._forward, methods=["GET"]),
                Route(f"{before}/v1/models/{{model:path}}", self._forward, methods=["GET"]),
            ]
            for version in ("v1beta", "v1"):  # google-genai 3 uses v1
                path = f"{before}/{version}/models/{{model:path}}"
                found.append(Route(path, self._answering(WIRES["gemini"]), methods=["POST"]))
            found += [
                Route(f"{before}/v1beta/models", self._forward, methods=["GET"]),
                Route(f"{before}/v1/responses/compact", self._compact, methods=["POST"]),
                Route(f"{before}/v1/responses/{{id}}", self._stored_response, methods=["GET", "DELETE"]),
            ]
        return found

    def use(self, client: httpx2.AsyncClient) -> None:
        """Send requests upstream with this client."""
        self._client = client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _alive(self, _request: Request) -> Response:
        return Response(status_code=200)

    def _answering(self, wire: Wire) -> Any:
        async def endpoint(request: Request) -> Response:
            try:
                return await self._answer(wire, request)
            except ProblemError as error:
                body = wire.error(error.status, str(error))
                return JSONResponse(body, error.status, headers=dict(error.headers or {}))
            except FoveateError as error:
                return error_reply(wire, error).response()

        return endpoint

    async def _answer(self, wire: Wire, request: Request) -> Response:
        call = self._call(wire, request, await self._raw(request))
        is_stored = not self._settings.bypass and request.headers.get("x-foveate-store", "").strip().lower() != "off"
        reply = await self._gateway(request).handle(call, store=is_stored)
        return reply.response()

    def _call(self, wire: Wire, request: Request, raw: bytes, target: Target | None = None) -> ClientCall:
        path = _own_path(request)
        asked = wire.read(_decoded(raw), path=f"{path}?{request.url.query}" if request.url.query else path)
        if not asked.messages and "previous_response_id" not in asked.hints:
            raise BadRequest("is empty; send at least one message", "messages")
        return ClientCall(
            wire=wire,
            request=asked,
            path=path,
            query=request.url.query,
            headers=dict(request.headers),
            target=target or self._target(asked.model, wire.format),
            named=client_id(request.headers, asked.hints, request.path_params.get("session")),
            choice=_choice(request, asked, recalls_project=self._settings.recall_projects),
            raw=raw,
        )

    async def _compact(self, request: Request) -> Response:
        """Return the compacted conversation, as items that a client sends instead of its history."""
        wire = WIRES["openai-responses"]
        try:
            call = self._call(wire, request, await self._raw(request), Target(""))
            items = await self._gateway(request).compact(call)
        except BadRequest as error:
            return JSONResponse(wire.error(400, str(error), param=error.param), 400)
        except FoveateError as error:
            return JSONResponse(wire.error(503, str(error)), 503)
        compacted = {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": items,
        }
        return Response(msgspec.json.encode(compacted), media_type="application/json")

    async def _stored_response(self, request: Request) -> Response:
        wire = WIRES["openai-responses"]
        response_id = request.path_params["id"]
        stored = self._gateway(request).responses
        if request.method == "DELETE":
            if await stored.delete_response(response_id):
                return JSONResponse({"id": response_id, "object": "response", "deleted": True})
        elif (found := await stored.get_response(response_id)) is not None:
            return Response(msgspec.json.encode(found.data), media_type="application/json")
        return JSONResponse(wire.error(404, f"no response {response_id[:100]!r} is stored"), 404)

    async def _count_tokens(self, request: Request) -> Response:
        """Return the provider's token count of the client's body, or our own if it has no such endpoint."""
        wire = WIRES["anthropic"]
        raw = await self._raw(request)
        try:
            asked = wire.read(_decoded(raw), path=_own_path(request))
        except BadRequest as error:
            return JSONResponse(wire.error(400, str(error), param=error.param), 400)
        target = choose(self._settings, asked.model, wire.format)
        if target is not None:
            headers = {**target.headers(dict(request.headers), wire.format), "content-type": "application/json"}
            url = target.url(_own_path(request), request.url.query)
            try:
                counted = await self._http().post(url, headers=headers, content=raw)
            except httpx2.HTTPError:
                counted = None
            if counted is not None and counted.status_code == httpx2.codes.OK:
                return Response(counted.content, media_type="application/json", headers=answer_headers(counted.headers))
        text = msgspec.json.encode({key: asked.body.get(key) for key in ("system", "messages", "tools")}).decode()
        tokens = await asyncio.to_thread(counter_for(asked.model or None).count, text)
        return JSONResponse({"input_tokens": tokens})

    async def _forward(self, request: Request) -> Response:
        """Forward a request without a conversation unchanged."""
        format_name = "gemini" if "/v1beta/" in request.url.path else _format_of(request.headers)
        wire = WIRES[format_name]
        target = choose(self._settings, "", format_name)
        if target is None:
            return JSONResponse(wire.error(503, NO_UPSTREAM), 503)
        url = target.url(_own_path(request), request.url.query)
        try:
            found = await self._http().get(url, headers=target.headers(dict(request.headers), format_name))
        except httpx2.HTTPError as error:
            return JSONResponse(wire.error(502, f"the upstream can't be reached: {error}"), 502)
        return Response(found.content, found.status_code, headers=answer_headers(found.headers))

    async def _raw(self, request: Request) -> bytes:
        return await read_body(request, max_mb=self._settings.max_body_mb)

    def _target(self, model: str, format_name: str) -> Target:
        target = choose(self._settings, model, format_name)
        if target is None:
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
            )
        return self._gateways[tenant]

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = upstream_client()
        return self._client


def _decoded(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        if (repaired := decode_with_lone_surrogates(raw)) is not None:
            return repaired
        raise ProblemError(400, f"the body is not JSON: {error}") from error


def _own_path(request: Request) -> str:
    """Return the path without its session prefix."""
    session = request.path_params.get("session")
    path = request.url.path
    return path if session is None else path[path.index("/v1", 2) :]


def _format_of(headers: Mapping[str, str]) -> str:
    return "anthropic" if "anthropic-version" in headers else "openai"


def _choice(request: Request, asked: ClientRequest, *, recalls_project: bool) -> SessionChoice:
    budget = request.headers.get("x-foveate-budget")
    if budget is not None and not (budget.isascii() and budget.isdecimal() and 0 < int(budget) < 10**9):
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
    for hint in ("session_id", "prompt_cache_key"):
        if named := _clean(hints.get(hint)):
            return ClientId(named, hint)
    return None


def _with_agent(client: str, session: str, agent: str | None, source: str) -> ClientId:
    name = f"{client}-{session}"
    if agent := _clean(agent):
        return ClientId(f"{name}{BRANCH}{agent}", source, parent=name)
    return ClientId(name, source)


def _clean(value: str | None) -> str | None:
    """Return the id if it is valid, otherwise None."""
    if not value or not value.strip() or len(value) > MAX_ID_CHARS or not value.isprintable():
        return None
    return value.strip()
