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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from foveate.client import Foveate
from foveate.settings import load_settings
from foveate.tools import Toolbox, ToolError, ToolOutput, Workspace, registry
from foveate.tools.patch import commit
from foveate.tools.sandbox import layers, run
from foveate.tools.settings import ExecSettings, ToolsSettings, WebSettings
from foveate.tools.web import fetch, guard
from foveate.tools.workspace import JOURNAL
from support import escape_attempts
from support.patience import wait_until

LAYERS = layers.detect()
needs_sandbox = pytest.mark.skipif(bool(LAYERS.missing()), reason=LAYERS.summary())
LIMITS = ExecSettings(processes=80, memory_bytes=300_000_000, output_bytes=10_000)
SMALL_DISK = ExecSettings(disk_bytes=20_000_000)
LONG_SECONDS = 120.0
"""For what another limit ends, or its own end: on a busy machine too."""


def workspace(root: Path, store: Path | None = None, **given: Any) -> Workspace:
    fov = cast("Foveate", SimpleNamespace(location=str(store))) if store else None
    return Workspace.at([root], allow_exec=True, fov=fov, settings=ToolsSettings(exec=LIMITS), **given)


def execute(place: Workspace, command: str, seconds: float = LONG_SECONDS) -> run.CommandResult:
    return asyncio.run(run.run(place, command, folder=place.roots[0], seconds=seconds))


class Scene:
    """A working folder, and around it everything that an attempt could reach."""

    def __init__(self, base: Path, stack: ExitStack) -> None:
        self.root, self.outside = base / "root", base / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        for name in ("secret", "target", "moved", "deleted", "readable"):
            (self.outside / name).write_text("SECRET")
        self.store = base / "store.db"
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
        untouched = ("secret", "target", "moved", "deleted", "readable")
        assert {path.name: path.read_text() for path in scene.outside.iterdir()} == dict.fromkeys(untouched, "SECRET")
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


