"""Attempts to leave the sandbox of `exec` and the guard of `fetch_url`. None succeeds; where nothing can be confined,
nothing is executed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import uuid
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from foveate.client import Foveate
from foveate.tools import Toolbox, ToolError, ToolOutput, Workspace, registry
from foveate.tools.sandbox import layers, run
from foveate.tools.settings import ExecSettings, ToolsSettings
from support import escape_attempts

LAYERS = layers.detect()
needs_sandbox = pytest.mark.skipif(bool(LAYERS.missing()), reason=LAYERS.summary())
LIMITS = ExecSettings(processes=80, memory_bytes=300_000_000, output_bytes=10_000)
SMALL_DISK = ExecSettings(disk_bytes=20_000_000)


def workspace(root: Path, store: Path | None = None, **given: Any) -> Workspace:
    fov = cast("Foveate", SimpleNamespace(location=str(store))) if store else None
    return Workspace.at([root], allow_exec=True, fov=fov, settings=ToolsSettings(exec=LIMITS), **given)


def execute(place: Workspace, command: str, seconds: float = 20) -> run.CommandResult:
    return asyncio.run(run.run(place, command, folder=place.roots[0], seconds=seconds))


class Scene:
    """A working folder, and around it everything that an attempt could reach."""

    def __init__(self, base: Path, stack: ExitStack) -> None:
        self.root, self.outside = base / "root", base / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        for name in ("secret", "target", "moved", "deleted", "readable"):
            (self.outside / name).write_text("SECRET")
        self.store = self.root / "store.db"
        for suffix in ("", "-wal"):
            Path(f"{self.store}{suffix}").write_text("SECRET")
        shutil.copy(escape_attempts.__file__, self.root / "attempts.py")
        unique = f"foveate-{uuid.uuid4().hex[:8]}"
        sockets = Path("/tmp", f"{unique}-sockets")  # a socket's path is short
        sockets.mkdir()
        stack.callback(shutil.rmtree, sockets)
        tcp, unix, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX), socket.socket(1)
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        unix.bind(str(sockets / "stream"))
        abstract.bind(f"\0{unique}")
        datagrams.bind(str(sockets / "datagrams"))
        for each in (tcp, unix, abstract, datagrams):
            stack.enter_context(each)
        unix.listen()
        abstract.listen()
        self.victim = subprocess.Popen(["sleep", "60"], env={"TOKEN": "SECRET"}, cwd=self.outside)
        stack.callback(self.victim.wait)
        stack.callback(self.victim.kill)
        params = {
            "secret": str(self.outside / "secret"), "outside": str(self.outside), "store": str(self.store),
            "readable": str(self.outside / "readable"), "home": str(Path.home()), "victim": self.victim.pid,
            "foveate": os.getpid(), "own": layers.__file__, "unique": unique, "tcp": tcp.getsockname()[1],
            "unix": str(sockets / "stream"), "datagrams": str(sockets / "datagrams"),
        }  # fmt: skip
        (self.root / "params.json").write_text(json.dumps(params))
        for folder in ("/tmp", "/dev/shm"):
            stack.callback(Path(folder, unique).unlink, missing_ok=True)


def outcomes(output: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each attempt ended in the sandbox."""
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("TOKEN", "SECRET")
        scene = Scene(tmp_path_factory.mktemp("confined"), stack)
        place = workspace(scene.root, scene.store)
        readable = ToolsSettings(exec=ExecSettings(read_folders=(str(scene.outside / "readable"),)))
        result = execute(replace(place, settings=readable), f"{sys.executable} attempts.py")
        assert scene.store.read_text() == "SECRET"
        return outcomes(result.output)


@needs_sandbox
@pytest.mark.parametrize("name", escape_attempts.ATTEMPTS)
def test_no_attempt_leaves_the_sandbox(confined: dict[str, str], name: str) -> None:
    assert confined[name].startswith(("held", "killed"))


