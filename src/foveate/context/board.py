"""The announcement board: turns that a model retrieved, shown for some turns, and short notes. It has its own budget.

Turns that a prompt is likely to need are prefetched for that prompt, if the rest leaves room for them.

All functions are pure: they take a board and return the next one. Its state is JSON (`to_json`, `from_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, NamedTuple

from foveate.context.cut import Count
from foveate.context.pages import NO_DAYS, Days, Page, days_line, paginate
from foveate.context.tags import TagBlock, escape_tags, tag_section, write_block
from foveate.plan import Band, ShownLevel
from foveate.turn import Json, turn_id

LIFE_TURNS = 5
"""Number of turns that a retrieved turn stays on the board."""
MAX_RETRIEVED = 64
MAX_NOTES = 64
MAX_TURNS = 100
"""Limits of a board. Above them the oldest entries are dropped, saved ones last."""
MAX_NOTE_CHARS = 500

NoteKind = Literal["fetch", "cabinet", "agent", "reminder", "bands", "moved"]
NOTE_HEADINGS: dict[NoteKind, str] = {
    "moved": "Shortened since you read it",
    "bands": "Shown now",
    "reminder": "Remember",
    "cabinet": "In the file cabinet",
    "fetch": "Fetched",
    "agent": "Agent",
}


LEVEL_WORDS: dict[ShownLevel, str] = {
    "S": "smoothed",
    "C": "compressed",
    "T": "tiny",
    "E": "in eras",
    "U": "the user's words",
    "M": "with short messages",
    "A": "in summaries",
}
REMINDER = "get_turn and get_turns read any of them again, search_history finds words in them"
CABINET_REMINDER = "read_cabinet reads lines of a key, write_from_cabinet writes it to a file"


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """A page of something retrieved: a turn, a range of turns, or an era, at one level."""

    first: int
    last: int
    level: ShownLevel
    text: str
    """The page, in tags."""
    page: int
    pages: int
    until_turn: int
    """The last turn that shows it, unless it is saved."""
    is_saved: bool = False
    since_turn: int = 0
    """The turn it was retrieved in."""
    replaced_in: int | None = None
    """The turn in which it was retrieved again. While that turn is in progress, this older page is shown."""
    days: str = ""
    """The line that dates its turns; it comes before the tags."""

    @property
    def name(self) -> str:
        turns = turn_id(self.first) if self.first == self.last else f"{turn_id(self.first)}-through-{self.last}"
        return f"{turns}-{self.level}"


@dataclass(frozen=True, slots=True)
class Note:
    """A line on the board; a later one with the same kind and key replaces it."""

    kind: NoteKind
    key: str
    """Identifies it among notes of its kind, e.g. a file key."""
    text: str
    until_turn: int | None = None
    since_turn: int = 0
    """The turn it was added in. It is shown from the next turn on."""


@dataclass(frozen=True, slots=True)
class Board:
    retrieved: tuple[BoardEntry, ...] = ()
    """Retrieved pages, newest last."""
    notes: tuple[Note, ...] = ()
    prefetched: tuple[BoardEntry, ...] = ()
    """Turns shown for one prompt without a request by the model; not part of the state."""
    turns: tuple[int, ...] = ()
    """Single turns that were retrieved, newest last; they stay when their pages expire."""


class ExpiryReport(NamedTuple):
    """A board without expired entries, and the expired ones."""

    board: Board
    retrieved: tuple[BoardEntry, ...]


def retrieve(
    board: Board,
    blocks: Sequence[TagBlock],
    *,
    now_turn: int,
    page_tokens: int,
    count: Count,
    page: int = 1,
    life_turns: int = LIFE_TURNS,
    days: Days = NO_DAYS,
) -> Board:
    """Add a page of these blocks, which have one level; a page of the same turns is replaced."""
    pages = paginate(blocks, page_tokens, count, days)
    return put_page(board, blocks, pages, now_turn=now_turn, page=page, life_turns=life_turns, days=days)


def put_page(
    board: Board,
    blocks: Sequence[TagBlock],
    pages: Sequence[Page],
    *,
    now_turn: int,
    page: int,
    life_turns: int = LIFE_TURNS,
    days: Days = NO_DAYS,
) -> Board:
    """Add one of the pages of these blocks; see `retrieve`."""
    assert blocks, "nothing to retrieve"
    chosen = min(max(page, 1), len(pages))
    text = "".join(map(write_block, pages[chosen - 1]))
    entry = BoardEntry(
        first=blocks[0].first,
        last=blocks[-1].last,
        level=blocks[0].level,
        text=text,
        page=chosen,
        pages=len(pages),
        until_turn=now_turn + life_turns,
        since_turn=now_turn,
        days=days_line(pages[chosen - 1], days),
    )
    same = [held for held in board.retrieved if held.name == entry.name]
    entry = replace(entry, is_saved=any(held.is_saved for held in same))
    kept = (
        held if held not in same or held.replaced_in == now_turn else replace(held, replaced_in=now_turn)
        for held in board.retrieved
        if held not in same or held.since_turn < now_turn
    )
    turns = board.turns
    if entry.first == entry.last:
        turns = (*(turn for turn in turns if turn != entry.first), entry.first)[-MAX_TURNS:]
    return replace(board, retrieved=_limited((*kept, entry)), turns=turns)


def current(board: Board) -> Board:
    """Remove pages that were retrieved again since."""
    return replace(board, retrieved=tuple(entry for entry in board.retrieved if entry.replaced_in is None))


def without_new_notes(board: Board, turn: int) -> Board:
    """Remove the notes of a turn in progress: the results of its own calls say the same."""
    return replace(board, notes=tuple(note for note in board.notes if note.since_turn < turn or not note.since_turn))


def as_begun(board: Board, turn: int, results: Sequence[str]) -> Board:
    """Restore the board as it was at the beginning of the turn in progress, except for pages that no result shows.

    So the text before the turn does not change during the turn: it stays cached, and signed thinking stays valid.
    """

    def is_repeated(entry: BoardEntry) -> bool:
        return entry.since_turn == turn and any(entry.text in result for result in results)

    repeated = {entry.name for entry in board.retrieved if entry.replaced_in is None and is_repeated(entry)}
    shown = (
        entry
        for entry in board.retrieved
        if (entry.replaced_in == turn if entry.name in repeated else entry.replaced_in is None)
    )
    return replace(board, retrieved=tuple(shown))


def _limited(retrieved: tuple[BoardEntry, ...]) -> tuple[BoardEntry, ...]:
    if len(retrieved) <= MAX_RETRIEVED:
        return retrieved
    dropped = next((entry for entry in retrieved if not entry.is_saved), retrieved[0])
    return tuple(entry for entry in retrieved if entry is not dropped)


def prefetch(
    board: Board, choices: Iterable[Sequence[TagBlock]], *, now_turn: int, budget_tokens: int, count: Count
) -> Board:
    """Add each turn at the first of its levels that fits completely in the remaining room."""
    for blocks in choices:
        for block in blocks:
            entry = BoardEntry(block.first, block.last, block.level, write_block(block), 1, 1, until_turn=now_turn)
            if count(_prefetched_text(entry)) <= _lay_out(board, now_turn, budget_tokens, count).left_tokens:
                board = replace(board, prefetched=(*board.prefetched, entry))
                break
    return board


def save(board: Board, name: str) -> Board:
    """Keep the entry of this name until it is dismissed."""
    return _changed(board, name, lambda entry: replace(entry, is_saved=True))


def _changed(board: Board, name: str, change: Callable[[BoardEntry], BoardEntry]) -> Board:
    changed = tuple(change(entry) if entry.name == name else entry for entry in board.retrieved)
    return replace(board, retrieved=changed)


def dismiss(board: Board, name: str) -> Board:
    """Remove the entry of this name, saved or not, or the note with this key."""
    retrieved = tuple(entry for entry in board.retrieved if entry.name != name)
    return Board(retrieved, tuple(note for note in board.notes if note.key != name), turns=board.turns)


def add_note(board: Board, note: Note) -> Board:
    """Add a note; one of the same kind and key is replaced."""
    others = (old for old in board.notes if (old.kind, old.key) != (note.kind, note.key))
    return replace(board, notes=(*others, note)[-MAX_NOTES:])


def renew_note(board: Board, note: Note) -> Board:
    """Add a note; one of the same kind and key keeps its text and expires later.

    So a turn in progress that files the same content again does not change the text before it.
    """
    if not any((old.kind, old.key) == (note.kind, note.key) for old in board.notes):
        return add_note(board, note)
    renewed = (
        replace(old, until_turn=note.until_turn) if (old.kind, old.key) == (note.kind, note.key) else old
        for old in board.notes
    )
    return replace(board, notes=tuple(renewed))


def with_notes(board: Board, bands: Iterable[Band], *, has_tools: bool) -> Board:
    """Add notes on the turns of each band and on the tools that read shortened turns, if there are any."""
    if has_tools and any(note.kind in ("cabinet", "fetch") for note in board.notes):
        board = add_note(board, Note("reminder", "cabinet", CABINET_REMINDER))
    shortened = sorted((band for band in bands if band.turns and band.level != "R"), key=lambda band: band.first)
    if not shortened:
        return board
    ranges = (f"{_turns(band.first, band.last)} {LEVEL_WORDS[band.level]}" for band in shortened)
    board = add_note(board, Note("bands", "bands", f"{', '.join(ranges)}; later turns verbatim"))
    return add_note(board, Note("reminder", "tools", REMINDER)) if has_tools else board


def with_moved(board: Board, turn: int, steps: Sequence[int]) -> Board:
    """Add a note on steps of the turn in progress that were verbatim when the model read them, if there are any."""
    if not steps:
        return board
    shown = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    text = f'{shown} of this turn, by a rebuild of the history; get_turn("{turn_id(turn)}", "R") has every word'
    return add_note(board, Note("moved", "moved", text))


def _turns(first: int, last: int) -> str:
    return turn_id(first) if first == last else f"{turn_id(first)} to {turn_id(last)}"


def expire(board: Board, now_turn: int) -> ExpiryReport:
    """Remove the entries and notes that turn `now_turn` does not show any more."""
    held = tuple(entry for entry in board.retrieved if entry.replaced_in is None or entry.replaced_in >= now_turn)
    left = tuple(entry for entry in held if entry.is_saved or entry.until_turn >= now_turn)
    gone = tuple(entry for entry in held if entry not in left and entry.replaced_in is None)
    notes = tuple(note for note in board.notes if note.until_turn is None or note.until_turn >= now_turn)
    return ExpiryReport(Board(left, notes, turns=board.turns), gone)


class _Layout(NamedTuple):
    """The texts that fit, and the tokens that they leave."""

    texts: list[str]
    left_tokens: int


def _lay_out(board: Board, now_turn: int, budget_tokens: int, count: Count) -> _Layout:
    """Choose the texts that fit: retrieved pages, newest first, then notes, then prefetched turns."""
    notes = [_note_line(note) for kind in NOTE_HEADINGS for note in board.notes if note.kind == kind]
    left = budget_tokens - count("<board>\n") - count("</board>\n")
    shown: dict[int, str] = {}
    for index in reversed(range(len(board.retrieved))):
        text = _retrieved_text(board.retrieved[index], now_turn)
        size = count(text)
        if size <= left:
            shown[index] = text
            left -= size
    missing = [entry.name for index, entry in enumerate(board.retrieved) if index not in shown]
    lines = [f"No room for {', '.join(missing)}: retrieve again\n"] if missing else []
    kept: list[str] = []
    prefetched: list[str] = []
    for line, group in [
        *((line, kept) for line in [*lines, *notes]),
        *((_prefetched_text(entry), prefetched) for entry in board.prefetched),
    ]:
        size = count(line)
        if size <= left:
            group.append(line)
            left -= size
    return _Layout([*kept, *(shown[index] for index in sorted(shown)), *prefetched], left)


def render(board: Board, *, now_turn: int, budget_tokens: int, count: Count) -> str:
    """Write the board in its tag, within its budget. Newer pages take precedence; pages that do not fit are named.

    Empty if there is nothing to show or no room for anything.
    """
    rendered = tag_section("board", "".join(_lay_out(board, now_turn, budget_tokens, count).texts))
    assert count(rendered) <= max(budget_tokens, 0), "the parts of a board add up"
    return rendered


def _note_line(note: Note) -> str:
    text = " ".join(note.text.split())[:MAX_NOTE_CHARS]
    key = f" ({' '.join(note.key.split())[:MAX_NOTE_CHARS]})" if note.kind in ("fetch", "cabinet", "agent") else ""
    return escape_tags(f"{NOTE_HEADINGS[note.kind]}{key}: {text}") + "\n"


def _retrieved_text(entry: BoardEntry, now_turn: int) -> str:
    left = max(entry.until_turn - now_turn, 0)
    life = "saved" if entry.is_saved else f"{left} more turns" if left else "last turn"
    page = f", page {entry.page} of {entry.pages}" if entry.pages > 1 else ""
    return f"Retrieved ({life}{page}):\n{entry.days}{entry.text}"


def _prefetched_text(entry: BoardEntry) -> str:
    return f"Prefetched for this prompt:\n{entry.text}"


def whole_turns(board: Board) -> set[int]:
    """Return the turns that the board shows verbatim and complete."""
    return {entry.first for entry in board.retrieved if entry.level == "R" and entry.pages == 1}


def to_json(board: Board) -> dict[str, Json]:
    """Return the state of a board, without prefetched turns."""
    return {
        "retrieved": [asdict(entry) for entry in board.retrieved],
        "notes": [asdict(note) for note in board.notes],
        "turns": list(board.turns),
    }


def from_json(state: Json) -> Board:
    """Restore a board from the state that `to_json` returned."""
    assert isinstance(state, Mapping), "a board's state is an object"
    retrieved, notes, turns = (state.get(name, ()) for name in ("retrieved", "notes", "turns"))
    assert isinstance(retrieved, Sequence), "a board's state has lists"
    assert isinstance(notes, Sequence), "a board's state has lists"
    assert isinstance(turns, Sequence), "a board's state has lists"
    return Board(
        tuple(BoardEntry(**entry) for entry in retrieved if isinstance(entry, Mapping)),  # type: ignore[arg-type]
        tuple(Note(**note) for note in notes if isinstance(note, Mapping)),  # type: ignore[arg-type]
        turns=tuple(turn for turn in turns if isinstance(turn, int)),
    )
