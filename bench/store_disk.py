"""A child process on this disk, on a slower one, or with its fsyncs watched.

A slower disk is this one with a pause after each fsync, which `strace` puts into the system call itself, or, where
strace is not installed, a small library of C loaded before the C library's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SYNCS = "fsync,fdatasync"
SHIM = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int file) { int status = syscall(SYS_fsync, file); usleep(PAUSE_US); return status; }
int fdatasync(int file) { int status = syscall(SYS_fdatasync, file); usleep(PAUSE_US); return status; }
"""

_MARK = re.compile(r'\bwrite\(\d+, "(given|acknowledged) (\d+)\\n"')


@dataclass(frozen=True, slots=True)
class Disk:
    """How a child is started."""

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, script: str, *arguments: object) -> Any:
        """The JSON that a script of this folder answers with."""
        command = [*self.command, sys.executable, str(HERE / script), *map(str, arguments)]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)


THIS_DISK = Disk("this disk")


def slow_disk(pause_ms: float, directory: Path) -> Disk | None:
    """This disk, each fsync of it longer by so much; None where there is no way to have one."""
    name, pause_us = f"a disk whose fsync takes {pause_ms:g} ms more", round(pause_ms * 1000)
    if strace := shutil.which("strace"):
        log = str(directory / "slow.strace")
        inject = f"inject={SYNCS}:delay_exit={pause_us}"
        disk = Disk(name, (strace, "-f", "--seccomp-bpf", "-o", log, "-e", f"trace={SYNCS}", "-e", inject))
        if _works(disk):
            return disk
    if compiler := shutil.which("cc") or shutil.which("gcc"):
        source, library = directory / "slow.c", directory / "slow.so"
        source.write_text(SHIM.replace("PAUSE_US", str(pause_us)), "utf-8")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return Disk(name, environment={"LD_PRELOAD": str(library)})
    return None


def _works(disk: Disk) -> bool:
    """Tracing may be forbidden, as in some containers."""
    return subprocess.run([*disk.command, "true"], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Watched:
    """What a trace of system calls shows."""

    turns: int
    fsyncs: int
    turns_behind_one: int
    """Turns with an fsync that began after they were given and ended before they were acknowledged."""


def watch_fsyncs(directory: Path, variant: str, turns: int) -> Watched | None:
    """Record under strace; None where it can't be had."""
    strace = shutil.which("strace")
    log = directory / "watched.strace"
    watching = Disk("watched", (strace or "", "-f", "-o", str(log), "-e", f"trace=write,{SYNCS}"))
    if not strace or not _works(watching):
        return None
    watching.run("store_rates.py", variant, directory / "watched.db", turns, "--mark")
    with log.open(encoding="utf-8", errors="replace") as lines:
        return _read_trace(lines)


def _read_trace(lines: Any) -> Watched:
    given: dict[str, int] = {}
    running: dict[str, int] = {}
    last_begun, fsyncs, behind, acknowledged = -1, 0, 0, 0
    for number, line in enumerate(lines):
        thread = line.split(None, 1)[0]
        if mark := _MARK.search(line):
            if mark[1] == "given":
                given[mark[2]] = number
            else:
                acknowledged += 1
                behind += last_begun > given[mark[2]]
        elif "sync(" in line and "unfinished" in line:
            running[thread] = number
        elif "sync(" in line or "sync resumed" in line:
            fsyncs += bool(given)
            last_begun = max(last_begun, running.pop(thread, number))
    return Watched(acknowledged, fsyncs, behind)
