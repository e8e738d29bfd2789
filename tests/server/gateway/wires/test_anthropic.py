"""Anthropic Messages: requests, upstream bodies and what is special in its streams."""

from __future__ import annotations

import copy
import json

import pytest

from foveate.errors import BadRequest
from foveate.server.gateway.wires.anthropic import AnthropicAnswer, AnthropicWire
from foveate.server.sse import SseEvent, SseParser
from support.provider_streams import (
    REQUESTS,
    Call,
    Record,
    Said,
    Scripted,
    anthropic_body,
    anthropic_stream,
    sse,
    usage_in,
)

WIRE = AnthropicWire()
PATH = "/v1/messages"
OWN_TOOL = {"name": "own_search", "input_schema": {"type": "object"}}
BODY: Record = {
    "model": "claude-x",
    "max_tokens": 64,
    "stream": True,
    "system": [
        {"type": "text", "text": "You are"},
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "tools": [{"name": "Bash", "input_schema": {}, "cache_control": {"type": "ephemeral"}}],
    "metadata": {"user_id": json.dumps({"session_id": "s-1", "device_id": "d"})},
    "thinking": {"type": "enabled", "budget_tokens": 32},
}


def answer(**fields: object) -> AnthropicAnswer:
    return WIRE.answer(WIRE.read({**REQUESTS["anthropic"], **fields}, path=PATH), own_names=frozenset({"own_search"}))


def feed(to: AnthropicAnswer, stream: bytes) -> bytes:
    return b"".join(piece for event in SseParser().feed(stream) for piece in to.feed(event))


def test_a_request_is_read() -> None:
    request = WIRE.read(BODY, path=PATH)
    assert (request.model, request.is_stream, request.max_output_tokens) == ("claude-x", True, 64)
    assert request.system == "You are\na"
    assert request.messages == BODY["messages"]
    assert request.tools == BODY["tools"]
    assert request.tool_names == {"Bash"}
    assert request.hints["session_id"] == "s-1"


def test_a_user_id_that_is_plain_text_is_a_hint_of_its_own() -> None:
    request = WIRE.read({**BODY, "metadata": {"user_id": "u-1"}}, path=PATH)
    assert request.hints == {"user_id": "u-1"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages[0].content[0]"),
        ({"system": 5}, "system"),
        ({"tools": {}}, "tools"),
        ({"stream": "yes"}, "stream"),
        ({"model": 5}, "model"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_an_invalid_request_names_the_field(fields: Record, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        WIRE.read({**BODY, **fields}, path=PATH)
    assert caught.value.param == param


def test_the_system_part_stays_and_the_extra_block_is_behind_it() -> None:
    request = WIRE.read(copy.deepcopy(BODY), path=PATH)
    rendered = {"messages": [{"role": "user", "content": "rendered"}]}
    body = WIRE.upstream_body(request, rendered, extra_system="pins", own_tools=[OWN_TOOL])
    assert body == {
        **BODY,
        "system": [*BODY["system"], {"type": "text", "text": "pins"}],
        "messages": rendered["messages"],
        "tools": [*BODY["tools"], OWN_TOOL],
    }
    assert list(body) == list(BODY)
    assert request.body == BODY


@pytest.mark.parametrize(("system", "sent"), [("You are", "You are\n\npins"), (None, "pins"), ("", "pins")])
def test_a_system_text_is_continued(system: str | None, sent: str) -> None:
    request = WIRE.read({**BODY, "system": system}, path=PATH)
    assert WIRE.upstream_body(request, BODY, extra_system="pins", own_tools=[])["system"] == sent


def test_usage_of_two_rounds_has_the_last_input_and_each_round_as_an_iteration() -> None:
    two = answer()
    feed(two, b"".join(anthropic_stream(Scripted((Call("c", "own_search", {}),), 1, 4, 100, 50, 7))))
    two.next_round()
    feed(two, b"".join(anthropic_stream(Scripted((Said("a"),), 2, 4, 120, 60, 9))))
    events = [json.loads(event.data) for piece in two.finish() for event in SseParser().feed(piece)]
    assert [event["type"] for event in events] == ["message_delta", "message_stop"]
    usage = events[0]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (120, 60, 16)
    assert [one["input_tokens"] for one in usage["iterations"]] == [100, 120]
    assert usage_in("anthropic", two.result()) == {
        "input_tokens": 180,
        "output_tokens": 16,
        "cache_read_tokens": 60,
        "cache_write_tokens": 0,
    }
    assert two.result()["usage"] == usage


def test_blocks_of_server_tools_and_citations_are_kept_whole() -> None:
    to = answer()
    cited = {"type": "char_location", "cited_text": "x"}
    hosted = {"type": "server_tool_use", "id": "s", "name": "own_search", "input": {}}
    for event in [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": hosted},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "", "citations": None}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "so"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": cited}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]:  # fmt: skip
        to.feed(SseEvent("", json.dumps(event).encode()))
    assert to.round_messages[0]["content"] == [
        {"type": "server_tool_use", "id": "s", "name": "own_search", "input": {"q": 1}},
        {"type": "text", "text": "so", "citations": [cited]},
    ]
    assert to.own_calls == []
    assert not to.has_client_calls


def test_an_input_that_is_not_json_is_the_text_for_an_own_call_and_an_object_in_the_message() -> None:
    to = answer()
    stream = b"".join(anthropic_stream(Scripted((Call("c", "own_search", {"q": 1}),), piece=99)))
    feed(to, stream.replace(json.dumps('{"q": 1}').encode(), json.dumps('{"q": ').encode()))
    assert to.own_calls[0].arguments == '{"q": '
    assert to.round_messages[0]["content"][0]["input"] == {"INVALID_JSON": '{"q": '}


def test_events_without_a_name_get_one_since_clients_skip_them_otherwise() -> None:
    to = answer()
    body = anthropic_body(Scripted(()))
    assert to.feed(SseEvent("", json.dumps({"type": "message_start", "message": body}).encode()))[0].startswith(
        b"event: message_start\n"
    )


def test_an_error_event_is_passed_on_once() -> None:
    to = answer()
    event = sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "error")
    assert feed(to, event) == event
    assert to.has_failed
    assert not to.is_complete
    assert to.abort("upstream closed the stream") == []


def test_an_error_has_the_type_of_its_status() -> None:
    assert WIRE.error(529, "busy") == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    assert WIRE.error(400, "must be a list", param="tools")["error"]["message"] == "tools: must be a list"
    assert WIRE.error(400, "x", kind="special")["error"]["type"] == "special"
