"""The board keeps what was retrieved for its time, in its own budget."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.context.board import (
    MAX_RETRIEVED,
    Board,
    Note,
    add_note,
    as_begun,
    current,
    dismiss,
    expire,
    from_json,
    prefetch,
    render,
    retrieve,
    save,
    to_json,
    with_notes,
)
from foveate.context.tags import TagBlock, TagEntry, parse_blocks
from foveate.plan import Band
from foveate.tokens import O200K, Counter
from support.contexts import blocks, boards, counters


def turn_block(number: int, text: str = "[user] hi\n") -> TagBlock:
    return TagBlock(number, number, "R", (TagEntry(number, text),))


def board_with(*numbers: int, now_turn: int = 10) -> Board:
    board = Board()
    for number in numbers:
        board = retrieve(board, [turn_block(number)], now_turn=now_turn, page_tokens=500, count=O200K.base)
    return board


def shown(board: Board, now_turn: int = 10, budget_tokens: int = 1_000) -> str:
    return render(board, now_turn=now_turn, budget_tokens=budget_tokens, count=O200K.base)


def test_a_retrieved_turn_stays_for_five_turns() -> None:
    board = board_with(87, now_turn=10)
    for now in range(10, 16):
        assert expire(board, now).retrieved == ()
    left = expire(board, 16)
    assert [entry.name for entry in left.retrieved] == ["T-87-R"]
    assert left.board == Board(turns=(87,))


def test_the_board_says_how_long_a_turn_still_stays() -> None:
    board = board_with(87)
    assert shown(board, 11) == ("<board>\nRetrieved (4 more turns):\n<T-87-R>\n[user] hi\n</T-87-R>\n</board>\n")
    assert "Retrieved (last turn):" in shown(board, 15)
    assert "Retrieved (saved):" in shown(save(board, "T-87-R"), 15)


def test_retrieving_again_renews() -> None:
    board = board_with(87, now_turn=10)
    again = retrieve(board, [turn_block(87)], now_turn=14, page_tokens=500, count=O200K.base)
    assert [entry.until_turn for entry in current(again).retrieved] == [19]
    assert current(expire(again, 15).board) == expire(again, 15).board


def test_a_turn_in_progress_keeps_the_board_it_began_with_while_its_own_results_show_the_rest() -> None:
    before = retrieve(board_with(87, now_turn=10), [turn_block(88)], now_turn=12, page_tokens=500, count=O200K.base)
    again = retrieve(before, [turn_block(87)], now_turn=14, page_tokens=500, count=O200K.base)
    assert as_begun(again, 14, []) == current(again), "what no result of the turn shows is shown by the board"
    begun = as_begun(again, 14, ["<T-87-R>\n[user] hi\n</T-87-R>\n"])
    assert shown(begun, 14) == shown(before, 14)
    assert [entry.name for entry in current(again).retrieved] == ["T-88-R", "T-87-R"]


def test_a_saved_turn_stays_until_it_is_dismissed() -> None:
    board = save(board_with(87), "T-87-R")
    assert expire(board, 1_000).board == board
    assert retrieve(board, [turn_block(87)], now_turn=14, page_tokens=500, count=O200K.base).retrieved[-1].is_saved
    assert dismiss(board, "T-87-R") == Board(turns=(87,))


def test_the_life_of_an_entry_is_a_setting() -> None:
    board = retrieve(Board(), [turn_block(1)], now_turn=10, page_tokens=500, count=O200K.base, life_turns=2)
    assert board.retrieved[0].until_turn == 12


def test_the_board_shows_notes_of_every_kind() -> None:
    board = add_note(Board(), Note("fetch", "F-3", "https://tides.example\nsecond line"))
    board = add_note(board, Note("cabinet", "F-1", "report.pdf, 20 pages"))
    board = add_note(board, Note("reminder", "tools", "exec needs a timeout"))
    board = add_note(board, Note("bands", "bands", "C 1-9, R 10-12"))
    assert shown(board) == (
        "<board>\nShown now: C 1-9, R 10-12\nRemember: exec needs a timeout\n"
        "In the file cabinet (F-1): report.pdf, 20 pages\nFetched (F-3): https://tides.example second line\n</board>\n"
    )


def test_a_later_note_takes_the_place_of_the_earlier_one() -> None:
    board = add_note(add_note(Board(), Note("bands", "bands", "old")), Note("bands", "bands", "new"))
    assert [note.text for note in board.notes] == ["new"]


def test_a_note_goes_when_its_time_is_over() -> None:
    board = add_note(Board(), Note("fetch", "F-1", "x", until_turn=4))
    assert expire(board, 4).board == board
    assert expire(board, 5).board == Board()
    assert dismiss(board, "F-1") == Board()


def test_what_has_no_room_is_named() -> None:
    board = board_with(1, 2)
    board = retrieve(
        board, [turn_block(3, "[user] " + "long " * 90 + "\n")], now_turn=10, page_tokens=500, count=O200K.base
    )
    text = shown(board, budget_tokens=80)
    assert "No room for T-3-R: retrieve again\n" in text
    assert "<T-1-R>" in text


def test_an_empty_board_shows_nothing() -> None:
    assert shown(Board()) == ""
    assert shown(board_with(1), budget_tokens=5) == ""


def test_a_text_larger_than_the_board_comes_in_pages() -> None:
    text = "[user] " + "A sentence of some length, and another. " * 200 + "\n"
    board = Board()
    pages = []
    for page in (1, 2, 3):
        board = retrieve(board, [turn_block(5, text)], now_turn=1, page_tokens=800, count=O200K.base, page=page)
        assert len(board.retrieved) == 1
        pages.append(board.retrieved[0])
    assert [(entry.page, entry.pages) for entry in pages] == [(1, 3), (2, 3), (3, 3)]
    assert "Retrieved (5 more turns, page 3 of 3):" in shown(board, 1)


def test_a_page_beyond_the_last_is_the_last() -> None:
    board = retrieve(Board(), [turn_block(5)], now_turn=1, page_tokens=800, count=O200K.base, page=9)
    assert (board.retrieved[0].page, board.retrieved[0].pages) == (1, 1)


@given(boards(), st.integers(-5, 300), st.integers(1, 20), counters)
def test_the_board_never_exceeds_its_budget(board: Board, budget: int, now: int, counter: Counter) -> None:
    text = render(board, now_turn=now, budget_tokens=budget, count=counter.base)
    assert not text or counter.base(text) <= budget


@given(boards(), st.lists(st.lists(blocks(), max_size=3), max_size=3), st.integers(-5, 400), counters)
def test_what_comes_ahead_fits_and_changes_nothing_that_is_there(
    board: Board, choices: list[list[TagBlock]], budget: int, counter: Counter
) -> None:
    ahead = prefetch(board, choices, now_turn=5, budget_tokens=budget, count=counter.base)
    before = render(board, now_turn=5, budget_tokens=budget, count=counter.base)
    after = render(ahead, now_turn=5, budget_tokens=budget, count=counter.base)
    assert not after or counter.base(after) <= budget
    assert after.startswith(before.removesuffix("</board>\n"))
    assert (ahead.retrieved, ahead.notes) == (board.retrieved, board.notes)
    assert all(entry.text in after for entry in ahead.prefetched)
    assert from_json(to_json(ahead)) == board


def test_of_a_turn_the_best_level_that_fits_whole_comes_ahead() -> None:
    raw = turn_block(3, "[user] " + "harbour " * 300 + "\n")
    short = TagBlock(3, 3, "C", (TagEntry(3, "asks for the harbour"),))
    board = board_with(87)
    for budget, names in ((1_000, ["T-3-R"]), (150, ["T-3-C"]), (40, [])):
        ahead = prefetch(board, [[raw, short], []], now_turn=10, budget_tokens=budget, count=O200K.base)
        assert [entry.name for entry in ahead.prefetched] == names
        assert ("Prefetched for this prompt:\n<T-3" in shown(ahead, budget_tokens=budget)) is bool(names)


@given(boards())
def test_no_content_closes_the_board(board: Board) -> None:
    text = shown(board, budget_tokens=100_000)
    assert text.count("</board>") == (1 if text else 0)
    for entry in board.retrieved:
        assert parse_blocks(entry.text)


@given(boards())
def test_a_boards_state_is_json(board: Board) -> None:
    assert from_json(json.loads(json.dumps(to_json(board)))) == board


@settings(max_examples=5)
@given(st.integers(0, 3))
def test_the_board_holds_a_limited_number_of_entries(saved: int) -> None:
    board = board_with(1)
    for number in range(2, MAX_RETRIEVED + 10):
        board = retrieve(board, [turn_block(number)], now_turn=10, page_tokens=500, count=O200K.base)
        if number <= saved:
            board = save(board, f"T-{number}-R")
    assert len(board.retrieved) == MAX_RETRIEVED
    assert sum(entry.is_saved for entry in board.retrieved) == max(saved - 1, 0)


def test_the_board_names_the_bands_and_the_tools_that_read_them_again() -> None:
    bands = [Band("T", 1, 40, 40, 0.14, 900), Band("C", 41, 41, 1, 0.30, 900), Band("R", 42, 60, 19, 0.4, 2_000)]
    board = with_notes(Board(), bands, has_tools=True)
    shown = render(board, now_turn=60, budget_tokens=200, count=O200K.base)
    assert "Shown now: T-1 to T-40 tiny, T-41 compressed; later turns verbatim\n" in shown
    assert "Remember: get_turn and get_turns read any of them again" in shown
    assert "Remember" not in render(
        with_notes(Board(), bands, has_tools=False), now_turn=60, budget_tokens=200, count=O200K.base
    )
    assert with_notes(Board(), bands[2:], has_tools=True) == Board()
    assert render(board, now_turn=60, budget_tokens=10, count=O200K.base) == ""