def test_the_attempts_are_real(tmp_path: Path) -> None:
    """Outside the sandbox those succeed that need no special machine."""
    with ExitStack() as stack:
        scene = Scene(tmp_path, stack)
        certain = (name for name in escape_attempts.ATTEMPTS if name in escape_attempts.CERTAIN)
        command = [sys.executable, "attempts.py", *certain]
        ended = subprocess.run(
            command, cwd=scene.root, env={"TOKEN": "SECRET"}, capture_output=True, text=True, check=True
        )
    found = outcomes(ended.stdout)
    assert {name: how for name, how in found.items() if how != escape_attempts.ESCAPED} == {}


FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 30"
DAEMONS = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid setsid sleep 31.5 >/dev/null 2>&1 &); done; echo started"
MEMORY = "blocks = []\nwhile True: blocks.append(bytearray(10_000_000))"
SHARED_MEMORY = (
    "import mmap, os, time\nfor i in range(8): os.fork()\nblock = mmap.mmap(-1, 20_000_000)\n"
    "for at in range(0, 20_000_000, 4096): block[at] = 1\ntime.sleep(30)"
)
MANY_FILES = "for i in $(seq 3000); do head -c 1000000 /dev/zero > file$i || exit 3; done; echo filled"
BOMBS: dict[str, tuple[str, float, ExecSettings]] = {
    "a fork bomb": (FORK_BOMB, 1.0, LIMITS),
    "processes that leave their session": (f"{DAEMONS}; sleep 30", 1.0, LIMITS),
    "processes that stay behind": (DAEMONS, 20, LIMITS),
    "memory of one process": (f"{sys.executable} -c '{MEMORY}'", 20, LIMITS),
    "memory of many processes": (f"{sys.executable} -c '{SHARED_MEMORY}'", 20, LIMITS),
    "a large file": ("head -c 900000000 /dev/zero > large; echo exit $?", 20, SMALL_DISK),
    "many files": (MANY_FILES, 30, SMALL_DISK),
    "endless output": ("yes", 20, LIMITS),
    "endless time": ("trap '' TERM INT; while true; do sleep 30; done", 1.0, LIMITS),
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, run.CommandResult]:
    """How each bomb ended; all at the same time, each in a folder of its own."""

    async def explode(command: str, seconds: float, limits: ExecSettings) -> run.CommandResult:
        place = replace(workspace(tmp_path_factory.mktemp("bomb")), settings=ToolsSettings(exec=limits))
        return await run.run(place, command, folder=place.roots[0], seconds=seconds)

    async def all_of_them() -> list[run.CommandResult]:
        return await asyncio.gather(*(explode(*bomb) for bomb in BOMBS.values()))

    return dict(zip(BOMBS, asyncio.run(all_of_them()), strict=True))


@needs_sandbox
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("a fork bomb", "time limit"),
        ("processes that leave their session", "time limit"),
        ("memory of many processes", "memory"),
        ("many files", "disk"),
        ("endless output", "output"),
        ("endless time", "time limit"),
    ],
)
def test_a_bomb_is_stopped(bombs: dict[str, run.CommandResult], name: str, how: str) -> None:
    assert how in bombs[name].stopped
    assert len(bombs[name].output) < 3 * LIMITS.output_bytes


@needs_sandbox
def test_a_bomb_fails_at_its_limit(bombs: dict[str, run.CommandResult]) -> None:
    assert bombs["a fork bomb"].refused_processes > 0
    assert "MemoryError" in bombs["memory of one process"].output
    large = bombs["a large file"]
    assert "exit 153" in large.output or "disk" in large.stopped  # SIGXFSZ; or another test used the disk meanwhile


@needs_sandbox
def test_no_process_stays_behind(bombs: dict[str, run.CommandResult]) -> None:
    assert "started" in bombs["processes that stay behind"].output
    assert bombs["processes that stay behind"].exit_code == 0
    assert "sleep 31.5" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@needs_sandbox
def test_cancelling_kills_the_command_and_its_processes(tmp_path: Path) -> None:
    async def cancelled() -> None:
        started = tmp_path / "started"
        command = f"setsid sleep 32.5 & sleep 32.5 & touch {started}; wait"
        task = asyncio.ensure_future(run.run(workspace(tmp_path), command, folder=tmp_path, seconds=60))
        while not started.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert "sleep 32.5" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@needs_sandbox
