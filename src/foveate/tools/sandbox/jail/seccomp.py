"""seccomp: the system calls that a process and its descendants may not make.

The filter is a list of rules that is assembled to BPF. The calls that need a look at memory or a count are handed to
the supervisor (`notify`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from . import kernel
from .syscalls import LAST_KNOWN, Machine

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
KILL = 0x80000000
_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000
_MAX_JUMP = 255

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_GREATER, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x15, 0x25, 0x35, 0x45

_SET_ID_BITS = 0o6000
_CREATES = os.O_CREAT | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)
_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE = 1, 1, 0xFF
_SOL_SOCKET = 1
_BUFFER_SIZES = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and their privileged forms: the call succeeds, and the buffers keep their size."""
_SET_OWNER = (8, 15)
"""`fcntl` commands that send signals to another process."""
_IOCTLS = (0x5412, 0x541C, 0x8901, 0x8902, 0x40086602, 0x401C5820)
"""Type into a terminal (TIOCSTI, TIOCLINUX), set who gets signals (FIOSETOWN, SIOCSPGRP), set flags of a file
(FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR)."""
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

NETWORK = ("socket", "connect", "bind", "listen", "accept", "accept4")
"""Without `socket`, no service, name server or other machine can be reached."""
_PERMITTED = (
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "process_madvise", "pidfd_getfd", "process_mrelease",
    "migrate_pages", "move_pages",
    # mounts and namespaces
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "statmount", "listmount", "unshare", "setns",
    # parts of the kernel with many past vulnerabilities
    "bpf", "perf_event_open", "keyctl", "add_key", "request_key", "userfaultfd", "modify_ldt", "personality",
    # the machine
    "kexec_load", "kexec_file_load", "create_module", "init_module", "finit_module", "delete_module", "reboot",
    "swapon", "swapoff", "sethostname", "setdomainname", "iopl", "ioperm", "acct", "settimeofday", "clock_settime",
    "adjtimex", "clock_adjtime", "quotactl", "quotactl_fd", "syslog", "vhangup", "uselib", "_sysctl", "nfsservctl",
    "lookup_dcookie",
    # files by other ways than a path, and names in folders that can't be listed
    "name_to_handle_at", "open_by_handle_at", "fanotify_init", "fanotify_mark", "inotify_add_watch",
    # memory and queues that are shared with processes outside
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink",
)  # fmt: skip
_NOT_IMPLEMENTED = (
    # programs fall back to older calls, whose arguments the filter can see
    "clone3", "openat2", "utime", "utimes", "futimesat", "file_setattr", "setxattrat", "removexattrat",
    # a way around the filter
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    # memory that belongs to no process
    "memfd_create", "memfd_secret",
)  # fmt: skip
_NOT_SUPPORTED = ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_ON_ANOTHER = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
"""Their first argument is a process; 0 is the caller."""
FORKS = ("clone", "fork", "vfork")
PAIR = "socketpair"
"""The supervisor counts sockets too, since their buffers belong to no process."""
CHANGES = ("fchmodat2", "chown", "lchown", "fchown", "fchownat", "utimensat")
"""Landlock does not cover changes of mode, owner and times: the supervisor checks the path."""
_MODE_AT: Mapping[str, int] = {"chmod": 1, "fchmod": 1, "fchmodat": 2}


class Test(NamedTuple):
    """A test of the low word of an argument: whether it equals `value`, or has any of its bits."""

    argument: int
    value: int
    any_bit: bool = False
    mask: int = 0xFFFFFFFF


class FilterRule(NamedTuple):
    """The action to take if all tests match."""

    tests: tuple[Test, ...]
    action: int


def error(number: int) -> int:
    """Return the action that fails a call with this error."""
    return 0x00050000 | number


def available(machine: Machine) -> bool:
    """Check whether the kernel can forward calls to a supervisor."""
    try:
        action = ctypes.c_uint32(NOTIFY)
        kernel.syscall("seccomp", machine.numbers["seccomp"], _GET_ACTION_AVAIL, 0, ctypes.byref(action))
    except OSError:
        return False
    return True


