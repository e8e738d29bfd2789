"""The programs of this folder: `supervise` a command, `enter` the sandbox inside bubblewrap, `probe` the kernel."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from . import enter, kernel, landlock, namespaces, seccomp, supervisor, syscalls

_MAX_SPEC = 1 << 20
_PROBE_SECONDS = 10
_PROGRAMS = "/usr/local/bin:/usr/bin:/bin"


def main() -> None:
    """Run the program that the first argument names."""
    name = sys.argv[1]
    if name == "supervise":
        supervisor.main()
    elif name == "enter":
        channel = socket.socket(fileno=int(sys.argv[2]))
        enter.enter(json.loads(channel.recv(_MAX_SPEC)) | {"cover": False}, channel)
    else:
        sys.stdout.write(json.dumps(probe()))


def probe() -> dict[str, object]:
    """Print what this kernel enforces, detected by trying it in child processes."""
    machine = syscalls.this_machine()
    linux = sys.platform == "linux"
    return {
        "linux": linux,
        "root": linux and os.geteuid() == 0,
        "machine": machine is not None,
        "landlock": landlock.abi() if linux else 0,
        "seccomp": linux and machine is not None and _succeeds(_try_filter),
        "namespaces": linux and _succeeds(lambda: namespaces.cover([], [])),
        "bubblewrap": _find_bubblewrap() if linux else "",
    }


def _try_filter() -> None:
    machine = syscalls.this_machine()
    assert machine is not None, "checked before"
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    os.close(seccomp.install(machine, scoped_signals=True))


def _succeeds(attempt: object) -> bool:
    child = os.fork()
    if child == 0:
        try:
            attempt()  # type: ignore[operator]
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _find_bubblewrap() -> str:
    """Return the program if it works: some systems have it and forbid what it needs."""
    import shutil  # noqa: PLC0415 - for this alone
    import subprocess  # noqa: PLC0415

    found = shutil.which("bwrap", path=_PROGRAMS)
    if not found:
        return ""
    read = [path for path in ("/usr", "/bin", "/lib", "/lib64", "/lib32") if Path(path).exists()]
    command = namespaces.bubblewrap(found, read=read, write=[], pinned=[], frozen=[], folder="/")
    try:
        tried = subprocess.run([*command, "/bin/true"], capture_output=True, timeout=_PROBE_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found if tried.returncode == 0 else ""
