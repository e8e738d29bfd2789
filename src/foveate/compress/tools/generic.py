"""Any other tool: its main argument and the size of its result, or the result if it is short."""

from __future__ import annotations

from foveate.compress.exchange import ToolExchange, plain
from foveate.compress.lines import both_ends, brief, brief_path, error_lines, fold, placed_error, without_blanks
from foveate.text import several

tools: tuple[str, ...] = ()
SHORT_CHARS = 90
"""Maximum length of an answer that is its own summary."""
LAST_LETTERS = 3
"""Minimum letters of a line that may say what came of a call."""
SUBJECT_CHARS = 60
MAX_SUBJECTS = 3
KEPT_WHOLE = 24
"""An output of at most this many lines is kept whole as key lines."""
_MAIN = ("query", "q", "name", "title", "id", "prompt", "description", "input", "text", "message", "expression")


def recognises(exchange: ToolExchange) -> bool:  # noqa: ARG001
    return True


def summarise(exchange: ToolExchange) -> str:
    return ": ".join(filter(None, (subject(exchange), outcome(exchange))))


def key_lines(exchange: ToolExchange) -> list[str]:
    lines = exchange.lines
    return [*error_lines(lines), *lines[:20], *lines[-20:]]


def smooth(exchange: ToolExchange) -> list[str]:
    return both_ends(without_blanks(fold(exchange.lines)), exchange.total_lines)


def subject(exchange: ToolExchange) -> str:
    """Return what the tool was asked about: a path, a query, else its first arguments."""
    if path := exchange.path:
        return brief_path(path)
    if main := exchange.argument(*_MAIN):
        return brief(main, SUBJECT_CHARS)
    scalars = [value for value in exchange.arguments.values() if isinstance(value, str | int | float) and value != ""]
    return brief(" ".join(map(plain, scalars[:MAX_SUBJECTS])), SUBJECT_CHARS)


def outcome(exchange: ToolExchange) -> str:
    """Return the error if it failed, and the answer or its size."""
    if not exchange.has_result:
        return "no result"
    said = [f"exit {exchange.exit_code}"] if exchange.exit_code else ["error"] if exchange.is_error else []
    error = placed_error(exchange.lines, SHORT_CHARS) if exchange.failed else None
    if error:
        said.append(error)
    elif exchange.lines and exchange.total_chars <= SHORT_CHARS:
        said.append(brief(exchange.output, SHORT_CHARS))
    elif exchange.lines:
        last = next((line for line in reversed(exchange.lines) if sum(map(str.isalpha, line)) >= LAST_LETTERS), "")
        size = several(exchange.total_lines, "line")
        said.append(f"{size}, last: {brief(last, SHORT_CHARS // 2)}" if last and exchange.total_lines > 1 else size)
    elif exchange.attachments:
        said.append(several(exchange.attachments, "attachment"))
    return ", ".join(said) or "ok"
