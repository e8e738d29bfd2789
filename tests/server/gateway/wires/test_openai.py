"""OpenAI Chat Completions: requests, upstream bodies and the dialects of its streams."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from foveate.errors import BadRequest
from foveate.server.gateway.wires.openai import OpenAIAnswer, OpenAIWire
from foveate.server.sse import SseEvent, SseParser
from support.provider_streams import REQUESTS, Call, Record, Said, Scripted, openai_stream, usage_in

WIRE = OpenAIWire()
PATH = "/v1/chat/completions"
OWN_TOOL = {"type": "function", "function": {"name": "own_search"}}
BODY: Record = {
    "model": "gpt-x",
    "messages": [
        {"role": "system", "content": "You are"},
        {"role": "developer", "content": [{"type": "text", "text": "brief"}]},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "in the middle"},
    ],
    "tools": [{"type": "function", "function": {"name": "shell"}}, {"type": "custom", "custom": {"name": "patch"}}],
    "max_tokens": 5,
    "max_completion_tokens": 6,
    "prompt_cache_key": "k",
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True},
}


def answer(**fields: object) -> OpenAIAnswer:
    return WIRE.answer(WIRE.read({**REQUESTS["openai"], **fields}, path=PATH), own_names=frozenset({"own_search"}))


def chunk(*choices: Record, **fields: Any) -> SseEvent:
    return SseEvent("", json.dumps({"id": "c-1", "created": 1, "choices": choices, **fields}).encode())


def delta(index: int = 0, finish_reason: str | None = None, **fields: Any) -> Record:
    return {"index": index, "delta": fields, "finish_reason": finish_reason}


def call(name: str = "", arguments: str = "", **fields: Any) -> Record:
    return {**fields, "function": {**({"name": name} if name else {}), "arguments": arguments}}


def outputs(pieces: list[bytes]) -> list[Any]:
    events = [event for piece in pieces for event in SseParser().feed(piece)]
    return [None if event.data == b"[DONE]" else json.loads(event.data) for event in events]


def test_a_request_is_read() -> None:
    request = WIRE.read(BODY, path=PATH)
    assert request.system == "You are\nbrief"
    assert request.messages == BODY["messages"][2:]
    assert request.tool_names == {"shell", "patch"}
    assert (request.max_output_tokens, request.is_stream) == (6, False)
    assert request.hints == {"prompt_cache_key": "k", "metadata.a": "b"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": None}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"tools": "x"}, "tools"),
        ({"stream": 1}, "stream"),
    ],
)
def test_an_invalid_request_names_the_field(fields: Record, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        WIRE.read({**BODY, **fields}, path=PATH)
    assert caught.value.param == param


def test_the_extra_message_is_behind_the_system_messages_of_the_client() -> None:
    request = WIRE.read(copy.deepcopy(BODY), path=PATH)
    rendered = {"messages": [{"role": "user", "content": "rendered"}]}
    body = WIRE.upstream_body(request, rendered, extra_system="pins", own_tools=[OWN_TOOL])
    extra = {"role": "system", "content": "pins"}
    assert body == {
        **BODY,
        "messages": [*BODY["messages"][:2], extra, *rendered["messages"]],
        "tools": [*BODY["tools"], OWN_TOOL],
    }
    assert request.body == BODY


def test_the_extra_message_has_the_role_that_the_client_uses() -> None:
    messages = [{"role": "developer", "content": "x"}, {"role": "user", "content": "hi"}]
    request = WIRE.read({"messages": messages}, path=PATH)
    body = WIRE.upstream_body(request, {"messages": request.messages}, extra_system="pins", own_tools=[])
    assert [message["role"] for message in body["messages"]] == ["developer", "developer", "user"]


def test_own_tools_are_not_mixed_with_the_old_form_of_tools() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "functions": [{"name": "f"}]}
    request = WIRE.read(body, path=PATH)
    assert WIRE.upstream_body(request, {"messages": request.messages}, extra_system="", own_tools=[OWN_TOOL]) == body


def test_role_text_and_calls_in_one_delta_are_read() -> None:
    to = answer()
    calls = [call("own_search", "{}", index=0, id="a"), call("shell", "{}", index=1, id="b")]
    [out] = outputs(to.feed(chunk(delta(role="assistant", content="So.", tool_calls=calls))))
    shown = [{**calls[1], "index": 0}]
    assert out["choices"] == [delta(role="assistant", content="So.", tool_calls=shown)]
    to.feed(chunk(delta(finish_reason="tool_calls")))
    assert to.shown_messages()[0]["tool_calls"] == [{"type": "function", **call("shell", "{}", id="b")}]


def test_a_finish_reason_in_the_chunk_of_the_last_text_is_held_back_alone() -> None:
    to = answer()
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    [now] = outputs(to.feed(chunk(delta(content="all", finish_reason="stop"), usage=usage)))
    assert now["choices"] == [delta(content="all")]
    assert "usage" not in now
    [end, done] = outputs(to.finish())
    assert end["choices"] == [delta(finish_reason="stop")]
    assert end["usage"] == usage
    assert done is None


def test_parallel_calls_without_an_index_or_with_the_same_one_are_kept_apart() -> None:
    for fields in ({}, {"index": 0}):
        to = answer()
        shown = to.feed(chunk(delta(tool_calls=[call("shell", "{}", id="a", **fields)])))
        assert to.feed(chunk(delta(tool_calls=[call("own_search", '{"q":1}', id="b", **fields)]))) == []
        shown += to.feed(chunk(delta(tool_calls=[call("edit", "[]", id="c", **fields)])))
        to.feed(chunk(delta(finish_reason="tool_calls")))
        assert [out["choices"][0]["delta"]["tool_calls"][0]["index"] for out in outputs(shown)] == [0, 1]
        assert [one["id"] for one in to.round_messages[0]["tool_calls"]] == ["a", "b", "c"]
        assert [own.arguments for own in to.own_calls] == [{"q": 1}]


def test_a_call_whose_name_comes_late_is_held_until_it_is_known() -> None:
    to = answer()
    assert to.feed(chunk(delta(tool_calls=[{"index": 0, "id": "a"}, {"index": 1, "id": "b"}]))) == []
    assert to.feed(chunk(delta(tool_calls=[call("own_search", index=0)]))) == []
    [out] = outputs(to.feed(chunk(delta(tool_calls=[call("shell", index=1)]))))
    assert out["choices"][0]["delta"]["tool_calls"] == [{"index": 0, "id": "b"}, call("shell", index=0)]


def test_a_later_round_has_no_role_chunk_and_the_first_id() -> None:
    to = answer()
    to.feed(chunk(delta(role="assistant", content="")))
    to.feed(chunk(delta(content="One.")))
    to.feed(chunk(delta(tool_calls=[call("own_search", "{}", index=0, id="a")])))
    to.feed(chunk(delta(finish_reason="tool_calls")))
    to.next_round()
    assert to.feed(chunk(delta(role="assistant", content=""), id="c-2", created=2)) == []
    [out] = outputs(to.feed(chunk(delta(content="Two."), id="c-2", created=2)))
    assert (out["id"], out["created"], out["choices"]) == ("c-1", 1, [delta(content="\n\nTwo.")])
    assert to.shown_messages() == [{"role": "assistant", "content": "One.\n\nTwo."}]


def test_usage_of_two_rounds_has_the_last_input() -> None:
    to = answer()
    for scripted in (
        Scripted((Call("c", "own_search", {}),), 1, 4, 100, 50, 7),
        Scripted((Said("a"),), 2, 4, 120, 60, 9),
    ):
        if scripted.number == 2:
            to.next_round()
        for event in SseParser().feed(b"".join(openai_stream(scripted))):
            to.feed(event)
    assert usage_in("openai", to.result()) == {
        "input_tokens": 120,
        "output_tokens": 16,
        "cache_read_tokens": 60,
        "cache_write_tokens": 0,
    }
    [_, usage, _] = outputs(to.finish())
    assert (usage["id"], usage["usage"]["total_tokens"]) == ("chatcmpl-1", 136)


def test_several_choices_are_kept_apart() -> None:
    to = answer()
    to.feed(chunk(delta(0, content="a"), delta(1, content="b")))
    to.feed(chunk(delta(1, content="c", finish_reason="length")))
    to.feed(chunk(delta(0, finish_reason="stop")))
    assert [(one["message"]["content"], one["finish_reason"]) for one in to.result()["choices"]] == [
        ("a", "stop"),
        ("bc", "length"),
    ]
    assert [out and out["choices"][0]["index"] for out in outputs(to.finish())] == [1, 0, None]


def test_fields_of_a_dialect_are_put_together() -> None:
    to = answer()
    details = [{"type": "reasoning.text", "index": 0, "text": "a"}]
    to.feed(chunk(delta(role="assistant", reasoning_details=details)))
    to.feed(chunk(delta(reasoning_details=[{"index": 0, "text": "b", "signature": "s"}])))
    to.feed(chunk(delta(content="x", annotations=[{"type": "url"}])))
    to.feed(chunk(delta(annotations=[{"type": "url2"}], finish_reason="stop")))
    assert to.round_messages == [
        {
            "role": "assistant",
            "content": "x",
            "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}],
            "annotations": [{"type": "url"}, {"type": "url2"}],
        }
    ]


def test_content_of_blocks_followed_by_text_is_kept_whole() -> None:
    to = answer()
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    for content in ([thinking], "a", "b"):
        to.feed(chunk(delta(content=content)))
    to.feed(chunk(delta(finish_reason="stop")))
    whole = [thinking, {"type": "text", "text": "ab"}]
    assert to.round_messages[0]["content"] == whole
    to.next_round()
    to.feed(chunk(delta(content="c", finish_reason="stop")))
    assert to.shown_messages()[0]["content"][:2] == whole
    assert to.shown_messages()[0]["content"][2]["text"].endswith("c")


def test_a_chunk_without_choices_and_an_error_are_passed_on() -> None:
    to = answer()
    filtered = chunk(prompt_filter_results=[])
    assert to.feed(filtered) == [filtered.encode()]
    error = SseEvent("", b'{"error": {"message": "busy"}}')
    assert to.feed(error) == [error.encode()]
    assert to.has_failed
    assert to.abort("x") == []


def test_an_error_names_the_field() -> None:
    assert WIRE.error(429, "slow down", param="messages") == {
        "error": {"message": "slow down", "type": "rate_limit_error", "param": "messages", "code": None}
    }
