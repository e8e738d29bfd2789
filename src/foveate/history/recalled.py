"""Recall before a turn: passages are searched by the prompt's words and vectors, ranked, and shown as far as they fit.

All under one deadline. Late and failed results are left out, and a context is made in any case.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from foveate.cache import BoundedCache
from foveate.history.late_writes import LateWrites
from foveate.models.caller import Caller
from foveate.recall.dates import spans_in
from foveate.recall.deadline import Deadline, run_stages
from foveate.recall.gate import Need, need_of
from foveate.recall.judge import Judge
from foveate.recall.search import Searcher
from foveate.recall.settings import RecallSettings
from foveate.store import SessionRow, Store, bodies
from foveate.store.rows import KEY_SHIFT
from foveate.tokens import Counter
from foveate.turn import from_us

if TYPE_CHECKING:
    from foveate.recall.index import Index
    from foveate.recall.rank import PassageScores, RankedPassages
import calendar
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime

from foveate.context.tags import escape_tags, tag_section
from foveate.text import escape_marks

MAX_QUERY_CHARS = 20_000
"""Characters of a prompt that are used as the query."""
LOADED_TURNS = 5_000
"""A longer session's index takes too long to load for a request to wait for it,"""
LOAD_DELAY_SECONDS = 0.5
"""so the load begins this long after the first one."""
MAX_PASSAGES = 2_000
"""Of the best, those that are tried for room."""
BATCH = 64
"""Passages whose texts are read together."""
MAX_REMEMBERED = 20_000
"""Pieces kept in memory, ready to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A request for memory: the prompt's text, and the limits."""

    query: str
    room_tokens: int
    visible: Collection[int]
    """Turns that the context shows verbatim already."""
    is_gated: bool
    """Recall only if the prompt needs it."""
    is_one_off: bool = False
    """There is no cached prompt to keep: a prompt that may need it gets it."""
    asking: int | None = None
    """The turn in progress, which the prompt is of."""

    @property
    def words(self) -> str:
        """The words to look for."""
        return self.query.strip()[:MAX_QUERY_CHARS]

    @property
    def need(self) -> Need:
        return need_of(self.words) if self.is_gated else Need.SURE


