"""What is sent to real providers' packages and what comes back, over HTTP to a server on this machine."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from foveate.models import Answer
from foveate.turn import Attachment, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from support.asking import MODELS, SCHEMA, TOOL, Asking, asks, says
from support.faulty_server import Protocol, Said, plain, streamed

PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic", "google")
every_provider = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_provider
def test_a_plain_answer_comes_back_canonical_with_its_usage(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said("Good day.")))
    answer = asking.answer(MODELS[protocol])
    assert (answer.text, answer.finish) == ("Good day.", "stop")
    assert answer.message.model == MODELS[protocol]
    assert answer.usage == Usage(input_tokens=100, output_tokens=7, cache_read_tokens=80)


@every_provider
def test_a_stream_gives_pieces_and_last_the_same_answer_as_without(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said("Good day.")))
    whole = asking.answer(MODELS[protocol])
    asking.server.will(streamed(protocol, Said("Good day.")))
    *pieces, last = asking.pieces(MODELS[protocol])
    assert len(pieces) > 1
    assert "".join(str(piece) for piece in pieces) == "Good day."
    assert last == whole


@every_provider
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_tool_call_comes_back_with_its_arguments(protocol: Protocol, is_stream: bool, asking: Asking) -> None:
    said = Said("", tool=("get_turn", {"turn": "T-1"}))
    ask = asks(tools=(TOOL,), purpose="chat", temperature=None)
    if is_stream:
        asking.server.will(streamed(protocol, said))
        answer = asking.pieces(MODELS[protocol], ask)[-1]
        assert isinstance(answer, Answer)
    else:
        asking.server.will(plain(protocol, said))
        answer = asking.answer(MODELS[protocol], ask)
    assert answer.finish == "tool-calls"
    (call,) = answer.message.tool_calls
    assert (call.name, call.arguments) == ("get_turn", {"turn": "T-1"})
    assert call.id
    assert "get_turn" in str(asking.sent().body["tools"])


@every_provider
def test_a_structured_answer_is_asked_for_by_its_schema(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said('{"short": "a", "tiny": "b"}')))
    answer = asking.answer(MODELS[protocol], asks(schema=SCHEMA))
    assert answer.text == '{"short": "a", "tiny": "b"}'
    body = asking.sent().body
    form = {
        "openai": lambda: body["response_format"]["json_schema"]["schema"],
        "anthropic": lambda: body["output_config"]["format"]["schema"],
        "google": lambda: body["generationConfig"]["responseJsonSchema"],
    }[protocol]()
    assert form["required"] == ["short", "tiny"]


@every_provider
@pytest.mark.parametrize(("finish", "expected"), [("length", "length"), ("filter", "refused")])
def test_an_answer_says_why_it_ended(protocol: Protocol, finish: Any, expected: str, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said("I can", finish=finish)))
    assert asking.answer(MODELS[protocol]).finish == expected


@every_provider
@pytest.mark.parametrize("said", [Said(""), Said(" \n "), Said("", finish="length"), Said("", thinking="Hm.")])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_without_words_says_what_it_took(
    protocol: Protocol, said: Said, is_stream: bool, asking: Asking
) -> None:
    asking.server.will(streamed(protocol, said) if is_stream else plain(protocol, said))
    answer = asking.pieces(MODELS[protocol])[-1] if is_stream else asking.answer(MODELS[protocol])
    assert isinstance(answer, Answer)
    assert (answer.text.strip(), answer.finish) == ("", said.finish)
    assert answer.usage == Usage(input_tokens=100, output_tokens=7, cache_read_tokens=80)


@pytest.mark.parametrize("said", [Said("Yes.", thinking="Let me see."), Said("", tool=("get_turn", {"turn": "T-1"}))])
def test_every_event_of_a_stream_is_a_sign_of_life(said: Said, asking: Asking) -> None:
    asking.server.will(streamed("openai", said))
    *pieces, _ = asking.pieces(asking.endpoint(), asks(tools=(TOOL,), purpose="chat"))
    assert "".join(map(str, pieces)) == said.text
    assert "" in pieces


@every_provider
def test_the_request_has_the_instructions_the_limit_and_no_randomness(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said()))
    asking.answer(MODELS[protocol], asks(says("system", "One."), says("developer", "Two."), says("user", "Hello?")))
    body = asking.sent().body
    seen = {
        "openai": lambda: (body["messages"][0]["content"], body["max_completion_tokens"], body["temperature"]),
        "anthropic": lambda: (body["system"][0]["text"], body["max_tokens"], body["temperature"]),
        "google": lambda: (
            body["systemInstruction"]["parts"][0]["text"],
            body["generationConfig"]["maxOutputTokens"],
            body["generationConfig"]["temperature"],
        ),
    }[protocol]()
    assert seen == ("One.\n\nTwo.", 100, 0.0)


def conversation(model: str | None = None) -> tuple[Message, ...]:
    return (
        says("system", "Be short."),
        says("user", "Look it up."),
        says("assistant", "I look.", ToolCall("get_turn", {"turn": "T-1"}, id="call_1"), model=model),
        says("tool", ToolResult("call_1", (Text("It was rain."),), name="get_turn")),
        says("assistant", "It rained.", model=model),
        Message("assistant", (Text("shown to people only"),), kind="display"),
        says("user", "And then?"),
    )


def test_calls_and_results_go_out_as_openai_has_them(asking: Asking) -> None:
    asking.server.will(plain("openai", Said()))
    asking.answer(MODELS["openai"], asks(*conversation()))
    assert asking.sent().body["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Look it up."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_turn", "arguments": '{"turn":"T-1"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "It was rain."},
        {"role": "assistant", "content": "It rained."},
        {"role": "user", "content": "And then?"},
    ]


def test_calls_and_results_go_out_as_anthropic_has_them(asking: Asking) -> None:
    asking.server.will(plain("anthropic", Said()))
    asking.answer(MODELS["anthropic"], asks(*conversation()))
    messages = asking.sent().body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"][1] == {
        "type": "tool_use",
        "id": "call_1",
        "name": "get_turn",
        "input": {"turn": "T-1"},
    }
    result = messages[2]["content"][0]
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "call_1", False)


def test_calls_and_results_go_out_as_gemini_has_them(asking: Asking) -> None:
    asking.server.will(plain("google", Said()))
    asking.answer(MODELS["google"], asks(*conversation()))
    contents = asking.sent().body["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
    assert contents[1]["parts"][1]["functionCall"]["args"] == {"turn": "T-1"}
    assert contents[2]["parts"][0]["functionResponse"]["name"] == "get_turn"


def test_a_failed_call_is_marked_as_failed(asking: Asking) -> None:
    failed = ToolResult("call_1", (Text("no such turn"),), name="get_turn", is_error=True)
    call = says("assistant", ToolCall("get_turn", {}, id="call_1"))
    asking.server.will(plain("anthropic", Said()))
    asking.answer(MODELS["anthropic"], asks(says("user", "?"), call, says("tool", failed)))
    assert asking.sent().body["messages"][2]["content"][0]["is_error"] is True


@pytest.mark.parametrize("protocol", ["anthropic", "google"])
def test_reasoning_goes_back_to_its_own_provider_with_its_proof(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(plain(protocol, Said("Done.", tool=("get_turn", {}), thinking="Let me see.")))
    name = MODELS[protocol]
    thought = asking.answer(name, asks(purpose="chat", tools=(TOOL,), temperature=None)).message
    assert any(isinstance(part, Reasoning) and part.text == "Let me see." for part in thought.parts)
    result = says("tool", ToolResult(thought.tool_calls[0].id, (Text("rain"),)))
    asking.answer(name, asks(says("user", "?"), thought, result, purpose="chat", temperature=None))
    sent = str(asking.sent().body)
    assert "Let me see." in sent
    assert Said().signature in sent


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reasoning_of_another_provider_is_not_sent(protocol: Protocol, asking: Asking) -> None:
    other = "anthropic:claude-x" if protocol != "anthropic" else "google:gemini-x"
    thought = says("assistant", Reasoning("Secret plan.", signature="abcd"), "Done.", model=other)
    asking.server.will(plain(protocol, Said()))
    asking.answer(MODELS[protocol], asks(says("user", "?"), thought, says("user", "And?")))
    assert "Done." in str(asking.sent().body)
    assert "Secret plan." not in str(asking.sent().body)


def test_anthropics_unreadable_thinking_goes_back_as_it_came(asking: Asking) -> None:
    hidden = says("assistant", Reasoning("", encrypted="opaque=="), "Done.", model="claude-sonnet-4-5")
    asking.server.will(plain("anthropic", Said()))
    asking.answer(MODELS["anthropic"], asks(says("user", "?"), hidden, says("user", "And?"), purpose="chat"))
    assert {"type": "redacted_thinking", "data": "opaque=="} in asking.sent().body["messages"][1]["content"]


def test_an_open_models_reasoning_goes_back_in_the_field_it_came_in(asking: Asking) -> None:
    asking.server.will(plain("openai", Said("Done.", thinking="Let me see.")))
    thought = asking.answer(asking.endpoint()).message
    assert Reasoning("Let me see.", id="reasoning_content") in thought.parts
    asking.answer(asking.endpoint(), asks(says("user", "?"), thought, says("user", "And?")))
    assert asking.sent().body["messages"][1] == {
        "role": "assistant",
        "reasoning_content": "Let me see.",
        "content": "Done.",
    }


def test_images_are_sent_and_what_has_no_form_is_noted(asking: Asking) -> None:
    pixel = Attachment("image", data=base64.b64encode(b"pixel").decode(), media_type="image/png")
    linked = Attachment("image", uri="https://example.com/a.png")
    sound = Attachment("audio", data="AAAA", media_type="audio/wav", name="a.wav")
    broken = Attachment("image", data="not base64!", media_type="image/png", name="b.png")
    asking.server.will(plain("openai", Said()))
    asking.answer(MODELS["openai"], asks(says("user", "See:", pixel, linked, sound, broken)))
    content = asking.sent().body["messages"][0]["content"]
    assert [block["type"] for block in content] == ["text", "image_url", "image_url", "text", "text"]
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "a.wav" in content[3]["text"]
    assert "b.png" in content[4]["text"]
