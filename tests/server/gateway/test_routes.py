"""Which requests of the gateway reach a provider, and with whose key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.server.gateway.routes import MAX_COUNT_BYTES
from foveate.server.gateway.table import TABLE, GatewayPath, read_path
from foveate.server.request_log import LineFormatter
from support.servers import ServerClient, bearer, call, client_of

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
EMBEDDING = {"model": "text-embedding-3-small", "input": "tides"}
OWN = {"Authorization": "Bearer sk-client"}


class Provider:
    """A provider that answers every path with what it was sent."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.queries: list[str] = []

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        path = request.scope["raw_path"].decode()
        self.queries.append(request.url.query)
        self.seen.append((request.method, path, dict(request.headers), body))
        return Response(b"\x00provider\xff", 202, {"x-request-id": "r-1"}, "audio/mpeg")

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=list(METHODS))])

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _, _ in self.seen]


@contextmanager
def gateway(path: Path, *, has_key: bool = True, **server: Any) -> Iterator[tuple[ServerClient, Provider]]:
    """A server whose provider is a `Provider`, with a key of the server's own for it."""
    provider = Provider()
    upstream = {"url": "http://provider/v1"} | ({"key_variable": "PROVIDER_KEY"} if has_key else {})
    with client_of(path / "a.db", upstreams={"all": upstream}, **server) as client:
        client.server.state.gateway.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(provider.app)))
        yield client, provider


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "sk-server")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/%2e%2e/files",
        "/v1/models/..%2Ffiles/file-1/content",
        "/v1/models/x/..%2f..%2f..%2Fadmin",
        "/v1/models/%252e%252e%252ffiles",
        "/v1/models/..%5Cfiles",
        "/v1/models/%00",
        "/v1/models/%ff",
        "/v1/%4Dodels",
        "/v1/MODELS",
        "/v1/organization/admin_api_keys",
        "/v1/fine_tuning/jobs",
        "/v1beta/tunedModels",
        "/s/%00/v1/models",
        "/s/a%0Ab/v1/models",
        "/v1//organization/",
    ],
)
def test_a_key_of_the_gateway_reaches_no_other_path(tmp_path: Path, path: str) -> None:
    with gateway(tmp_path) as (client, provider):
        key = call(client, client.fov.keys.create, rights=["gateway"]).secret
        answer = client.get(path, headers=bearer(key))
        other = client.post(path, headers=bearer(key), json=EMBEDDING)
    assert (answer.status_code, other.status_code, provider.paths) == (404, 404, [])
    assert "there is nothing at" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/messages", "overloaded_error"), ("/v1/chat/completions", "server_error"), ("/v1/models", None)],
)
def test_a_key_missing_in_the_environment_is_the_servers_fault_not_the_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    monkeypatch.delenv("PROVIDER_KEY")
    with gateway(tmp_path) as (client, provider):
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        answer = client.post(path, json=body) if kind else client.get(path)
        ready = client.get("/readyz")
    assert (answer.status_code, answer.headers["x-should-retry"], provider.paths) == (503, "false", [])
    error = answer.json()["error"]
    assert "PROVIDER_KEY is not set" in error["message"]
    assert kind is None or error["type"] == kind
    assert (ready.status_code, ready.json()["checks"]["upstreams"]["state"]) == (200, "warn")
    assert "PROVIDER_KEY" in ready.json()["checks"]["upstreams"]["detail"]


