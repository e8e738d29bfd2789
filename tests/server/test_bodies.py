"""Request bodies: limits, compression without bombs, JSON."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard

from support.servers import LOCAL, ServerClient, call, client_of

PATH = "/api/v1/sessions"
BOMB_BYTES = 50_000_000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    with client_of(tmp_path_factory.mktemp("bodies") / "a.db", max_body_mb=1) as made:
        yield made


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(("encoding", "packed"), [("gzip", gzip.compress), ("zstd", zstd), ("identity", bytes)])
def test_bodies_may_be_compressed(client: ServerClient, encoding: str, packed: type[bytes]) -> None:
    body = packed(json.dumps({"id": f"packed-{encoding}"}).encode())
    assert client.post(PATH, content=body, headers={"Content-Encoding": encoding}).status_code == 201


@pytest.mark.parametrize(("encoding", "packed"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_a_bomb_is_not_expanded(client: ServerClient, encoding: str, packed: type[bytes]) -> None:
    bomb = packed(b" " * BOMB_BYTES)
    assert len(bomb) < 100_000
    for path in (PATH, "/api/v1/import"):
        answer = client.post(path, content=bomb, headers={"Content-Encoding": encoding})
        assert answer.status_code == 413
        assert "server.max_body_mb" in answer.json()["detail"]


def test_an_oversized_body_is_refused_with_and_without_its_length(client: ServerClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    assert client.post(PATH, content=b" " * 2_000_000).status_code == 413
    assert client.post(PATH, content=chunks()).status_code == 413
    assert client.post("/api/v1/import", content=chunks()).status_code == 413


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b'{"id": "\\ud800"}', {}, 400),
        (b'{"strategy_settings": ' + b'{"a": ' * 100_000, {}, 400),
        (b'{"id": 5}', {}, 422),
        (b'{"idd": "x"}', {}, 422),
        (b"[]", {}, 422),
        (b"not gzip", {"Content-Encoding": "gzip"}, 400),
        (b"not zstd", {"Content-Encoding": "zstd"}, 400),
        (gzip.compress(b'{"id":"cut"}', mtime=0)[:-6], {"Content-Encoding": "gzip"}, 400),
        (b"{}", {"Content-Encoding": "br"}, 415),
    ],
)
def test_malformed_bodies_are_problems(
    client: ServerClient, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = client.post(PATH, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


def test_nothing_of_a_refused_body_is_left(client: ServerClient) -> None:
    names = {item["id"] for item in client.get(PATH).json()["items"]}
    assert names <= {"packed-gzip", "packed-zstd", "packed-identity"}


def test_half_of_a_surrogate_pair_is_named(client: ServerClient) -> None:
    answer = client.post(PATH, content=b'{"id": "a", "title": "\\ud83d"}')
    assert answer.status_code == 400
    assert "a lone surrogate" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/messages", PATH])
def test_a_client_that_leaves_while_it_sends_its_body_is_no_failure(
    client: ServerClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    statuses: list[int] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(b"host", b"127.0.0.1")], "client": LOCAL, "server": LOCAL, "scheme": "http"}
    call(client, client.server, scope, receive, send)
    assert statuses[0] == 499
    assert caplog.records == []


def bomb_of_an_export() -> bytes:
    """A small zip file with a ChatGPT export of 3 MB."""
    node = {"id": "a", "message": {"author": {"role": "user"}, "content": {"parts": ["x" * 3_000_000]}}, "parent": None}
    text = json.dumps([{"title": "t", "id": "c", "mapping": {"a": node}, "current_node": "a"}])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", text)
    return packed.getvalue()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_archive_that_unpacks_to_more_than_a_body_may_have_is_refused_as_a_whole(
    client: ServerClient, encoding: str
) -> None:
    body = bomb_of_an_export()
    assert len(body) < 10_000
    sent = gzip.compress(body) if encoding == "gzip" else body
    before = client.get(PATH).json()["items"]
    answer = client.post("/api/v1/import?name=x.zip", content=sent, headers={"Content-Encoding": encoding})
    assert answer.status_code == 413
    assert "server.max_body_mb" in answer.json()["detail"]
    files = {"file": ("x.zip", body)}
    assert "server.max_body_mb" in client.post("/ui/import", files=files).text
    assert "server.max_body_mb" in client.post("/ui/compare", files=files, data={"budgets": "2k"}).text
    assert client.get(PATH).json()["items"] == before
