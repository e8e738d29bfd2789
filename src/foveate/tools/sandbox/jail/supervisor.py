"""Start a command in its sandbox, supervise all its descendants, and leave none behind.

standard input    the specification, one line of JSON; when it ends, the command is cancelled
standard output   the command's, errors included
standard error    one line of JSON at the end: how it ended
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import enter, group, kernel, namespaces, syscalls
from .notify import Listener

_TICK_SECONDS = 0.1
_KILL_SECONDS = 10.0
_START_SECONDS = 20.0
_MAX_MESSAGE = 4096
_COUNTED_MEMORY = ("RssAnon:", "RssShmem:", "VmSwap:")
_SOCKET_BUFFER = Path("/proc/sys/net/core/wmem_default")
"""The size of a socket's buffer, as long as nobody changes it. The last message may exceed it by half."""


def main() -> None:
    """Execute the command that standard input specifies."""
    spec: dict[str, Any] = json.loads(_read_line())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main program; the supervisor ends with its input
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if spec["linux"]:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    ended = _Supervisor(spec).run()
    os.write(2, json.dumps(ended).encode() + b"\n")


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            sys.exit(1)
        line += part
    return line


class _Supervisor:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.limits: dict[str, int] = spec["limits"]
        self.started = time.monotonic()
        self.listener: Listener | None = None
        self.main = 0
        self.status: int | None = None
        self.free = self._free_space()
        self.group = group.make_group(self.limits["memory_bytes"]) if spec["linux"] else None

    def run(self) -> dict[str, object]:
        try:
            problem = self._start()
            stopped = "" if problem else self._watch()
        finally:
            self._end()
        if problem:
            return {"problem": problem}
        seconds = time.monotonic() - self.started
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else -signal.SIGKILL
        refused = self.listener.refused_processes if self.listener else 0
        if self.group:
            stopped = stopped or ("memory" if self.group.was_exceeded() else "")
            self.group.remove()
        return {"exit_code": code, "seconds": seconds, "stopped": stopped, "refused_processes": refused}

    def _start(self) -> str:
        """Start the command; return why it could not be confined, or an empty text."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_START_SECONDS)
        self.main = os.fork()
        if self.main == 0:
            ours.close()
            self._child(theirs)
        theirs.close()
        try:
            if self.spec["bubblewrap"]:
                ours.send(json.dumps(self.spec).encode())
            message, descriptors, _, _ = socket.recv_fds(ours, _MAX_MESSAGE, 1)
        except OSError as failure:
            return f"start: {failure}"
        finally:
            ours.close()
        if message != enter.READY:
            return message.decode("utf-8", "replace") or "start: the process ended before the command began"
        if descriptors:
            machine = syscalls.this_machine()
            assert machine is not None, "the filter is installed"
            self.listener = Listener(
                descriptors[0],
                machine,
                writable=self.spec["write"],
                protected=self.spec["frozen"],
                max_processes=self.limits["processes"],
                count=lambda: tasks(descendants(os.getpid())),
                max_sockets=2 * self.limits["memory_bytes"] // (3 * int(_SOCKET_BUFFER.read_text("ascii"))),
            )
        return ""

    def _child(self, channel: socket.socket) -> None:
        try:
            spec = self.spec
            if self.group:
                self.group.enter()
            if not spec["bubblewrap"]:
                enter.enter(spec, channel)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.set_inheritable(channel.fileno(), True)
            paths = {key: spec[key] for key in ("read", "write", "pinned", "frozen", "folder")}
            command = namespaces.bubblewrap(spec["bubblewrap"], **paths)
            os.execve(command[0], [*command, *spec["inside"], str(channel.fileno())], spec["environment"])  # noqa: S606
        finally:
            os._exit(127)

    def _watch(self) -> str:
        """Wait until the command ends or has to be stopped; return why it was stopped, or an empty text."""
        poll = select.poll()
        poll.register(0, select.POLLIN | select.POLLHUP)
        if self.spec["linux"]:
            poll.register(os.pidfd_open(self.main), select.POLLIN)
        if self.listener:
            poll.register(self.listener.descriptor, select.POLLIN)
        next_tick = 0.0
        while True:
            now = time.monotonic()
            if now >= next_tick:
                if stopped := self._check(now):
                    return stopped
                next_tick = now + _TICK_SECONDS
            if self._main_ended():
                return ""
            for descriptor, event in poll.poll(_TICK_SECONDS * 1000):
                if descriptor == 0:
                    return "cancelled"  # nothing is written after the specification: it is the end
                if self.listener and descriptor == self.listener.descriptor:
                    self._serve(poll, event)

    def _serve(self, poll: select.poll, event: int) -> None:
        assert self.listener is not None, "it is registered"
        if event & select.POLLIN:
            self.listener.answer()
        else:  # the last process that is filtered ended
            poll.unregister(self.listener.descriptor)

    def _main_ended(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main:
                self.status = status
                return True

    def _check(self, now: float) -> str:
        if now - self.started > self.limits["seconds"]:
            return "time"
        pids = descendants(os.getpid())
        if memory(pids) > self.limits["memory_bytes"]:
            return "memory"
        if descriptors(pids) > self.limits["descriptors"]:
            return "descriptors"
        if tasks(pids) > 2 * self.limits["processes"]:  # no listener refused them
            return "processes"
        for (space, files), (space_then, files_then) in zip(self._free_space(), self.free, strict=True):
            if space_then - space > self.limits["disk_bytes"] or files_then - files > self.limits["files"]:
                return "disk"
        return ""

    def _free_space(self) -> list[tuple[int, int]]:
        found = [os.statvfs(path) for path in self.spec["write"]]
        return [(each.f_bfree * each.f_frsize, each.f_ffree) for each in found]

    def _end(self) -> None:
        """Kill every descendant. None can be added meanwhile: the listener rejects new ones, or nobody answers."""
        deadline = time.monotonic() + _KILL_SECONDS
        if self.listener:
            self.listener.closing = True
        while time.monotonic() < deadline:
            if self.spec["linux"]:
                kill(descendants(os.getpid()))
            else:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.main, signal.SIGKILL)
            if not reap():
                return
            if self.listener:
                ready, _, _ = select.select([self.listener.descriptor], [], [], 0.002)
                with suppress(OSError):
                    if ready:
                        self.listener.answer()
            else:
                time.sleep(0.002)


def descendants(pid: int) -> list[int]:
    """Return the processes below this one, parents before their children."""
    found: list[int] = []
    pending = [pid]
    while pending:
        for child in _children(pending.pop()):
            found.append(child)
            pending.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it ended in the meantime
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, in a loop that has to be fast
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text("ascii").split())
    return found


def tasks(pids: list[int]) -> int:
    """Count the processes and threads of these processes."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += Path(f"/proc/{pid}/task").stat().st_nlink - 2
    return total


def descriptors(pids: list[int]) -> int:
    """Count the open descriptors of these processes; the kernel tells the number since Linux 6.2."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += Path(f"/proc/{pid}/fd").stat().st_size
    return total


def memory(pids: list[int]) -> int:
    """Return the bytes of memory that no file backs; shared memory counts for each process."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
                if line.startswith(_COUNTED_MEMORY):
                    total += int(line.split()[1]) * 1024
    return total


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def reap() -> bool:
    """Collect children that ended; return whether there are others."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