def test_a_known_path_with_another_method_is_refused(tmp_path: Path) -> None:
    with gateway(tmp_path) as (client, provider):
        answer = client.delete("/v1/models/gpt-5", headers=OWN)
    assert (answer.status_code, provider.paths) == (405, [])
    assert "DELETE" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("/v1/models", "/v1/models"),
        ("/v1//models/", "/v1/models"),
        ("/v1/models/gpt-5?a=%2F", "/v1/models/gpt-5"),
        ("/v1/models/meta%2Fllama", "/v1/models/meta%2Fllama"),
        ("/v1/models/meta/llama", "/v1/models/meta%2Fllama"),
        ("/v1beta/models/x/operations/y", "/v1beta/models/x%2Foperations%2Fy"),
        ("/v1/models/a%3Fkey=b%23c", "/v1/models/a%3Fkey%3Db%23c"),
        ("/s/v1abc/v1/models", "/v1/models"),
        ("/s/v1/v1beta/models", "/v1beta/models"),
        ("/s/a%2Fv1%2Fb/v1/models", "/v1/models"),
    ],
)
def test_the_provider_gets_the_path_that_was_checked(tmp_path: Path, asked: str, sent: str) -> None:
    with gateway(tmp_path) as (client, provider):
        assert client.get(asked).status_code == 202
    assert provider.paths == [sent]


@pytest.mark.parametrize(
    ("raw", "path", "session"),
    [
        ("/s/v1abc/v1/messages", "/v1/messages", "v1abc"),
        ("/s/a%2Fb/v1//messages/", "/v1/messages", "a/b"),
        ("/v1/models/a/b", "/v1/models/a/b", None),
        ("/S/a/v1/models", "/S/a/v1/models", None),
    ],
)
def test_a_path_is_normalised(raw: str, path: str, session: str | None) -> None:
    assert read_path(raw) == GatewayPath(path, session)


@pytest.mark.parametrize("raw", ["/v1/../x", "/v1/./x", "/v1/x\\y", "/v1/%2e%2E/x", "/v1/%25x", "/v1/%7f", "/s/%00/v1"])
def test_a_path_that_is_not_plain_is_no_path(raw: str) -> None:
    assert read_path(raw) is None


def _requests() -> list[tuple[str, str, str]]:
    """Every forwarded route of the table as name, method and path."""
    return [
        (row.name, method, row.upstream_path({"id": "id-1", "model": "gpt-5"}))
        for row in TABLE
        for method in row.methods
        if row.handling == "forward"
    ]


def _send(client: ServerClient, method: str, path: str, headers: dict[str, str]) -> httpx2.Response:
    body: dict[str, Any] = {} if method == "GET" else {"json": EMBEDDING}
    return client.request(method, path, headers=headers, **body)


def test_routes_beside_conversations_are_passed_on_with_the_clients_key(tmp_path: Path) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        key = call(client, client.fov.keys.create, rights=["gateway"]).secret
        for _name, method, path in _requests():
            answer = _send(client, method, f"{path}?a=b", {**OWN, "X-Foveate-Key": key})
            assert (answer.status_code, answer.content) == (202, b"\x00provider\xff"), path
            assert (answer.headers["content-type"], answer.headers["x-request-id"]) == ("audio/mpeg", "r-1")
            seen_method, seen_path, headers, body = provider.seen[-1]
            assert (seen_method, seen_path, headers["authorization"]) == (method, path, "Bearer sk-client")
            assert body == b"" if method == "GET" else json.loads(body) == EMBEDDING
            assert not any("fov_" in value for value in headers.values())
        assert call(client, client.fov.sessions) == []


def test_a_key_of_the_servers_is_sent_on_harmless_routes_only(tmp_path: Path) -> None:
    with gateway(tmp_path) as (client, provider):
        key = bearer(call(client, client.fov.keys.create, rights=["gateway"]).secret)
        for name, method, path in _requests():
            answer = _send(client, method, path, key)
            if name in ("models", "count_tokens"):
                assert answer.status_code == 202, path
            else:
                assert answer.status_code == 403, path
                assert "server.shared_routes" in json.dumps(answer.json()["error"])
                assert answer.headers["x-should-retry"] == "false"
        assert {request_path.split("/")[2] for request_path in provider.paths} <= {"models", "responses"}


