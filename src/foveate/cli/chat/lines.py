"""What the user of `foveate chat` types, or a program pipes in: prompts of one line, or of several."""

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
"""A line that comes so soon after another was not typed, but pasted with it."""


class Lines:
    """Reads prompts; with a person at the keyboard, lines can be edited and recalled."""

    def __init__(self, *, is_typed: bool, commands: Sequence[str]) -> None:
        self.is_typed = is_typed
        self._joins_pasted = is_typed and not _edit_lines(commands)

    def read(self) -> str | None:
        """The next prompt: a line, or a text that is pasted whole.

        A backslash at its end continues a line; three quotes begin and end a text of any shape.
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
        """Yes or no; whatever is not yes is no."""
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
        """A line without its end, or some that are pasted; None where there are no more."""
        try:
            read = _readable(input(prompt)) if self.is_typed else sys.stdin.readline(MAX_PROMPT_CHARS + 1)
        except EOFError:
            if self._joins_pasted:  # where a paste comes whole, so does the line's end
                click.echo()
            return None
        except UnicodeDecodeError as error:
            raise InputError(f"the input is not text in UTF-8 (byte {error.start})") from error
        line = read.rstrip("\r\n")
        _check_length([line])
        return line if read or self.is_typed else None

    def _is_pasted(self, first: str) -> bool:
        """Whether more of a text waits, where the terminal does not mark what is pasted; a command is one line."""
        is_command = first.startswith("/") and not first.startswith("//")
        return self._joins_pasted and not is_command and _has_more()


def _has_more() -> bool:
    try:
        ready, _, _ = select.select([sys.stdin], [], [], PASTE_SECONDS)
    except OSError:  # no terminal can be asked that on Windows
        return False
    return bool(ready)


def _readable(text: str) -> str:
    """The text with a mark for each byte that the terminal sent and that is no letter."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _check_length(lines: Sequence[str]) -> None:
    chars = sum(map(len, lines))
    if chars > MAX_PROMPT_CHARS:
        raise InputError(f"a prompt has at most {MAX_PROMPT_CHARS:,} characters, not {chars:,}; say it in parts")


def _edit_lines(commands: Sequence[str]) -> bool:
    """Arrow keys, recall, and Tab for commands, where Python was built with them; whether a paste comes whole."""
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
    # Python switches it off, since its own prompt takes one line at a time; here a prompt may have many.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return True