@dataclass(frozen=True, slots=True)
class _Found:
    """The results for a prompt, best first."""

    session: SessionRow
    index: Index
    counter: Counter
    ranked: RankedPassages

    def rows(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Keys, turns and times of some of the best."""
        places, passages = self.ranked.places[start:end], self.ranked.passages
        columns = (passages.key[places], passages.turn[places], passages.at_us[places])
        return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True, slots=True)
class _Measures:
    """How well passages answer by words and by vectors, as far as it is known."""

    words: PassageScores | None
    vectors: PassageScores | None
    late: tuple[str, ...] = ()
    """Stages that missed the deadline."""

    @property
    def is_any(self) -> bool:
        return any(each and len(each.passages) for each in (self.words, self.vectors))

    def newest_us(self) -> int:
        return max(int(each.passages.at_us.max()) for each in (self.words, self.vectors) if each and len(each.passages))


class Recaller:
    """Recalls for one session."""

    def __init__(
        self, store: Store, searcher: Searcher, settings: RecallSettings, *, caller: Caller | None = None
    ) -> None:
        self._judge = Judge(caller, settings)
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._writes = LateWrites()
        self._pieces: BoundedCache[tuple[str, int], MemoryPiece] = BoundedCache(MAX_REMEMBERED)

    async def recall_once(
        self, session: SessionRow, counter: Counter, wish: RecallRequest, *, mark: str, asked: str = ""
    ) -> MemoryLayer:
        """The layer for a prompt, the same each time as long as the mark is and there is room for it.

        `asked` is the same for the same prompt, whatever the history shows.
        """
        if wish.need is Need.NONE:
            return MemoryLayer()
        packed = await self._store.derived.recalled(session.id)
        kept: Any = bodies.expand(packed) if packed else {}
        if kept.get("mark") == mark and kept["tokens"] <= wish.room_tokens:
            return _layer(kept)
        layer = await self.recall(session, counter, wish)
        packed = bodies.squeeze({"mark": mark, "asked": asked, **asdict(layer)})
        await self._writes.write(lambda: self._store.derived.keep_recalled(session.id, packed))
        return layer

    async def stored(self, session: SessionRow, *, asked: str) -> MemoryLayer:
        """The stored layer of a prompt, whatever the history shows now; empty if there is none yet."""
        packed = await self._store.derived.recalled(session.id)
        kept: Any = bodies.expand(packed) if packed else {}
        return _layer(kept) if kept.get("asked") == asked else MemoryLayer()

    async def recall(self, session: SessionRow, counter: Counter, wish: RecallRequest) -> MemoryLayer:
        """The memory layer for a prompt; empty if nothing is needed, found or ready."""
        query, need = wish.words, wish.need
        if not query or need is Need.NONE or wish.room_tokens < LEAST_ROOM_TOKENS:
            return MemoryLayer()
        deadline = Deadline(self._settings.deadline_seconds)
        index = self._searcher.index(session)
        measured = await self._measure(session, index, query, deadline)
        if not measured.is_any or not self._is_needed(measured, wish=wish, need=need):
            return MemoryLayer(late=measured.late)
        found_again = _Found(session, index, counter, self._rank(query, measured, wish))
        found_again = await self._reordered(query, found_again, deadline)
        return replace(await self._fill(found_again, wish.room_tokens), late=measured.late)

    async def _measure(self, session: SessionRow, index: Index, query: str, deadline: Deadline) -> _Measures:
        """Scores of passages, from the stages ready in time. A large index is loaded after the first context."""
        if deadline.left_seconds() is not None and session.last_turn > LOADED_TURNS and not index.is_loaded:
            glance = {"glance": lambda: index.glance(query, session.last_turn)}
            glanced = await run_stages(glance, deadline.left_seconds())
            seen = glanced.results.get("glance")
            asyncio.get_running_loop().call_later(LOAD_DELAY_SECONDS, index.load_soon)
            return _Measures(*seen) if seen else _Measures(None, None, glanced.late)
        stages = {"words": lambda: index.measure_words(query), "vectors": lambda: index.measure_vectors(query)}
        limit = self._settings.search_seconds if self._judge.is_asked else None
        found = await run_stages(stages, deadline.left_seconds(limit))
        return _Measures(found.results.get("words"), found.results.get("vectors"), found.late)

    def _is_needed(self, measured: _Measures, *, wish: RecallRequest, need: Need) -> bool:
        """Whether a passage clearly matches the prompt. A preview has no cached prefix to protect."""
        from foveate.recall.rank import outstanding  # noqa: PLC0415 - numpy loads with the index

        settings = self._settings
        least = settings.gate_score if need is Need.SURE else settings.gate_doubt_score
        if not wish.is_gated or wish.is_one_off:
            return True
        return outstanding(measured.words, measured.vectors, asking=wish.asking) >= least

    def _rank(self, query: str, measured: _Measures, wish: RecallRequest) -> RankedPassages:
        from foveate.recall.rank import RankWeights, rank  # noqa: PLC0415

        settings = self._settings
        weights = RankWeights(
            user=settings.user_weight,
            near=settings.near_weight,
            far=settings.far_weight,
            date=settings.date_weight,
            sitting_hours=settings.sitting_hours,
        )
        spans = spans_in(query, from_us(measured.newest_us())) if settings.date_weight else []
        limit = MAX_PASSAGES if wish.is_one_off else settings.passages
        return rank(measured.words, measured.vectors, weights, spans=spans, visible=wish.visible, limit=limit)

    async def _reordered(self, query: str, found: _Found, deadline: Deadline) -> _Found:
        """The best candidates in the order that the judging models give them."""
        if not self._judge.is_asked:
            return found
        rows = found.rows(0, self._settings.candidates)
        texts = [piece.text if piece else "" for piece in await self._read(found, rows)]
        order = await self._judge.order(query, texts, deadline, found.session.id)
        places = found.ranked.places.copy()
        places[: len(order)] = places[order]
        return replace(found, ranked=replace(found.ranked, places=places))

    async def _fill(self, found: _Found, room_tokens: int) -> MemoryLayer:
        """The best passages that fit, and the turns of the next best in one sentence each."""
        filling = LayerBuilder(room_tokens, found.counter.base)
        missed: dict[int, int] = {}
        for start in range(0, len(found.ranked.places), BATCH):
            if filling.is_full:
                break
            for piece in await self._read(found, found.rows(start, start + BATCH)):
                if piece and not filling.add(piece):
                    missed.setdefault(piece.turn, piece.at_us)
        layer = filling.finish(await self._gists(found.session, missed))
        return replace(layer, in_part=tuple(self._in_part(found, filling)))

    def _in_part(self, found: _Found, filling: LayerBuilder) -> Iterator[int]:
        """Those of the best turns that match clearly and are not shown whole."""
        shown = Counts(turn for turn, _ in filling.pieces)
        ranked = found.ranked
        best = dict.fromkeys(turn for _, turn, _ in found.rows(0, self._settings.passages))
        for turn in list(best)[: self._settings.prefetch_turns]:
            is_of_turn = ranked.passages.turn == turn
            stands_out = float(ranked.own[is_of_turn].max()) >= self._settings.gate_doubt_score
            if stands_out and shown[turn] < int(is_of_turn.sum()):
                yield turn

    async def _read(self, found: _Found, rows: Sequence[tuple[int, int, int]]) -> list[MemoryPiece | None]:
        """The passages of these keys, turns and times; None where one is gone."""
        from foveate.recall.index import LOOSE_KEY  # noqa: PLC0415

        encoding, count = found.session.encoding, found.counter.base
        # Held here until the end: the cache may drop an entry while others are added.
        pieces = {key: self._pieces.get((encoding, key)) for key, _, _ in rows}
        texts = await found.index.texts([key for key, piece in pieces.items() if piece is None])
        for key, turn, at_us in rows:
            if pieces[key] is None and key in texts:
                said = texts[key]
                number = key & ((1 << KEY_SHIFT) - 1)
                piece = make_piece(turn, number, said.speaker, said.text, at_us=at_us, count=count)
                pieces[key] = piece
                if key < LOOSE_KEY:  # the others may still change
                    self._pieces[encoding, key] = piece
        return [pieces[key] for key, _, _ in rows]

    async def _gists(self, session: SessionRow, missed: Mapping[int, int]) -> list[Tickler]:
        gists = []
        for turn, at_us in list(missed.items())[: self._settings.ticklers]:
            for _, tiny, _ in await self._store.derived.tinies(session.id, turn, turn):
                gists.append(Tickler(turn, at_us, tiny))
        return gists


Count = Callable[[str], int]

LEAD = 'Found again by what the prompt says, word for word, some turns in part; get_turn("T-12", "R") has the whole.\n'
LEAST_ROOM_TOKENS = 64
"""With less there is no memory layer."""
LEAST_PIECE_TOKENS = 12
"""With less room left, the search for fitting pieces ends."""
MAX_MISSES = 64
"""Pieces in a row that do not fit, after which no more are tried."""
MAX_GIST_CHARS = 300

_MONTHS = "|".join(name for name in calendar.month_name if name)
# At the start, or behind whatever `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_FORGED = re.compile(rf"{_LINE_START}(\\*[ \t]*(?:Turn[ \t]+\d|\d{{1,2}} (?:{_MONTHS}) \d{{1,4}}:))", re.IGNORECASE)
_TOOL_MARKS = ("[call ", "[result")
_REASONING = "[reasoning] "


@dataclass(frozen=True, slots=True)
class MemoryPiece:
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
class Tickler:
    """A turn that has no room, in one sentence."""

    turn: int
    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class MemoryLayer:
    """What a memory layer shows; its text is empty if that is nothing."""

    text: str = ""
    tokens: int = 0
    turns: tuple[int, ...] = ()
    gists: tuple[int, ...] = ()
    in_part: tuple[int, ...] = ()
    """Turns that were found and are not shown whole, the best first."""
    late: tuple[str, ...] = ()
    """Stages of the search that missed the deadline: the layer may say more another time."""


def _layer(kept: Mapping[str, Any]) -> MemoryLayer:
    """A layer as it was stored."""
    turns, gists, in_part = (tuple(kept[name]) for name in ("turns", "gists", "in_part"))
    return MemoryLayer(kept["text"], kept["tokens"], turns, gists, in_part, tuple(kept.get("late", ())))


def make_piece(turn: int, number: int, speaker: str, text: str, *, at_us: int, count: Count) -> MemoryPiece:
    escaped = escape_piece(speaker, text)
    return MemoryPiece(turn, number, speaker, escaped, count(f" {escaped}\n"), at_us)


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

    def __init__(self, room_tokens: int, count: Count) -> None:
        self._count = count
        self.room = room_tokens
        self.left = room_tokens - count(f"<memory>\n{LEAD}</memory>\n")
        self.pieces: dict[tuple[int, int], MemoryPiece] = {}
        self._said: set[tuple[str, str]] = set()
        self._turns: set[int] = set()
        self._days: set[date] = set()
        self._misses = 0

    @property
    def is_full(self) -> bool:
        return self.left < LEAST_PIECE_TOKENS or self._misses >= MAX_MISSES

    def add(self, piece: MemoryPiece) -> bool:
        """Whether it fits or is already shown; of identical texts the first is shown."""
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

    def finish(self, gists: Iterable[Tickler] = ()) -> MemoryLayer:
        """The layer, exactly within its room: should marks and headings have cost more, the last added go."""
        notes: list[Tickler] = []
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
                return MemoryLayer(text, tokens, turns, tuple(sorted(gist.turn for gist in notes)))
            if notes:
                notes.pop()
            else:
                self.pieces.popitem()
        return MemoryLayer()


def _write(pieces: Sequence[MemoryPiece], gists: Sequence[Tickler]) -> str:
    """Turns in order, each day named once."""
    lines: list[tuple[int, int, str]] = []
    by_turn: dict[int, list[MemoryPiece]] = {}
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


def _turn_lines(turn: int, pieces: Sequence[MemoryPiece]) -> str:
    lines = []
    speaker = "user"
    for piece in pieces:
        says_who = piece.speaker != speaker and not (piece.speaker == "tool" and piece.text.startswith(_TOOL_MARKS))
        lines.append(f"[{piece.speaker}] {piece.text}\n" if says_who else f"{piece.text}\n")
        speaker = piece.speaker
    return f"{_label(turn)} {''.join(lines)}"


def _gist_line(gist: Tickler) -> str:
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