def test_a_client_with_a_provider_key_of_its_own_never_uses_the_servers(tmp_path: Path) -> None:
    with gateway(tmp_path) as (client, provider):
        key = call(client, client.fov.keys.create, rights=["gateway"]).secret
        client.post("/v1/embeddings", headers={**OWN, "X-Foveate-Key": key}, json=EMBEDDING)
        client.post("/v1beta/models/e:embedContent?key=AIza-own", headers=bearer(key), json=EMBEDDING)
    assert provider.seen[0][2]["authorization"] == "Bearer sk-client"
    assert not {"authorization", "x-goog-api-key"} & set(provider.seen[1][2])


@pytest.mark.parametrize(
    ("has_key", "given", "sent"),
    [
        (False, "key=AIza", "key=AIza&a=1"),
        (False, "key=fov_a", "a=1"),
        (False, "k%65y=fov_a", "a=1"),
        (False, "key=f%6Fv_a", "a=1"),
        (False, "%24httpMethod=DELETE", "a=1"),
        (True, "key=AIza", "a=1"),
        (True, "k%65y=AIza", "a=1"),
        (True, "Key=AIza", "a=1"),
        (True, "b=1;key=AIza", "a=1"),
        (True, "access_token=AIza", "a=1"),
        (True, "$userProject=other", "a=1"),
    ],
)
def test_a_key_in_the_query_goes_up_only_if_it_is_the_clients_and_used(
    tmp_path: Path, has_key: bool, given: str, sent: str
) -> None:
    with gateway(tmp_path, has_key=has_key) as (client, provider):
        client.get(f"/v1beta/models?{given}&a=1")
    assert provider.queries == [sent]


@pytest.mark.parametrize("host", ["localhost:1#", "localhost:1?key=AIza&b=", "localhost:1/v1/files?"])
def test_the_query_is_not_read_from_the_host(tmp_path: Path, host: str) -> None:
    with gateway(tmp_path) as (client, provider):
        client.get("/v1/models?a=1", headers={"Host": host})
    assert (provider.paths, provider.queries) == (["/v1/models"], ["a=1"])


def test_the_operator_shares_the_servers_key_by_route(tmp_path: Path) -> None:
    with gateway(tmp_path, shared_routes=["embeddings"]) as (client, provider):
        key = bearer(call(client, client.fov.keys.create, rights=["gateway"]).secret)
        assert client.post("/v1/embeddings", headers=key, json=EMBEDDING).status_code == 202
        assert client.get("/v1/files", headers=key).status_code == 403
    assert provider.seen[0][2]["authorization"] == "Bearer sk-server"


STORED: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("/v1/responses", {"input": "and?", "previous_response_id": "resp_a"}, {}, "responses"),
    ("/v1/responses", {"input": "and?", "conversation": {"id": "conv_a"}}, {"X-Foveate-Store": "off"}, "responses"),
    ("/v1/responses/input_tokens", {"input": "and?", "previous_response_id": "resp_a"}, {}, "responses"),
    (
        "/v1beta/models/gemini-3-pro:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "and?"}]}], "cachedContent": "cachedContents/a"},
        {},
        "caches",
    ),
]


def _asking(path: str, field: str, *parts: dict[str, Any], **body: Any) -> tuple[str, dict[str, Any]]:
    inside = "parts" if field == "contents" else "content"
    return path, {field: [{"role": "user", inside: list(parts)}], **body}


