"""Execute a command in its sandbox and read its output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from foveate.tools.sandbox import layers as sandbox_layers
from foveate.tools.sandbox.jail.landlock import MIN_ABI
from foveate.tools.sandbox.layers import Confinement, Layers
from foveate.tools.settings import ExecSettings
from foveate.tools.tool import ToolError
from foveate.tools.workspace import Workspace

MAX_COMMAND_CHARS = 100_000
FLOOD_FACTOR = 64
"""A command that writes this many times the stored output is stopped."""
MAX_FILES = 500_000
"""Limit of files that a command may create."""
MAX_DESCRIPTORS = 50_000
"""Limit of open descriptors of a command and all its processes: each pipe takes two, and up to 8 kB of the kernel."""
_CHUNK_BYTES = 1 << 16
_END_SECONDS = 15.0
_GRACE_SECONDS = 60.0
"""Seconds after the time limit until a supervisor that did not stop its command is killed."""
_STOPPED = {
    "time": "stopped at its time limit of {seconds:g} seconds",
    "memory": "stopped: it used more than {memory_bytes:,} bytes of memory",
    "disk": "stopped: it used more than {disk_bytes:,} bytes of disk, or too many files",
    "descriptors": "stopped: it opened more than {descriptors:,} files, pipes and sockets at the same time",
    "processes": "stopped: it started more than {processes:,} processes",
    "flood": "stopped: it wrote too much output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command."""

    output: str
    """Standard output and standard error, in the order of writing; a long output lacks its middle."""
    output_bytes: int
    """Bytes that the command wrote, including dropped ones."""
    exit_code: int
    """Negative: the signal that ended it."""
    seconds: float
    stopped: str = ""
    """Why it was stopped; empty if it ended normally."""
    refused_processes: int = 0
    """New processes that were rejected because of the limit."""
    confined: bool = True

    @property
    def truncated(self) -> bool:
        return self.output_bytes > len(self.output.encode("utf-8", "replace"))


class _Output:
    """The first and the last bytes of a stream; the bytes between them are counted and dropped."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        tail = self._tail[-self._half :]
        dropped = self.total - len(self._head) - len(tail)
        between = f"\n[… {dropped:,} bytes left out …]\n".encode() if dropped else b""
        return bytes(self._head + between + tail).decode("utf-8", "replace")


async def run(
    workspace: Workspace, command: str, *, folder: Path, seconds: float, layers: Layers | None = None
) -> CommandResult:
    """Execute a command in this folder. Cancelling it kills the command and every process that it started.

    `ToolError` if the command can't be confined here; it names the missing layer.
    """
    if len(command) > MAX_COMMAND_CHARS or "\0" in command:
        raise ToolError(
            f"a command has up to {MAX_COMMAND_CHARS:,} characters and no null characters; use a script file"
        )
    layers = layers or await sandbox_layers.detected()
    temporary = await asyncio.to_thread(_temporary_folder)
    try:
        confinement = sandbox_layers.confine(workspace, layers, temporary)
        spec = {
            "command": command,
            "folder": str(folder),
            "environment": sandbox_layers.environment(temporary),
            "limits": _limits(workspace.settings.exec, seconds),
            **_confinement_spec(confinement),
        }
        async with asyncio.timeout(seconds + _GRACE_SECONDS):
            return await _supervised(spec, workspace.settings.exec, confinement)
    except TimeoutError:
        raise ToolError("the sandbox did not answer, so the command was killed") from None
    finally:
        await asyncio.to_thread(_remove, temporary)


def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="foveate-exec-")).resolve()


def _limits(settings: ExecSettings, seconds: float) -> dict[str, float]:
    return {
        "seconds": seconds,
        "cpu_seconds": int(seconds * (os.cpu_count() or 1)) + 1,
        "memory_bytes": settings.memory_bytes,
        "file_bytes": settings.disk_bytes,
        "disk_bytes": settings.disk_bytes,
        "files": MAX_FILES,
        "processes": settings.processes,
        "descriptors": MAX_DESCRIPTORS,
    }


def _confinement_spec(confinement: Confinement) -> dict[str, object]:
    layers = confinement.layers
    return {
        "shell": shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh",
        "read": confinement.read,
        "write": confinement.write,
        "devices": sandbox_layers.DEVICES,
        "pinned": confinement.pinned,
        "frozen": confinement.frozen,
        "linux": layers.linux,
        "landlock": layers.landlock >= MIN_ABI,
        "seccomp": layers.seccomp,
        "scoped_signals": layers.scoped_signals,
        "bubblewrap": layers.bubblewrap,
        "cover": bool(confinement.frozen) and not layers.bubblewrap,
        "inside": sandbox_layers.program("enter"),
    }


async def _supervised(spec: dict[str, object], settings: ExecSettings, confinement: Confinement) -> CommandResult:
    output = _Output(settings.output_bytes)
    flooded = False
    async with _supervisor() as (process, report):
        assert process.stdin, "a pipe"
        assert process.stdout, "a pipe"
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        with suppress(ConnectionError):
            await process.stdin.drain()
        while data := await process.stdout.read(_CHUNK_BYTES):
            output.add(data)
            if output.total > settings.output_bytes * FLOOD_FACTOR and not flooded:
                flooded = True
                process.stdin.close()
        report_text = (await report).decode("utf-8", "replace")
    try:
        ended = json.loads(report_text.strip().rpartition("\n")[2])
    except ValueError:
        raise ToolError(
            f"the sandbox failed, so the command was not executed or was killed: {report_text[-500:]}"
        ) from None
    if "problem" in ended:
        raise ToolError(f"the command was not executed: a layer of the sandbox failed: {ended['problem']}")
    stopped = "flood" if flooded else ended["stopped"]
    limits = spec["limits"]
    assert isinstance(limits, dict), "made above"
    return CommandResult(
        output=output.text(),
        output_bytes=output.total,
        exit_code=ended["exit_code"],
        seconds=ended["seconds"],
        stopped=_STOPPED.get(stopped, stopped).format(**limits),
        refused_processes=ended["refused_processes"],
        confined=confinement.confined,
    )


@asynccontextmanager
async def _supervisor() -> AsyncIterator[tuple[Process, asyncio.Future[bytes]]]:
    """Start the supervisor and yield its process and report. At the end of the block, it and the command have ended."""
    command = sandbox_layers.program("supervise")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, start_new_session=True
    )
    assert process.stderr, "a pipe"
    report = asyncio.ensure_future(process.stderr.read())
    try:
        yield process, report
    finally:
        await asyncio.shield(_end(process, report))


async def _end(process: Process, report: asyncio.Future[bytes]) -> None:
    assert process.stdin, "a pipe"
    assert process.stdout, "a pipe"
    process.stdin.close()  # the supervisor kills the command and ends
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while await process.stdout.read(_CHUNK_BYTES):
                pass
            await report
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


def _remove(folder: Path) -> None:
    """Remove a folder that a command could write, regardless of its modes and depth."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for command in (["/bin/chmod", "-R", "u+rwx"], ["/bin/rm", "-rf", "--"]):
            subprocess.run([*command, str(folder)], check=False, capture_output=True)  # noqa: S603
