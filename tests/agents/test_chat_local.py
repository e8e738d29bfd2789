"""A chat with the real local model that is killed and goes on; `bench/local_chat.py` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_chat import MOST_APART, Limits, chat

LIMITS = Limits(turns=5, budget_tokens=600, max_output_tokens=8)


@pytest.mark.thorough  # test_run_local.py goes on with a real server after a kill; this takes 20 seconds
def test_a_chat_outlives_its_budget_and_a_kill_and_predicts_what_is_cached(local_url: str, tmp_path: Path) -> None:
    done = chat(local_url, LIMITS, kills=[3], directory=tmp_path)
    assert done.turns == LIMITS.turns
    assert done.resumed_turns == [3]
    assert done.failed_calls == 0
    assert done.rebuilds >= 1, "the budget is to be filled at least once"
    # A new process does not know what the server still has in its cache: its first turn is not compared.
    assert done.largest_gap <= 2 * MOST_APART
