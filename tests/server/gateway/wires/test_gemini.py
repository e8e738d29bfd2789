"""Gemini: requests, upstream bodies, streams as events and as a JSON array."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires.gemini import GeminiAnswer, GeminiWire
from foveate.server.sse import SseEvent, SseParser
from support.provider_streams import PATHS, REQUESTS, Call, Record, Said, Scripted, gemini_stream, usage_in

WIRE = GeminiWire()
PATH = PATHS["gemini"]
OWN_TOOL: Record = {"functionDeclarations": [{"name": "own_search"}]}
BODY: Record = {
    "systemInstruction": {"role": "user", "parts": [{"text": "You are"}, {"text": "brief"}]},
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "tools": [{"functionDeclarations": [{"name": "shell"}]}, {"codeExecution": {}}],
    "generationConfig": {"maxOutputTokens": 7, "temperature": 0},
    "labels": {"team": "a"},
}


def answer(path: str = PATH) -> GeminiAnswer:
    return WIRE.answer(WIRE.read(REQUESTS["gemini"], path=path), own_names=frozenset({"own_search"}))


def chunk(*parts: Record, usage: Record | None = None, **fields: Any) -> SseEvent:
    data: Record = {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **fields}], "responseId": "r"}
    return SseEvent("", json.dumps(data | ({"usageMetadata": usage} if usage else {})).encode())


def call(name: str, **fields: Any) -> Record:
    return {"functionCall": {"name": name, **fields}}


def outputs(pieces: list[bytes]) -> list[Any]:
    return [json.loads(event.data) for piece in pieces for event in SseParser().feed(piece)]


def parts(chunk: Any) -> Any:
    return chunk["candidates"][0]["content"]["parts"]


def test_a_request_is_read() -> None:
    request = WIRE.read(BODY, path="/v1beta/models/gemini-x:generateContent")
    assert (request.model, request.is_stream, request.is_json_array) == ("gemini-x", False, False)
    assert request.system == "You are\nbrief"
    assert request.messages == BODY["contents"]
    assert request.tool_names == {"shell"}
    assert request.max_output_tokens == 7
    assert request.hints == {"labels.team": "a"}


def test_snake_case_is_read_and_kept() -> None:
    body = {
        "system_instruction": {"parts": [{"text": "You are"}]},
        "contents": BODY["contents"],
        "tools": [{"function_declarations": [{"name": "shell"}]}],
        "generation_config": {"max_output_tokens": 7},
    }
    request = WIRE.read(body, path=PATH)
    assert (request.system, request.max_output_tokens) == ("You are", 7)
    assert request.tool_names == {"shell"}
    sent = WIRE.upstream_body(request, {"messages": body["contents"]}, extra_system="pins", own_tools=[OWN_TOOL])
    assert sent["system_instruction"] == {"parts": [{"text": "You are"}, {"text": "pins"}]}
    assert sent["tools"] == [{"function_declarations": [{"name": "shell"}, {"name": "own_search"}]}]
    assert sent.keys() == body.keys()


@pytest.mark.parametrize(
    ("path", "model", "is_stream", "is_json_array"),
    [
        ("/v1beta/models/a-1.5:streamGenerateContent?alt=sse", "a-1.5", True, False),
        ("/v1beta/models/a-1.5:streamGenerateContent?key=k", "a-1.5", True, True),
        ("/s/x/v1beta/models/a:generateContent", "a", False, False),
        ("/v1/projects/p/locations/l/publishers/google/models/a:streamGenerateContent?alt=sse", "a", True, False),
        ("", "", False, False),
    ],
)
def test_the_path_has_the_model_and_the_form_of_the_answer(
    path: str, model: str, *, is_stream: bool, is_json_array: bool
) -> None:
    request = WIRE.read(REQUESTS["gemini"], path=path)
    assert (request.model, request.is_stream, request.is_json_array) == (model, is_stream, is_json_array)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"contents": {}}, "contents"),
        ({"contents": ["x"]}, "contents[0]"),
        ({"contents": [{"parts": "x"}]}, "contents[0].parts"),
        ({"contents": [{"parts": ["x"]}]}, "contents[0].parts[0]"),
        ({"systemInstruction": "x"}, "systemInstruction"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"functionDeclarations": 0.5}]}, "functionDeclarations"),
        ({"tools": [{"function_declarations": ["shell"]}]}, "function_declarations[0]"),
    ],
)
def test_an_invalid_request_names_the_field(fields: Record, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        WIRE.read({**BODY, **fields}, path=PATH)
    assert caught.value.param == param


@pytest.mark.parametrize("system", ["systemInstruction", "system_instruction"])
def test_one_object_instead_of_a_list_is_read_as_the_api_does(system: str) -> None:
    said, part = {"parts": {"text": "hello"}}, {"text": "Be brief."}
    body = {"contents": said, system: {"parts": part}, "tools": {"functionDeclarations": {"name": "shell"}}}
    request = WIRE.read(body, path=PATH)
    assert request.messages == [{"parts": [{"text": "hello"}]}]
    assert request.system == "Be brief."
    assert request.tool_names == {"shell"}
    sent = WIRE.upstream_body(request, {"messages": request.messages}, extra_system="pins", own_tools=[OWN_TOOL])
    assert sent[system]["parts"] == [part, {"text": "pins"}]
    assert sent["tools"] == [{"functionDeclarations": [{"name": "shell"}, {"name": "own_search"}]}]
    assert body["contents"] is said


def test_extra_instructions_are_a_further_part_and_own_functions_join_the_clients() -> None:
    request = WIRE.read(copy.deepcopy(BODY), path=PATH)
    rendered = {"messages": [{"role": "user", "parts": [{"text": "rendered"}]}]}
    body = WIRE.upstream_body(request, rendered, extra_system="pins", own_tools=[OWN_TOOL])
    assert body == {
        **BODY,
        "systemInstruction": {"role": "user", "parts": [{"text": "You are"}, {"text": "brief"}, {"text": "pins"}]},
        "contents": rendered["messages"],
        "tools": [{"functionDeclarations": [{"name": "shell"}, {"name": "own_search"}]}, {"codeExecution": {}}],
    }
    assert request.body == BODY


@pytest.mark.parametrize(
    ("fields", "tools"),
    [({}, [OWN_TOOL]), ({"tools": [{"googleSearch": {}}]}, [{"googleSearch": {}}]), ({"cachedContent": "c"}, None)],
)
def test_own_tools_are_added_only_where_the_api_accepts_them(fields: Record, tools: list[Record] | None) -> None:
    request = WIRE.read({"contents": BODY["contents"], **fields}, path=PATH)
    body = WIRE.upstream_body(request, {"messages": BODY["contents"]}, extra_system="pins", own_tools=[OWN_TOOL])
    assert body.get("tools") == tools
    assert ("systemInstruction" in body) is ("cachedContent" not in fields)


def test_a_chunk_with_text_and_finish_reason_is_passed_on_whole_at_the_end() -> None:
    to = answer()
    last = chunk({"text": "all"}, finishReason="STOP", usage={"promptTokenCount": 1})
    assert to.feed(last) == []
    assert to.is_complete
    assert outputs(to.finish()) == [json.loads(last.data)]


def test_text_in_the_last_chunk_of_a_round_of_own_calls_goes_out_at_once() -> None:
    to = answer()
    [now] = outputs(to.feed(chunk({"text": "One."}, call("own_search"), finishReason="STOP", usage={"x": 1})))
    assert parts(now) == [{"text": "One."}]
    assert "finishReason" not in now["candidates"][0]
    assert "usageMetadata" not in now
    to.next_round()
    [then] = outputs(to.feed(chunk({"text": "Two."})))
    assert parts(then) == [{"text": "\n\nTwo."}]
    assert to.shown_messages() == [{"role": "model", "parts": [{"text": "One."}, {"text": "\n\nTwo."}]}]


def test_an_answer_of_own_calls_alone_ends_with_an_empty_text() -> None:
    to = answer()
    assert to.feed(chunk(call("own_search"), finishReason="STOP")) == []
    [end] = outputs(to.finish())
    assert parts(end) == [{"text": ""}]
    assert parts(to.result()) == [{"text": ""}]


def test_signatures_stay_with_the_part_that_they_came_with() -> None:
    to = answer()
    for part in ({"text": "a"}, {"text": "b"}, {"text": "", "thoughtSignature": "s"}, {"text": "c"}):
        to.feed(chunk(part))
    assert to.round_messages[0]["parts"] == [{"text": "ab"}, {"text": "", "thoughtSignature": "s"}, {"text": "c"}]


def test_results_of_calls_without_an_id_are_paired_by_name() -> None:
    to = answer()
    to.feed(chunk(call("own_search", args={"q": 1}), call("own_search", id="x"), finishReason="STOP"))
    assert [own.arguments for own in to.own_calls] == [{"q": 1}, {}]
    assert [own.id for own in to.own_calls] == ["", "x"]  # a made one would be sent in later requests
    body = to.follow_up({"contents": []}, [(own, "found") for own in to.own_calls])
    assert body["contents"][-1] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "own_search", "response": {"output": "found"}}},
            {"functionResponse": {"id": "x", "name": "own_search", "response": {"output": "found"}}},
        ],
    }


def test_a_client_without_sse_gets_one_json_array() -> None:
    to = answer("/v1beta/models/gemini-x:streamGenerateContent")
    assert to.media_type == "application/json"
    out = WIRE.ping()
    for scripted in (Scripted((Said("One."), Call("c", "own_search", {}))), Scripted((Said("Two."),), 2)):
        if scripted.number == 2:
            to.next_round()
        for event in SseParser().feed(b"".join(gemini_stream(scripted))):
            out += b"".join(to.feed(event)) + WIRE.ping()
    chunks = json.loads(out + b"".join(to.finish()))
    assert "".join(part["text"] for one in chunks for part in parts(one)) == "One.\n\nTwo."
    assert chunks[-1]["usageMetadata"]["promptTokensDetails"] == [{"modality": "TEXT", "tokenCount": 10}]
    assert {one["responseId"] for one in chunks} == {"r1"}


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_aborted_json_array_is_closed_behind_the_error(*, has_begun: bool) -> None:
    to = answer("/v1beta/models/gemini-x:streamGenerateContent")
    out = to.feed(chunk({"text": "a"})) if has_begun else []
    *_, last = json.loads(b"".join([*out, *to.abort("upstream broke off")]))
    assert last == {"error": {"code": 502, "message": "upstream broke off", "status": "UNAVAILABLE"}}


def test_an_empty_json_array_is_closed() -> None:
    assert b"".join(answer("/v1beta/models/gemini-x:streamGenerateContent").finish()) == b"[]"


def test_a_blocked_prompt_ends_the_answer() -> None:
    to = answer()
    blocked = SseEvent("", b'{"promptFeedback": {"blockReason": "SAFETY"}}')
    assert to.feed(blocked) == [blocked.encode()]
    assert to.is_complete
    assert to.finish() == []
    loaded = answer()
    loaded.load({"promptFeedback": {"blockReason": "SAFETY"}})
    assert loaded.result() == {"promptFeedback": {"blockReason": "SAFETY"}}


def test_an_error_is_passed_on_once() -> None:
    to = answer()
    error = SseEvent("", b'{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}')
    assert to.feed(error) == [error.encode()]
    assert to.has_failed
    assert to.abort("x") == []


def test_usage_counts_thoughts_as_output() -> None:
    to = answer()
    counts = {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    to.load({"candidates": [], "usageMetadata": {**counts, "totalTokenCount": 14}})
    expected = {"input_tokens": 9, "output_tokens": 5, "cache_read_tokens": 4, "cache_write_tokens": 0}
    assert usage_in("gemini", to.result()) == expected
    to.next_round()
    to.load({"candidates": [], "usageMetadata": {**counts, "totalTokenCount": 14}})
    assert to.result()["usageMetadata"]["totalTokenCount"] == 9 + 2 * 5


def test_a_body_without_candidates_is_rejected() -> None:
    with pytest.raises(BadUpstream):
        answer().load({"x": 1})


def test_an_error_has_the_status_of_its_code() -> None:
    assert WIRE.error(429, "slow", param="contents")["error"] == {
        "code": 429,
        "message": "contents: slow",
        "status": "RESOURCE_EXHAUSTED",
    }


def piece(*values: Record, more: bool = True, **fields: Any) -> Record:
    call = {**fields, **({"partialArgs": list(values)} if values else {}), **({"willContinue": True} if more else {})}
    return {"functionCall": call}


def test_a_call_of_the_client_in_pieces_is_passed_on_and_recorded_whole() -> None:
    to = answer()
    pieces = [
        piece(name="shell", id="c1"),
        piece({"jsonPath": "$.command", "stringValue": "ls ", "willContinue": True}),
        piece({"jsonPath": "$.command", "stringValue": "-l"}, {"jsonPath": "$.at[1].x", "numberValue": 2}),
        piece({"jsonPath": "$['a b']", "nullValue": "NULL_VALUE"}, {"jsonPath": "$.now", "boolValue": True}),
        piece(more=False),
    ]
    sent = [part for one in pieces for out in outputs(to.feed(chunk(one))) for part in parts(out)]
    sent += [part for out in outputs(to.feed(chunk({"text": ""}, finishReason="STOP"))) for part in parts(out)]
    assert sent[:5] == pieces
    arguments = {"command": "ls -l", "at": [None, {"x": 2}], "a b": None, "now": True}
    whole = {"role": "model", "parts": [{"functionCall": {"name": "shell", "id": "c1", "args": arguments}}]}
    assert to.round_messages == to.shown_messages() == [whole]
    assert to.has_client_calls


def test_an_own_call_in_pieces_is_hidden_and_complete() -> None:
    to = answer()
    text = {"jsonPath": "$.query", "stringValue": "dog"}
    for one in (piece(name="own_search"), piece(text), piece(more=False)):
        assert to.feed(chunk(one)) == []
    assert [(call.name, call.arguments) for call in to.own_calls] == [("own_search", {"query": "dog"})]
    assert not to.has_client_calls


@pytest.mark.parametrize("path", ["", "query", "$", "$.a.", "$.a[99999999]", f"$.a[{'9' * 5_000}]", "$.a.b", "$[0]"])
def test_a_piece_with_a_wrong_path_is_an_error_of_the_provider(path: str) -> None:
    to = answer()
    to.feed(chunk(piece({"jsonPath": "$.a", "stringValue": "x"}, name="shell")))
    with pytest.raises(BadUpstream, match="path"):
        to.feed(chunk(piece({"jsonPath": path, "stringValue": "x"})))


@pytest.mark.parametrize("config", ["toolConfig", "tool_config"])
def test_calls_are_forbidden_in_the_clients_spelling(config: str) -> None:
    body = {"contents": [], "tools": [{}], config: {"retrievalConfig": {}}}
    assert GeminiWire().without_calls(body) == {
        **body,
        config: {"retrievalConfig": {}, "functionCallingConfig": {"mode": "NONE"}},
    }