RESPONSES, CHAT, MESSAGES, GEMINI = (
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1beta/models/gemini-3-pro:generateContent",
)
FILE_URI = "https://generativelanguage.googleapis.com/v1beta/files/a"
DOCUMENT = {"type": "document", "source": {"type": "file", "file_id": "file_a"}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [DOCUMENT]}
NAMED: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "item": ((RESPONSES, {"input": [{"type": "item_reference", "id": "msg_a"}]}), "responses"),
    "item without type": (("/v1/responses/input_tokens", {"input": [{"id": "msg_a"}]}), "responses"),
    "other spelling": ((RESPONSES, {"input": "a", "previousResponseId": "resp_a"}), "responses"),
    "file": (_asking(RESPONSES, "input", {"type": "input_file", "file_id": "file-a"}), "files"),
    "image": (_asking(RESPONSES, "input", {"type": "input_image", "file_id": "file-a"}), "files"),
    "result": (
        (
            RESPONSES,
            {
                "input": [
                    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "a"}]}
                ]
            },
        ),
        "files",
    ),
    "vectors": ((RESPONSES, {"input": "a", "tools": [{"type": "file_search", "vector_store_ids": ["vs"]}]}), "files"),
    "container": ((RESPONSES, {"input": "a", "tools": [{"type": "code_interpreter", "container": "cntr"}]}), "files"),
    "files of a container": (
        (RESPONSES, {"input": "a", "tools": [{"type": "code_interpreter", "container": {"file_ids": ["file-a"]}}]}),
        "files",
    ),
    "container of a shell": (
        (
            RESPONSES,
            {
                "input": "a",
                "tools": [{"type": "shell", "environment": {"type": "container_reference", "container_id": "cntr"}}],
            },
        ),
        "files",
    ),
    "prompt": ((RESPONSES, {"input": "a", "prompt": {"id": "pmpt_a", "version": "1"}}), "responses"),
    "chat": (_asking(CHAT, "messages", {"type": "file", "file": {"file_id": "file-a"}}), "files"),
    "document": (_asking(MESSAGES, "messages", DOCUMENT), "files"),
    "result of a tool": (_asking(MESSAGES, "messages", TOOL_RESULT), "files"),
    "messages' container": (_asking(MESSAGES, "messages", {"type": "text", "text": "a"}, container="c"), "files"),
    "container with skills": (
        _asking(MESSAGES, "messages", {"type": "text", "text": "a"}, container={"id": "c", "skills": []}),
        "files",
    ),
    "skill": (
        _asking(
            MESSAGES,
            "messages",
            {"type": "text", "text": "a"},
            container={"skills": [{"type": "custom", "skill_id": "skill_a"}]},
        ),
        "files",
    ),
    "count": (_asking(f"{MESSAGES}/count_tokens", "messages", DOCUMENT), "files"),
    "gemini": (_asking(GEMINI, "contents", {"fileData": {"fileUri": FILE_URI}}), "files"),
    "gemini, other spelling": (_asking(GEMINI, "contents", {"file_data": {"file_uri": "files/a"}}), "files"),
    "gemini, storage": (_asking(GEMINI, "contents", {"fileData": {"fileUri": "gs://bucket/a"}}), "files"),
    "gemini's count": (
        _asking(GEMINI.replace("generateContent", "countTokens"), "contents", {"fileData": {"fileUri": FILE_URI}}),
        "files",
    ),
}


@pytest.mark.parametrize("store", ["", "off"])
@pytest.mark.parametrize(("request_", "route"), NAMED.values(), ids=NAMED)
def test_ids_in_a_request_are_not_looked_up_with_a_key_of_the_servers(
    tmp_path: Path, request_: tuple[str, dict[str, Any]], route: str, store: str
) -> None:
    path, body = request_
    with gateway(tmp_path) as (client, provider):
        key = call(client, client.fov.keys.create, tenant="b", rights=["gateway"]).secret
        headers = {"X-Foveate-Store": store}
        answer = client.post(path, headers={**headers, **bearer(key)}, json={"model": "gpt-5", **body})
        assert (answer.status_code, provider.paths) == (403, [])
        assert f"add '{route}' to server.shared_routes" in answer.json()["error"]["message"]
        assert call(client, client.fov.sessions) == []  # nothing of it is recorded
        client.post(path, headers={**headers, **OWN, "X-Foveate-Key": key}, json={"model": "gpt-5", **body})
    assert provider.seen[0][2]["authorization"] == "Bearer sk-client"
    assert "sk-server" not in provider.seen[0][2].values()