STAYS, CANCELLED, ORPHANED = (f"sleep {seconds}.{os.getpid()}" for seconds in (31, 32, 33))
"""Commands that no other process on this machine has."""
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 30"
DAEMONS = f"for i in 1 2 3 4 5 6 7 8 9 10; do (setsid setsid {STAYS} >/dev/null 2>&1 &); done; echo started"
MANY_PROCESSES = (
    "import os, time\nfor made in range(10_000):\n    try: child = os.fork()\n"
    "    except BlockingIOError: break\n    if not child: time.sleep(600)\nprint(made)"
)
MEMORY = "blocks = []\nwhile True: blocks.append(bytearray(10_000_000))"
SHARED_MEMORY = (
    "import mmap, os, time\nfor i in range(5): os.fork()\nblock = mmap.mmap(-1, 20_000_000)\n"
    "for at in range(0, 20_000_000, 4096): block[at] = 1\ntime.sleep(600)"
)
MANY_DESCRIPTORS = (
    "import os, time\nfor i in range(6): os.fork()\ntry:\n    while True: os.dup(1)\nexcept OSError: time.sleep(600)"
)
MANY_FILES = "for i in $(seq 3000); do head -c 1000000 /dev/zero > file$i || exit 3; done; echo filled"
BOMBS: dict[str, tuple[str, float, ExecSettings]] = {
    "a fork bomb": (FORK_BOMB, 1.0, LIMITS),
    "too many processes": (f"{sys.executable} -c '{MANY_PROCESSES}'", LONG_SECONDS, LIMITS),
    "processes that leave their session": (f"{DAEMONS}; sleep 30", 1.0, LIMITS),
    "processes that stay behind": (DAEMONS, LONG_SECONDS, LIMITS),
    "memory of one process": (f"{sys.executable} -c '{MEMORY}'", LONG_SECONDS, LIMITS),
    "memory of many processes": (f"{sys.executable} -c '{SHARED_MEMORY}'", LONG_SECONDS, LIMITS),
    "a large file": ("head -c 900000000 /dev/zero > large; echo exit $?", LONG_SECONDS, SMALL_DISK),
    "many descriptors": (f"{sys.executable} -c '{MANY_DESCRIPTORS}'", LONG_SECONDS, LIMITS),
    "many files": (MANY_FILES, LONG_SECONDS, SMALL_DISK),
    "endless output": ("yes", LONG_SECONDS, LIMITS),
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
        ("many descriptors", "at the same time"),
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
    assert 0 < int(bombs["too many processes"].output) <= LIMITS.processes
    assert bombs["too many processes"].refused_processes
    assert "MemoryError" in bombs["memory of one process"].output
    large = bombs["a large file"]
    assert "exit 153" in large.output or "disk" in large.stopped  # SIGXFSZ; or another test used the disk meanwhile


FILL_SOCKETS = """if True:
    import os, signal, socket
    reader, writer = os.pipe()
    block = bytes(1 << 16)
    for child in range(6):
        if os.fork() == 0:
            filled, pairs = 0, []
            try:
                while filled < 40_000_000:
                    pairs.append(socket.socketpair())
                    for each in pairs[-1]:
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
                        each.setblocking(False)
                        try:
                            while True: filled += each.send(block)
                        except BlockingIOError: pass
            except OSError: pass
            os.write(writer, b"%d\\n" % filled)
            signal.pause()
    lines = open(reader)
    print(sum(int(next(lines)) for child in range(6)))
"""


@needs_sandbox
def test_the_buffers_of_sockets_hold_no_more_than_the_limit_of_memory(tmp_path: Path) -> None:
    (tmp_path / "fill.py").write_text(FILL_SOCKETS)
    limits = ExecSettings(memory_bytes=100_000_000)
    place = replace(workspace(tmp_path), settings=ToolsSettings(exec=limits))
    result = execute(place, f"{sys.executable} fill.py")
    assert "memory" in result.stopped or 0 < int(result.output) <= limits.memory_bytes


@needs_sandbox
def test_sockets_that_were_closed_make_room_for_others(tmp_path: Path) -> None:
    many = "import socket\nfor _ in range(20_000):\n    for each in socket.socketpair(): each.close()"
    result = execute(workspace(tmp_path), f"{sys.executable} -c '{many}'")
    assert (result.exit_code, result.output) == (0, "")


@needs_sandbox
def test_no_process_stays_behind(bombs: dict[str, run.CommandResult]) -> None:
    assert "started" in bombs["processes that stay behind"].output
    assert bombs["processes that stay behind"].exit_code == 0
    assert STAYS not in _processes()


@needs_sandbox
def test_cancelling_kills_the_command_and_its_processes(tmp_path: Path) -> None:
    async def cancelled() -> None:
        started = tmp_path / "started"
        command = f"setsid {CANCELLED} & {CANCELLED} & touch {started}; wait"
        task = asyncio.ensure_future(run.run(workspace(tmp_path), command, folder=tmp_path, seconds=60))
        await asyncio.to_thread(wait_until, started.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert CANCELLED not in _processes()


@needs_sandbox
def test_a_killed_program_leaves_no_process_behind(tmp_path: Path) -> None:
    program = f"""if True:
        import asyncio
        from foveate.tools import Workspace
        from foveate.tools.sandbox.run import run
        place = Workspace.at([{str(tmp_path)!r}], allow_exec=True)
        command = "setsid {ORPHANED} & {ORPHANED} & touch started; wait"
        asyncio.run(run(place, command, folder=place.roots[0], seconds=60))"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as it:
        wait_until(lambda: (tmp_path / "started").exists() or it.poll() is not None)
        assert it.poll() is None
        it.kill()
    wait_until(lambda: ORPHANED not in _processes())


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
    output = asyncio.run(
        box.call("exec", {"command": "echo 1; echo 2 >&2; printf '\\033[31m3\\033]0;title\\007\\n'; exit 4"})
    )
    assert output.text.startswith("Exit code: 4\nDuration: ")
    assert output.text.endswith("Output:\n1\n2\n3\n")
    assert output.exit_code == 4


def _processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


async def _yes(*_: object) -> bool:
    return True


FULL = layers.Layers(linux=True, machine=True, landlock=7, seccomp=True, namespaces=True)


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (layers.Layers(), "this system is not Linux"),
        (replace(FULL, landlock=0), "file confinement: Landlock is missing or off"),
        (replace(FULL, landlock=2), "file confinement: Landlock here is version 2"),
        (replace(FULL, landlock=0, bubblewrap="/usr/bin/bwrap", root=True), "as root bubblewrap is not enough"),
        (replace(FULL, machine=False), "network confinement: there is no system call filter for this processor"),
        (replace(FULL, seccomp=False), "network confinement: seccomp"),
    ],
)
def test_without_a_layer_nothing_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: layers.Layers, missing: str
) -> None:
    monkeypatch.setattr(layers, "detect", lambda: found)
    with pytest.raises(ToolError, match=missing):
        execute(workspace(tmp_path), "touch executed")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("place", ["store.db", "deep/er/store.db", "link/store.db", "../beside/store.db"])
@pytest.mark.parametrize("what", ["the store", "the settings"])
def test_no_command_is_executed_in_a_folder_that_the_store_or_the_settings_lie_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, what: str
) -> None:
    """Neither by their own name nor by that of a folder or link on the way, and whether they exist or not."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "deep", elsewhere, tmp_path / "beside"):
        folder.mkdir(parents=True)
    (root / "link").symlink_to(elsewhere)
    (tmp_path / "beside" / "store.db").symlink_to(root / "real.db")
    path = root / place
    if what == "the settings":
        monkeypatch.setenv("FOVEATE_CONFIG", str(path))
    with pytest.raises(ToolError, match=f"protection of {what} .*lies inside the working folder .*keep"):
        execute(workspace(root, path if what == "the store" else None), "touch executed")
    assert not (root / "executed").exists()


def test_no_command_is_executed_in_a_folder_with_settings_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("")
    load_settings(tmp_path / "own.toml")
    with pytest.raises(ToolError, match="protection of the settings"):
        execute(workspace(tmp_path), "touch executed")


@needs_sandbox
def test_the_folders_on_the_way_to_the_python_of_foveate_keep_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "tools" / "python"
    python.mkdir(parents=True)
    (python / "pyvenv.cfg").write_text("own")
    (tmp_path / "tools" / "other").mkdir()
    monkeypatch.setattr(sys, "prefix", str(python))
    attempts = (
        "mv tools moved", "mv tools/python tools/moved", "rm -r tools/python", "echo x > tools/python/pyvenv.cfg",
        "python3 -c 'import os; os.rename(\"tools\", \"moved\")'", "mv -T tools/other tools/python",
        "python3 -c 'import ctypes; ctypes.CDLL(None).umount2(b\"tools\", 2)'; mv tools moved",
    )  # fmt: skip
    for attempt in attempts:
        assert execute(workspace(tmp_path), attempt).exit_code != 0, attempt
        assert (python / "pyvenv.cfg").read_text() == "own", attempt
    ordinary = "touch tools/new && mv tools/new tools/other/ && mv tools/other/new here && mkdir a && mv a b"
    assert execute(workspace(tmp_path), ordinary).exit_code == 0
    assert (tmp_path / "here").exists()


def test_a_link_to_the_python_of_foveate_is_not_left_to_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "python").symlink_to(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(root / "python"))
    with pytest.raises(ToolError, match="protection of the link that leads to"):
        execute(workspace(root), "touch executed")


@needs_sandbox
def test_a_working_folder_inside_another_can_be_exchanged_for_no_folder_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    place = replace(workspace(root), roots=(root, root / "inner"))
    assert execute(place, f"mv inner moved && ln -s {outside} inner").exit_code == 0
    assert execute(place, "touch inner/executed").exit_code != 0
    assert not list(outside.iterdir())


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


def test_a_forged_journal_of_a_patch_removes_nothing_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / JOURNAL).write_text(json.dumps({"steps": [], "folders": [str(outside)]}))
    with pytest.raises(ToolError, match="outside the folders"):
        commit.recover(workspace(root))
    assert outside.is_dir()


