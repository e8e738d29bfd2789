"""The memory layer as text: passages of older turns by session and day, within the room to the token. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from foveate.context.tags import escape_tags, tag_section
from foveate.recall.knowledge import DECIDED
from foveate.recall.scopes import id_in_tenant
from foveate.recall.sessions import RecalledTurn, SearchedSessions, title_of
from foveate.store.knowledge import KnowledgeRow
from foveate.text import escape_marks
from foveate.turn import turn_id

Count = Callable[[str], int]

LEAD = 'Found again by what the prompt says, word for word, some turns in part; get_turn("T-12", "R") has the whole.\n'
LEAD_OF_SCOPE = (
    'Found again by what the prompt says, word for word, some turns in part; get_turn("T-12", "R") has the whole, '
    'get_turn("SESSION/T-12", "R") that of another session.\n'
)
LEAD_OF_ITEMS = 'Learned earlier; get_turn("k-1a2b") has the whole of such an item, and names the turns it is from.\n'
KNOWLEDGE_SHARE = 0.3
"""What items of knowledge take of the room at most."""
MAX_ITEM_TOKENS = 250
"""Of a longer item the beginning is shown."""
LEAST_ITEM_CHARS = 40
LEAST_ROOM_TOKENS = 64
"""With less there is no memory layer."""
LEAST_PIECE_TOKENS = 12
"""With less room left, the search for fitting pieces ends."""
MAX_MISSES = 64
"""Pieces in a row that do not fit, after which no more are tried."""
MAX_GIST_CHARS = 300
MAX_TITLE_CHARS = 60

_MONTHS = "|".join(name for name in calendar.month_name if name)
# At the start, or behind whatever `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_LABEL = rf"Turn[ \t]+\d|(?:Lesson|Reference)[ \t]+k-|\d{{1,2}} (?:{_MONTHS}) \d{{1,4}}[:,]"
_FORGED = re.compile(rf"{_LINE_START}(\\*[ \t]*(?:{_LABEL}))", re.IGNORECASE)
_TOOL_MARKS = ("[call ", "[result")
_REASONING = "[reasoning] "


@dataclass(frozen=True, slots=True)
class MemoryPiece:
    """A passage that may be shown."""

    turn: int
    """As `SearchedSessions` numbers turns."""
    number: int
    """Its place among the turn's passages."""
    speaker: str
    text: str
    """Escaped."""
    tokens: int
    """Of its lines, marks and labels not counted."""
    at_us: int
    name: str = ""
    """That the message begins with: `Anna: …`."""


@dataclass(frozen=True, slots=True)
class Tickler:
    """A turn that has no room, in one sentence."""

    turn: int
    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """An item of knowledge that may be shown."""

    id: str
    text: str
    """Its line or lines, escaped."""


@dataclass(frozen=True, slots=True)
class MemoryLayer:
    """What a memory layer shows; its text is empty if that is nothing."""

    text: str = ""
    tokens: int = 0
    turns: tuple[int, ...] = ()
    """Of the session itself."""
    gists: tuple[int, ...] = ()
    in_part: tuple[int, ...] = ()
    """Turns that were found and are not shown whole, the best first."""
    late: tuple[str, ...] = ()
    """Stages of the search that missed the deadline: the layer may say more another time."""
    others: tuple[str, ...] = ()
    """Turns of other sessions that are shown, as `SESSION/T-12`."""
    knowledge: tuple[str, ...] = ()
    """Ids of the items of knowledge that are shown."""


def stored_layer(kept: Mapping[str, Any]) -> MemoryLayer:
    """A layer as it was stored."""
    turns, gists, in_part = (tuple(kept[name]) for name in ("turns", "gists", "in_part"))
    late, others, knowledge = (tuple(kept.get(name, ())) for name in ("late", "others", "knowledge"))
    return MemoryLayer(kept["text"], kept["tokens"], turns, gists, in_part, late, others, knowledge)


