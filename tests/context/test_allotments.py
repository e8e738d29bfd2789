from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.allotments import HISTORY_MINIMUM_TOKENS, Allotments
from foveate.plan import Ledger

TOKENS = st.integers(0, 1_000_000)
QUARTER = Allotments(recall=0.25)


def shares(ledger: Ledger) -> tuple[int, int, int]:
    """What history, board and recall may take."""
    return ledger.history_tokens, ledger.board_limit_tokens, ledger.recall_limit_tokens


def test_the_board_gets_a_tenth_recall_a_quarter_and_the_history_the_rest() -> None:
    ledger = Ledger(budget_tokens=32_000, fixed_tokens=1_500, prompt_tokens=500)
    assert shares(QUARTER.open(ledger, takes_rest=False)) == (19_500, 3_000, 7_500)


def test_recall_has_a_limit() -> None:
    assert shares(Allotments().open(Ledger(budget_tokens=100_000), takes_rest=True)) == (100_000, 10_000, 16_000)


def test_the_history_of_a_reserved_room_does_not_depend_on_what_the_others_use() -> None:
    busy = QUARTER.open(Ledger(budget_tokens=32_000, board_tokens=9, memory_tokens=9), takes_rest=False)
    assert shares(busy) == shares(QUARTER.open(Ledger(budget_tokens=32_000), takes_rest=False))


def test_a_history_that_takes_the_rest_gets_what_the_others_leave() -> None:
    opened = QUARTER.open(Ledger(budget_tokens=10_000, board_tokens=100), takes_rest=True)
    assert shares(opened) == (9_900, 1_000, 2_500)
    assert replace(opened, needed_tokens=2_500).limit_tokens == 7_400
    assert QUARTER.open(Ledger(budget_tokens=10_000), takes_rest=True).history_tokens == 10_000


def test_a_strategy_that_recalls_nothing_has_the_room_of_recall() -> None:
    assert shares(QUARTER.open(Ledger(budget_tokens=10_000), takes_rest=False, recalls=False)) == (9_000, 1_000, 0)


def test_a_history_has_its_share_of_the_room_at_most() -> None:
    assert QUARTER.open(Ledger(budget_tokens=10_000), takes_rest=True, history_share=0.5).history_tokens == 5_000


@given(st.tuples(TOKENS, TOKENS, TOKENS), st.booleans(), st.booleans(), st.tuples(TOKENS, TOKENS))
def test_the_parts_never_exceed_the_budget(
    sizes: tuple[int, int, int], takes_rest: bool, recalls: bool, used: tuple[int, int]
) -> None:
    budget, fixed, prompt = sizes
    given_ledger = Ledger(budget_tokens=budget, fixed_tokens=fixed, prompt_tokens=prompt, board_tokens=used[0])
    ledger = QUARTER.open(given_ledger, takes_rest=takes_rest, recalls=recalls)
    board = min(used[0], ledger.board_limit_tokens) if takes_rest else ledger.board_limit_tokens
    recall = min(used[1], ledger.recall_limit_tokens) if takes_rest else ledger.recall_limit_tokens
    history = replace(ledger, needed_tokens=recall).limit_tokens if takes_rest else ledger.limit_tokens
    assert min(shares(ledger)) >= 0
    assert history + board + recall <= max(0, budget - fixed - prompt)


def test_shares_that_leave_the_history_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="leave room"):
        Allotments(board=0.5, recall=0.5)


def test_recall_has_a_quarter_beside_a_history_that_gives_nothing_back() -> None:
    ledger = Ledger(budget_tokens=10_000, fixed_tokens=1_000)
    assert shares(Allotments().open(ledger, takes_rest=False)) == (5_850, 900, 2_250)
    assert shares(Allotments().open(ledger, takes_rest=True)) == (9_000, 900, 7_650)


def test_recall_leaves_the_history_its_least() -> None:
    small, none = (Allotments().open(Ledger(budget_tokens=tokens), takes_rest=True) for tokens in (600, 200))
    assert small.recall_limit_tokens == 600 - HISTORY_MINIMUM_TOKENS
    assert none.recall_limit_tokens == 0