HARMLESS_IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "arguments": _asking(
        MESSAGES,
        "messages",
        {"type": "tool_use", "id": "t", "name": "open", "input": {"file_id": "a", "container": "b"}},
    ),
    "schema": _asking(
        MESSAGES,
        "messages",
        {"type": "text", "text": "a"},
        tools=[{"name": "open", "input_schema": {"type": "object", "properties": {"file_id": {"type": "string"}}}}],
    ),
    "citation": (
        RESPONSES,
        {
            "input": [
                {"role": "user", "content": "a"},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "b", "annotations": [{"type": "file_citation", "file_id": "a"}]}
                    ],
                },
                {"role": "user", "content": "c"},
            ]
        },
    ),
    "new container": (
        RESPONSES,
        {"input": "a", "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
    ),
    "skill of the provider": _asking(
        MESSAGES,
        "messages",
        {"type": "text", "text": "a"},
        container={"skills": [{"type": "anthropic", "skill_id": "pptx"}]},
    ),
    "call of an earlier answer": (
        RESPONSES,
        {
            "input": [
                {"role": "user", "content": "a"},
                {
                    "type": "code_interpreter_call",
                    "id": "ci",
                    "container_id": "cntr",
                    "code": "1",
                    "status": "completed",
                },
                {"role": "user", "content": "b"},
            ]
        },
    ),
    "video": _asking(GEMINI, "contents", {"fileData": {"fileUri": "https://www.youtube.com/watch?v=a"}}),
}


@pytest.mark.parametrize("request_", HARMLESS_IDS.values(), ids=HARMLESS_IDS)
def test_ids_that_no_provider_looks_up_are_sent(tmp_path: Path, request_: tuple[str, dict[str, Any]]) -> None:
    path, body = request_
    with gateway(tmp_path) as (client, provider):
        key = bearer(call(client, client.fov.keys.create, rights=["gateway"]).secret)
        client.post(path, headers=key, json={"model": "gpt-5", **body})
    assert len(provider.seen) == 1


@pytest.mark.parametrize("path", [RESPONSES, "/v1/responses/input_tokens"])
def test_of_an_id_that_occurs_twice_the_checked_one_is_sent(tmp_path: Path, path: str) -> None:
    twice = b'{"model": "gpt-5", "input": "a", "previous_response_id": "resp_a", "previous_response_id": null}'
    with gateway(tmp_path) as (client, provider):
        key = bearer(call(client, client.fov.keys.create, rights=["gateway"]).secret)
        client.post(path, headers={**key, "X-Foveate-Store": "off"}, content=twice)
    assert b"resp_a" not in provider.seen[0][3]


def test_headers_that_make_another_request_or_choose_another_account_are_not_sent(tmp_path: Path) -> None:
    names = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL")
    sent = dict.fromkeys((*names, "OpenAI-Organization", "OpenAI-Project", "X-Goog-User-Project"), "a")
    with gateway(tmp_path) as (client, provider):
        key = call(client, client.fov.keys.create, rights=["gateway"]).secret
        client.get("/v1/models", headers={**sent, **bearer(key)})
        client.post("/v1/embeddings", headers={**sent, **OWN, "X-Foveate-Key": key}, json=EMBEDDING)
    (_, _, with_ours, _), (_, _, with_own, _) = provider.seen
    assert not {name.lower() for name in sent} & set(with_ours)
    assert {name.lower() for name in sent} & set(with_own) == {
        "openai-organization",
        "openai-project",
        "x-goog-user-project",
    }


def test_a_token_count_without_end_is_replaced_by_an_own_count(tmp_path: Path) -> None:
    async def endless(_request: Request) -> Response:
        return Response(b'{"input_tokens": 1' + b"0" * MAX_COUNT_BYTES + b"}")

    app = Starlette(routes=[Route("/{path:path}", endless, methods=["POST"])])
    with gateway(tmp_path) as (client, _):
        client.server.state.gateway.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(app)))
        body = {"model": "claude-haiku-4-5", "messages": [{"role": "user", "content": "Hello there"}]}
        counted = client.post("/v1/messages/count_tokens", json=body)
    assert 5 < counted.json()["input_tokens"] < 50


