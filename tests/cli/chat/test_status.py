"""The line below an answer: what it took, whole at any width."""

from dataclasses import replace

import pytest

from foveate.agents.chat import AnswerSummary
from foveate.cli.chat.flow import status

MODEL = "qwen3-coder-30b@http://inference.example.com:11434/v1"
DONE = AnswerSummary(
    turn_id="T-5",
    text="8443.",
    model=MODEL,
    finish="stop",
    calls=1,
    tokens=2_012,
    budget_tokens=4_000,
    prompt_tokens=2_012,
    predicted_cached_tokens=0,
    input_tokens=2_000,
    cached_tokens=0,
    output_tokens=3,
    nano_usd=300_000,
    seconds=23.5,
)


WHOLE = "T-5 ████░░░░ 2,012/4,000 · 0% cached (0% predicted) · $0.0003 ($0.0012 in all) · "


@pytest.mark.parametrize("width", range(55, 160))
def test_a_status_fits_and_ends_with_the_time_whatever_the_model_is_called(width: int) -> None:
    shown = status(DONE, 0.0012, width=width).plain
    assert len(shown) <= width
    assert shown.startswith("T-5 ████░░░░ 2,012/4,000 · 0% cached")
    assert "$0.0003" in shown
    assert shown.endswith(" · 23.5 s")


def test_the_name_of_a_model_is_the_first_to_be_shortened() -> None:
    assert status(DONE, 0.0012, width=300).plain == f"{WHOLE}{MODEL} · 23.5 s"
    assert status(DONE, 0.0012, width=110).plain == f"{WHOLE}qwen3-coder-30b@htt… · 23.5 s"
    assert status(DONE, 0.0012, width=90).plain == f"{WHOLE}23.5 s"


def test_turns_without_words_are_named() -> None:
    shown = status(replace(DONE, mode="plan", turns_without_words=12), 0.0012, width=300).plain
    assert shown.startswith("T-5 ████░░░░ 2,012/4,000 · plan · 12 turns without words · 0% cached")


def test_what_a_session_has_cost_is_told_where_it_is_more_than_the_answer() -> None:
    assert " · $0.0003 · " in status(DONE, 0.0003, width=300).plain
