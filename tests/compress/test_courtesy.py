"""Courtesies are found by their words, and whatever says more is no courtesy."""

from __future__ import annotations

import pytest

from foveate.compress.courtesy import is_courtesy, plain, without_courtesy


@pytest.mark.parametrize(
    "text",
    [
        "Thanks so much for the quick reply yesterday, I really appreciate it.",
        "Hello there, I hope you are having a lovely week!",
        "Please let me know if there is anything else that I can help you with.",
        "Don't hesitate to contact us if you have any further questions.",
        "Have a great weekend!",
        "Best wishes, Annette",
        "I'd be happy to help you with that.",
        "You're welcome!",
    ],
)
def test_a_courtesy_is_found(text: str) -> None:
    assert is_courtesy(text)
    assert without_courtesy(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Let me know if it works.",
        "Feel free to delete the branch.",
        "Thanks for the report about the invoice.",
        "Sorry, no.",
        "I hope the deploy worked.",
        "Have a good backup plan.",
        "Welcome page is broken.",
        "Please reach out to Ana about the contract.",
        "Have a look at the logs.",
    ],
)
def test_a_statement_in_polite_words_stays(text: str) -> None:
    assert not is_courtesy(text)
    assert without_courtesy(text) == text


def test_the_consent_of_a_user_stays() -> None:
    assert is_courtesy("Sounds good!")
    assert not is_courtesy("Sounds good!", is_answer=False)
    assert without_courtesy("Great, merge it.", is_answer=False) == "Great, merge it."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Hi Anna, the build is red.", "The build is red."),
        ("The build is red, thanks again for your help!", "The build is red."),
        ("I'm so sorry, I cannot open the file.", "I cannot open the file."),
    ],
)
def test_polite_parts_of_a_sentence_go(text: str, kept: str) -> None:
    assert without_courtesy(text) == kept


def test_names_of_code_need_no_marks() -> None:
    assert plain("run `make_all()` from `bin/run.sh` on `main`") == "run make_all() from bin/run.sh on `main`"
