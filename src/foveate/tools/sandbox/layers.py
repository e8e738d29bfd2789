"""Detect what this machine can enforce, and whether it is enough for a command."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from foveate.tools.sandbox.jail.landlock import MIN_ABI, SCOPES_ABI
from foveate.tools.sandbox.protection import outermost, protect
from foveate.tools.tool import ToolError
from foveate.tools.workspace import Workspace

_PROBE_SECONDS = 30
_LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); from jail import launch; launch.main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The confinement that the kernel and the installed programs offer."""

    linux: bool = False
    root: bool = False
    """Whether commands would run as root."""
    machine: bool = False
    """Whether there is a system call filter for this processor."""
    landlock: int = 0
    """Version of Landlock; 0: none."""
    seccomp: bool = False
    """Whether system calls can be filtered and forwarded to a supervisor."""
    namespaces: bool = False
    """Whether this process may create mount namespaces."""
    bubblewrap: str = ""
    """Path of the program, if it works here."""

    @property
    def scoped_signals(self) -> bool:
        """Whether signals stay inside the sandbox, so that they need not be forbidden."""
        return bool(self.bubblewrap) or self.landlock >= SCOPES_ABI

    def missing(self) -> tuple[str, ...]:
        """Return the layers that confinement needs and this machine lacks."""
        if not self.linux:
            return ("file and network confinement: this system is not Linux",)
        found: list[str] = []
        if not self.bubblewrap and self.landlock < MIN_ABI:
            have = f"Landlock here is version {self.landlock}" if self.landlock else "Landlock is missing or off"
            found.append(f"file confinement: {have} ({MIN_ABI} is needed, Linux 6.2), and there is no bubblewrap")
        elif self.root and self.landlock < MIN_ABI:  # files of the kernel in /proc trust root in every namespace
            found.append("file confinement: as root bubblewrap is not enough, and Landlock is missing or too old")
        if not self.machine:
            found.append("network confinement: there is no system call filter for this processor")
        elif not self.seccomp:
            found.append("network confinement: seccomp with a supervisor is missing, or another supervisor has it")
        return tuple(found)

    def summary(self) -> str:
        """Describe the layers in one line."""
        if self.missing():
            return f"exec would refuse: {'; '.join(self.missing())}"
        files = ["bubblewrap"] if self.bubblewrap else []
        files += [f"Landlock {self.landlock}"] if self.landlock else []
        return f"exec is confined by {', '.join(files)}, seccomp and resource limits"


def program(name: str) -> list[str]:
    """Return the command line of a program in `jail`: isolated, and without site packages."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parent), name]


@cache
def detect() -> Layers:
    """Detect the layers of this machine, once."""
    try:
        tried = subprocess.run(program("probe"), capture_output=True, timeout=_PROBE_SECONDS, check=True, env={})  # noqa: S603
        return Layers(**json.loads(tried.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return Layers()


async def detected() -> Layers:
    """Detect the layers without blocking the event loop."""
    return await asyncio.to_thread(detect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The paths and layers of one command."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    pinned: tuple[str, ...] = ()
    """Folders inside a writable folder that can't be renamed or removed, outer ones first."""
    frozen: tuple[str, ...] = ()
    """Folders inside a writable folder that are not writable."""
    layers: Layers
    confined: bool = True


_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/mime.types", "/etc/gitconfig",
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/terminfo",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
    "/proc/filesystems", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ngroups_max",
    "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
)  # fmt: skip
"""Paths that programs read: not the home folder, not the processes in /proc, not the rest of /etc."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def confine(workspace: Workspace, layers: Layers, temporary: Path) -> Confinement:
    """Return how a command in this workspace is confined; `ToolError` names a missing layer.

    With `allow_unsandboxed`, it is confined by the layers that there are.
    """
    own = protect(workspace)
    missing = [*layers.missing(), *own.problems]
    has_mounts = bool(layers.bubblewrap or layers.namespaces)
    if not has_mounts:
        missing += [f"protection of {path}, which needs bubblewrap or mount namespaces" for path in own.frozen]
    if workspace.session is not None and workspace.fov is None:
        missing.append("protection of the store: the workspace has a session and not its store")
    if missing and not workspace.allow_unsandboxed:
        raise ToolError(
            f"exec can't be confined here, so nothing was executed. Missing: {'; '.join(missing)}. "
            "--allow-unsandboxed executes commands with what there is"
        )
    extra = [str(Path(folder).expanduser().resolve()) for folder in workspace.settings.exec.read_folders]
    return Confinement(
        read=tuple(path for path in (*_SYSTEM, *_python_folders(), *extra) if Path(path).exists()),
        write=(*map(str, outermost(workspace.roots)), str(temporary)),
        pinned=own.pinned if has_mounts else (),
        frozen=own.frozen if has_mounts else (),
        layers=layers,
        confined=not missing,
    )


def _python_folders() -> list[str]:
    """Return the folders of the current Python, so that a command's `python` is this one."""
    prefixes = dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix)))
    parts = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")
    found = [prefix / part for prefix in prefixes if prefix != Path("/") for part in parts]
    # Inside bubblewrap, the `enter` program makes the last steps.
    return [str(path) for path in (*found, Path(sys.executable).resolve(), Path(__file__).parent / "jail")]


def environment(home: Path) -> dict[str, str]:
    """Return the complete environment of a command, without this process's variables."""
    programs = [str(Path(sys.executable).parent), *os.defpath.split(os.pathsep), "/usr/local/bin", "/usr/bin", "/bin"]
    path = os.pathsep.join(dict.fromkeys(folder for folder in programs if Path(folder).is_absolute()))
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(home)}
