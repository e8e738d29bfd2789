"""Shells: the command, its exit code, and its output, summarised by its kind."""

from __future__ import annotations

import re
from types import ModuleType

from foveate.compress.exchange import ToolExchange
from foveate.compress.lines import both_ends, brief, error_lines, fold, placed_error, warning_lines, without_blanks
from foveate.compress.tools import diffs, files, generic, json_data, listings, runs, search, tests
from foveate.text import several

tools: tuple[str, ...] = (
    "bash", "exec", "shell", "terminal", "run", "execcommand", "runcommand", "runterminalcmd", "executecommand",
    "localshell", "sh", "zsh", "powershell", "cmd", "runshellcommand", "executebash", "runinterminal", "python",
    "executepython", "runpython", "ipython", "executecode", "codeinterpreter", "bashoutput", "writestdin", "console",
)  # fmt: skip
COMMAND_CHARS = 70
OUTCOME_CHARS = 90

_PREAMBLE = re.compile(
    r"^(?:cd [^&;|\n]+(?:&&|;)|(?:export )?\w+=\S+(?: &&|;)?|source \S+ *(?:&&|;)|set -\w+ *(?:&&|;|\n)|sudo)\s*"
)
_PROGRAM = re.compile(r"^(?:[\w./-]*/)?([\w.-]+)(?: +(?:-C \S+ +)?([a-z][\w-]*))?")
_SHAPES = (tests, diffs, runs, listings, search, json_data)
_PROGRAMS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (search, ("grep", "rg", "ag", "ack", "git grep")),
    (listings, ("ls", "find", "fd", "fdfind", "tree", "git ls-files")),
    (files, ("cat", "sed", "head", "tail", "bat", "nl", "less")),
)
_QUOTERS = ("git", "gh", "curl", "wget", "echo", "printf", "awk", "jq", "man")
"""Programs that print the words of others: a count in them is not their own outcome."""
_PROGRESS = re.compile(
    r"^\s*(?:\d{1,3} ?%|\[?###[#. ]*+\]?\s*+\d*+%?$|(?:Downloading|Collecting|Fetching|Unpacking|Resolving"
    r"|Compiling|Downloaded|Get:\d+"
    r"|Preparing|Selecting|Requirement already satisfied)\b)"
)


def recognises(exchange: ToolExchange) -> bool:  # noqa: ARG001
    return False


def summarise(exchange: ToolExchange) -> str:
    first, _, more = _main_command(exchange).partition("\n")
    return f"{brief(first, COMMAND_CHARS)}{' …' if more.strip() else ''}: {_outcome(exchange)}"


def _outcome(exchange: ToolExchange) -> str:
    specialist = _specialist(exchange)
    if specialist in (tests, runs):
        said_by_it: str = specialist.outcome(exchange)
        return said_by_it
    said = [f"exit {exchange.exit_code}"] if exchange.exit_code else []
    error = placed_error(exchange.lines, OUTCOME_CHARS) if exchange.failed else None
    if error:
        return ", ".join([*(said or ["error"]), error])
    outcome = specialist.outcome if specialist in (diffs, search, listings) else _printed
    return ", ".join([*said, outcome(exchange)])


def _printed(exchange: ToolExchange) -> str:
    """Return the printed text if it is short; else its size and its last line, which usually has the outcome."""
    lines = [line for line in exchange.lines if line.strip()]
    if not exchange.has_result:
        return "no result"
    if not lines:
        return "no output"
    if len(lines) == 1:
        return brief(lines[0], OUTCOME_CHARS)
    size = several(exchange.total_lines, "line")
    return size if _specialist(exchange) is files else f"{size}, last: {brief(lines[-1], OUTCOME_CHARS // 2)}"


def key_lines(exchange: ToolExchange) -> list[str]:
    specialist = _specialist(exchange)
    if specialist is files:
        return files.outline(exchange.lines)
    if specialist is not None:
        lines: list[str] = specialist.key_lines(exchange)
        return lines
    lines = [line for line in exchange.lines if not _PROGRESS.match(line)]
    if len(lines) <= generic.KEPT_WHOLE:
        return lines
    return [*error_lines(lines)[:20], *warning_lines(lines)[:6], *lines[:8], *lines[-12:]]


def smooth(exchange: ToolExchange) -> list[str]:
    specialist = _specialist(exchange)
    if specialist is files:
        return both_ends(fold(without_blanks(exchange.lines), similar=False), exchange.total_lines)
    if specialist is not None:
        lines: list[str] = specialist.smooth(exchange)
        return lines
    lines = [line for line in exchange.lines if not _PROGRESS.match(line)]
    note = [f"(… {gone} lines of progress)"] if (gone := len(exchange.lines) - len(lines)) else []
    return both_ends(without_blanks(fold(lines)), exchange.total_lines) + note


def _main_command(exchange: ToolExchange) -> str:
    """Return the command without the steps that only prepare it."""
    command = exchange.command.strip()
    for _ in range(4):
        shorter = _PREAMBLE.sub("", command)
        if shorter == command or not shorter:
            break
        command = shorter
    return command or generic.subject(exchange)


def _specialist(exchange: ToolExchange) -> ModuleType | None:
    """Return the compressor for this output: by its shape, else by the program if its output was not piped on."""
    if not exchange.lines:
        return None
    found = _PROGRAM.match(_main_command(exchange))
    name = found[1] if found else ""
    program = f"git {found[2]}" if found and name == "git" else name
    by_program = next((kind for kind, programs in _PROGRAMS if program in programs), None)
    shapes = [kind for kind in _SHAPES if kind is not runs or not (by_program or name in _QUOTERS)]
    return next((kind for kind in shapes if kind.recognises(exchange)), by_program)