def rules(*, scoped_signals: bool) -> Iterator[tuple[str, Sequence[FilterRule], int]]:
    """Yield each restricted call with its rules and the default action."""
    denied = error(errno.EPERM)
    for name in (*NETWORK, *_PERMITTED, *(() if scoped_signals else _SIGNALS)):
        yield name, (), denied
    for name in _NOT_IMPLEMENTED:
        yield name, (), error(errno.ENOSYS)
    for name in _NOT_SUPPORTED:
        yield name, (), error(errno.EOPNOTSUPP)
    unix_stream = (Test(0, _AF_UNIX), Test(1, _SOCK_STREAM, mask=_SOCK_TYPE))
    yield PAIR, [FilterRule(unix_stream, NOTIFY)], denied
    sizes = [FilterRule((Test(1, _SOL_SOCKET), Test(2, option)), error(0)) for option in _BUFFER_SIZES]
    yield "setsockopt", sizes, ALLOW
    for name in _ON_ANOTHER:
        yield name, [FilterRule((Test(0, 0),), ALLOW)], denied
    yield "setpriority", [FilterRule((Test(0, _PRIO_PROCESS), Test(1, 0)), ALLOW)], denied
    yield "ioprio_set", [FilterRule((Test(0, _IOPRIO_WHO_PROCESS), Test(1, 0)), ALLOW)], denied
    yield "fcntl", [FilterRule((Test(1, command),), denied) for command in _SET_OWNER], ALLOW
    yield "ioctl", [FilterRule((Test(1, command),), denied) for command in _IOCTLS], ALLOW
    yield "clone", [FilterRule((Test(0, _NEW_NAMESPACES, any_bit=True),), denied)], NOTIFY
    yield "fork", (), NOTIFY
    yield "vfork", (), NOTIFY
    for name, at in _MODE_AT.items():
        yield name, [FilterRule((Test(at, _SET_ID_BITS, any_bit=True),), denied)], NOTIFY
    for name in CHANGES:
        yield name, (), NOTIFY
    for name, flags_at in (("open", 1), ("openat", 2)):
        creates_set_id = (Test(flags_at, _CREATES, any_bit=True), Test(flags_at + 1, _SET_ID_BITS, any_bit=True))
        yield name, [FilterRule(creates_set_id, denied)], ALLOW
    for name, mode_at in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield name, [FilterRule((Test(mode_at, _SET_ID_BITS, any_bit=True),), denied)], ALLOW


def program(machine: Machine, *, scoped_signals: bool) -> bytes:
    """Assemble the filter to BPF."""
    code = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_JUMP_EQUAL, machine.audit_arch, 1, 0),
        _instruction(_RETURN, KILL),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    if machine.has_x32:
        code += [_instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1), _instruction(_RETURN, KILL)]
    code += [_instruction(_JUMP_GREATER, LAST_KNOWN, 0, 1), _instruction(_RETURN, error(errno.ENOSYS))]
    for name, clauses, otherwise in rules(scoped_signals=scoped_signals):
        if name in machine.numbers:
            code += _block(machine.numbers[name], clauses, otherwise)
    code.append(_instruction(_RETURN, ALLOW))
    return b"".join(code)


def _block(number: int, clauses: Sequence[FilterRule], otherwise: int) -> list[bytes]:
    body: list[bytes] = []
    for clause in clauses:
        body += _clause(clause)
    body.append(_instruction(_RETURN, otherwise))
    assert len(body) <= _MAX_JUMP, "a rule is too long for one jump"
    return [_instruction(_JUMP_EQUAL, number, 0, len(body)), *body]


def _clause(clause: FilterRule) -> list[bytes]:
    length = 3 * len(clause.tests) + 1
    code: list[bytes] = []
    for test in clause.tests:
        code.append(_instruction(_LOAD, _ARGUMENTS_AT + 8 * test.argument))
        code.append(_instruction(_AND, test.mask))
        past_clause = length - len(code) - 1
        code.append(_instruction(_JUMP_ANY_BIT if test.any_bit else _JUMP_EQUAL, test.value, 0, past_clause))
    code.append(_instruction(_RETURN, clause.action))
    return code


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install(machine: Machine, *, scoped_signals: bool) -> int:
    """Filter this process and its descendants; return the descriptor from which the supervisor reads calls."""
    code = program(machine, scoped_signals=scoped_signals)
    filter_program = _Program(len(code) // 8, code)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        try:
            return kernel.syscall(
                "seccomp", machine.numbers["seccomp"], _SET_MODE_FILTER, flags, ctypes.byref(filter_program)
            )
        except OSError as failure:
            if failure.errno != errno.EINVAL or flags == _NEW_LISTENER:
                raise
    raise AssertionError("one of the two returned or raised")
