"""The last steps before the command: drop the rights of this process layer by layer, then execute it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import kernel, landlock, namespaces, seccomp, syscalls

_CAP_DAC_OVERRIDE = 1 << 1
"""Root keeps it: a folder may belong to another user. Landlock decides which files it reaches."""
_NICENESS = 5
_OPEN_FILES = 1024
_ADDRESS_SPACE_FACTOR = 8
"""Programs reserve far more addresses than they use."""
READY = b"ready"


def enter(spec: dict[str, Any], channel: socket.socket) -> None:
    """Confine this process as specified and execute the command. It does not return.

    The name of a layer that fails is reported to the supervisor, and the command is not executed.
    """
    layer = "limits"
    try:
        with suppress(PermissionError):  # bubblewrap did it
            os.setsid()
        _limit(spec["limits"])
        linux = spec["linux"]
        if linux:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if spec["cover"]:
            layer = "mount namespace"
            namespaces.cover(spec["pinned"], spec["frozen"])
        os.chdir(spec["folder"])
        if linux:
            layer = "capabilities"
            kernel.drop_capabilities(_CAP_DAC_OVERRIDE if os.getuid() == 0 else 0)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if spec["landlock"]:
            layer = "Landlock"
            landlock.restrict(spec["read"], spec["write"], spec["devices"])
        descriptors: list[int] = []
        if spec["seccomp"]:
            layer = "seccomp"
            machine = syscalls.this_machine()
            assert machine is not None, "checked before"
            descriptors = [seccomp.install(machine, scoped_signals=spec["scoped_signals"])]
        layer = "shell"
        socket.send_fds(channel, [READY], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _start(spec)
    except OSError as failure:
        with suppress(OSError):
            channel.send(f"{layer}: {failure}".encode())
    finally:
        os._exit(127)


def _limit(limits: dict[str, int]) -> None:
    rlimits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_AS: limits["memory_bytes"] * _ADDRESS_SPACE_FACTOR,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
    }
    for kind, value in rlimits.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        resource.setrlimit(kind, (value, value))
    os.nice(_NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


def _start(spec: dict[str, Any]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(1, 2)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.execve(spec["shell"], [spec["shell"], "-c", spec["command"]], spec["environment"])  # noqa: S606