@pytest.mark.parametrize(("path", "body", "headers", "route"), STORED)
def test_what_a_provider_stores_is_not_reached_with_a_key_of_the_servers(
    tmp_path: Path, path: str, body: dict[str, Any], headers: dict[str, str], route: str
) -> None:
    with gateway(tmp_path) as (client, provider):
        key = call(client, client.fov.keys.create, tenant="b", rights=["gateway"]).secret
        sent: dict[str, Any] = {"json": {"model": "gpt-5", **body}}
        answer = client.post(path, headers={**headers, **bearer(key)}, **sent)
        assert (answer.status_code, provider.paths) == (403, [])
        assert f"add '{route}' to server.shared_routes" in answer.json()["error"]["message"]
        client.post(path, headers={**headers, **OWN, "X-Foveate-Key": key}, **sent)
    ((_, _, seen, _),) = provider.seen
    assert "sk-server" not in seen.values()
    assert "Bearer sk-client" in seen.values()


def test_the_operator_shares_what_the_provider_stores(tmp_path: Path) -> None:
    path, body, *_ = STORED[0]
    with gateway(tmp_path, shared_routes=["responses"]) as (client, provider):
        key = bearer(call(client, client.fov.keys.create, rights=["gateway"]).secret)
        client.post(path, headers=key, json={"model": "gpt-5", **body})
    assert provider.seen[0][2]["authorization"] == "Bearer sk-server"


def test_an_upload_is_passed_on_byte_by_byte(tmp_path: Path) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        sent = client.build_request(
            "POST", "/v1/audio/transcriptions", data={"model": "whisper-1"}, files={"file": ("a.wav", b"\x00\xffRIFF")}
        )
        expected = sent.read()
        assert client.send(sent).status_code == 202
    assert provider.seen[0][3] == expected
    assert provider.seen[0][2]["content-type"] == sent.headers["content-type"]


@pytest.mark.parametrize(
    ("headers", "envelope"),
    [
        ({"anthropic-version": "2023-06-01"}, lambda body: body["error"]["type"] == "permission_error"),
        ({}, lambda body: "param" in body["error"]),
        ({"x-goog-api-key": ""}, lambda body: body["error"]["status"] == "PERMISSION_DENIED"),
    ],
)
def test_shared_paths_are_refused_in_the_clients_protocol(
    tmp_path: Path, headers: dict[str, str], envelope: Callable[[Any], bool]
) -> None:
    with gateway(tmp_path) as (client, _):
        assert envelope(client.get("/v1/files", headers=headers).json())


def _form(model: str) -> dict[str, Any]:
    return {"data": {"model": model}, "files": {"file": ("a.wav", b"RIFF")}}


