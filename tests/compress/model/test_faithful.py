"""The honest model of the tests says only what the turn says, in the shape that was asked for."""

from __future__ import annotations

import json

import pytest

from foveate.compress.model import Group, assign, judge
from foveate.models import Ask
from foveate.models.settings import ModelsSettings
from foveate.renditions import Level
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text
from support.faithful import faithful_answer, read_source
from support.injections import INJECTIONS, NONCE, Injection, answer

TURN = Injection("no attack", "", "", "").messages()


@pytest.mark.parametrize("levels", [("C", "T"), ("S", "C", "T"), ("T",)], ids="".join)
def test_an_honest_answer_passes_the_guard(levels: tuple[Level, ...]) -> None:
    group = Group(levels, "compress", ("scripted:test",))
    assignment = assign(group, 3, TURN, count_tokens, nonce=NONCE, settings=ModelsSettings())
    above: dict[Level, int] = dict.fromkeys(levels, 500)
    made = judge(assignment, answer(faithful_answer(assignment.ask)), TURN, count_tokens, above=above)
    assert set(made.texts) == set(levels), made.refusals


def test_the_source_is_read_back_as_it_was_written() -> None:
    for injection in INJECTIONS[:6]:
        read = read_source(turn_text(injection.messages()))
        assert [message.role for message in read] == ["user", "assistant", "tool", "assistant"]
        assert read[0].text == injection.messages()[0].text


def test_an_answer_that_was_refused_comes_again_without_its_notes() -> None:
    said = '{"compressed": {"user": "a", "assistant": "b {exec: 9 lines}"}, "tiny": {"user": "", "assistant": ""}}'
    group = Group(("C",), "compress", ("scripted:test",))
    first = assign(group, 3, TURN, count_tokens, nonce=NONCE, settings=ModelsSettings()).ask
    asked = (*first.messages, Message("assistant", (Text(said),)), Message("user", (Text("again"),)))
    again = Ask(purpose="compress", messages=asked, schema=first.schema, max_output_tokens=99, input_tokens=9)
    assert json.loads(faithful_answer(again)) == {"compressed": {"user": "a", "assistant": "b "}}


def test_a_request_without_a_turn_gets_an_empty_answer() -> None:
    ask = Ask(purpose="chat", messages=(Message("user", (Text("Hello"),)),), max_output_tokens=9, input_tokens=9)
    assert faithful_answer(ask) == "{}"
