"""Speakers by name: who said a passage, and whether a prompt names them."""

from __future__ import annotations

import pytest

from foveate.history.memory_layer import MemoryPiece
from foveate.history.recalled import said_by_named
from foveate.recall.replies import NAME_AT_START


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Anna: the keys are in the shed", "Anna"),
        ("Jean-Luc O\u2019Neill: yes", "Jean-Luc O\u2019Neill"),
        ("\u0418\u0440\u0438\u043d\u0430: \u0434\u0430", "\u0418\u0440\u0438\u043d\u0430"),
        ("\u7530\u4e2d\uff1a \u306f\u3044", "\u7530\u4e2d"),
        ("https://example.org is down", ""),
        ("12: a number", ""),
        ("This is what I want to do: nothing", ""),
        ("no name", ""),
    ],
)
def test_a_name_is_what_stands_before_the_first_colon(text: str, name: str) -> None:
    found = NAME_AT_START.match(text)
    assert (found[1] if found else "") == name


def said(role: str, name: str) -> MemoryPiece:
    return MemoryPiece(1, 0, role, "", 0, 0, name)


def users(*names: str) -> list[MemoryPiece | None]:
    return [said("user", name) for name in names]


def test_passages_of_the_speakers_that_a_query_names_are_told_apart() -> None:
    assert said_by_named("What is Anna's job?", users("Anna", "Ben", "Anna Berg")) == [True, False, True]
    assert said_by_named("what did ben say?", [*users("Anna", "Ben"), None]) == [False, True, False]
    assert said_by_named("What is the time?", users("Anna", "Ben")) == [False, False]


def test_a_heading_is_no_name_where_most_passages_have_none() -> None:
    assert said_by_named("What was the error?", users("Error", "", "")) == [False, False, False]
    reply = said("assistant", "")
    assert said_by_named("What did Anna say?", [*users("Anna"), reply, reply]) == [True, False, False]
