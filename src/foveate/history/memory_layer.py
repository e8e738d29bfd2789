"""The memory layer as text: passages of older turns by session and day, within the room to the token. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from foveate.context.tags import escape_tags, tag_section
from foveate.recall.knowledge import DECIDED, fitting_passage
from foveate.recall.scopes import RecalledTurn, SearchedSessions, id_in_tenant, title_of
from foveate.store.knowledge import KnowledgeRow
from foveate.text import escape_marks
from foveate.turn import MONTHS, day_text, turn_id

Count = Callable[[str], int]
Mask = Callable[[str], str]
"""Hides the secrets of a text."""

LEAD = (
    'Earlier passages that match this prompt, verbatim; some are excerpts. get_turn("T-12", "R") has the whole turn.\n'
)
LEAD_OF_SCOPE = (
    'Earlier passages that match this prompt, verbatim; some are excerpts. get_turn("T-12", "R") has the whole turn, '
    'get_turn("SESSION/T-12", "R") that of another session.\n'
)
TODAY = "Today is {}. "
LEAD_OF_ITEMS = 'Learned earlier; get_turn("k-1a2b") has the whole item and names its source turns.\n'
KNOWLEDGE_SHARE = 0.3
"""What items of knowledge take of the room at most."""
MAX_ITEM_TOKENS = 250
"""Of a longer item the passage that fits the prompt is shown."""
LEAST_ROOM_TOKENS = 64
"""With less there is no memory layer."""
LEAST_PIECE_TOKENS = 12
"""With less room left, the search for fitting pieces ends."""
MAX_MISSES = 64
"""Pieces in a row that do not fit, after which no more are tried."""
MAX_GIST_CHARS = 300
MAX_TITLE_CHARS = 60

# At the start, or behind whatever `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_ITEM = "Lesson|Reference|Rule|Preference|Convention|Decision|Fact"
_LABEL = rf"Turn[ \t]+\d|(?:{_ITEM})[ \t]+k-|\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{1,4}}[:,]"
_FORGED = re.compile(rf"{_LINE_START}(\\*[ \t]*(?:{_LABEL}))", re.IGNORECASE)
_ESCAPE = r"\\\1"
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
    reserved_tokens: int = 0
    """What the history left for it and the board; 0: what they take."""


def stored_layer(kept: Mapping[str, Any]) -> MemoryLayer:
    """A layer as it was stored."""
    turns, gists, in_part = (tuple(kept[name]) for name in ("turns", "gists", "in_part"))
    late, others, knowledge = (tuple(kept.get(name, ())) for name in ("late", "others", "knowledge"))
    reserved = kept.get("reserved_tokens", 0)
    return MemoryLayer(kept["text"], kept["tokens"], turns, gists, in_part, late, others, knowledge, reserved)


def make_piece(
    turn: int, number: int, speaker: str, text: str, *, at_us: int, count: Count, name: str = ""
) -> MemoryPiece:
    """A passage as shown in the layer. Tool output has its marks already, and is escaped."""
    if speaker == "assistant" and text.startswith(_REASONING):
        marked = _REASONING + escape_marks(text.removeprefix(_REASONING))
    elif speaker == "tool":
        # Its lines were escaped before it was cut, but the first of them may have begun inside a line.
        first, newline, rest = text.partition("\n")
        marked = text if text.startswith(_TOOL_MARKS) else f"{escape_marks(first)}{newline}{rest}"
    else:
        marked = escape_marks(text)
    escaped = _FORGED.sub(_ESCAPE, escape_tags(marked))
    return MemoryPiece(turn, number, speaker, escaped, count(f" {escaped}\n"), at_us, name)


def make_item(row: KnowledgeRow, count: Count, query: str = "", mask: Mask = str) -> MemoryItem:
    """An item as shown in the layer: what it is, its id, whether a person confirmed it, and its text; of a long one the
    passage that fits the prompt."""
    state = "" if row.state in DECIDED else f", {row.state}"
    head = f"{(row.form or row.kind).capitalize()} {row.id}{state}: "
    title = " ".join(row.title.split())
    text = row.text.strip()
    lead = "" if text.startswith(title.rstrip("…")) else f"{title}: "
    text = lead + fitting_passage(text, query, lambda part: count(f"{head}{lead}{part}") <= MAX_ITEM_TOKENS)
    if row.contradicts:
        text += f" (said otherwise on the same day: {'; '.join(row.contradicts)[:MAX_GIST_CHARS]})"
    return MemoryItem(row.id, f"{head}{_FORGED.sub(_ESCAPE, escape_tags(escape_marks(mask(text))))}\n")


class LayerBuilder:
    """A layer in the making: pieces are added best first while they fit."""

    def __init__(
        self,
        room_tokens: int,
        count: Count,
        searched: SearchedSessions | None = None,
        *,
        today: str = "",
        mask: Mask = str,
    ) -> None:
        self._mask = mask
        self._count = count
        self._find: Callable[[int], RecalledTurn] = searched.find if searched else partial(RecalledTurn, None)
        self._lead = (TODAY.format(today) if today else "") + (LEAD_OF_SCOPE if searched else LEAD)
        self.room = room_tokens
        self.left = room_tokens - count(f"<memory>\n{self._lead}</memory>\n")
        self.pieces: dict[tuple[int, int], MemoryPiece] = {}
        self.items: list[MemoryItem] = []
        self._said: set[tuple[str, str]] = set()
        self._turns: set[int] = set()
        self._headings: set[str] = set()
        self.misses = 0
        """Pieces in a row that did not fit."""

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
        heading = self._heading(piece.turn, piece.at_us)
        cost = piece.tokens + (self._count(f"[{piece.speaker}]") if piece.speaker != "user" else 0)
        if piece.turn not in self._turns:
            cost += self._count(f"Turn {self._find(piece.turn).turn}:")
        cost += self._count(heading) if heading not in self._headings else 0
        if cost > self.left:
            self.misses += 1
            return False
        self.misses = 0
        self.left -= cost
        self.pieces[piece.turn, piece.number] = replace(piece, text=self._mask(piece.text))
        self._said.add((piece.speaker, piece.text))
        self._turns.add(piece.turn)
        self._headings.add(heading)
        return True

    def finish(self, gists: Iterable[Tickler] = ()) -> MemoryLayer:
        """The layer, exactly within its room: should marks and headings have cost more, the last added go."""
        notes: list[Tickler] = []
        for gist in gists:
            cost = self._count(_gist_line(self._find(gist.turn).turn, gist))
            if gist.turn not in self._turns and cost <= self.left:
                notes.append(replace(gist, text=self._mask(gist.text)))
                self.left -= cost
        while self.pieces or notes or self.items:
            learned = LEAD_OF_ITEMS + "".join(item.text for item in self.items) if self.items else ""
            told = self._lead + self._write(notes) if self.pieces or notes else ""
            text = tag_section("memory", learned + told)
            tokens = self._count(text)
            if tokens <= self.room:
                break
            if notes:
                notes.pop()
            elif self.pieces:
                self.pieces.popitem()
            else:
                self.items.pop()
        else:
            return MemoryLayer()
        shown = [self._find(turn) for turn in sorted({turn for turn, _ in self.pieces})]
        short = [self._find(turn) for turn in sorted(gist.turn for gist in notes)]
        return MemoryLayer(
            text,
            tokens,
            tuple(found.turn for found in shown if found.session is None),
            tuple(found.turn for found in short if found.session is None),
            others=tuple(turn_address(found) for found in [*shown, *short] if found.session is not None),
            knowledge=tuple(item.id for item in self.items),
        )

    def _write(self, gists: Sequence[Tickler]) -> str:
        """Turns in order, each day named once, with the session if it is another."""
        lines: list[tuple[int, int, str]] = []
        by_turn: dict[int, list[MemoryPiece]] = {}
        for piece in sorted(self.pieces.values(), key=lambda piece: (piece.turn, piece.number)):
            by_turn.setdefault(piece.turn, []).append(piece)
        for turn, own in by_turn.items():
            speaker, said = "user", []
            for piece in own:
                is_marked = piece.speaker == "tool" and piece.text.startswith(_TOOL_MARKS)
                mark = "" if piece.speaker == speaker or is_marked else f"[{piece.speaker}] "
                said.append(f"{mark}{piece.text}\n")
                speaker = piece.speaker
            lines.append((turn, own[0].at_us, f"Turn {self._find(turn).turn}: {''.join(said)}"))
        lines += [(gist.turn, gist.at_us, _gist_line(self._find(gist.turn).turn, gist)) for gist in gists]
        written: list[str] = []
        shown = ""
        for turn, at_us, text in sorted(lines):
            heading = self._heading(turn, at_us)
            if heading != shown:
                written.append(heading)
                shown = heading
            written.append(text)
        return "".join(written)

    def _heading(self, turn: int, at_us: int) -> str:
        """The day of a turn, and its session if it is another."""
        session = self._find(turn).session
        if session is None:
            return f"{day_text(at_us)}:\n"
        title = title_of(session)[:MAX_TITLE_CHARS]
        named = f'{id_in_tenant(session)} "{title}"' if title else id_in_tenant(session)
        return f"{day_text(at_us)}, session {escape_tags(named)}:\n"


def turn_address(found: RecalledTurn) -> str:
    """What the history tools call a turn: `T-12`, of another session `SESSION/T-12`."""
    name = turn_id(found.turn)
    return f"{id_in_tenant(found.session)}/{name}" if found.session else name


def _gist_line(turn: int, gist: Tickler) -> str:
    text = escape_tags(escape_marks(" ".join(gist.text.split())[:MAX_GIST_CHARS]))
    return f"Turn {turn}, in short: {_FORGED.sub(_ESCAPE, text)}\n"
