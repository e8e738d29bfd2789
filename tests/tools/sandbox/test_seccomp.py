"""The filter of system calls, executed by a small interpreter of BPF, for every machine it is written for."""

from __future__ import annotations

import errno
import os
import signal
import struct

import pytest

from foveate.tools.sandbox.jail.seccomp import ALLOW, KILL, NOTIFY, error, program
from foveate.tools.sandbox.jail.syscalls import LAST_KNOWN, MACHINES, Machine

DENIED = error(errno.EPERM)
NOT_IMPLEMENTED = error(errno.ENOSYS)
NEW_USER, NEW_MOUNTS, NEW_NETWORK = 0x10000000, 0x20000, 0x40000000
THREAD = 0x3D0F00
"""The flags of a new thread."""


def decide(machine: Machine, number: int, *arguments: int, arch: int | None = None, scoped_signals: bool = True) -> int:
    """What the filter answers to a call."""
    given = [value & (2**64 - 1) for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("=iIQ6Q", number, machine.audit_arch if arch is None else arch, 0, *given)
    code = list(struct.iter_unpack("=HBBI", program(machine, scoped_signals=scoped_signals)))
    held = at = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:
            held &= value
        else:
            tests = {0x15: held == value, 0x25: held > value, 0x35: held >= value, 0x45: bool(held & value)}
            at += if_true if tests[operation] else if_false


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("socket", (2, 1), DENIED),
        ("socket", (1, 1), DENIED),
        ("connect", (), DENIED),
        ("socketpair", (1, 1), NOTIFY),
        ("socketpair", (1, 1 | 0o2000000 | 0o4000), NOTIFY),  # closed on exec, not blocking
        ("setsockopt", (3, 1, 7), error(0)),  # the size of a buffer
        ("setsockopt", (3, 1, 33), error(0)),
        ("setsockopt", (3, 1, 16), ALLOW),
        ("socketpair", (1, 2), DENIED),
        ("socketpair", (2, 1), DENIED),
        ("ptrace", (), DENIED),
        ("mount", (), DENIED),
        ("unshare", (0,), DENIED),
        ("bpf", (), DENIED),
        ("io_uring_setup", (), NOT_IMPLEMENTED),
        ("clone3", (), NOT_IMPLEMENTED),
        ("openat2", (), NOT_IMPLEMENTED),
        ("clone", (signal.SIGCHLD,), NOTIFY),
        ("clone", (THREAD,), NOTIFY),
        ("clone", (NEW_USER | signal.SIGCHLD,), DENIED),
        ("clone", (NEW_MOUNTS,), DENIED),
        ("clone", (NEW_NETWORK | THREAD,), DENIED),
        ("clone", (1 << 32 | NEW_USER,), DENIED),  # the kernel reads the low word
        ("fchmod", (3, 0o755), NOTIFY),
        ("fchmod", (3, 0o4755), DENIED),
        ("fchmodat", (-100, 1, 0o2755), DENIED),
        ("fchmodat2", (-100, 1, 0o755), NOTIFY),
        ("utimensat", (-100, 1, 0), NOTIFY),
        ("fchownat", (-100, 1, 0, 0), NOTIFY),
        ("openat", (-100, 1, os.O_RDONLY, 0o4755), ALLOW),  # the mode counts for a new file only
        ("openat", (-100, 1, os.O_CREAT | os.O_WRONLY, 0o644), ALLOW),
        ("openat", (-100, 1, os.O_CREAT | os.O_WRONLY, 0o4755), DENIED),
        ("openat", (-100, 1, os.O_TMPFILE | os.O_WRONLY, 0o6755), DENIED),
        ("openat", (-100, 1, os.O_DIRECTORY, 0o6755), ALLOW),
        ("mknodat", (-100, 1, 0o104755), DENIED),
        ("prlimit64", (0, 7), ALLOW),
        ("prlimit64", (1234, 7), DENIED),
        ("setpriority", (0, 0, 5), ALLOW),
        ("setpriority", (2, 0, 5), DENIED),
        ("sched_setaffinity", (1234,), DENIED),
        ("ioctl", (0, 0x5412), DENIED),
        ("ioctl", (0, 1 << 32 | 0x5412), DENIED),
        ("ioctl", (0, 0x5413), ALLOW),
        ("fcntl", (3, 8, 1), DENIED),
        ("fcntl", (3, 4, 1), ALLOW),
        ("kill", (1, 9), ALLOW),  # Landlock keeps signals inside
    ],
)
def test_a_call_is_decided(machine: Machine, name: str, arguments: tuple[int, ...], expected: int) -> None:
    assert decide(machine, machine.numbers[name], *arguments) == expected


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_signals_are_denied_where_nothing_keeps_them_inside(machine: Machine) -> None:
    assert decide(machine, machine.numbers["kill"], 1, 9, scoped_signals=False) == DENIED


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_another_architecture_ends_the_process(machine: Machine) -> None:
    for other in (0x40000003, 0x40000028, 0):  # i386, 32-bit ARM
        assert decide(machine, 0, arch=other) == KILL


def test_the_second_numbering_of_x86_ends_the_process() -> None:
    assert decide(MACHINES["x86_64"], 0x40000000 + 41) == KILL


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_calls_of_later_kernels_are_not_implemented(machine: Machine) -> None:
    assert decide(machine, LAST_KNOWN + 1) == NOT_IMPLEMENTED
    assert decide(machine, -1) in (NOT_IMPLEMENTED, KILL)
