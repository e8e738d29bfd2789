"""Excerpts of what tools read and wrote: the lines that name the most that the rest of the turn does not name.

Later steps use paths, identifiers and numbers of earlier output. A note of a call has its outcome, but not these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foveate.compress.choose import Choice, best_that_fit
from foveate.compress.cues import estimate_tokens
from foveate.compress.exchange import ToolExchange, read_exchange
from foveate.compress.facts import find_facts
from foveate.turn import Message, ToolCall, ToolResult

MAX_LINES = 1_000
"""Limit of the different lines of a turn that are read, the first ones of each call before the others."""
MIN_LINE_CHARS, MAX_LINE_CHARS = 8, 200
NAMED_KINDS = frozenset("i#/u")
"""Kinds of facts that count: identifiers, numbers, paths and addresses."""
LINE_BREAK = " | "
BRACES = str.maketrans("{}", "()")
"""The braces of a line become parentheses, so that no line ends or begins a note."""
OMISSION = "(… "
"""The beginning of a note on omitted text."""


@dataclass(frozen=True, slots=True)
class _Line:
    call: int
    text: str


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The lines of a turn's tool calls that can be shown."""

    calls: int
    lines: Sequence[_Line]
    chars: int
    """Characters of all output and long arguments."""

    def best(self, known: str, room_tokens: float, scale: float) -> dict[int, list[str]]:
        """Return the best lines by the number of their call, in order, that name what the known text does not."""
        named = find_facts(known).keys()
        choices = [
            Choice(
                line.call,
                estimate_tokens(line.text) * scale + 1,
                tuple(
                    (key, weight)
                    for key, weight in find_facts(line.text).items()
                    if key[0] in NAMED_KINDS and key not in named
                ),
            )
            for line in self.lines
        ]
        found: dict[int, list[str]] = {}
        for place in sorted(best_that_fit(choices, room_tokens)):
            found.setdefault(self.lines[place].call, []).append(self.lines[place].text)
        return found


def find_excerpts(messages: Sequence[Message]) -> Excerpts:
    """Read the output and the long arguments of a turn's calls; the calls are numbered in order."""
    exchanges = list(_exchanges(messages))
    most = max(1, MAX_LINES // max(1, len(exchanges)))
    seen: set[str] = set()
    lines: list[_Line] = []
    chars = 0
    for number, exchange in enumerate(exchanges):
        own: list[_Line] = []
        for text in _texts(exchange):
            chars += len(text)
            line = " ".join(text.split())
            is_usual = MIN_LINE_CHARS <= len(line) <= MAX_LINE_CHARS and not line.startswith(OMISSION)
            if is_usual and line not in seen and len(own) < most:
                seen.add(line)
                own.append(_Line(number, line))
        lines += own
    return Excerpts(len(exchanges), lines, chars)


def _exchanges(messages: Sequence[Message]) -> Iterator[ToolExchange]:
    """Yield the calls with their results, and the results whose call is not known."""
    results = {result.call_id: result for message in messages for result in message.tool_results if result.call_id}
    for part in (part for message in messages for part in message.parts):
        match part:
            case ToolCall():
                yield read_exchange(part, results.get(part.id or ""))
            case ToolResult() if part.call_id is None:
                yield read_exchange(ToolCall(part.name or "tool", {}), part)


def _texts(exchange: ToolExchange) -> Iterator[str]:
    """Yield the lines of the arguments that have several, and of the output."""
    for value in exchange.arguments.values():
        if isinstance(value, str) and "\n" in value:
            yield from value.split("\n")
    if not exchange.is_binary:
        yield from exchange.lines


def with_lines(note: str, lines: Sequence[str]) -> str:
    """Add lines to the note of a call: `{read app.py: 40 lines: def main(): | PORT = 8080}`."""
    shown = LINE_BREAK.join(line.replace(LINE_BREAK, " ") for line in lines).translate(BRACES)
    return f"{note.removesuffix('}')}: {shown}}}" if lines else note
