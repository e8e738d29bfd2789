from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings

from foveate.errors import InvalidMessage
from foveate.formats import load, parse_messages
from foveate.formats.transcripts import foveate
from foveate.turn import (
    Attachment,
    Json,
    Message,
    Opaque,
    Original,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from support import strategies
from support.examples import times


def parse(data: Json) -> Message:
    return load("foveate").parse(data, "message")


@settings(max_examples=times(40), deadline=None)
@given(message=strategies.messages)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    (rendered,) = foveate.render([message])
    assert parse(rendered) == message
    assert foveate.recognises(rendered)


@settings(max_examples=times(25), deadline=None)
@given(message=strategies.messages)
def test_the_json_holds_nothing_but_json(message: Message) -> None:
    import json

    (rendered,) = foveate.render([message])
    assert parse(json.loads(json.dumps(rendered))) == message


def test_defaults_are_left_out() -> None:
    assert foveate.render([Message("user", (Text("Hi"),))]) == [
        {"role": "user", "kind": "message", "parts": [{"type": "text", "text": "Hi"}]}
    ]


def test_all_parts_are_written_field_for_field() -> None:
    message = Message(
        "assistant",
        (
            Reasoning("hm", signature="s", encrypted="e", id="rs_1"),
            Attachment("image", uri="u", file_id="f", data="AA==", media_type="image/png", name="n"),
            ToolCall("bash", {"cmd": "ls"}, id="c1", signature="g"),
            ToolResult("c1", (Text("ok"), Opaque("x", [1])), name="bash", exit_code=0, duration_seconds=0.5),
        ),
        kind="injection",
        at=datetime(2026, 11, 15, 10, 0, tzinfo=UTC),
        name="Ada",
        model="m",
        usage=Usage(input_tokens=3),
    )
    assert foveate.render([message]) == [
        {
            "role": "assistant",
            "kind": "injection",
            "at": "2026-11-15T10:00:00+00:00",
            "name": "Ada",
            "model": "m",
            "usage": {"input_tokens": 3},
            "parts": [
                {"type": "reasoning", "text": "hm", "signature": "s", "encrypted": "e", "id": "rs_1"},
                {
                    "type": "attachment",
                    "media": "image",
                    "uri": "u",
                    "file_id": "f",
                    "data": "AA==",
                    "media_type": "image/png",
                    "name": "n",
                },
                {"type": "tool_call", "name": "bash", "arguments": {"cmd": "ls"}, "id": "c1", "signature": "g"},
                {
                    "type": "tool_result",
                    "call_id": "c1",
                    "content": [{"type": "text", "text": "ok"}, {"type": "opaque", "format": "x", "data": [1]}],
                    "name": "bash",
                    "exit_code": 0,
                    "duration_seconds": 0.5,
                },
            ],
        }
    ]


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    at = datetime(2026, 11, 15, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    (rendered,) = foveate.render([Message("user", at=at)])
    assert parse(rendered).at == at


def test_the_original_is_not_written() -> None:
    message = Message("user", (Text("Hi"),), original=Original("openai", {"role": "user"}))
    assert foveate.render([message]) == foveate.render([message.without_original()])


def test_canonical_records_are_recognised_in_a_list() -> None:
    records = foveate.render([Message("user", (Text("Hi"),))])
    assert parse_messages(records)[0].text == "Hi"


def _with_part(**part: Any) -> Json:
    return {"role": "user", "parts": [part]}


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        ("text", "message", "must be an object, not text"),
        ({"parts": []}, "message.role", "is missing; allowed are system, developer, user, assistant, tool"),
        ({"role": "bot", "parts": []}, "message.role", "is 'bot'; allowed are"),
        ({"role": "user"}, "message.parts", "is missing"),
        ({"role": "user", "parts": "hi"}, "message.parts", "a list of blocks, not text"),
        ({"role": "user", "kind": "note", "parts": []}, "message.kind", "allowed are message, injection, display"),
        ({"role": "user", "at": "noon", "parts": []}, "message.at", "is not a time"),
        ({"role": "user", "name": 1, "parts": []}, "message.name", "must be text, not a number"),
        ({"role": "user", "usage": {"input_tokens": "3"}, "parts": []}, "message.usage.input_tokens", "whole number"),
        (_with_part(text="hi"), "message.parts[0].type", "is missing"),
        (_with_part(type="smell"), "message.parts[0].type", "allowed are text, reasoning, attachment"),
        (_with_part(type="text"), "message.parts[0].text", "is missing"),
        (_with_part(type="attachment", media="smell"), "message.parts[0].media", "allowed are image, audio"),
        (_with_part(type="tool_call", name="x"), "message.parts[0].arguments", "is missing"),
        (_with_part(type="tool_result", call_id=None), "message.parts[0].content", "is missing"),
        (
            _with_part(type="tool_result", content=[{"type": "tool_call", "name": "x", "arguments": {}}]),
            "message.parts[0].content[0].type",
            "allowed are text, attachment, opaque",
        ),
        (
            _with_part(type="tool_result", content=[], duration_seconds="long"),
            "message.parts[0].duration_seconds",
            "must be a number",
        ),
        (_with_part(type="tool_result", content=[], exit_code=1.5), "message.parts[0].exit_code", "whole number"),
        (_with_part(type="opaque", format="x"), "message.parts[0].data", "is missing"),
    ],
)
def test_a_wrong_record_is_refused_where_it_is_wrong(data: Json, path: str, problem: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        parse(data)
    assert caught.value.path == path
    assert problem in caught.value.problem
