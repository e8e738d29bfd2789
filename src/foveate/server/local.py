"""Tells the owner's loopback connections from those of other users of the machine.

Linux tells whose a connection is; elsewhere a token does, which `serve` prints and keeps in a file for its owner.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection

from foveate.errors import InputError
from foveate.server.problems import ProblemError, is_gateway_path
from foveate.session.keys import PREFIX, SECRET_BYTES, Keys

TOKEN_FILE: Final = Path("~/.foveate/server-token")
OTHERS: Final = 0o077
"""Mode bits of everybody but the owner."""
ROOT_UID: Final = 0
FIRST_KEY: Final = "first"
"""The name of the key that a server makes itself."""
CREATE_KEY: Final = "create one with 'foveate keys create'"
Address = tuple[str, int]

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_LISTEN: Final = 10
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
_ANY_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
_QUERY: Final = struct.Struct("=BBBxI")
_ID: Final = struct.Struct("!HH16s16s")
_ANSWER: Final = struct.Struct("=BBBB48sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, id, expires, queues, uid, inode."""


def peer_uid(client: Address, server: Address) -> int | None:
    """Return the uid of the process at the client's end of a TCP connection; None if the system does not tell.

    The kernel reads the uid before the inode, and a socket that its process has closed has uid and inode 0. So an inode
    proves that the uid is the process's.
    """
    if sys.platform != "linux":
        return None
    hosts = [_plain(address[0]) for address in (client, server)]
    family = socket.AF_INET if all(host.version == 4 for host in hosts) else socket.AF_INET6  # noqa: PLR2004
    wanted = _ID.pack(client[1], server[1], *(host.packed for host in hosts))
    # An IPv6 socket with an IPv4 connection is found by its IPv4 addresses and described with mapped ones.
    mapped = _ID.pack(client[1], server[1], *(_MAPPED + host.packed[-4:] for host in hosts))
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + wanted + b"\0" * 4 + _ANY_COOKIE
    header = _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(header + query)
            answer = kernel.recv(4_096)
    except OSError:
        return None
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _BY_FAMILY or len(answer) < _HEADER.size + _ANSWER.size:
        return None
    _, state, _, _, found, *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    is_found = found.startswith((wanted, mapped)) and state != _LISTEN and inode
    return int(uid) if is_found else None


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address; an IPv4 address that is written as IPv6 is IPv4 again."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@dataclass(frozen=True, slots=True)
class LoopbackGuard:
    """Decides whether a loopback connection without a key is the owner's."""

    token: str | None = None
    """The token that requests need; None: the system tells whose a connection is."""

    @classmethod
    def of_system(cls, token_file: Path = TOKEN_FILE) -> LoopbackGuard:
        return cls() if _system_tells() else cls(read_token(token_file.expanduser()))

    def check(self, connection: HTTPConnection) -> None:
        """Raise `ProblemError` 401 if a loopback connection is not the owner's.

        The gateway needs no token, because many of its clients can only set a URL.
        """
        if self.token is None:
            client, server = connection.client, connection.scope.get("server")
            uid = peer_uid((client.host, client.port), (server[0], server[1])) if client and server else None
            if uid not in (ROOT_UID, os.geteuid()):
                raise ProblemError(401, f"without a key only the user who runs the server is served; {CREATE_KEY}")
        elif not is_gateway_path(connection.scope["path"]):
            raise ProblemError(401, f"a key is needed: send the token that 'foveate serve' printed, or {CREATE_KEY}")

    def is_token(self, secret: str) -> bool:
        return self.token is not None and hmac.compare_digest(secret.encode("utf-8", "replace"), self.token.encode())


def _system_tells() -> bool:
    """Report whether the uid of a loopback connection of this process itself is found."""
    if sys.platform != "linux":
        return False
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with contextlib.suppress(OSError), socket.socket(family) as listener, socket.socket(family) as client:
            listener.bind((host, 0))
            listener.listen()
            client.connect(listener.getsockname())
            return peer_uid(client.getsockname()[:2], listener.getsockname()[:2]) == os.geteuid()
    return False


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner can read; create it if it is missing."""
    try:
        if not path.exists():
            create_secret_file(path, f"{PREFIX}local_{secrets.token_hex(SECRET_BYTES)}")
        with path.open() as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & OTHERS):
                raise InputError(f"others may read or own {path}; delete it, and the server makes a new token")
            token = file.read().strip()
    except OSError as error:
        raise InputError(f"the server's token can't be kept in {path}: {error}") from error
    if not token.startswith(PREFIX):
        raise InputError(f"{path} has no token; delete it, and the server makes a new one")
    return token


def read_first_key(path: Path) -> str:
    """Return the key in a file, which is created with a new key if it is missing."""
    path = path.expanduser()
    try:
        if not path.exists():
            create_secret_file(path, f"{PREFIX}{secrets.token_hex(SECRET_BYTES)}")
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the first key can't be kept in {path} (server.first_key_file): {error}") from error


async def make_first_key(keys: Keys, file: str) -> None:
    """Create the first key of a store from a file, which is written if it is missing; nothing if a key exists."""
    if await keys.exist():
        return
    secret = read_first_key(Path(file))
    try:
        await keys.adopt(secret, FIRST_KEY)
    except InputError as error:
        raise InputError(f"{file} (server.first_key_file) has no key: {error}") from error


def create_secret_file(path: Path, secret: str) -> None:
    """Create the file with its content in one step, unless another server was first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secret}\n")
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(new)
    finally:
        new.unlink(missing_ok=True)