ALLOWED: dict[str, tuple[str, dict[str, Any]]] = {
    "body": ("/v1/embeddings", {"json": {"model": "small-1", "input": "a"}}),
    "words": (
        "/v1/responses/input_tokens",
        {
            "json": {
                "model": "small-1",
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "a", "model": "large-1"}]}],
                "metadata": {"model": "large-1"},
                "tools": [{"type": "function", "parameters": {"default": {"model": "large-1"}}}],
            }
        },
    ),
    "exact name": ("/v1/embeddings", {"json": {"model": "e5", "input": "a"}}),
    "path": ("/v1beta/models/small-1:embedContent", {"json": {}}),
    "form": ("/v1/audio/transcriptions", _form("small-1")),
    "count": ("/v1/responses/input_tokens", {"json": {"model": "small-1", "input": "a"}}),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "body": ("/v1/embeddings", {"json": {"model": "large-1", "input": "a"}}),
    "no model": ("/v1/moderations", {"json": {"input": "a"}}),
    "no text": ("/v1/embeddings", {"json": {"model": ["small-1"], "input": "a"}}),
    "repeated key": ("/v1/embeddings", {"content": b'{"model": "small-1", "model": "large-1"}'}),
    "alternatives": ("/v1/completions", {"json": {"model": "small-1", "models": ["large-1"]}}),
    "fallbacks": ("/v1/completions", {"json": {"model": "small-1", "fallbacks": [{"model": "large-1"}]}}),
    "named fallbacks": ("/v1/completions", {"json": {"model": "small-1", "fallbacks": ["large-1"]}}),
    "plugin": (
        "/v1/completions",
        {"json": {"model": "small-1", "plugins": [{"id": "panel", "analysis_models": ["large-1"]}]}},
    ),
    "parameters of a hosted tool": (
        "/v1/responses/input_tokens",
        {"json": {"model": "small-1", "tools": [{"type": "router:advisor", "parameters": {"model": "large-1"}}]}},
    ),
    "hosted tool": ("/v1/responses/input_tokens", {"json": {"model": "small-1", "tools": [{"model": "large-1"}]}}),
    "path": ("/v1beta/models/large-1:embedContent", {"json": {"model": "small-1"}}),
    "encoded path": ("/v1beta/models/small%2F..%2Flarge-1:embedContent", {"json": {}}),
    "form": ("/v1/audio/transcriptions", _form("large-1")),
    "form with two": ("/v1/audio/transcriptions", _form("small-1") | {"files": {"model": ("m", b"large-1")}}),
    "batch": ("/v1/messages/batches", {"json": {"requests": [{"params": {"model": "small-1"}}]}}),
    "chat": ("/v1/chat/completions", {"json": {"model": "large-1", "messages": [{"role": "user", "content": "a"}]}}),
    "chat as a form": (
        "/v1/chat/completions",
        {
            "content": b'{"model": "large-1", "messages": [{"role": "user", "content": "a"}]}',
            "headers": {"content-type": "multipart/form-data; boundary=x"},
        },
    ),
    "messages": ("/v1/messages", {"json": {"model": "large-1", "messages": [{"role": "user", "content": "a"}]}}),
    "token count": ("/v1/messages/count_tokens", {"json": {"model": "large-1", "messages": []}}),
    "gemini": ("/v1/models/large-1:generateContent", {"json": {"contents": [{"parts": [{"text": "a"}]}]}}),
}


def _limited(client: ServerClient, request: tuple[str, dict[str, Any]], **limits: Any) -> httpx2.Response:
    key = call(client, client.fov.keys.create, rights=["gateway"], **limits).secret
    path, given = request
    headers = {**OWN, "X-Foveate-Key": key, **given.get("headers", {})}
    return client.post(path, **{**given, "headers": headers})


@pytest.mark.parametrize("request_", ALLOWED.values(), ids=ALLOWED)
def test_a_key_with_models_uses_those(tmp_path: Path, request_: tuple[str, dict[str, Any]]) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        assert _limited(client, request_, models=["small-*", "e5"]).status_code == 202
    assert len(provider.seen) == 1


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
def test_a_key_with_models_reaches_no_other_model(tmp_path: Path, request_: tuple[str, dict[str, Any]]) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        answer = _limited(client, request_, models=["small-*", "e5"])
        assert answer.status_code in (403, 404)
        assert answer.status_code == 404 or "this key " in json.dumps(answer.json()["error"])
    assert provider.seen == []


def test_of_a_key_that_occurs_twice_the_checked_one_is_sent(tmp_path: Path) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        twice = {"content": b'{"model": "large-1", "model": "small-1", "input": "a"}'}
        assert _limited(client, ("/v1/embeddings", twice), models=["small-*"]).status_code == 202
    assert provider.seen[0][3] == b'{"model":"small-1","input":"a"}'


