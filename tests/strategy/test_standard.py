"""The standard strategy, without a store."""

import pytest

from foveate.errors import HistoryExceedsBudget
from foveate.strategy.standard import Standard
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive, exchange


def test_the_tokens_needed_are_those_of_all_turns_even_if_few_are_in_memory() -> None:
    turns = [exchange(number, 100, 100) for number in range(1, 21)]
    with pytest.raises(HistoryExceedsBudget) as failed:
        drive(Standard(when_full="fail"), ListedSnapshot(turns, first_read=20), 1_000)
    assert failed.value.needed_tokens == 20 * (200 + USUAL_OVERHEADS.tag)