def make_piece(
    turn: int, number: int, speaker: str, text: str, *, at_us: int, count: Count, name: str = ""
) -> MemoryPiece:
    escaped = escape_piece(speaker, text)
    return MemoryPiece(turn, number, speaker, escaped, count(f" {escaped}\n"), at_us, name)


def make_item(row: KnowledgeRow, count: Count) -> MemoryItem:
    """An item as shown in the layer: what it is, its id, whether a person confirmed it, and its text."""
    state = "" if row.state in DECIDED else f", {row.state}"
    head = f"{row.kind.capitalize()} {row.id}{state}: "
    title = " ".join(row.title.split())
    text = row.text.strip() if row.text.strip().startswith(title) else f"{title}: {row.text.strip()}"
    while count(f"{head}{text}") > MAX_ITEM_TOKENS and len(text) > LEAST_ITEM_CHARS:
        cut = text[: max(LEAST_ITEM_CHARS, len(text) * 4 // 5)]
        text = f"{cut.rpartition(' ')[0] or cut} …"
    return MemoryItem(row.id, f"{head}{_escape_labels(escape_tags(escape_marks(text)))}\n")


def escape_piece(speaker: str, text: str) -> str:
    """The text of a passage as shown in the layer. Tool output has its marks already, and is escaped."""
    if speaker == "assistant" and text.startswith(_REASONING):
        marked = _REASONING + escape_marks(text.removeprefix(_REASONING))
    elif speaker == "tool":
        # Its lines were escaped before it was cut, but the first of them may have begun inside a line.
        first, newline, rest = text.partition("\n")
        marked = text if text.startswith(_TOOL_MARKS) else f"{escape_marks(first)}{newline}{rest}"
    else:
        marked = escape_marks(text)
    return _escape_labels(escape_tags(marked))


class LayerBuilder:
    """A layer in the making: pieces are added best first while they fit."""

    def __init__(self, room_tokens: int, count: Count, searched: SearchedSessions | None = None) -> None:
        self._count = count
        self._searched = searched or SearchedSessions()
        self._lead = LEAD if self._searched.is_single else LEAD_OF_SCOPE
        self.room = room_tokens
        self.left = room_tokens - count(f"<memory>\n{self._lead}</memory>\n")
        self.pieces: dict[tuple[int, int], MemoryPiece] = {}
        self.items: list[MemoryItem] = []
        self._said: set[tuple[str, str]] = set()
        self._turns: set[int] = set()
        self._headings: set[str] = set()
        self._misses = 0

    @property
    def is_full(self) -> bool:
        return self.left < LEAST_PIECE_TOKENS or self._misses >= MAX_MISSES

    def add_item(self, item: MemoryItem) -> bool:
        """Whether an item of knowledge fits into its share; they are added before the passages."""
        used = sum(self._count(each.text) for each in self.items)
        first = 0 if self.items else self._count(LEAD_OF_ITEMS)
        cost = self._count(item.text)
        if used + cost + first > self.room * KNOWLEDGE_SHARE or cost + first > self.left:
            return False
        self.items.append(item)
        self.left -= cost + first
        return True

    def add(self, piece: MemoryPiece) -> bool:
        """Whether it fits or is already shown; of identical texts the first is shown."""
        if (piece.turn, piece.number) in self.pieces or (piece.speaker, piece.text) in self._said:
            return True
        found = self._searched.find(piece.turn)
        heading = _heading(found, _day(piece.at_us))
        cost = piece.tokens + self._count(f"[{piece.speaker}]") * (piece.speaker != "user")
        cost += self._count(_label(found.turn)) if piece.turn not in self._turns else 0
        cost += self._count(heading) if heading not in self._headings else 0
        if cost > self.left:
            self._misses += 1
            return False
        self._misses = 0
        self.left -= cost
        self.pieces[piece.turn, piece.number] = piece
        self._said.add((piece.speaker, piece.text))
        self._turns.add(piece.turn)
        self._headings.add(heading)
        return True

    def finish(self, gists: Iterable[Tickler] = ()) -> MemoryLayer:
        """The layer, exactly within its room: should marks and headings have cost more, the last added go."""
        notes: list[Tickler] = []
        for gist in gists:
            cost = self._count(_gist_line(self._searched.find(gist.turn), gist))
            if gist.turn not in self._turns and cost <= self.left:
                notes.append(gist)
                self.left -= cost
        while self.pieces or notes or self.items:
            text = tag_section("memory", self._items_text() + self._turns_text(notes))
            tokens = self._count(text)
            if tokens <= self.room:
                return self._layer(text, tokens, notes)
            if notes:
                notes.pop()
            elif self.pieces:
                self.pieces.popitem()
            else:
                self.items.pop()
        return MemoryLayer()

    def _layer(self, text: str, tokens: int, notes: Sequence[Tickler]) -> MemoryLayer:
        shown = [self._searched.find(turn) for turn in sorted({piece.turn for piece in self.pieces.values()})]
        gists = [self._searched.find(gist.turn) for gist in sorted(notes, key=lambda gist: gist.turn)]
        return MemoryLayer(
            text,
            tokens,
            tuple(found.turn for found in shown if found.session is None),
            tuple(found.turn for found in gists if found.session is None),
            others=tuple(turn_address(found) for found in [*shown, *gists] if found.session is not None),
            knowledge=tuple(item.id for item in self.items),
        )

    def _items_text(self) -> str:
        return LEAD_OF_ITEMS + "".join(item.text for item in self.items) if self.items else ""

    def _turns_text(self, gists: Sequence[Tickler]) -> str:
        return self._lead + self._write(gists) if self.pieces or gists else ""

    def _write(self, gists: Sequence[Tickler]) -> str:
        """Turns in order, each day named once, with the session if it is another."""
        lines: list[tuple[int, int, str]] = []
        by_turn: dict[int, list[MemoryPiece]] = {}
        for piece in sorted(self.pieces.values(), key=lambda piece: (piece.turn, piece.number)):
            by_turn.setdefault(piece.turn, []).append(piece)
        for turn, own in by_turn.items():
            lines.append((turn, own[0].at_us, _turn_lines(self._searched.find(turn).turn, own)))
        lines += [(gist.turn, gist.at_us, _gist_line(self._searched.find(gist.turn), gist)) for gist in gists]
        written: list[str] = []
        shown = ""
        for turn, at_us, text in sorted(lines):
            heading = _heading(self._searched.find(turn), _day(at_us))
            if heading != shown:
                written.append(heading)
                shown = heading
            written.append(text)
        return "".join(written)


def turn_address(found: RecalledTurn) -> str:
    """What the history tools call a turn: `T-12`, of another session `SESSION/T-12`."""
    name = turn_id(found.turn)
    return f"{id_in_tenant(found.session)}/{name}" if found.session else name


def _turn_lines(turn: int, pieces: Sequence[MemoryPiece]) -> str:
    lines = []
    speaker = "user"
    for piece in pieces:
        says_who = piece.speaker != speaker and not (piece.speaker == "tool" and piece.text.startswith(_TOOL_MARKS))
        lines.append(f"[{piece.speaker}] {piece.text}\n" if says_who else f"{piece.text}\n")
        speaker = piece.speaker
    return f"{_label(turn)} {''.join(lines)}"


def _gist_line(found: RecalledTurn, gist: Tickler) -> str:
    text = escape_tags(escape_marks(" ".join(gist.text.split())[:MAX_GIST_CHARS]))
    return f"Turn {found.turn}, in short: {_escape_labels(text)}\n"


def _escape_labels(text: str) -> str:
    return _FORGED.sub(r"\\\1", text)


def _label(turn: int) -> str:
    return f"Turn {turn}:"


def _heading(found: RecalledTurn, day: date) -> str:
    told = f"{day.day} {calendar.month_name[day.month]} {day.year}"
    if found.session is None:
        return f"{told}:\n"
    title = title_of(found.session)[:MAX_TITLE_CHARS]
    named = f'{id_in_tenant(found.session)} "{title}"' if title else id_in_tenant(found.session)
    return f"{told}, session {escape_tags(named)}:\n"


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).date()
