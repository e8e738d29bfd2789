"""What holds for every message format, whatever goes in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.formats import load, message_formats, parse_message, parse_messages, render_messages
from foveate.turn import Json, Message, Opaque, Text, ToolCall, ToolResult
from support import strategies
from support.examples import times

PROVIDERS = sorted(strategies.standard_records)
every_provider = pytest.mark.parametrize("name", PROVIDERS)
quick = settings(max_examples=times(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_provider_has_a_message_format() -> None:
    assert set(message_formats()) >= {*PROVIDERS, "foveate"}


@every_provider
@quick
@given(data=st.data())
def test_a_record_comes_back_to_the_letter_with_fields_nobody_knows(name: str, data: st.DataObject) -> None:
    record = data.draw(strategies.records(name))
    before = json.dumps(record)
    assert render_messages(name, [parse_message(name, record)]) == [record]
    assert json.dumps(record) == before


@every_provider
@settings(quick, max_examples=times(25))
@given(data=st.data())
def test_a_standard_record_comes_back_from_its_meaning_alone(name: str, data: st.DataObject) -> None:
    record = data.draw(strategies.standard_records[name])
    message = parse_message(name, record).without_original()
    assert render_messages(name, [message]) == [record]


@every_provider
@quick
@given(messages=st.lists(strategies.messages, max_size=5))
def test_any_message_can_be_rendered_and_read_again(name: str, messages: list[Message]) -> None:
    rendered = render_messages(name, messages)
    assert render_messages(name, messages) == rendered
    if not any(_holds_opaque(message) for message in messages):
        parse_messages(rendered, name)


@every_provider
@pytest.mark.parametrize("with_ids", [True, False])
@quick
@given(data=st.data())
def test_a_conversation_keeps_its_calls_results_and_words(name: str, with_ids: bool, data: st.DataObject) -> None:
    spoken = data.draw(strategies.conversations(with_ids=with_ids))
    rendered = render_messages(name, spoken)
    read = parse_messages(rendered, name)
    assert _calls(read) == _calls(spoken)
    assert _pairs(read).items() >= _pairs(spoken).items()
    _assert_in_order(_texts(spoken), _texts(read))


@settings(quick, max_examples=times(40))
@given(name=st.sampled_from(PROVIDERS), source=st.sampled_from(PROVIDERS), spoken=strategies.conversations())
def test_a_conversation_survives_the_way_through_another_provider(
    name: str, source: str, spoken: list[Message]
) -> None:
    there = parse_messages(render_messages(source, spoken), source)
    read = parse_messages(render_messages(name, there), name)
    assert _calls(read) == _calls(spoken)
    assert _pairs(read).items() >= _pairs(spoken).items()


@every_provider
@settings(quick, max_examples=times(25))
@given(spoken=strategies.conversations())
def test_results_stand_where_the_provider_wants_them(name: str, spoken: list[Message]) -> None:
    ADJACENT[name](render_messages(name, [*spoken, Message("user", (Text("And now?"),))]))


@every_provider
@quick
@given(data=st.data())
def test_a_format_recognises_no_other_providers_record(name: str, data: st.DataObject) -> None:
    record = data.draw(strategies.records(name))
    others = {other: format_ for other, format_ in message_formats().items() if other != name}
    assert not [other for other, format_ in others.items() if format_.recognises(record)]


def test_loading_gives_modules_that_are_message_formats() -> None:
    assert {type(load(name)).__name__ for name in PROVIDERS} == {"module"}


def _holds_opaque(message: Message) -> bool:
    inner = [part for result in message.tool_results for part in result.content]
    return any(isinstance(part, Opaque) for part in (*message.parts, *inner))


def _calls(messages: Iterable[Message]) -> list[tuple[str, Json]]:
    return [(call.name, call.arguments) for message in messages for call in message.tool_calls]


def _pairs(messages: Iterable[Message]) -> dict[str, str]:
    """The text of its result for each call's name; pairs by id, and without one by name."""
    parts = [part for message in messages for part in message.parts]
    called = {call.id or call.name: call.name for call in parts if isinstance(call, ToolCall)}
    results = [result for result in parts if isinstance(result, ToolResult)]
    answered: dict[str, str] = {}
    for result in results:
        text = "".join(part.text for part in result.content if isinstance(part, Text))
        key = result.call_id or result.name or ""
        if key in called and text.startswith("result of "):
            answered[called[key]] = text
            assert called[key] == f"tool_{text.split()[2]}"
    return answered


def _texts(messages: Iterable[Message]) -> list[str]:
    return [part.text for message in messages for part in message.parts if isinstance(part, Text)]


def _assert_in_order(expected: list[str], found: list[str]) -> None:
    position = 0
    for text in expected:
        position = next(index for index in range(position, len(found)) if text in found[index])


def _openai_adjacent(records: list[Any]) -> None:
    waiting: set[str] = set()
    for record in records:
        if record["role"] == "tool":
            assert record["tool_call_id"] in waiting
            waiting.remove(record["tool_call_id"])
        else:
            assert not waiting
            waiting = {call["id"] for call in record.get("tool_calls", ())}
    assert not waiting


def _responses_adjacent(records: list[Any]) -> None:
    waiting: set[str] = set()
    answering = False
    for record in records:
        kind = record.get("type", "message")
        if kind.endswith("_output"):
            assert record["call_id"] in waiting
            waiting.remove(record["call_id"])
            answering = True
        else:
            assert not (answering and waiting)
            answering = False
            if kind in ("function_call", "custom_tool_call"):
                waiting.add(record["call_id"])
            else:
                assert not waiting or record.get("role", "assistant") == "assistant"
    assert not waiting


def _anthropic_adjacent(records: list[Any]) -> None:
    waiting: list[str] = []
    seen: list[str] = []
    for record in records:
        content = record["content"] if isinstance(record["content"], list) else []
        kinds = [block["type"] for block in content]
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert answered == waiting
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        seen += waiting
    assert not waiting
    assert len(seen) == len(set(seen))


def _gemini_adjacent(records: list[Any]) -> None:
    waiting: list[str] = []
    for record in records:
        answered = [part["functionResponse"]["name"] for part in record["parts"] if "functionResponse" in part]
        assert answered == waiting
        waiting = [part["functionCall"]["name"] for part in record["parts"] if "functionCall" in part]
        assert not waiting or record["role"] == "model"
    assert not waiting


ADJACENT: dict[str, Callable[[list[Any]], None]] = {
    "openai": _openai_adjacent,
    "openai-responses": _responses_adjacent,
    "anthropic": _anthropic_adjacent,
    "gemini": _gemini_adjacent,
}
