"""Standard output that cannot be written: a full disk, or a reader that has closed the pipe."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

CLOSED_PIPE = 141
"""Exit code after the reader of standard output has closed it, as of a program that SIGPIPE ends (128 + 13)."""
NOT_WRITTEN = 1
CLOSED_ERRNOS = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)
"""Windows reports a closed pipe as an invalid argument."""


class OutputError(Exception):
    """Standard output cannot be written. Not an `OSError`, which handlers of files and sockets would catch."""


class _Output(io.RawIOBase):
    """Writes to the file of a text stream. The first failure raises `OutputError`; later writes are discarded."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream  # a stream that nobody holds would be closed
        below: Any = stream.buffer
        self.is_buffered = hasattr(below, "raw")  # not with PYTHONUNBUFFERED
        self._raw = below.raw if self.is_buffered else below
        self.failure: OSError | None = None

    def write(self, data: bytes | memoryview, /) -> int | None:  # type: ignore[override]
        if not data or self.failure:
            return len(data)
        try:
            written: int | None = self._raw.write(data)
        except OSError as error:
            self.failure = error
            raise OutputError(f"standard output: {error.strerror}") from error
        return written

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()


@contextmanager
def standard_output() -> Iterator[None]:
    """End the program with one line on standard error if its output can't be written, silently on a closed pipe.

    Characters that the encoding of a stream lacks, and lone surrogates, are escaped. The output of a stream that was
    closed before the start (`>&-`) is discarded.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stdout, io.TextIOWrapper):
        yield
        return
    output = _Output(sys.stdout)
    sys.stdout = _text(output, sys.stdout)
    try:
        try:
            yield
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()
    except BaseException as error:
        if output.failure is None:
            raise
        if output.failure.errno in CLOSED_ERRNOS:
            sys.exit(CLOSED_PIPE)
        click.echo(f"Error: standard output: {output.failure.strerror}", err=True)
        raise SystemExit(NOT_WRITTEN) from error


def _text(output: _Output, stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    below = cast("Any", output)
    return io.TextIOWrapper(
        io.BufferedWriter(below) if output.is_buffered else below,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