DEEP = "[" * 60_000


def test_deep_json_in_a_header_or_a_field_is_ignored(tmp_path: Path) -> None:
    said = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    codex = {"User-Agent": "codex/1", "Session-Id": "s", "X-Codex-Turn-Metadata": DEEP}
    with gateway(tmp_path) as (client, provider):
        client.post("/v1/chat/completions", json=said, headers=codex)
        client.post("/v1/messages", json={**said, "metadata": {"user_id": DEEP}})
    assert provider.paths == ["/v1/chat/completions", "/v1/messages"]


@pytest.mark.parametrize("budget", ["0", "-1", "1.5", "\u0663", "1" + "0" * 9, "9" * 5_000])
def test_a_budget_that_is_no_number_of_tokens_is_refused(tmp_path: Path, budget: str) -> None:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    with gateway(tmp_path) as (client, provider):
        headers = {b"x-foveate-budget": budget.encode()}
        answer = client.post("/v1/chat/completions", json=body, headers=headers)
    assert (answer.status_code, provider.seen) == (400, [])
    assert "X-Foveate-Budget takes a number of tokens" in answer.json()["error"]["message"]


def test_a_key_with_routes_uses_no_other_route(tmp_path: Path) -> None:
    with gateway(tmp_path, has_key=False) as (client, provider):
        assert _limited(client, ALLOWED["body"], routes=["chat", "embeddings"]).status_code == 202
        answer = _limited(client, ALLOWED["form"], routes=["chat", "embeddings"])
        assert (answer.status_code, len(provider.seen)) == (403, 1)
        assert "may not use the route 'audio'; it has: chat, embeddings" in answer.json()["error"]["message"]
        assert _limited(client, REFUSED["messages"], routes=["embeddings"]).status_code == 403


@pytest.mark.parametrize("secret", ["fov_" + "a1" * 20, "sk-ant-api03-" + "A" * 40, "AIza" + "b" * 35])
def test_a_key_in_place_of_a_name_goes_into_no_log_metric_or_provider(
    tmp_path: Path, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with gateway(tmp_path) as (client, provider):
        body = {"model": secret, "messages": [{"role": "user", "content": "hi"}]}
        for sent in (
            client.post("/v1/chat/completions", json=body, headers=OWN),
            client.post("/v1/chat/completions", json=body, headers={**OWN, "x-foveate-store": "off"}),
            client.post("/v1/embeddings", json={"model": secret, "input": "hi"}, headers=OWN),
            client.get(f"/v1/models/{secret}", headers=OWN),
            client.post(f"/v1beta/models/{secret}:generateContent", json={"contents": []}, headers=OWN),
        ):
            assert sent.status_code == 400, sent.text
            assert secret not in sent.text
        named = client.post(
            "/v1/chat/completions", json={**body, "model": "gpt-5"}, headers={**OWN, "x-foveate-session": secret}
        )
        assert secret not in str(named.headers)
        call(client, client.server.state.gateway.settle)
        assert secret not in client.get("/metrics").text
    logged = [
        LineFormatter(is_json=True).format(record) for record in caplog.records if record.name.startswith("foveate")
    ]
    assert logged
    assert secret not in "\n".join(logged)
    assert all(secret not in path for path in provider.paths)


def test_a_model_that_no_upstream_takes_is_not_found_and_the_patterns_are_named(tmp_path: Path) -> None:
    upstreams = {
        "anthropic": {"url": "http://a", "models": ("claude-*",), "formats": ("anthropic",)},
        "openai": {"url": "http://o", "models": ("gpt-*", "o4*")},
    }
    with client_of(tmp_path / "a.db", upstreams=upstreams) as client:
        body = {"model": "mistral-large", "messages": [{"role": "user", "content": "hi"}]}
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert message == (
        "no upstream takes the model 'mistral-large' in this format; "
        "anthropic: claude-* (anthropic only); openai: gpt-*, o4*"
    )
