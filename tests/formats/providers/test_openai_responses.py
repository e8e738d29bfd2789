from __future__ import annotations

from typing import Any

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import load, message_formats, parse_messages, render_messages
from foveate.turn import Attachment, Json, Message, Opaque, Original, Reasoning, Text, ToolCall, ToolResult

NAME = "openai-responses"


def parse(data: Json) -> Message:
    return load(NAME).parse(data, "input[0]")


def render(*messages: Message) -> list[Any]:
    return render_messages(NAME, messages)


SESSION: list[Json] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is in a.txt?"}]},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Read it"}],
        "encrypted_content": "gAAA",
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "read",
        "arguments": '{"path":"a.txt"}',
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "hello"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It says hello.", "annotations": []}],
    },
]


def test_a_session_is_read_item_by_item() -> None:
    assert [message.without_original() for message in parse_messages(SESSION)] == [
        Message("user", (Text("What is in a.txt?"),)),
        Message("assistant", (Reasoning("Read it", encrypted="gAAA", id="rs_1"),)),
        Message("assistant", (ToolCall("read", {"path": "a.txt"}, id="call_1"),)),
        Message("tool", (ToolResult("call_1", (Text("hello"),)),)),
        Message("assistant", (Text("It says hello."),)),
    ]


def test_a_session_goes_out_again_to_the_letter() -> None:
    assert render(*parse_messages(SESSION)) == SESSION


def test_without_its_originals_a_session_is_in_normal_form() -> None:
    assert render(*[message.without_original() for message in parse_messages(SESSION)]) == [
        {"role": "user", "content": "What is in a.txt?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Read it"}],
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a.txt"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "hello"},
        {"role": "assistant", "content": "It says hello."},
    ]


def test_content_of_every_kind_is_read() -> None:
    message = parse(
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_file", "file_url": "https://e.org/a.pdf"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "input_smell", "strength": 3},
            ],
        }
    )
    assert message.parts == (
        Text("Look"),
        Attachment("image", data="AA==", media_type="image/png"),
        Attachment("image", file_id="file-1"),
        Attachment("file", file_id="file-2"),
        Attachment("file", uri="https://e.org/a.pdf"),
        Attachment("file", data="AA==", media_type="application/pdf", name="a.pdf"),
        Attachment("audio", data="AA==", media_type="audio/wav"),
        Opaque(NAME, {"type": "input_smell", "strength": 3}),
    )
    (rendered,) = render(message)
    assert rendered["content"][-2:] == [
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "input_smell", "strength": 3},
    ]


def test_a_refusal_is_words() -> None:
    assert parse({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}).text == "No."


def test_the_thinking_itself_is_read_where_a_server_gives_it() -> None:
    content: Json = [{"type": "reasoning_text", "text": "a"}, {"type": "reasoning_text", "text": "b"}]
    (part,) = parse({"type": "reasoning", "id": "rs_1", "summary": [], "content": content}).parts
    assert part == Reasoning("a\n\nb", id="rs_1")


@pytest.mark.parametrize(
    ("item", "part"),
    [
        (
            {"type": "local_shell_call", "id": "ls_1", "call_id": "c1", "action": {"command": ["ls"]}},
            ToolCall("local_shell", {"command": ["ls"]}, id="c1"),
        ),
        (
            {"type": "apply_patch_call", "call_id": "c1", "operation": {"path": "a"}},
            ToolCall("apply_patch", {"path": "a"}, id="c1"),
        ),
        ({"type": "local_shell_call_output", "id": "c1", "output": "a b"}, ToolResult("c1", (Text("a b"),))),
        (
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [{"stdout": "out", "stderr": "err", "outcome": {"type": "exit", "exit_code": 1}}],
            },
            ToolResult("c1", (Text("out"), Text("err"))),
        ),
        (
            {
                "type": "computer_call_output",
                "call_id": "c1",
                "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="},
            },
            ToolResult("c1", (Attachment("image", data="AA==", media_type="image/png"),)),
        ),
        ({"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": "*** x"}, ToolCall("p", "*** x", id="c1")),
        ({"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}, ToolResult("c1", (Text("ok"),))),
    ],
)
def test_calls_that_the_caller_runs_are_calls(item: Json, part: ToolCall | ToolResult) -> None:
    assert parse(item).parts == (part,)


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("web_search_call", "assistant"),
        ("file_search_call", "assistant"),
        ("mcp_list_tools", "assistant"),
        ("mcp_approval_response", "tool"),
        ("teleport_call_output", "tool"),
        ("compaction", "assistant"),
    ],
)
def test_items_without_a_meaning_here_are_kept_as_they_came(kind: str, role: str) -> None:
    item: Json = {"type": kind, "id": "x", "anything": [1]}
    message = parse(item)
    assert (message.role, message.parts) == (role, (Opaque(NAME, item),))
    assert render(message) == [item]


