"""OpenAI Responses: requests, upstream bodies and what is special in its streams."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires.openai_responses import OpenAIResponsesAnswer, OpenAIResponsesWire
from foveate.server.sse import SseEvent, SseParser
from support.provider_streams import REQUESTS, Call, Record, Said, Scripted, responses_body, responses_stream

WIRE = OpenAIResponsesWire()
PATH = "/v1/responses"
OWN_TOOL = {"type": "function", "name": "own_search", "parameters": {}}
BODY: Record = {
    "model": "gpt-x",
    "instructions": "You are",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "brief"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ],
    "tools": [{"type": "function", "name": "shell"}, {"type": "web_search"}],
    "max_output_tokens": 9,
    "prompt_cache_key": "k",
    "client_metadata": {"thread": "t"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
}


def answer(**fields: object) -> OpenAIResponsesAnswer:
    body = {**REQUESTS["openai-responses"], **fields}
    return WIRE.answer(WIRE.read(body, path=PATH), own_names=frozenset({"own_search"}))


def feed(to: OpenAIResponsesAnswer, stream: bytes) -> list[Any]:
    return outputs([piece for event in SseParser().feed(stream) for piece in to.feed(event)])


def outputs(pieces: list[bytes]) -> list[Any]:
    return [json.loads(event.data) for piece in pieces for event in SseParser().feed(piece)]


def event(kind: str, **fields: Any) -> SseEvent:
    return SseEvent(kind, json.dumps({"type": kind, **fields}).encode())


def test_a_request_is_read() -> None:
    request = WIRE.read(BODY, path=PATH)
    assert request.system == "You are\nbrief"
    assert request.messages == BODY["input"][1:]
    assert request.tool_names == {"shell"}
    assert request.max_output_tokens == 9
    assert request.hints == {"prompt_cache_key": "k", "client_metadata.thread": "t"}


def test_a_text_is_one_user_message_and_goes_upstream_as_the_text_without_state() -> None:
    body = {"model": "m", "input": "hi", "previous_response_id": "resp_1", "conversation": {"id": "conv_1"}}
    request = WIRE.read(body, path=PATH)
    assert request.messages == [{"role": "user", "content": "hi"}]
    assert request.hints == {"previous_response_id": "resp_1", "conversation": "conv_1"}
    assert WIRE.upstream_body(request, {"messages": request.messages}, extra_system="", own_tools=[]) == {
        "model": "m",
        "input": "hi",
    }


def test_rendered_messages_replace_the_history_that_the_provider_stored() -> None:
    request = WIRE.read({"input": "hi", "previous_response_id": "resp_1", "conversation": "c"}, path=PATH)
    rendered = {"messages": [{"role": "user", "content": "before"}, *request.messages]}
    assert WIRE.upstream_body(request, rendered, extra_system="", own_tools=[]) == {"input": rendered["messages"]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"content": "hi"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": "x", "instructions": []}, "instructions"),
        ({"input": "x", "tools": 5}, "tools"),
    ],
)
def test_an_invalid_request_names_the_field(body: Record, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        WIRE.read(body, path=PATH)
    assert caught.value.param == param


def test_extra_instructions_are_behind_the_instructions_of_the_client() -> None:
    request = WIRE.read(copy.deepcopy(BODY), path=PATH)
    rendered = {"messages": [{"role": "user", "content": "rendered"}]}
    body = WIRE.upstream_body(request, rendered, extra_system="pins", own_tools=[OWN_TOOL])
    assert body == {
        **BODY,
        "instructions": "You are\n\npins",
        "input": [BODY["input"][0], *rendered["messages"]],
        "tools": [*BODY["tools"], OWN_TOOL],
    }
    assert request.body == BODY


def test_without_instructions_the_extra_text_is_a_developer_message() -> None:
    request = WIRE.read({**BODY, "instructions": None}, path=PATH)
    body = WIRE.upstream_body(request, {"messages": request.messages}, extra_system="pins", own_tools=[])
    assert [item.get("role") for item in body["input"][:3]] == ["developer", "developer", "user"]
    assert body["input"][1]["content"] == [{"type": "input_text", "text": "pins"}]
    assert body["instructions"] is None


def test_numbers_and_indexes_go_on_and_ids_stay_unique_in_a_second_round() -> None:
    to = answer()
    first = feed(to, b"".join(responses_stream(Scripted((Said("a"), Call("c", "own_search", {}))))))
    to.next_round()
    second = feed(to, b"".join(responses_stream(Scripted((Said("b"), Call("d", "shell", {}))))))
    [end] = outputs(to.finish())
    assert [one["sequence_number"] for one in [*first, *second, end]] == list(range(len(first) + len(second) + 1))
    assert not any(one["type"].startswith("response.created") for one in second)
    assert {one["output_index"] for one in second} == {1, 2}
    assert {one.get("item_id") or one["item"]["id"] for one in second} == {"msg_1_r2", "fc_d"}
    assert [item["id"] for item in end["response"]["output"]] == ["msg_1", "msg_1_r2", "fc_d"]
    assert to.round_messages == responses_body(Scripted((Said("b"), Call("d", "shell", {}))))["output"]
    assert end["response"]["usage"]["total_tokens"] == 20


def test_the_response_object_has_the_clients_tools_and_instructions() -> None:
    to = answer(instructions="You are", previous_response_id="resp_0")
    echo = {
        "tools": [{"type": "function", "name": "shell"}, OWN_TOOL],
        "instructions": "You are\n\npins",
        "previous_response_id": None,
    }
    [created] = outputs(to.feed(event("response.created", response={"id": "r", **echo})))
    assert created["response"] == {
        "id": "r",
        "tools": [{"type": "function", "name": "shell"}],
        "instructions": "You are",
        "previous_response_id": "resp_0",
    }
    to.load({"id": "r", "output": [], **echo})
    assert to.result()["tools"] == [{"type": "function", "name": "shell"}]


@pytest.mark.parametrize(
    ("item", "is_client_call"),
    [
        ({"type": "function_call", "name": "shell"}, True),
        ({"type": "function_call", "name": "own_search", "namespace": "mcp"}, True),
        ({"type": "custom_tool_call", "name": "apply_patch"}, True),
        ({"type": "local_shell_call"}, True),
        ({"type": "computer_call"}, True),
        ({"type": "mcp_approval_request"}, True),
        ({"type": "tool_search_call", "execution": "client"}, True),
        ({"type": "tool_search_call", "execution": "server"}, False),
        ({"type": "web_search_call"}, False),
        ({"type": "mcp_call"}, False),
        ({"type": "reasoning"}, False),
        ({"type": "function_call", "name": "own_search", "arguments": "{", "call_id": "c"}, False),
    ],
)
def test_calls_that_the_client_has_to_answer(item: Record, *, is_client_call: bool) -> None:
    to = answer()
    to.load({"id": "r", "output": [item]})
    assert to.has_client_calls is is_client_call
    assert [call.arguments for call in to.own_calls] == (["{"] if item.get("arguments") else [])


def test_items_that_were_never_finished_are_taken_from_the_end() -> None:
    to = answer()
    to.feed(event("response.created", response={"id": "r"}))
    to.feed(event("response.output_item.added", output_index=0, item={"type": "message", "id": "m", "content": []}))
    whole = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "x"}]}
    to.feed(event("response.completed", response={"id": "r", "output": [whole]}))
    assert to.round_messages == [whole]


def test_an_item_keeps_the_id_of_its_first_event() -> None:
    to = answer()
    to.feed(event("response.created", response={"id": "r"}))
    to.feed(event("response.output_item.added", output_index=0, item={"type": "message", "id": "m"}))
    [delta] = outputs(to.feed(event("response.output_text.delta", output_index=0, item_id="n", delta="x")))
    [done] = outputs(to.feed(event("response.output_item.done", output_index=0, item={"type": "message", "id": "o"})))
    assert (delta["item_id"], done["item"]["id"]) == ("m", "m")
    assert to.round_messages == [{"type": "message", "id": "o"}]


def test_an_incomplete_response_ends_as_incomplete() -> None:
    to = answer()
    details = {"reason": "max_output_tokens"}
    body = {**responses_body(Scripted((Said("a"),))), "status": "incomplete", "incomplete_details": details}
    to.feed(event("response.incomplete", response=body, sequence_number=7))
    assert to.is_complete
    [end] = outputs(to.finish())
    assert (end["type"], end["sequence_number"], end["response"]) == ("response.incomplete", 7, body)


def test_a_failure_is_passed_on_once() -> None:
    to = answer()
    failed = event("response.failed", response={"id": "r", "status": "failed", "output": [], "error": {"code": "x"}})
    assert to.feed(failed) == [failed.encode()]
    assert to.has_failed
    assert to.abort("x") == []


def test_a_stream_that_fails_before_it_begins_ends_with_an_error_event() -> None:
    [error] = outputs(answer().abort("no answer"))
    assert error == {"type": "error", "code": "server_error", "message": "no answer", "param": None}


@pytest.mark.parametrize(
    "bad",
    [
        event("response.output_text.delta", output_index=3, delta="x"),
        event("response.output_item.added", output_index=None, item={}),
        event("response.output_item.added", output_index=0, item=[]),
        event("response.completed", response={"output": 1}),
    ],
)
def test_an_event_that_does_not_fit_is_rejected(bad: SseEvent) -> None:
    with pytest.raises(BadUpstream):
        answer().feed(bad)
