"""Limits of a connection before any key is asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import pytest

from foveate.server.connection import LimitedConnection
from support.patience import PATIENCE_SECONDS
from support.servers import listening

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20\r\n\r\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tmp_path_factory.mktemp("limits") / "a.db") as found:
        yield found


def exchanged(url: str, pieces: Iterable[bytes]) -> bytes:
    """Send the pieces until the server closes the connection, and return what it answered."""
    address = urlsplit(url)
    assert address.hostname
    with socket.create_connection((address.hostname, address.port or 80), timeout=PATIENCE_SECONDS) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:
            pass  # closed before everything was sent
        answer = b""
        try:
            while chunk := connection.recv(65_536):
                answer += chunk
        except ConnectionResetError:
            pass  # after the answer, because more was sent than read
        return answer


@pytest.mark.parametrize(
    "head",
    [
        [HEAD, b"".join(b"a%d: b\r\n" % index for index in range(200)), b"\r\n"],
        [HEAD, b"a: ", b"b" * 70_000, b"\r\n\r\n"],
        [b"GET /", b"a" * 70_000, b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
    ],
    ids=["lines", "header", "url"],
)
def test_a_head_that_is_too_large_is_refused(url: str, head: list[bytes]) -> None:
    assert exchanged(url, head).startswith(b"HTTP/1.1 431 ")


CHUNKED = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "beginning",
    [HEAD + b"a: ", CHUNKED + b"0\r\na: ", CHUNKED + b"1;a="],
    ids=["head", "trailer", "chunk extension"],
)
def test_a_head_without_an_end_is_not_read_to_its_end(url: str, beginning: bytes) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield beginning
        while sent < 50_000_000:
            sent += 65_536
            yield b"b" * 65_536

    exchanged(url, endless())
    assert sent < 50_000_000


@pytest.mark.parametrize("pieces", [[], [HEAD], [b"\r\n"], [POST, b"{"]], ids=["nothing", "head", "line", "body"])
def test_a_request_that_is_never_finished_is_given_up(
    url: str, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LimitedConnection, "head_seconds", 0.05)
    monkeypatch.setattr(LimitedConnection, "body_seconds", 0.05)
    assert exchanged(url, pieces).startswith(b"HTTP/1.1 408 ")


def test_a_second_request_on_a_connection_has_the_same_limits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConnection, "head_seconds", 0.05)
    answer = exchanged(url, [HEAD + b"\r\n" + HEAD])
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 200 " in answer
    assert b"HTTP/1.1 408 " in answer


def test_what_clients_send_is_within_the_limits(url: str) -> None:
    headers = b"".join(b"x-%d: %s\r\n" % (index, b"v" * 600) for index in range(95))
    answer = exchanged(url, [HEAD + headers + b"Connection: close\r\n\r\n"])
    assert answer.startswith(b"HTTP/1.1 200 ")
