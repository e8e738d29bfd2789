"""Landlock: the files that a process and its descendants may use, enforced by the kernel without any privilege."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress

from . import kernel, syscalls

MIN_ABI = 3
"""Below this version, a read-only file can still be truncated."""
NETWORK_ABI = 4
SCOPES_ABI = 6
"""From this version on, signals and abstract sockets don't leave the sandbox."""
_DEVICE_IOCTL_ABI = 5

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 15) - 1
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = (
    READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM
    | _REFER | _TRUNCATE
)  # fmt: skip
"""All rights except devices."""
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE
_TCP = 0b11
_SCOPES = 0b11
_RULE_PATH_BENEATH = 1
_CREATE_RULESET_VERSION = 1


def abi() -> int:
    """Return the version of Landlock in this kernel; 0 if there is none or it is off."""
    try:
        return kernel.syscall("landlock_create_ruleset", 444, None, 0, _CREATE_RULESET_VERSION)
    except (OSError, AttributeError):
        return 0


def restrict(read: Sequence[str], write: Sequence[str], devices: Sequence[str]) -> None:
    """Restrict this process to these paths. TCP is denied if the kernel supports it."""
    version = abi()
    numbers = syscalls.SHARED
    handled = _ALL | (_IOCTL_DEV if version >= _DEVICE_IOCTL_ABI else 0)
    fields = [handled]
    if version >= NETWORK_ABI:
        fields.append(_TCP)
    if version >= SCOPES_ABI:
        fields.append(_SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = kernel.syscall(
        "landlock_create_ruleset", numbers["landlock_create_ruleset"], attributes, len(attributes), 0
    )
    try:
        for paths, access in ((read, READ), (write, WRITE), (devices, READ_FILE | WRITE_FILE)):
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError):
                    _allow(ruleset, path, access)
        kernel.syscall("landlock_restrict_self", numbers["landlock_restrict_self"], ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= _FOR_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, opened))
        kernel.syscall("landlock_add_rule", syscalls.SHARED["landlock_add_rule"], ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)