def test_ordinary_work_is_possible(tmp_path: Path) -> None:
    """What people do in a working folder: scripts, modes, times, links, pipes, processes and threads."""
    command = """set -e
        printf '#!/bin/sh\\necho ran' > script; chmod +x script; ./script
        mkdir -p a/b; mv script a/b/; cp -p a/b/script copy; touch -d 2020-01-01 copy; ln -s a/b/script link; ./link
        ls -l --time-style=long-iso copy | grep -o 2020-01-01; diff <(echo 1) <(echo 1); echo $HOME > $TMPDIR/home
        python -c 'import threading, socket; socket.socketpair(); t = threading.Thread(target=print, args=("thread",)); t.start()'
        rm -r a; false || exit 7"""  # noqa: E501
    result = execute(workspace(tmp_path), command)
    assert result.output.splitlines() == ["ran", "ran", "2020-01-01", "thread"]
    assert result.exit_code == 7


@needs_sandbox
def test_output_and_errors_come_in_order(tmp_path: Path) -> None:
    box = Toolbox([registry.find("exec")], workspace(tmp_path), approve=_yes)
    output = asyncio.run(box.call("exec", {"command": "echo 1; echo 2 >&2; echo 3; exit 4"}))
    assert output.text.startswith("Exit code: 4\nDuration: ")
    assert output.text.endswith("Output:\n1\n2\n3\n")
    assert output.exit_code == 4


async def _yes(*_: object) -> bool:
    return True


FULL = layers.Layers(linux=True, machine=True, landlock=7, seccomp=True, namespaces=True)


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (layers.Layers(), "this system is not Linux"),
        (replace(FULL, landlock=0), "file confinement: Landlock is missing or off"),
        (replace(FULL, landlock=2), "file confinement: Landlock here is version 2"),
        (replace(FULL, machine=False), "network confinement: there is no system call filter for this processor"),
        (replace(FULL, seccomp=False), "network confinement: seccomp"),
        (replace(FULL, namespaces=False), "protection of .*store.db, which lies inside"),
    ],
)
def test_without_a_layer_nothing_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: layers.Layers, missing: str
) -> None:
    (tmp_path / "store.db").touch()
    monkeypatch.setattr(layers, "detect", lambda: found)
    place = workspace(tmp_path, tmp_path / "store.db")
    with pytest.raises(ToolError, match=missing):
        execute(place, "touch executed")
    assert not (tmp_path / "executed").exists()


def test_a_layer_that_fails_at_the_last_moment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "detect", lambda: FULL)
    monkeypatch.setattr(layers, "DEVICES", ("\0",))
    with pytest.raises(ToolError, match=r"not executed|sandbox failed"):
        execute(workspace(tmp_path), "touch executed")
    assert not (tmp_path / "executed").exists()


def test_the_home_folder_is_not_given_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ToolError, match="home folder"):
        execute(workspace(tmp_path), "true")


def test_unsandboxed_execution_is_explicit_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "detect", lambda: layers.Layers(linux=sys.platform == "linux"))
    place = workspace(tmp_path, allow_unsandboxed=True)
    output = asyncio.run(Toolbox([registry.find("exec")], place, approve=_yes).call("exec", {"command": "echo done"}))
    assert isinstance(output, ToolOutput)
    assert "NOT confined" in output.text
    assert output.text.endswith("done\n")


def test_exec_is_off_by_default(tmp_path: Path) -> None:
    box = Toolbox([registry.find("exec")], Workspace.at([tmp_path]), approve=_yes)
    output = asyncio.run(box.call("exec", {"command": "touch executed"}))
    assert "--allow-exec" in output.text
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("folder", ["..", "/", "link"])
def test_a_command_starts_inside_the_folders(tmp_path: Path, folder: str) -> None:
    (tmp_path / "link").symlink_to("/")
    box = Toolbox([registry.find("exec")], workspace(tmp_path), approve=_yes)
    output = asyncio.run(box.call("exec", {"command": "pwd", "workdir": folder}))
    assert "outside the folders" in output.text