def test_the_output_of_a_custom_call_is_a_custom_output() -> None:
    rendered = render(
        Message("assistant", (ToolCall("patch", "*** Begin", id="c"),)),
        Message("tool", (ToolResult("c", (Text("ok"),)),)),
    )
    assert [item["type"] for item in rendered] == ["custom_tool_call", "custom_tool_call_output"]


def test_an_image_in_a_result_stays_in_its_output() -> None:
    picture = Attachment("image", uri="https://e.org/a.png")
    (rendered,) = render(Message("tool", (ToolResult("c", (Text("see"), picture)),)))
    assert rendered["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://e.org/a.png"},
    ]


def test_reasoning_of_another_provider_stays_out() -> None:
    claude = Message(
        "assistant",
        (Reasoning("hm", signature="sig"), Reasoning("", encrypted="x"), Text("Hi")),
        original=Original("anthropic", {}),
    )
    assert render(claude) == [{"role": "assistant", "content": "Hi"}]


def test_reasoning_without_proof_stays_out() -> None:
    assert render(Message("assistant", (Reasoning("hm"), Text("Hi")))) == [{"role": "assistant", "content": "Hi"}]


def test_reasoning_of_a_codex_session_stays_beside_its_call() -> None:
    message = Message(
        "assistant",
        (Reasoning("", encrypted="x"), ToolCall("f", {}, id="c")),
        original=Original("codex", {}),
    )
    assert [item["type"] for item in render(message)] == ["reasoning", "function_call"]


def test_an_assistants_words_keep_their_place_between_its_calls() -> None:
    rendered = render(Message("assistant", (Text("One."), ToolCall("f", {}, id="c"), Text("Two."))))
    assert [item.get("content", item.get("type")) for item in rendered] == ["One.", "function_call", "Two."]


def test_what_an_assistant_attached_is_named_in_words() -> None:
    message = Message("assistant", (Attachment("image", data="AA==", media_type="image/png"), Opaque("gemini", {})))
    assert render(message)[0]["content"] == [
        {"type": "output_text", "text": "[image: image/png]"},
        {"type": "output_text", "text": "[A block of gemini, not readable here]"},
    ]


def test_a_video_is_named_in_words() -> None:
    assert render(Message("user", (Attachment("video", uri="u"), Attachment("image"))))[0]["content"] == [
        {"type": "input_text", "text": "[video: u]"},
        {"type": "input_text", "text": "[image: inline]"},
    ]


def test_an_empty_answer_stays_one() -> None:
    assert render(Message("assistant")) == [{"role": "assistant", "content": ""}]


@pytest.mark.parametrize("item", [*SESSION, {"type": "item_reference", "id": "x"}])
def test_its_own_items_are_recognised(item: Json) -> None:
    assert [name for name, format_ in message_formats().items() if format_.recognises(item)] == [NAME]


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        ("text", "input[0]", "must be an object, not text"),
        ({"content": "Hi"}, "input[0].role", "is missing; allowed are user, assistant, system, developer"),
        ({"role": "tool", "content": "Hi"}, "input[0].role", "is 'tool'; allowed are"),
        ({"role": "user"}, "input[0].content", "a user message needs"),
        ({"role": "user", "content": 1}, "input[0].content", "must be text or a list of blocks, not a number"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input[0].content[0].image_url", "is missing"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input[0].content[0].file_data", "is missing"),
        ({"type": 3}, "input[0].type", "must be text, not a number"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[0].call_id", "is missing"),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f"}, "input[0].input", "is missing"),
        ({"type": "function_call_output", "output": "x"}, "input[0].id", "is missing"),
        ({"type": "function_call_output", "call_id": "c", "output": 1}, "input[0].output", "text or a list of blocks"),
        ({"type": "reasoning", "summary": "hm"}, "input[0].summary", "must be a list, not text"),
        ({"type": "reasoning", "summary": [{}]}, "input[0].summary[0].text", "is missing"),
    ],
)
def test_a_wrong_item_is_refused_where_it_is_wrong(data: Json, path: str, problem: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        parse(data)
    assert caught.value.path == path
    assert problem in caught.value.problem
