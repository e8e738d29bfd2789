"""What the user of `foveate chat` types, or a program pipes in: prompts of one line, or of several."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

PROMPT = "> "
MORE = "… "
QUOTES = '"""'
MAX_PROMPT_CHARS = 2_000_000


class Lines:
    """Reads prompts; with a person at the keyboard, lines can be edited and recalled."""

    def __init__(self, *, is_typed: bool, commands: Sequence[str]) -> None:
        self.is_typed = is_typed
        if is_typed:
            _edit_lines(commands)

    def read(self) -> str | None:
        """The next prompt. A backslash at its end continues a line; three quotes begin and end a text of any shape."""
        first = self._line(PROMPT)
        if first is None:
            return None
        if first.lstrip().startswith(QUOTES):
            return self._quoted(first.lstrip().removeprefix(QUOTES))
        lines = [first]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1].removesuffix("\\")
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
        """A line without its end; None where there are no more."""
        try:
            if self.is_typed:
                return _readable(input(prompt))
            line = sys.stdin.readline(MAX_PROMPT_CHARS + 1)
        except EOFError:
            return None
        except UnicodeDecodeError as error:
            raise click.ClickException(f"the input is not text in UTF-8 (byte {error.start})") from error
        _check_length([line])
        return line.rstrip("\r\n") if line else None


def _readable(text: str) -> str:
    """The text with a mark for each byte that the terminal sent and that is no letter."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _check_length(lines: Sequence[str]) -> None:
    if sum(map(len, lines)) > MAX_PROMPT_CHARS:
        raise click.ClickException(f"a prompt has at most {MAX_PROMPT_CHARS:,} characters")


def _edit_lines(commands: Sequence[str]) -> None:
    """Arrow keys, recall, and Tab for commands, where Python was built with them."""
    try:
        import readline
    except ImportError:
        return

    def complete(text: str, state: int) -> str | None:
        fitting = [name for name in commands if name.startswith(text)]
        return fitting[state] if state < len(fitting) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
