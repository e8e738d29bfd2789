"""The control group of a command, on machines where one can be written."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

import pytest

from foveate.tools.sandbox.jail.group import make_group

LIMIT_BYTES = 100_000_000


def test_a_group_counts_the_buffers_of_sockets() -> None:
    group = make_group(LIMIT_BYTES)
    if group is None:
        pytest.skip("no control group of memory can be written here")
    child = os.fork()
    if child == 0:
        group.enter()
        pairs, filled = [], 0
        while filled < 2 * LIMIT_BYTES:
            pairs.append(socket.socketpair())
            for each in pairs[-1]:
                each.setblocking(False)
                with suppress(BlockingIOError):
                    while True:
                        filled += each.send(bytes(1 << 16))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(status), group.was_exceeded()) == (-signal.SIGKILL, True)
    group.remove()
