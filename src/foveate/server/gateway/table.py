"""The table of the gateway's routes. A path that it does not name never reaches a provider.

A path is normalised before it is matched, and the upstream's path is written from the table's own pattern and the
quoted parameters, so the provider never reads another path than the one that was checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import quote, unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from foveate.server.bodies import decode_json
from foveate.server.problems import ProblemError
from foveate.session.keys import RouteName

Handling = Literal["converse", "compact", "stored", "count", "forward"]
"""`converse`: record and answer within the budget; `forward`: pass on unchanged and unrecorded."""
ModelPlace = Literal["body", "path", "inside", "none"]
"""Where a request names its model; `inside`: in a file or in items of the body, where it is not checked."""
HARMLESS: Final[frozenset[RouteName]] = frozenset({"chat", "models", "count_tokens"})
"""Routes that may use a provider key of the server without being enabled: they reach no data of other users."""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NAMES_MODEL: Final = re.compile(r"(?:^|_)(?:models?|fallbacks?)$", re.IGNORECASE)
_CONVERSATION: Final = (
    *("messages", "input", "contents", "system", "instructions", "prompt", "metadata"),
    *("response_format", "text", "output_config"),
)
"""Fields of a request that name no model: what is said, and the client's own data."""
_SCHEMAS: Final = ("parameters", "input_schema", "schema", "json_schema")
"""Fields with a client's schema, except in hosted tools, whose `parameters` may name a model."""


@dataclass(frozen=True)
class GatewayRoute:
    """One route: what it is called, which requests it accepts and how they are handled."""

    name: RouteName
    format: str
    """The protocol; empty if the request's headers tell (`/v1/models`, `/v1/files`)."""
    methods: tuple[str, ...]
    pattern: str
    """`{model}` may have slashes, another parameter is one segment."""
    handling: Handling = "forward"
    model: ModelPlace = "none"

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        parts = _PARAMETER.split(self.pattern)  # literal, name, literal, …
        written = [
            re.escape(part) if index % 2 == 0 else f"(?P<{part}>{'.+' if part == 'model' else '[^/]+'})"
            for index, part in enumerate(parts)
        ]
        return re.compile("".join(written))

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters of a normalised path; None if it is another route's."""
        found = self._expression.fullmatch(path)
        return None if found is None else found.groupdict()

    def upstream_path(self, parameters: dict[str, str]) -> str:
        """Return the path at the provider; every parameter is one segment."""
        return _PARAMETER.sub(lambda found: quote(parameters[found[1]], safe=""), self.pattern)


@dataclass(frozen=True, slots=True)
class GatewayPath:
    """A request's path without its session prefix."""

    path: str
    """Decoded, without empty segments."""
    session: str | None = None


def read_path(raw: str) -> GatewayPath | None:
    """Normalise an undecoded path; None if it is not plain: dot segments, control characters, backslashes, bytes that
    are not UTF-8, or encoded twice."""
    segments = [segment for segment in raw.split("/") if segment]
    session = None
    if len(segments) > 1 and segments[0] == "s":
        session = _decoded(segments[1])
        if session is None:
            return None
        segments = segments[2:]
    path = _decoded("/".join(segments))
    if path is None or "\\" in path or "%" in path:
        return None
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        return None
    return GatewayPath("/" + "/".join(parts), session)


def _decoded(text: str) -> str | None:
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return None
    return decoded if decoded.isprintable() else None


async def named_models(row: GatewayRoute, request: Request, raw: bytes) -> list[str]:
    """Return all models that a request names, the main one first; `ProblemError` 400 if its body can't be read."""
    if row.model == "path":
        return [request.path_params["model"]]
    if row.model != "body":
        return []
    if is_form(row, request):
        return await _form_models(request, raw)
    body = decode_json(raw, dict[str, Any])
    main = body.get("model")
    return [*([main] if isinstance(main, str) else []), *other_models(body)]


def other_models(body: dict[str, Any]) -> Iterator[str]:
    """Yield the models that are named beside the main one: alternatives, fallbacks, those of hosted tools and plugins.

    Routers have many such fields; all are named like `models`, `fallbacks` or `judge_model`.
    """
    waiting: list[tuple[bool, Any]] = [
        (False, {key: body[key] for key in body if key not in ("model", *_CONVERSATION)})
    ]
    while waiting:
        is_named, value = waiting.pop()
        if isinstance(value, dict):
            is_hosted = value.get("type", "function") != "function"
            for key, inner in value.items():
                if is_hosted or key not in _SCHEMAS:
                    waiting.append((is_named or _NAMES_MODEL.search(key) is not None, inner))
        elif isinstance(value, list):
            waiting += ((is_named, inner) for inner in value)
        elif is_named and isinstance(value, str):
            yield value


def is_form(row: GatewayRoute, request: Request) -> bool:
    """Report whether the body is a form with files; a conversation is read as JSON whatever its type is."""
    return row.handling == "forward" and request.headers.get("content-type", "").lower().startswith("multipart/")


async def _form_models(request: Request, raw: bytes) -> list[str]:
    async def receive() -> Message:
        return {"type": "http.request", "body": raw}

    try:
        async with Request(request.scope, receive).form() as form:
            return [value if isinstance(value, str) else "" for value in form.getlist("model")]
    except HTTPException as error:
        raise ProblemError(400, f"the form can't be read: {error.detail}") from error


