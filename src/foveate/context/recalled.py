"""The memory layer: passages of earlier turns that the prompt brought up, within a room, in the order they were said.

    <memory>
    Found again …
    8 May 2023:
    Turn 12: I went to the harbour office yesterday.
    Turn 13: [assistant] Then the berth is yours.
    Turn 40, in short: asks for the price of diesel
    </memory>

A line belongs to the turn above it, and to the speaker whose mark stands last; unmarked text is the user's. Text that
looks like a tag, a mark, a turn's label or a date's gets a backslash more, so no content can pass for another's.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from foveate.context.tags import escape_tags, tag_section
from foveate.text import escape_marks

Count = Callable[[str], int]

LEAD = 'Found again by what the prompt says, word for word, some turns in part; get_turn("T-12", "R") has the whole.\n'
LEAST_ROOM_TOKENS = 64
"""With less there is no memory layer."""
LEAST_PIECE_TOKENS = 12
"""With less left, no more is looked for that fits."""
MAX_MISSES = 64
"""So many pieces in a row that don't fit, and no more are tried."""
MAX_GIST_CHARS = 300

_MONTHS = "|".join(name for name in calendar.month_name if name)
# At the start, or behind whatever `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_FORGED = re.compile(rf"{_LINE_START}(\\*[ \t]*(?:Turn[ \t]+\d|\d{{1,2}} (?:{_MONTHS}) \d{{1,4}}:))", re.IGNORECASE)
_TOOL_MARKS = ("[call ", "[result")
_REASONING = "[reasoning] "


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage that may be shown."""

    turn: int
    number: int
    """Its place among the turn's passages."""
    speaker: str
    text: str
    """Escaped."""
    tokens: int
    """Of its lines, marks and labels not counted."""
    at_us: int


@dataclass(frozen=True, slots=True)
class Gist:
    """A turn that has no room, in one sentence."""

    turn: int
    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What a memory layer shows; its text is empty if that is nothing."""

    text: str = ""
    tokens: int = 0
    turns: tuple[int, ...] = ()
    gists: tuple[int, ...] = ()
    in_part: tuple[int, ...] = ()
    """Turns that were found and are not shown whole, the best first."""


def make_piece(turn: int, number: int, speaker: str, text: str, *, at_us: int, count: Count) -> Piece:
    escaped = escape_piece(speaker, text)
    return Piece(turn, number, speaker, escaped, count(f" {escaped}\n"), at_us)


def escape_piece(speaker: str, text: str) -> str:
    """The text of a passage as it stands in the layer. What tools say has its marks already, and is escaped."""
    if speaker == "assistant" and text.startswith(_REASONING):
        marked = _REASONING + escape_marks(text.removeprefix(_REASONING))
    elif speaker == "tool":
        # Its lines were escaped before it was cut, but the first of them may have begun inside a line.
        first, newline, rest = text.partition("\n")
        marked = text if text.startswith(_TOOL_MARKS) else f"{escape_marks(first)}{newline}{rest}"
    else:
        marked = escape_marks(text)
    return _escape_labels(escape_tags(marked))


class Filling:
    """A layer in the making: pieces are added best first while they fit."""

    def __init__(self, room_tokens: int, count: Count) -> None:
        self._count = count
        self.room = room_tokens
        self.left = room_tokens - count(f"<memory>\n{LEAD}</memory>\n")
        self.pieces: dict[tuple[int, int], Piece] = {}
        self._said: set[tuple[str, str]] = set()
        self._turns: set[int] = set()
        self._days: set[date] = set()
        self._misses = 0

    @property
    def is_full(self) -> bool:
        return self.left < LEAST_PIECE_TOKENS or self._misses >= MAX_MISSES

    def add(self, piece: Piece) -> bool:
        """Whether it fitted, or is there already; of the same words said twice the first that come are shown."""
        if (piece.turn, piece.number) in self.pieces or (piece.speaker, piece.text) in self._said:
            return True
        day = _day(piece.at_us)
        cost = piece.tokens + self._count(f"[{piece.speaker}]") * (piece.speaker != "user")
        cost += self._count(_label(piece.turn)) if piece.turn not in self._turns else 0
        cost += self._count(_heading(day)) if day not in self._days else 0
        if cost > self.left:
            self._misses += 1
            return False
        self._misses = 0
        self.left -= cost
        self.pieces[piece.turn, piece.number] = piece
        self._said.add((piece.speaker, piece.text))
        self._turns.add(piece.turn)
        self._days.add(day)
        return True

    def finish(self, gists: Iterable[Gist] = ()) -> Layer:
        """The layer, exactly within its room: should marks and headings have cost more, the last added go."""
        notes: list[Gist] = []
        for gist in gists:
            cost = self._count(_gist_line(gist))
            if gist.turn not in self._turns and cost <= self.left:
                notes.append(gist)
                self.left -= cost
        while self.pieces or notes:
            text = tag_section("memory", LEAD + _write(list(self.pieces.values()), notes))
            tokens = self._count(text)
            if tokens <= self.room:
                turns = tuple(sorted({piece.turn for piece in self.pieces.values()}))
                return Layer(text, tokens, turns, tuple(sorted(gist.turn for gist in notes)))
            if notes:
                notes.pop()
            else:
                self.pieces.popitem()
        return Layer()


def _write(pieces: Sequence[Piece], gists: Sequence[Gist]) -> str:
    """Turns in order, each day named once."""
    lines: list[tuple[int, int, str]] = []
    by_turn: dict[int, list[Piece]] = {}
    for piece in sorted(pieces, key=lambda piece: (piece.turn, piece.number)):
        by_turn.setdefault(piece.turn, []).append(piece)
    lines += [(turn, own[0].at_us, _turn_lines(turn, own)) for turn, own in by_turn.items()]
    lines += [(gist.turn, gist.at_us, _gist_line(gist)) for gist in gists]
    written: list[str] = []
    shown: date | None = None
    for _, at_us, text in sorted(lines):
        day = _day(at_us)
        if day != shown:
            written.append(_heading(day))
            shown = day
        written.append(text)
    return "".join(written)


def _turn_lines(turn: int, pieces: Sequence[Piece]) -> str:
    lines = []
    speaker = "user"
    for piece in pieces:
        says_who = piece.speaker != speaker and not (piece.speaker == "tool" and piece.text.startswith(_TOOL_MARKS))
        lines.append(f"[{piece.speaker}] {piece.text}\n" if says_who else f"{piece.text}\n")
        speaker = piece.speaker
    return f"{_label(turn)} {''.join(lines)}"


def _gist_line(gist: Gist) -> str:
    text = escape_tags(escape_marks(" ".join(gist.text.split())[:MAX_GIST_CHARS]))
    return f"Turn {gist.turn}, in short: {_escape_labels(text)}\n"


def _escape_labels(text: str) -> str:
    return _FORGED.sub(r"\\\1", text)


def _label(turn: int) -> str:
    return f"Turn {turn}:"


def _heading(day: date) -> str:
    return f"{day.day} {calendar.month_name[day.month]} {day.year}:\n"


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).date()
