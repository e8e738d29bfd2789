"""A chat with the real local model that is killed and goes on; `bench/local_chat.py` is the long one."""

from __future__ import annotations

from pathlib import Path

from local_chat import MOST_APART, chat

TURNS = 8
"""The seventh fills the budget, so that the eighth is the first in a rebuilt context."""


def test_a_chat_outlives_its_budget_and_a_kill_and_predicts_what_is_cached(local_url: str, tmp_path: Path) -> None:
    done = chat(local_url, TURNS, kills=[4], directory=tmp_path)
    assert done.turns == TURNS
    assert done.resumed_turns == [4]
    assert done.failed_calls == 0
    assert done.largest_counted_tokens <= 1_200
    # A new process does not know what the server has in its cache: its first turn is not compared.
    assert done.largest_gap <= 2 * MOST_APART
