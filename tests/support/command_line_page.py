"""Writes `docs/reference/command-line.md` from every help page: `python tests/support/command_line_page.py`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from foveate.cli import cli
from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "command-line.md"
WIDTH = 100
HEAD = """# The command line

Written by `python tests/support/command_line_page.py` from the help of each command.

Every command takes `--json`, and then answers with one JSON value; `chat` and `run` write one a line, as things happen.
Groups have commands inside: `foveate sessions goal list demo --json`. `--db` can come first: `foveate --db FILE …`.
A command that fails says why in a sentence on the error stream, also where its output can't be written (a full disk).

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed, or something was found: a problem (`doctor`), unread lines (`import`), an overrun (`replay`, `compare`) |
| 2 | usage error: the command was not called as its help says |
| 3, 4, 5 | `run`: blocked, a limit was reached, a question |
| 130 | interrupted with Ctrl-C |
| 141 | the reader of standard output closed it, as `head` does; nothing is printed about it |

A session is named by its id, a unique beginning of it, or its title; a turn by `T-3`, `t-3` or `3`; a number of tokens
by `8000`, `8,000`, `8k` or `1.5m`.
"""


def generate() -> str:
    """The page as it should be."""
    sections = [f"## {title}\n\n```text\n{help_}\n```\n" for title, help_ in helps()]
    return "\n".join([HEAD, *sections])


def helps() -> Iterator[tuple[str, str]]:
    """Each command with its help, a group before its own."""
    pending: list[tuple[str, click.Command, click.Context | None]] = [("foveate", cli, None)]
    while pending:
        name, command, parent = pending.pop(0)
        settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
        context = click.Context(command, parent, info_name=name, **settings)
        yield context.command_path, command.get_help(context).rstrip()
        if isinstance(command, click.Group):
            inner = [(word, command.get_command(context, word), context) for word in command.list_commands(context)]
            pending[:0] = [(word, found, above) for word, found, above in inner if found]


if __name__ == "__main__":
    PAGE.write_text(generate(), "utf-8")
