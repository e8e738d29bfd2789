"""What a model always says is told apart from what somebody stated."""

from __future__ import annotations

import pytest

from foveate.recall.choice import (
    BOILERPLATE_SHARE,
    LEAD_IN_SHARE,
    PassageHit,
    Repeats,
    is_code,
    is_lead_in,
    is_list,
    is_of_name,
)

LIST = "1. Run twice a week.\n2. Sleep eight hours.\n3. Eat well."
CODE = "```python\ndef run(distance):\n    return distance * 2\n```"


def said(text: str, speaker: str = "assistant") -> PassageHit:
    return PassageHit(0, 0, 1, 0, text, 1.0, 0.0, speaker, None, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["Sure! Here are some ideas for your run:", "Of course, let us begin.", "Gerne! Los."])
def test_an_announcement_is_a_lead_in(text: str) -> None:
    assert is_lead_in(text)


@pytest.mark.parametrize("text", ["Here is the port: 9000.", "The plan has three runs.", "Great " + "long words " * 20])
def test_a_statement_is_no_lead_in(text: str) -> None:
    assert not is_lead_in(text)


def test_code_and_lists_are_told_apart_from_prose() -> None:
    assert is_code(CODE.splitlines())
    assert is_list(LIST.splitlines())
    for prose in ("I run twice a week. I sleep well.", "One line", "First: a thing.\nSecond: another one."):
        assert not is_code(prose.splitlines())
        assert not is_list(prose.splitlines())


def test_boilerplate_of_the_assistant_counts_less_unless_it_is_asked_for() -> None:
    plain = Repeats("running plan", None)
    assert plain.share(said("Sure! Here is your running plan:")) == LEAD_IN_SHARE
    assert plain.share(said(LIST)) == BOILERPLATE_SHARE
    assert plain.share(said(CODE)) == BOILERPLATE_SHARE
    assert plain.share(said(LIST, "user")) == 1.0
    assert Repeats("What did you recommend for running?", None).share(said(LIST)) == 1.0
    assert Repeats("the function run_distance", None).share(said(CODE)) == 1.0


def test_a_name_is_found_by_one_of_its_words() -> None:
    assert is_of_name("anna", "Anna Berg")
    assert is_of_name("Anna Berg", "anna berg")
    assert not is_of_name("Ann", "Anna")
    assert not is_of_name("anna", "")
