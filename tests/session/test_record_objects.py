"""What a provider's own package answers with is recorded as it is."""

from __future__ import annotations

from pathlib import Path

from anthropic.types import Message as AnthropicMessage
from google.genai import types
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import Response

from foveate import sync
from foveate.session.record import as_messages
from foveate.turn import Text, ToolCall, ToolResult

CALL = {"id": "call_1", "type": "function", "function": {"name": "read_tide", "arguments": '{"place":"Skarvik"}'}}
SAID = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [CALL]}
OPENAI = ChatCompletionMessage.model_validate(SAID)
ANTHROPIC = AnthropicMessage.model_validate(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [
            {"type": "thinking", "thinking": "The tide first.", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "read_tide", "input": {"place": "Skarvik", "at": None}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 7},
    }
)
RESPONSE = Response.model_validate(
    {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5-mini",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
            },
            {"type": "function_call", "call_id": "call_1", "name": "read_tide", "arguments": '{"place":"Skarvik"}'},
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
)
CONTENT = types.Content(
    role="model",
    parts=[types.Part(function_call=types.FunctionCall(name="read_tide", args={"place": "Skarvik"}))],
)


def test_openais_message_goes_out_again_in_the_next_request(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s")
        chat.record([{"role": "user", "content": "How is the tide?"}, OPENAI])
        chat.record({"role": "tool", "tool_call_id": "call_1", "content": "Rising."})
        *_, said, result = chat.context().request("openai")["messages"]
    assert said == {"role": "assistant", "annotations": [], "tool_calls": [CALL]}
    assert result["tool_call_id"] == "call_1"


def test_anthropics_message_goes_out_again_without_what_its_api_refuses(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s")
        chat.record([{"role": "user", "content": "How is the tide?"}, ANTHROPIC])
        results = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rising."}]
        chat.record({"role": "user", "content": results})
        (kept,) = chat.load_turns()
        *_, said, _ = chat.context().request("anthropic", cache=False)["messages"]
    assert kept.messages[1].model == "claude-haiku-4-5"
    assert said.keys() == {"role", "content"}
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"]
    assert said["content"][2]["input"] == {"place": "Skarvik", "at": None}


def test_blocks_of_an_answer_are_taken_inside_a_message_too() -> None:
    (said,) = as_messages({"role": "assistant", "content": ANTHROPIC.content}, None)
    assert said.parts[1] == Text("I look.")
    assert isinstance(said.parts[2], ToolCall)


def test_the_output_of_a_response_is_a_list_of_messages() -> None:
    reasoning, spoken, called = as_messages(RESPONSE.output, None)
    assert {message.original.format for message in (reasoning, spoken, called) if message.original} == {
        "openai-responses"
    }
    assert spoken.parts == (Text("I look."),)
    assert called.parts == (ToolCall("read_tide", {"place": "Skarvik"}, id="call_1"),)


def test_googles_content_is_a_message() -> None:
    (called,) = as_messages(CONTENT, None)
    assert called.role == "assistant"
    assert called.parts == (ToolCall("read_tide", {"place": "Skarvik"}),)
    response = types.Part.from_function_response(name="read_tide", response={"output": "Rising."})
    (answered,) = as_messages(types.Content(role="user", parts=[response]), None)
    assert isinstance(answered.parts[0], ToolResult)
