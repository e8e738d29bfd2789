"""The process that compresses: reads a function and its jobs from standard input, and writes what it made of them.

It is a program of its own, not a fork, so that a library user's main module is never imported twice; it ends when
its input does, and so never outlives the program that started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from typing import BinaryIO

LENGTH = struct.Struct(">Q")
NICENESS = 10
"""Whatever the program itself has to do goes first."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message, or None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def write_frame(stream: BinaryIO, data: bytes) -> None:
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; this ends with its input
    os.nice(NICENESS)
    output = sys.stdout.buffer
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        function, jobs = pickle.loads(frame)  # noqa: S301 - written by the parent process
        try:
            write_frame(output, pickle.dumps([function(*job) for job in jobs]))
        except BrokenPipeError:  # the program was killed meanwhile; nobody is left to be told
            os._exit(0)


if __name__ == "__main__":
    main()
