"""The picture of a context: cells of turns, hollow where it says nothing of them."""

from foveate.context.context import Segment
from foveate.context.render import Layout
from foveate.plan import ShownLevel
from foveate.session.picture import Cell, bands_of, cells_of, joined, keep_row, past_picture, silent_turns
from foveate.session.values import Context

SAID = "Ingrid moved the mooring invoices to Lindesnes harbour"
"""A line that speaks for eight turns."""


def part(level: ShownLevel, first: int, last: int, text: str = "", levels: str = "") -> Segment:
    return Segment("history", 9, is_stable=True, first=first, last=last, level=level, text=text, levels=levels)


SEGMENTS = (part("E", 1, 32, f"T-9 {SAID}"), part("C", 33, 36, levels="C--T"), part("R", 37, 37))
CELLS = [
    Cell(1, 8, "E", is_cached=True, is_hollow=True),
    Cell(9, 16, "E", is_cached=True),
    Cell(17, 32, "E", is_cached=True, is_hollow=True),
    Cell(33, 33, "C", is_cached=True),
    Cell(34, 35, "E", is_cached=True, is_hollow=True),
    Cell(36, 36, "T", is_cached=True),
    Cell(37, 37, "R", is_cached=True),
]


def test_turns_without_words_are_hollow_cells() -> None:
    assert list(cells_of(SEGMENTS)) == CELLS
    assert CELLS[0].name == "T-1 to T-8: without words, cached"


def test_turns_that_a_context_leaves_out_are_hollow_too() -> None:
    cells = list(cells_of([part("R", 3, 3), part("R", 5, 5)]))
    assert [(cell.first, cell.last, cell.is_hollow) for cell in cells] == [
        (1, 2, True), (3, 3, False), (4, 4, True), (5, 5, False)
    ]  # fmt: skip


def test_hollow_cells_are_joined_with_hollow_ones_alone() -> None:
    cells = [Cell(1, 1, "E", is_hollow=True), Cell(2, 2, "E", is_hollow=True), Cell(3, 9, "E")]
    assert list(joined(cells)) == [Cell(1, 2, "E", is_hollow=True), Cell(3, 9, "E")]


def test_a_stored_picture_keeps_its_hollow_cells() -> None:
    context = Context("", 1, 2, SEGMENTS, "", "", Layout())
    stored = past_picture(keep_row(context, 37))
    assert [(cell.first, cell.last, cell.level, cell.is_hollow) for cell in stored.cells] == [
        (cell.first, cell.last, cell.level, cell.is_hollow) for cell in CELLS
    ]


def test_the_number_of_turns_without_words_is_named() -> None:
    assert [silent_turns(turns) for turns in (0, 1, 1_200)] == ["", "1 turn without words", "1,200 turns without words"]


def test_the_bands_of_a_mixed_block_share_its_tokens_and_its_era_counts() -> None:
    text = f"<T-1-through-4-E>\nT-2 {SAID}\n</T-1-through-4-E>\n<T-1-through-4-C>\nTurn 1: {SAID}\nTurn 4: {SAID}\n</T>"
    segments = (part("C", 1, 4, text, levels="C--T"), part("R", 5, 6))
    bands = bands_of(Context("", 1, 2, segments, "", "", Layout()))
    assert [(band["level"], band["turns"], band["first"], band["last"]) for band in bands] == [
        ("R", 2, 5, 6), ("C", 1, 1, 1), ("T", 1, 4, 4), ("E", 2, 2, 3)
    ]  # fmt: skip
    assert sum(int(str(band["tokens"])) for band in bands) == 18
    assert bands[0]["share"] == 0.5