def _gemini(
    name: RouteName, verb: str, handling: Handling = "forward", model: ModelPlace = "path"
) -> tuple[GatewayRoute, ...]:
    """Return the route of a method of a model in both versions; google-genai 3 uses v1."""
    return tuple(
        GatewayRoute(name, "gemini", ("POST",), f"/{version}/models/{{model}}:{verb}", handling, model)
        for version in ("v1beta", "v1")
    )


def _forwarded(
    name: RouteName, format_name: str, routes: dict[str, str], model: ModelPlace = "none"
) -> tuple[GatewayRoute, ...]:
    """Return routes that are passed on unchanged, from their patterns and methods."""
    return tuple(
        GatewayRoute(name, format_name, tuple(methods.split()), pattern, "forward", model)
        for pattern, methods in routes.items()
    )


TABLE: Final[tuple[GatewayRoute, ...]] = (
    GatewayRoute("chat", "anthropic", ("POST",), "/v1/messages", "converse", "body"),
    GatewayRoute("chat", "openai", ("POST",), "/v1/chat/completions", "converse", "body"),
    GatewayRoute("chat", "openai-responses", ("POST",), "/v1/responses", "converse", "body"),
    *_gemini("chat", "generateContent", "converse"),
    *_gemini("chat", "streamGenerateContent", "converse"),
    GatewayRoute("count_tokens", "anthropic", ("POST",), "/v1/messages/count_tokens", "count", "body"),
    *_forwarded("count_tokens", "openai-responses", {"/v1/responses/input_tokens": "POST"}, "body"),
    *_gemini("count_tokens", "countTokens"),
    GatewayRoute("chat", "openai-responses", ("POST",), "/v1/responses/compact", "compact"),
    GatewayRoute("chat", "openai-responses", ("GET", "DELETE"), "/v1/responses/{id}", "stored"),
    *_forwarded(
        "responses", "openai-responses", {"/v1/responses/{id}/input_items": "GET", "/v1/responses/{id}/cancel": "POST"}
    ),
    *_forwarded("embeddings", "openai", {"/v1/embeddings": "POST"}, "body"),
    *_gemini("embeddings", "embedContent"),
    *_gemini("embeddings", "batchEmbedContents"),
    *_forwarded("moderations", "openai", {"/v1/moderations": "POST"}, "body"),
    *_forwarded("completions", "openai", {"/v1/completions": "POST"}, "body"),
    *_forwarded(
        "images",
        "openai",
        {"/v1/images/generations": "POST", "/v1/images/edits": "POST", "/v1/images/variations": "POST"},
        "body",
    ),
    *_gemini("images", "predict"),
    *_forwarded(
        "audio",
        "openai",
        {"/v1/audio/speech": "POST", "/v1/audio/transcriptions": "POST", "/v1/audio/translations": "POST"},
        "body",
    ),
    *_forwarded(
        "files", "", {"/v1/files": "GET POST", "/v1/files/{id}": "GET DELETE", "/v1/files/{id}/content": "GET"}
    ),
    *_forwarded(
        "files",
        "openai",
        {
            "/v1/uploads": "POST",
            "/v1/uploads/{id}/parts": "POST",
            "/v1/uploads/{id}/complete": "POST",
            "/v1/uploads/{id}/cancel": "POST",
        },
    ),
    *_forwarded(
        "files",
        "gemini",
        {"/upload/v1beta/files": "POST", "/v1beta/files": "GET", "/v1beta/files/{id}": "GET DELETE"},
    ),
    *_forwarded(
        "batches",
        "openai",
        {"/v1/batches": "GET POST", "/v1/batches/{id}": "GET", "/v1/batches/{id}/cancel": "POST"},
        "inside",
    ),
    *_forwarded(
        "batches",
        "anthropic",
        {
            "/v1/messages/batches": "GET POST",
            "/v1/messages/batches/{id}": "GET DELETE",
            "/v1/messages/batches/{id}/results": "GET",
            "/v1/messages/batches/{id}/cancel": "POST",
        },
        "inside",
    ),
    *_gemini("batches", "batchGenerateContent", model="inside"),
    *_gemini("batches", "asyncBatchEmbedContent", model="inside"),
    *_forwarded(
        "batches",
        "gemini",
        {
            "/v1beta/batches": "GET",
            "/v1beta/batches/{id}:cancel": "POST",
            "/v1beta/batches/{id}": "GET DELETE",
        },
        "inside",
    ),
    *_forwarded(
        "caches",
        "gemini",
        {"/v1beta/cachedContents": "GET POST", "/v1beta/cachedContents/{id}": "GET PATCH DELETE"},
        "inside",
    ),
    *_forwarded("models", "", {"/v1/models": "GET"}),
    *_forwarded("models", "", {"/v1/models/{model}": "GET"}, "path"),
    *_forwarded("models", "gemini", {"/v1beta/models": "GET"}),
    *_forwarded("models", "gemini", {"/v1beta/models/{model}": "GET"}, "path"),
)
"""All routes; the first that matches path and method handles a request."""
