"""Reads the prompts of `foveate chat` from a keyboard or a pipe: single lines, or texts of several lines."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence

import click

from foveate.errors import InputError

PROMPT = "> "
MORE = "… "
QUOTES = '"""'
MAX_PROMPT_CHARS = 2_000_000
PASTE_SECONDS = 0.05
"""A line that follows another within this time was pasted with it."""


class Lines:
    """Reads prompts; at a terminal, lines can be edited and recalled."""

    def __init__(self, *, is_typed: bool, commands: Sequence[str]) -> None:
        self.is_typed = is_typed
        self._joins_pasted = is_typed and not _edit_lines(commands)

    def read(self) -> str | None:
        """Read the next prompt: a line, or a pasted text.

        A backslash at the end of a line continues it; three quotes begin and end a text of several lines.
        """
        first = self._line(PROMPT)
        if first is None:
            return None
        if first.lstrip().startswith(QUOTES):
            return self._quoted(first.lstrip().removeprefix(QUOTES))
        lines = [first]
        while (is_pasted := self._is_pasted(first)) or lines[-1].endswith("\\"):
            lines[-1] = lines[-1] if is_pasted else lines[-1].removesuffix("\\")
            following = self._line(MORE)
            if following is None:
                break
            lines.append(following)
            _check_length(lines)
        return "\n".join(lines)

    def ask(self, question: str) -> bool:
        """Ask a yes/no question; any answer other than yes means no."""
        answer = self._line(f"{question} [y/N] ")
        return (answer or "").strip().lower() in ("y", "yes")

    def _quoted(self, first: str) -> str:
        lines = [first]
        while not lines[-1].rstrip().endswith(QUOTES):
            following = self._line(MORE)
            if following is None:
                break
            lines.append(following)
            _check_length(lines)
        lines[-1] = lines[-1].rstrip().removesuffix(QUOTES)
        return "\n".join(lines).strip("\n")

    def _line(self, prompt: str) -> str | None:
        """Read a line without its line end, or several pasted lines; None at the end of the input."""
        try:
            read = _readable(input(prompt)) if self.is_typed else sys.stdin.readline(MAX_PROMPT_CHARS + 1)
        except EOFError:
            if self._joins_pasted:  # a bracketed paste includes its line ends
                click.echo()
            return None
        except UnicodeDecodeError as error:
            raise InputError(f"the input is not UTF-8 text (byte {error.start})") from error
        line = read.rstrip("\r\n")
        _check_length([line])
        return line if read or self.is_typed else None

    def _is_pasted(self, first: str) -> bool:
        """Report whether more pasted text is waiting, on a terminal without bracketed paste; a command is one line."""
        is_command = first.startswith("/") and not first.startswith("//")
        return self._joins_pasted and not is_command and _has_more()


def _has_more() -> bool:
    try:
        ready, _, _ = select.select([sys.stdin], [], [], PASTE_SECONDS)
    except OSError:  # not supported for terminals on Windows
        return False
    return bool(ready)


def _readable(text: str) -> str:
    """Replace bytes from the terminal that are not valid text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _check_length(lines: Sequence[str]) -> None:
    chars = sum(map(len, lines))
    if chars > MAX_PROMPT_CHARS:
        raise InputError(f"a prompt has at most {MAX_PROMPT_CHARS:,} characters, not {chars:,}; split it")


def _edit_lines(commands: Sequence[str]) -> bool:
    """Enable line editing, recall and Tab completion if available; report whether bracketed paste is on."""
    try:
        import readline
    except ImportError:
        return False

    def complete(text: str, state: int) -> str | None:
        fitting = [name for name in commands if name.startswith(text)]
        return fitting[state] if state < len(fitting) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
        return False
    readline.parse_and_bind("tab: complete")
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    # Python turns it off, since its own prompt reads single lines; here a prompt may have several.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return True
