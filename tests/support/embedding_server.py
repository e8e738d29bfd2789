"""A real endpoint for embeddings on this machine, which can be told to fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from foveate.recall.embed import static
from support.patience import PATIENCE_SECONDS


class EmbeddingServer(ThreadingHTTPServer):
    """Answers with the vectors of the package's own model, each followed by a few zeros, the last text first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.zeros = 44
        self.tokens = 6
        """What it reports for each call."""
        self.answer: tuple[int, str] | None = None
        """What it says instead, with this status."""
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.stalled = threading.Event()
        """It says nothing until this is set."""
        self.stalled.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stalled.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **asked})
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.stalled.wait(PATIENCE_SECONDS)
        status, said = self.server.answer or (200, self._vectors(asked["input"]))
        data = said.encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status in (301, 302):
                self.send_header("Location", f"{self.server.url}/elsewhere")
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _vectors(self, texts: list[str]) -> str:
        rows = [[*map(float, row), *([0.0] * self.server.zeros)] for row in static.embed(texts) * 7]
        told = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        return json.dumps(
            {"object": "list", "data": told[::-1], "model": "m", "usage": {"prompt_tokens": self.server.tokens}}
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nobody reads it."""
