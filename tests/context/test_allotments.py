from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.allotments import HISTORY_MINIMUM_TOKENS, Allotments, Split

TOKENS = st.integers(0, 1_000_000)


def test_the_board_gets_a_tenth_recall_a_quarter_and_the_history_the_rest() -> None:
    assert Allotments(recall=0.25).split(32_000, 1_500, 500, takes_rest=False) == Split(
        history=19_500, board=3_000, recall=7_500
    )


def test_recall_has_a_limit() -> None:
    assert Allotments(recall=0.25).split(100_000, 0, 0, takes_rest=False) == Split(
        history=80_000, board=10_000, recall=10_000
    )


def test_the_history_of_a_reserved_room_does_not_depend_on_what_the_others_use() -> None:
    busy = Allotments(recall=0.25).split(32_000, 0, 0, takes_rest=False, board_tokens_used=9, recall_tokens_used=9)
    assert busy == Allotments(recall=0.25).split(32_000, 0, 0, takes_rest=False)


def test_a_history_that_takes_the_rest_gets_what_the_others_leave() -> None:
    split = Allotments(recall=0.25).split(
        10_000, 0, 0, takes_rest=True, board_tokens_used=100, recall_tokens_used=2_500
    )
    assert split == Split(history=7_400, board=1_000, recall=2_500)
    assert Allotments(recall=0.25).split(10_000, 0, 0, takes_rest=True).history == 10_000


@given(st.tuples(TOKENS, TOKENS, TOKENS), st.booleans(), st.tuples(TOKENS, TOKENS))
def test_the_parts_never_exceed_the_budget(
    sizes: tuple[int, int, int], takes_rest: bool, used: tuple[int, int]
) -> None:
    split = Allotments(recall=0.25).split(
        *sizes, takes_rest=takes_rest, board_tokens_used=used[0], recall_tokens_used=used[1]
    )
    board = min(used[0], split.board) if takes_rest else split.board
    recall = min(used[1], split.recall) if takes_rest else split.recall
    assert min(split.history, split.board, split.recall) >= 0
    assert split.history + board + recall <= max(0, sizes[0] - sizes[1] - sizes[2])


def test_shares_that_leave_the_history_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="leave room"):
        Allotments(board=0.5, recall=0.5)


def test_recall_has_its_quarter_by_default() -> None:
    split = Allotments().split(10_000, 1_000, 0, takes_rest=False)
    assert (split.history, split.board, split.recall) == (5_850, 900, 2_250)


def test_in_a_one_off_context_recall_comes_first_and_leaves_the_history_its_least() -> None:
    assert Allotments(recall_one_off=0.8).one_off_recall(Split(10_000, 0, 0)) == 8_000
    assert Allotments(recall_one_off=0.8).one_off_recall(Split(600, 0, 0)) == 600 - HISTORY_MINIMUM_TOKENS
    assert Allotments().one_off_recall(Split(200, 0, 0)) == 0
    assert Allotments().one_off_recall(Split(1_000_000, 0, 0)) == 16_000