def test_a_pipe_in_place_of_a_journal_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    with pytest.raises(ToolError, match="not the journal"):
        commit.recover(workspace(tmp_path))


@pytest.mark.parametrize("folder", ["..", "/", "link"])
def test_a_command_starts_inside_the_folders(tmp_path: Path, folder: str) -> None:
    (tmp_path / "link").symlink_to("/")
    box = Toolbox([registry.find("exec")], workspace(tmp_path), approve=_yes)
    output = asyncio.run(box.call("exec", {"command": "pwd", "workdir": folder}))
    assert "outside the folders" in output.text


PUBLIC, OTHER_PUBLIC = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NAMES = {
    "public.example": [PUBLIC, OTHER_PUBLIC],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "mixed.example": [PUBLIC, "10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "six.example": ["fd00::1"],
    "nobody.example": [],
    "localhost": ["127.0.0.1", "::1"],
}
SSRF = {
    "loopback": "http://127.0.0.1/",
    "loopback by name": "http://localhost/",
    "another loopback": "http://127.8.9.10/",
    "all interfaces": "http://0.0.0.0/",
    "private 10": "http://10.1.2.3/",
    "private 172": "http://172.31.255.1/",
    "private 192": "http://192.168.0.1/",
    "metadata of a cloud": "http://169.254.169.254/latest/meta-data/",
    "metadata of another cloud": "http://100.100.100.200/",
    "service of a cloud at a public address": "http://168.63.129.16/",
    "addresses of a provider": "http://100.64.0.1/",
    "multicast": "http://224.0.0.1/",
    "broadcast": "http://255.255.255.255/",
    "decimal": "http://2130706433/",
    "octal": "http://0177.0.0.1/",
    "octal with a public look": "http://010.8.8.8/",
    "hexadecimal": "http://0x7f000001/",
    "hexadecimal in parts": "http://0x7f.0.0.0x1/",
    "shortened": "http://127.1/",
    "with a final dot": "http://127.0.0.1./",
    "wide digits": "http://\uff11\uff12\uff17.0.0.1/",
    "IPv6 loopback": "http://[::1]/",
    "IPv6 unspecified": "http://[::]/",
    "IPv6 link-local": "http://[fe80::1]/",
    "IPv6 with a zone": "http://[fe80::1%25eth0]/",
    "IPv6 unique local": "http://[fd00:ec2::254]/",
    "IPv6 multicast": "http://[ff02::1]/",
    "IPv4 in IPv6, mapped": "http://[::ffff:127.0.0.1]/",
    "IPv4 in IPv6, mapped as hexadecimal": "http://[::ffff:7f00:1]/",
    "IPv4 in IPv6, compatible": "http://[::127.0.0.1]/",
    "IPv4 in IPv6, 6to4": "http://[2002:7f00:1::]/",
    "IPv4 in IPv6, translated": "http://[64:ff9b::127.0.0.1]/",
    "IPv4 in IPv6, translated locally": "http://[64:ff9b:1::a00:1]/",
    "IPv4 in IPv6, Teredo": "http://[2001:0:7f00:1::]/",
    "a name with the address in it": "http://127.0.0.1.nip.example/",
    "a name with a public and a private address": "http://mixed.example/",
    "a name of the metadata service": "http://metadata.example/",
    "a name with a private IPv6 address": "http://six.example/",
    "a name without an address": "http://nobody.example/",
    "a file": "file:///etc/passwd",
    "gopher": "gopher://public.example/_GET",
    "ftp": "ftp://public.example/",
    "data": "data:text/html,hello",
    "a scheme with a port": "unix:///var/run/docker.sock",
    "a user name": "http://public.example@127.0.0.1/",
    "a user name that hides the host": "http://127.0.0.1@public.example/",
    "a password": "http://user:secret@public.example/",
    "a backslash": "http://public.example\\@127.0.0.1/",
    "a line break": "http://public.example/\r\nHost: localhost",
    "a port of another service": "http://public.example:6379/",
    "no host": "http:///etc/passwd",
    "a relative URL": "/etc/passwd",
}


STAY_ON_THEIR_HOST = {"a relative URL", "a line break", "no host"}
"""As redirects these lead to another path of the public host."""


class Resolver:
    """Names by a table; each look-up is recorded."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self.answers = {name: list(found) for name, found in (answers or {}).items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        later = self.answers.get(host)
        return (later.pop(0) if len(later) > 1 else later[0]) if later else NAMES[host]


@pytest.mark.parametrize("name", SSRF)
def test_no_private_address_is_fetched(name: str) -> None:
    with pytest.raises(ToolError):
        asyncio.run(guard.check(SSRF[name], (), Resolver()))


def test_a_public_address_is_fetched() -> None:
    target = asyncio.run(guard.check("https://public.example/a?b=c", (), Resolver()))
    assert target.addresses == (PUBLIC, OTHER_PUBLIC)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are connected to. A connection is answered with a redirect to what the path names."""
    made: list[str] = []

    async def answer(address: str, url: httpx2.URL, _settings: WebSettings) -> fetch.Page | httpx2.URL:
        made.append(address)
        to = url.params.get("to")
        return url.join(to) if to else fetch.Page(url=str(url), media_type="text/plain", content=b"", text="")

    monkeypatch.setattr(fetch, "_request_from", answer)
    fetch._cache.clear()
    return made


@pytest.mark.parametrize("name", sorted(SSRF.keys() - STAY_ON_THEIR_HOST))
def test_no_redirect_leads_to_a_private_address(connections: list[str], name: str) -> None:
    start = httpx2.URL("http://public.example/", params={"to": SSRF[name]})
    with pytest.raises((ToolError, httpx2.InvalidURL)):
        asyncio.run(fetch.fetch(str(start), WebSettings(), resolver=Resolver()))
    assert set(connections) <= {PUBLIC}


def test_a_name_that_changes_after_the_check_is_not_resolved_again(connections: list[str]) -> None:
    resolver = Resolver({"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
    asyncio.run(fetch.fetch("http://rebind.example/", WebSettings(), resolver=resolver))
    assert (connections, resolver.asked) == ([PUBLIC], ["rebind.example"])


def test_a_name_that_changes_between_redirects_is_checked_again(connections: list[str]) -> None:
    resolver = Resolver({"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
    with pytest.raises(ToolError, match="not public"):
        asyncio.run(fetch.fetch("http://rebind.example/?to=/again", WebSettings(), resolver=resolver))
    assert connections == [PUBLIC]


def test_an_allowed_host_does_not_open_others(connections: list[str]) -> None:
    settings = WebSettings(allow_hosts=("127.0.0.1:9000",))
    asyncio.run(fetch.fetch("http://127.0.0.1:9000/", settings))
    for url in ("http://127.0.0.1/", "http://127.0.0.1:9001/", "http://127.0.0.1:9000/?to=http://10.0.0.1/"):
        with pytest.raises(ToolError):
            asyncio.run(fetch.fetch(url, settings, resolver=Resolver()))
    assert set(connections) == {"127.0.0.1"}


@pytest.mark.parametrize("name", ["write_file", "apply_patch"])
def test_no_file_tool_writes_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("FOVEATE_CONFIG", str(tmp_path / "own.toml"))
    patch = "*** Begin Patch\n*** Add File: own.toml\n+[tools]\n*** End Patch"
    arguments = {"patch": patch} if name == "apply_patch" else {"path": "own.toml", "content": "[tools]"}
    output = asyncio.run(Toolbox([registry.find(name)], Workspace.at([tmp_path]), approve=_yes).call(name, arguments))
    assert (output.is_error, "settings of Foveate" in output.text) == (True, True)
    assert not (tmp_path / "own.toml").exists()
