"""A command in a terminal of its own, as a person has it: keys go in, the screen comes out."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType

from support.command_line import Shell, command
from support.patience import PATIENCE_SECONDS

AGAIN_SECONDS = 10.0
"""A person presses a key again that had no effect for so long."""
CTRL_C = "\x03"
CTRL_D = "\x04"
# A run in the background ignores interrupts, and its children would, too.
_SPAWN = (
    "import pty, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
)


class Terminal:
    """Use it in a `with` block; it is closed by force if the command does not end."""

    def __init__(self, shell: Shell, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SPAWN, *command(*arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=shell.environment(**{"TERM": "dumb"} | environment),
        )
        self._shown = ""
        self._seen = 0
        self._has_ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Terminal:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE_SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()

    def type(self, keys: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(keys.encode())
        self._process.stdin.flush()

    def press(self, key: str, text: str) -> str:
        """Press a key until this text is shown: one that comes between two looks at the keyboard waits for the next."""
        for _ in range(int(PATIENCE_SECONDS / AGAIN_SECONDS)):
            self.type(key)
            if self._wait(text, AGAIN_SECONDS):
                break
        return self.wait_for(text)

    def _wait(self, text: str, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: text in self._shown[self._seen :] or self._has_ended, seconds)

    def wait_for(self, text: str) -> str:
        """What was shown since the last time, up to this text."""
        there = self._wait(text, PATIENCE_SECONDS)
        with self._changed:
            new = self._shown[self._seen :]
            assert there and text in new, f"{text!r} is not in: {new}"  # noqa: PT018
            end = new.index(text) + len(text)
            self._seen += end
            return new[:end]

    def rest(self) -> str:
        """What was shown since the last time, by a command that ends."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._has_ended, PATIENCE_SECONDS), self._shown
            return self._shown[self._seen :]

    def wait_for_end(self) -> int:
        """The exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self) -> None:
        assert self._process.stdout
        while piece := self._process.stdout.read1(4096):  # type: ignore[attr-defined]
            with self._changed:
                self._shown += piece.decode("utf-8", "replace")
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
