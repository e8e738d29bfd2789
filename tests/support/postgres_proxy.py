"""A connection to PostgreSQL that fails at a chosen moment, as a network or a dying server would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from psycopg.conninfo import conninfo_to_dict

Moment = Literal["before", "after"]
BUFFER_BYTES = 65536


class Proxy:
    """Forwards bytes between clients and a server. `cut` closes the next connection that sends some text.

    Cut before, the server never sees it; cut after, the client never sees the answer.
    """

    def __init__(self, folder: Path, server_url: str) -> None:
        parameters = conninfo_to_dict(server_url)
        self._server = f"{parameters['host']}/.s.PGSQL.{parameters.get('port', 5432)}"
        self.cuts: list[tuple[bytes, Moment]] = []
        """Those that have not happened yet."""
        self.close_after_cut = False
        self.url = f"postgresql://{parameters['user']}@/{parameters['dbname']}?host={folder}&port=5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, text: bytes, moment: Moment) -> None:
        self.cuts.append((text, moment))

    def close(self) -> None:
        """Accept no more connections."""
        _end(self._listener)

    def end(self) -> None:
        _end(*self._sockets)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                server.connect(self._server)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(BUFFER_BYTES):
                found = next((each for each in self.cuts if each[0] in data), None)
                if found is not None:
                    self.cuts.remove(found)
                    if self.close_after_cut:
                        self.close()
                    if found[1] == "after":
                        client.shutdown(socket.SHUT_RDWR)
                        server.sendall(data)
                        continue
                    break
                server.sendall(data)
        _end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(BUFFER_BYTES):
                client.sendall(data)
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(folder: Path, server_url: str) -> Iterator[Proxy]:
    proxy = Proxy(folder, server_url)
    try:
        yield proxy
    finally:
        proxy.end()
