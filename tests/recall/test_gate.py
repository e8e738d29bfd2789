"""Whether a prompt needs anything recalled, by how it is put."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.gate import Need, need_of

ASKS = (
    "When did Caroline go to the support group?",
    "What is the port of the storage service?",
    "Can you remind me which database we chose?",
    "What did we decide about the invoice numbers last time?",
    "Summarize what I told you about my garden so far.",
    "which branch has the fix for getUserById",
)
SMALL_TALK = (
    "",
    " \n ",
    "ok",
    "Thanks!",
    "continue",
    "go on please",
    "Sounds great!",
    "How are you?",
    "Hey! Good to see you! How have you been?",
    "What's up?",
    "Yes, do it.",
)
IN_DOUBT = (
    "What do you think of the garden in winter?",
    "Rename src/auth/jwt.py",
    "Have you noticed any improvements?",
)


@pytest.mark.parametrize("prompt", ASKS)
def test_what_asks_for_something_needs_recall(prompt: str) -> None:
    assert need_of(prompt) is Need.SURE


@pytest.mark.parametrize("prompt", SMALL_TALK)
def test_small_talk_and_nods_need_none(prompt: str) -> None:
    assert need_of(prompt) is Need.NONE


@pytest.mark.parametrize("prompt", IN_DOUBT)
def test_what_may_ask_for_the_past_is_left_to_what_is_found(prompt: str) -> None:
    assert need_of(prompt) is Need.PERHAPS


def test_of_a_long_prompt_the_end_is_what_asks() -> None:
    assert need_of("Here is a log. " * 10_000 + "When did the storage service fail?") is Need.SURE


@given(st.text(max_size=400))
def test_any_prompt_is_judged(prompt: str) -> None:
    assert need_of(prompt) in Need
