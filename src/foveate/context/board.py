"""The announcement board: what a model retrieved, for a few turns, and short notes; it has a budget of its own.

All functions are pure: they take a board and give the next one. Its state is JSON (`to_json`, `from_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from foveate.context.cut import Count, take_head
from foveate.context.tags import MARKED, Block, Entry, escape_tags, tag_section, write_block
from foveate.strategy import Shown
from foveate.turn import Json, turn_id

LIFE_TURNS = 5
"""For how many turns after its retrieval a turn stays."""
MAX_RETRIEVED = 64
MAX_NOTES = 64
"""Beyond these the oldest goes first, saved ones last."""
MAX_NOTE_CHARS = 500
FRAME_TOKENS = 64
"""Room that a page leaves for the board's own lines."""
MIN_PAGE_TOKENS = 32

NoteKind = Literal["fetch", "cabinet", "reminder", "bands"]
NOTE_HEADINGS: dict[NoteKind, str] = {
    "bands": "Shown now",
    "reminder": "Remember",
    "cabinet": "In the file cabinet",
    "fetch": "Fetched",
}


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A page of what was retrieved: a turn, a range of turns, or an era, at one level."""

    first: int
    last: int
    level: Shown
    text: str
    """The page, in tags."""
    page: int
    pages: int
    until_turn: int
    """The last turn that still sees it, unless it is saved."""
    is_saved: bool = False

    @property
    def name(self) -> str:
        turns = turn_id(self.first) if self.first == self.last else f"{turn_id(self.first)}-through-{self.last}"
        return f"{turns}-{self.level}"


@dataclass(frozen=True, slots=True)
class Note:
    """A line on the board; a later one with the same kind and key takes its place."""

    kind: NoteKind
    key: str
    """A file key, or whatever tells it from others of its kind."""
    text: str
    until_turn: int | None = None


@dataclass(frozen=True, slots=True)
class Board:
    retrieved: tuple[Retrieved, ...] = ()
    """The latest last."""
    notes: tuple[Note, ...] = ()


class Expired(NamedTuple):
    """What is left of a board, and what went."""

    board: Board
    retrieved: tuple[Retrieved, ...]


Page: TypeAlias = tuple[Block, ...]


def paginate(blocks: Iterable[Block], page_tokens: int, count: Count) -> list[Page]:
    """The blocks on pages of at most this many tokens, tags included; too long a text is continued on the next."""
    room = max(page_tokens - FRAME_TOKENS, MIN_PAGE_TOKENS)
    pages: list[list[Block]] = [[]]
    used = 0
    for piece in _pieces(blocks, room, count):
        size = count(write_block(piece))
        grown = _grow(pages[-1], piece)
        grown_size = sum(count(write_block(block)) for block in grown[-1:])
        before = used - (count(write_block(pages[-1][-1])) if len(grown) == len(pages[-1]) else 0)
        if pages[-1] and before + grown_size > room:
            pages.append([piece])
            used = size
        else:
            pages[-1] = grown
            used = before + grown_size
    return [tuple(page) for page in pages]


def _grow(page: Sequence[Block], piece: Block) -> list[Block]:
    """A page with one more piece, in the last block if they are parts of the same range."""
    last = page[-1] if page else None
    if (
        last is None
        or not piece.is_range
        or last.tag != piece.tag
        or last.entries[-1].number >= piece.entries[0].number
    ):
        return [*page, piece]
    return [*page[:-1], replace(last, entries=(*last.entries, *piece.entries))]


def _pieces(blocks: Iterable[Block], room: int, count: Count) -> Iterable[Block]:
    """Each entry as a block of its own, in as many pieces as its size asks for."""
    for block in blocks:
        for entry in block.entries:
            rest = entry.text
            while True:
                piece, rest = _split(replace(block, entries=(replace(entry, text=rest),)), room, count)
                yield piece
                if not rest:
                    break


def _split(block: Block, room: int, count: Count) -> tuple[Block, str]:
    """As much of a one-entry block as fits, and the text that is left."""
    (entry,) = block.entries
    if count(write_block(block)) <= room:
        return block, ""

    def measure(text: str) -> int:
        return count(write_block(replace(block, entries=(Entry(entry.number, _ended(text, block.level)),))))

    head = take_head(entry.text, room, measure) or entry.text[:1]
    return replace(block, entries=(Entry(entry.number, _ended(head, block.level)),)), entry.text[len(head) :]


def _ended(text: str, level: Shown) -> str:
    return text if level not in MARKED or not text or text.endswith("\n") else f"{text}\n"


def retrieve(
    board: Board,
    blocks: Sequence[Block],
    *,
    now_turn: int,
    page_tokens: int,
    count: Count,
    page: int = 1,
    life_turns: int = LIFE_TURNS,
) -> Board:
    """The board with a page of these blocks (of one level) on it; what was there of them already is renewed."""
    assert blocks, "nothing to retrieve"
    pages = paginate(blocks, page_tokens, count)
    chosen = min(max(page, 1), len(pages))
    text = "".join(map(write_block, pages[chosen - 1]))
    entry = Retrieved(
        first=blocks[0].first,
        last=blocks[-1].last,
        level=blocks[0].level,
        text=text,
        page=chosen,
        pages=len(pages),
        until_turn=now_turn + life_turns,
    )
    old = next((held for held in board.retrieved if held.name == entry.name), None)
    entry = replace(entry, is_saved=old.is_saved) if old else entry
    others = tuple(held for held in board.retrieved if held is not old)
    return replace(board, retrieved=_limited((*others, entry)))


def _limited(retrieved: tuple[Retrieved, ...]) -> tuple[Retrieved, ...]:
    if len(retrieved) <= MAX_RETRIEVED:
        return retrieved
    leaving = next((entry for entry in retrieved if not entry.is_saved), retrieved[0])
    return tuple(entry for entry in retrieved if entry is not leaving)


def renew(board: Board, name: str, *, now_turn: int, life_turns: int = LIFE_TURNS) -> Board:
    """The entry of this name, such as `T-87-R`, gets its whole life again."""
    return _changed(board, name, lambda entry: replace(entry, until_turn=now_turn + life_turns))


def save(board: Board, name: str) -> Board:
    """The entry of this name stays until it is dismissed."""
    return _changed(board, name, lambda entry: replace(entry, is_saved=True))


def _changed(board: Board, name: str, change: Callable[[Retrieved], Retrieved]) -> Board:
    changed = tuple(change(entry) if entry.name == name else entry for entry in board.retrieved)
    return replace(board, retrieved=changed)


def dismiss(board: Board, name: str) -> Board:
    """Without the entry of this name, saved or not, or the note with this key."""
    return Board(
        tuple(entry for entry in board.retrieved if entry.name != name),
        tuple(note for note in board.notes if note.key != name),
    )


def add_note(board: Board, note: Note) -> Board:
    others = (old for old in board.notes if (old.kind, old.key) != (note.kind, note.key))
    return replace(board, notes=(*others, note)[-MAX_NOTES:])


def expire(board: Board, now_turn: int) -> Expired:
    """The board as turn `now_turn` sees it, and the retrieved turns that have gone."""
    gone = tuple(entry for entry in board.retrieved if not entry.is_saved and entry.until_turn < now_turn)
    notes = tuple(note for note in board.notes if note.until_turn is None or note.until_turn >= now_turn)
    return Expired(Board(tuple(entry for entry in board.retrieved if entry not in gone), notes), gone)


def render(board: Board, *, now_turn: int, budget_tokens: int, count: Count) -> str:
    """The board in its tag, never more than its budget; what has no room is named, the latest retrieved first served.

    Empty if there is nothing to show, or no room for anything.
    """
    notes = [_note_line(note) for kind in NOTE_HEADINGS for note in board.notes if note.kind == kind]
    frame = count(tag_section("board", "\n"))
    left = budget_tokens - frame
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
    for line in [*lines, *notes]:
        size = count(line)
        if size <= left:
            kept.append(line)
            left -= size
    rendered = tag_section("board", "".join([*kept, *(shown[index] for index in sorted(shown))]))
    assert count(rendered) <= max(budget_tokens, 0), "the parts of a board add up"
    return rendered


def _note_line(note: Note) -> str:
    text = " ".join(note.text.split())[:MAX_NOTE_CHARS]
    key = f" ({' '.join(note.key.split())[:MAX_NOTE_CHARS]})" if note.kind in ("fetch", "cabinet") else ""
    return escape_tags(f"{NOTE_HEADINGS[note.kind]}{key}: {text}") + "\n"


def _retrieved_text(entry: Retrieved, now_turn: int) -> str:
    left = max(entry.until_turn - now_turn, 0)
    life = "saved" if entry.is_saved else f"{left} more turns" if left else "last turn"
    page = f", page {entry.page} of {entry.pages}" if entry.pages > 1 else ""
    return f"Retrieved ({life}{page}):\n{entry.text}"


def to_json(board: Board) -> dict[str, Json]:
    return {
        "retrieved": [asdict(entry) for entry in board.retrieved],
        "notes": [asdict(note) for note in board.notes],
    }


def from_json(state: Mapping[str, Json]) -> Board:
    """The board that `to_json` wrote."""
    retrieved, notes = state.get("retrieved", ()), state.get("notes", ())
    assert isinstance(retrieved, Sequence), "a board's state has lists"
    assert isinstance(notes, Sequence), "a board's state has lists"
    return Board(
        tuple(Retrieved(**entry) for entry in retrieved if isinstance(entry, Mapping)),  # type: ignore[arg-type]
        tuple(Note(**note) for note in notes if isinstance(note, Mapping)),  # type: ignore[arg-type]
    )
