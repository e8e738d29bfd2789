"""Other users of the machine are not the owner, although they reach its loopback."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foveate.errors import InputError
from foveate.server.local import LoopbackGuard, peer_uid, read_token
from support.command_line import Shell
from support.patience import PATIENCE_SECONDS
from support.served import served
from support.servers import bearer, call, client_of

OTHER_UID = 65_534
ASK = """
import encodings.idna, os, socket, sys
if sys.argv[2]:
    os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
for path in sys.argv[3:]:
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    connection.sendall(b"GET %s HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n" % path.encode())
    print(connection.makefile("rb").readline().decode().split()[1])
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")


@contextmanager
def connected(family: int, host: str, to: str = "") -> Iterator[tuple[socket.socket, tuple[str, int], tuple[str, int]]]:
    """A loopback connection: the client's socket, its address and the server's, as the server sees them."""
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        name = to or host
        with socket.socket(socket.AF_INET6 if ":" in name else socket.AF_INET) as client:
            client.connect((name, listener.getsockname()[1]))
            accepted, address = listener.accept()
            with accepted:
                yield client, address[:2], accepted.getsockname()[:2]


@linux
@pytest.mark.parametrize(
    ("family", "host", "to"),
    [
        (socket.AF_INET, "127.0.0.1", ""),
        (socket.AF_INET6, "::1", ""),
        (socket.AF_INET6, "::", "127.0.0.1"),
        (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_the_uid_of_a_loopback_connection_is_found(family: int, host: str, to: str) -> None:
    with connected(family, host, to) as (_, client, server):
        assert peer_uid(client, server) == os.getuid()


@linux
def test_a_connection_that_its_program_has_closed_is_nobodys() -> None:
    """The kernel would report it as root's."""
    with connected(socket.AF_INET, "127.0.0.1") as (client, address, server):
        client.close()
        assert peer_uid(address, server) is None


@linux
def test_a_listening_socket_is_no_client() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert peer_uid(listener.getsockname(), ("127.0.0.1", 1)) is None


@linux
@pytest.mark.skipif(sys.platform == "linux" and os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_is_not_the_owner(tmp_path: Path) -> None:
    with served(Shell(tmp_path / "chat.db"), "--upstream", "http://127.0.0.1:9") as (_, ready):
        port = ready["url"].rpartition(":")[2]

        def statuses(uid: str) -> list[str]:
            words = [sys.executable, "-c", ASK, port, uid, "/api/v1/sessions", "/", "/mcp", "/v1/models", "/metrics"]
            asked = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
            return asked.stdout.split()

        assert statuses(str(OTHER_UID)) == ["401", "303", "401", "401", "401"]
        assert statuses("") == ["200", "200", "405", "502", "200"]


def test_without_uids_everything_but_the_gateway_needs_the_token(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.server.state.access.guard = LoopbackGuard("fov_local_abc")
        assert client.get("/api/v1/sessions").status_code == 401
        assert "'foveate serve' printed" in client.get("/api/v1/sessions").json()["detail"]
        assert client.get("/", follow_redirects=False).headers["location"] == "/ui/login"
        assert client.get("/v1/models").status_code == 503, "it has no upstream, but it is served"
        assert client.get("/api/v1/sessions", headers=bearer("fov_local_abd")).status_code == 401
        assert client.get("/api/v1/sessions", headers=bearer("fov_local_abc")).status_code == 200
        client.post("/ui/login", data={"key": "fov_local_abc"}, headers={"Origin": "http://127.0.0.1"})
        assert client.get("/", follow_redirects=False).status_code == 200


def test_the_token_ends_with_the_first_key(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        client.server.state.access.guard = LoopbackGuard("fov_local_abc")
        call(client, client.fov.keys.create, "first")
        assert client.get("/api/v1/sessions", headers=bearer("fov_local_abc")).status_code == 401


def test_the_token_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    tokens = []
    threads = [threading.Thread(target=lambda: tokens.append(read_token(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(tokens)) == 1
    assert tokens[0].startswith("fov_local_")
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        with pytest.raises(InputError, match="others may read"):
            read_token(path)
