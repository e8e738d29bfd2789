"""System calls that Python does not offer."""

from __future__ import annotations

import ctypes
import os
from itertools import product

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_INHERITABLE = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def syscall(call: str, number: int, *arguments: object) -> int:
    """Make a system call and return its result; `OSError` if it fails."""
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *values), call)


def prctl(option: int, value: int) -> None:
    rest = [ctypes.c_ulong(0)] * 3
    _checked(_libc.prctl(option, ctypes.c_ulong(value), *rest), "prctl")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, flags: int) -> None:
    where = os.fsencode(target)
    _checked(_libc.mount(os.fsencode(source), where, None, ctypes.c_ulong(flags), None), f"mount {target}")


def set_times(descriptor: int, times: bytes | None, flags: int) -> None:
    """Call `utimensat` on an open file, with the two time stamps as the kernel reads them; None: now."""
    _checked(_libc.utimensat(descriptor, b"", times, flags), "utimensat")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities(kept: int) -> None:
    """Drop all capabilities except those whose bits are set in `kept`, for this process and whatever it executes."""
    for capability in range(_LAST_CAPABILITY + 1):
        if not kept >> capability & 1:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:  # beyond the kernel's last one, or not root: there is nothing to drop
                break
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    current = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(ctypes.byref(header), current), "capget")
    for word, kind in product(range(2), range(3)):  # effective, permitted and inheritable, two 32-bit words each
        current[3 * word + kind] &= (kept >> 32 * word & 0xFFFFFFFF) if kind != _INHERITABLE else 0
    _checked(_libc.capset(ctypes.byref(header), current), "capset")
