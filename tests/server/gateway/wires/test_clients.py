"""The providers' own packages read what the gateway sends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.server.gateway.wires import WIRES, UpstreamAnswer
from foveate.server.sse import SseParser
from support.examples import times
from support.provider_streams import BODIES, PATHS, REQUESTS, STREAMS, Call, Part, Said, Scripted, Thinking

FIRST = Scripted((Thinking("let me look", "s1"), Said("One moment."), Call("c1", "own_search", {"q": "x"})), 1)
SECOND = Scripted(
    (
        Thinking("found it", "s2"),
        Said("Here: żółć."),
        Call("c2", "own_read", {}),
        Call("c3", "shell", {"command": "ls"}),
        Call("c4", "edit", {"path": "a"}),
    ),
    2,
)

SECOND_SAID = "Here: żółć."


def rewritten(format: str, *rounds: Scripted, error: str = "") -> tuple[UpstreamAnswer, bytes]:  # noqa: A002
    """The answer to a client for these rounds, with a ping before each."""
    wire = WIRES[format]
    answer = wire.answer(
        wire.read(REQUESTS[format], path=PATHS[format]), own_names=frozenset({"own_search", "own_read"})
    )
    out: list[bytes] = []
    for i, scripted in enumerate(rounds):
        if i:
            answer.next_round()
        out.append(wire.ping())
        stream = list(STREAMS[format](scripted))
        for event in SseParser().feed(b"".join(stream[: len(stream) // 2] if error else stream)):
            out += answer.feed(event)
    out += answer.abort(error) if error else answer.finish()
    return answer, b"".join(out)


def transport(content: bytes) -> httpx2.MockTransport:
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, content=content, headers=headers))


def client_of(kind: Callable[..., Any], content: bytes) -> Any:
    return kind(api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport(content)))


def test_anthropic_package_reads_two_rounds_as_one_message() -> None:
    import anthropic

    answer, content = rewritten("anthropic", FIRST, SECOND)
    with client_of(anthropic.Anthropic, content).messages.stream(**REQUESTS["anthropic"]) as stream:
        message = stream.get_final_message()
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    assert [{k: v for k, v in block.items() if v is not None} for block in blocks] == answer.result()["content"]
    assert [block.type for block in message.content] == ["thinking", "text", "thinking", "text", "tool_use", "tool_use"]
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.output_tokens, message.usage.cache_read_input_tokens) == (
        10,
        10,
        3,
    )
    assert message.id == "msg_000000000000000000000001"


def test_anthropic_package_raises_the_error_of_an_aborted_stream() -> None:
    import anthropic

    _, content = rewritten("anthropic", FIRST, error="upstream broke off")
    with (
        client_of(anthropic.Anthropic, content).messages.stream(**REQUESTS["anthropic"]) as stream,
        pytest.raises(anthropic.APIStatusError, match="upstream broke off"),
    ):
        stream.get_final_message()


def test_openai_package_reads_two_rounds_as_one_completion() -> None:
    import openai

    answer, content = rewritten("openai", FIRST, SECOND)
    with client_of(openai.OpenAI, content).chat.completions.stream(**REQUESTS["openai"]) as stream:
        completion = stream.get_final_completion()
    [choice] = completion.choices
    assert choice.message.content == "One moment.\n\nHere: żółć."
    assert [call.function.name for call in choice.message.tool_calls or []] == ["shell", "edit"]
    assert choice.finish_reason == "tool_calls"
    assert (completion.id, completion.usage.prompt_tokens, completion.usage.total_tokens) == ("chatcmpl-1", 10, 20)
    shown = answer.result()["choices"][0]["message"]
    assert shown["content"] == choice.message.content
    assert shown["reasoning_content"] == choice.message.reasoning_content


def test_openai_package_raises_the_error_of_an_aborted_stream() -> None:
    import openai

    _, content = rewritten("openai", FIRST, error="upstream broke off")
    with (
        client_of(openai.OpenAI, content).chat.completions.stream(**REQUESTS["openai"]) as stream,
        pytest.raises(openai.APIError, match="upstream broke off"),
    ):
        stream.get_final_completion()


def test_openai_package_reads_two_rounds_as_one_response() -> None:
    import openai

    answer, content = rewritten("openai-responses", FIRST, SECOND)
    with client_of(openai.OpenAI, content).responses.stream(**REQUESTS["openai-responses"]) as stream:
        numbers = [event.sequence_number for event in stream]
        response = stream.get_final_response()
    assert numbers == list(range(len(numbers)))
    kinds = ["reasoning", "message", "reasoning", "message", "function_call", "function_call"]
    assert [item.type for item in response.output] == kinds
    assert response.output_text == "One moment.Here: żółć."
    assert [item["id"] for item in answer.shown_messages()] == [item.id for item in response.output]
    assert response.id == f"resp_{1:030d}"
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (10, 3)


def test_openai_package_gets_the_failure_of_an_aborted_response() -> None:
    import openai

    _, content = rewritten("openai-responses", FIRST, error="upstream broke off")
    with client_of(openai.OpenAI, content).responses.stream(**REQUESTS["openai-responses"]) as stream:
        last = list(stream)[-1]
    assert (last.type, last.response.error.message) == ("response.failed", "upstream broke off")


@functools.cache
def gemini_server() -> tuple[Any, list[bytes]]:
    """A client, which takes long to make, and the place of what it receives."""
    from google import genai

    received = [b""]
    headers = {"content-type": "text/event-stream"}
    answering = httpx2.MockTransport(lambda _: httpx2.Response(200, content=received[0], headers=headers))
    options = genai.types.HttpOptions(httpx_client=httpx2.Client(transport=answering))
    return genai.Client(api_key="k", http_options=options), received


def gemini_client(content: bytes) -> Any:
    client, received = gemini_server()
    received[0] = content
    return client


def test_google_package_reads_two_rounds_as_one_answer() -> None:
    answer, content = rewritten("gemini", FIRST, SECOND)
    chat = gemini_client(content).chats.create(model="gemini-x")
    chunks = list(chat.send_message_stream("hello"))
    assert "".join(chunk.text or "" for chunk in chunks) == "One moment.\n\nHere: żółć."
    calls = [call for chunk in chunks for call in chunk.function_calls or ()]
    assert [(call.name, call.args) for call in calls] == [("shell", {"command": "ls"}), ("edit", {"path": "a"})]
    assert chunks[-1].usage_metadata.prompt_token_count == 10
    assert {chunk.response_id for chunk in chunks} == {"r1"}
    assert len(chat.get_history(curated=True)) > 1
    assert [part.get("text") for part in answer.shown_messages()[0]["parts"]][1] == "One moment."


def test_google_package_raises_the_error_of_an_aborted_stream() -> None:
    from google.genai import errors

    _, content = rewritten("gemini", FIRST, error="upstream broke off")
    stream = gemini_client(content).models.generate_content_stream(model="gemini-x", contents="hello")
    with pytest.raises(errors.APIError, match="upstream broke off"):
        list(stream)


@st.composite
def rounds(draw: st.DrawFn) -> list[Scripted]:
    """One to three rounds; all but the last call own tools only."""
    count = draw(st.integers(1, 3))
    result = []
    for number in range(1, count + 1):
        names = ["own_search", "own_read"] + (["shell", "edit"] if number == count else [])
        parts: list[Part] = [Thinking("why", f"s{number}")] if draw(st.booleans()) else []
        parts += [Said(draw(st.sampled_from(["One.", "żółć\n", " two"])))] if draw(st.booleans()) else []
        called = draw(st.lists(st.sampled_from(names), max_size=3))
        parts += [Call(f"c{number}_{i}", name, {"n": i}) for i, name in enumerate(called)]
        result.append(Scripted(tuple(parts), number, draw(st.integers(1, 5))))
    return result


def loaded(format: str, scripted: list[Scripted]) -> dict[str, Any]:  # noqa: A002
    wire = WIRES[format]
    request = wire.read(REQUESTS[format], path=PATHS[format])
    answer = wire.answer(request, own_names=frozenset({"own_search", "own_read"}))
    for i, one in enumerate(scripted):
        if i:
            answer.next_round()
        answer.load(BODIES[format](one))
    return answer.result()


@settings(max_examples=times(10))
@given(scripted=rounds())
def test_anthropic_package_sees_the_same_message_in_a_stream_and_in_a_body(scripted: list[Scripted]) -> None:
    import anthropic

    _, content = rewritten("anthropic", *scripted)
    with client_of(anthropic.Anthropic, content).messages.stream(**REQUESTS["anthropic"]) as stream:
        message = stream.get_final_message()
    whole = anthropic.types.Message.model_validate(loaded("anthropic", scripted))
    assert [block.to_dict() for block in message.content] == [block.to_dict() for block in whole.content]
    assert message.stop_reason == whole.stop_reason
    assert message.usage.output_tokens == whole.usage.output_tokens


@settings(max_examples=times(10))
@given(scripted=rounds())
def test_openai_package_sees_the_same_completion_in_a_stream_and_in_a_body(scripted: list[Scripted]) -> None:
    import openai

    _, content = rewritten("openai", *scripted)
    with client_of(openai.OpenAI, content).chat.completions.stream(**REQUESTS["openai"]) as stream:
        completion = stream.get_final_completion()
    whole = openai.types.chat.ChatCompletion.model_validate(loaded("openai", scripted))
    [streamed], [sent] = completion.choices, whole.choices
    assert streamed.message.content == sent.message.content
    assert [call.id for call in streamed.message.tool_calls or []] == [
        call.id for call in sent.message.tool_calls or []
    ]
    assert streamed.finish_reason == sent.finish_reason
    assert completion.usage == whole.usage


@settings(max_examples=times(10))
@given(scripted=rounds())
def test_openai_package_sees_the_same_response_in_a_stream_and_in_a_body(scripted: list[Scripted]) -> None:
    import openai

    _, content = rewritten("openai-responses", *scripted)
    with client_of(openai.OpenAI, content).responses.stream(**REQUESTS["openai-responses"]) as stream:
        response = stream.get_final_response()
    whole = openai.types.responses.Response.model_validate(loaded("openai-responses", scripted))
    assert [item.id for item in response.output] == [item.id for item in whole.output]
    assert response.output_text == whole.output_text
    assert response.usage == whole.usage


@settings(max_examples=times(10))
@given(scripted=rounds())
def test_google_package_sees_the_same_answer_in_a_stream_and_in_a_body(scripted: list[Scripted]) -> None:
    from google.genai import types

    _, content = rewritten("gemini", *scripted)
    stream = gemini_client(content).models.generate_content_stream(model="gemini-x", contents="hello")
    chunks = list(stream)
    whole = types.GenerateContentResponse.model_validate(loaded("gemini", scripted))
    assert "".join(chunk.text or "" for chunk in chunks) == (whole.text or "")
    assert [call for chunk in chunks for call in chunk.function_calls or ()] == (whole.function_calls or [])
    assert chunks[-1].usage_metadata == whole.usage_metadata
    [end], [candidate] = chunks[-1].candidates, whole.candidates or []
    assert end.finish_reason == candidate.finish_reason


def as_stream(format: str, body: dict[str, Any]) -> bytes:  # noqa: A002
    """A JSON answer as the stream that a client gets which has the headers of one."""
    wire = WIRES[format]
    sent = {**REQUESTS[format], "stream_options": {"include_usage": True}} if format == "openai" else REQUESTS[format]
    return b"".join(wire.answer(wire.read(sent, path=PATHS[format]), own_names=frozenset()).streamed(body))


CITATION = {
    "type": "char_location",
    "cited_text": "b",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def test_anthropic_package_reads_a_json_answer_as_a_stream() -> None:
    import anthropic

    body = BODIES["anthropic"](SECOND)
    cited = {"type": "text", "text": "cited", "citations": [CITATION]}
    body["content"] += [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}]
    body["content"] += [SEARCHED, cited, {"type": "redacted_thinking", "data": "xyz"}]
    with client_of(anthropic.Anthropic, as_stream("anthropic", body)).messages.stream(**REQUESTS["anthropic"]) as read:
        message = read.get_final_message()
    whole = anthropic.types.Message.model_validate(body)
    assert message.model_dump(exclude_none=True) == whole.model_dump(exclude_none=True)


def test_openai_package_reads_a_json_completion_as_a_stream() -> None:
    import openai

    body = BODIES["openai"](SECOND)
    client = client_of(openai.OpenAI, as_stream("openai", body))
    with client.chat.completions.stream(**REQUESTS["openai"]) as read:
        completion = read.get_final_completion().model_dump(exclude_none=True)
    whole = openai.types.chat.ChatCompletion.model_validate(body).model_dump(exclude_none=True)
    for call in completion["choices"][0]["message"]["tool_calls"]:  # the package adds what it made of them
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    assert completion == whole


def test_openai_package_reads_a_json_response_as_a_stream() -> None:
    import openai

    body = BODIES["openai-responses"](SECOND)
    refusal = [{"type": "refusal", "refusal": "No."}]
    body["output"] += [{"type": "message", "id": "m9", "role": "assistant", "status": "completed", "content": refusal}]
    custom = {"type": "custom_tool_call", "id": "ctc9", "call_id": "c9", "name": "grep", "input": "x"}
    body["output"] += [{**custom, "status": "completed"}]
    content = as_stream("openai-responses", body)
    with client_of(openai.OpenAI, content).responses.stream(**REQUESTS["openai-responses"]) as read:
        events = list(read)
        response = read.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == SECOND_SAID
    assert {event.type for event in events} >= {"response.refusal.delta", "response.custom_tool_call_input.done"}
    whole = openai.types.responses.Response.model_validate(body)
    assert [item.id for item in response.output] == [item.id for item in whole.output]
    assert (response.output_text, response.usage) == (whole.output_text, whole.usage)


def test_google_package_reads_a_json_answer_as_a_stream() -> None:
    from google.genai import types

    body = BODIES["gemini"](SECOND)
    stream = gemini_client(as_stream("gemini", body)).models.generate_content_stream(model="gemini-x", contents="hello")
    [chunk] = stream
    whole = types.GenerateContentResponse.model_validate(body)
    assert chunk.candidates == whole.candidates
    assert chunk.usage_metadata == whole.usage_metadata
