from __future__ import annotations

from typing import Any

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import load, message_formats, parse_message, parse_messages, render_messages
from foveate.turn import Attachment, Json, Message, Opaque, Original, Reasoning, Text, ToolCall, ToolResult, Usage


def parse(data: Json) -> Message:
    return load("anthropic").parse(data, "messages[0]")


def render(*messages: Message) -> list[Any]:
    return render_messages("anthropic", messages)


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def test_a_response_is_read_with_its_model_and_usage() -> None:
    message = parse(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "blob"},
                {"type": "text", "text": "I look.", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 10,
                "output_tokens": 7,
            },
        }
    )
    assert message == Message(
        "assistant",
        (
            Reasoning("hm", signature="sig"),
            Reasoning("", encrypted="blob"),
            Text("I look."),
            ToolCall("read", {"path": "a.txt"}, id="toolu_1"),
        ),
        model="claude-opus-4-8",
        usage=Usage(input_tokens=115, output_tokens=7, cache_read_tokens=100, cache_write_tokens=10),
    )


def test_results_are_read_with_all_they_hold() -> None:
    message = parse(
        user(
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "boom"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {"type": "search_result", "title": "x"},
                ],
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "tool_result", "tool_use_id": "t2"},
            {"type": "tool_result", "tool_use_id": "t3", "content": "ok"},
        )
    )
    assert message.role == "user"
    assert message.parts == (
        ToolResult(
            "t1",
            (
                Text("boom"),
                Attachment("image", data="AA==", media_type="image/png"),
                Opaque("anthropic", {"type": "search_result", "title": "x"}),
            ),
            is_error=True,
        ),
        ToolResult("t2", ()),
        ToolResult("t3", (Text("ok"),)),
    )


def test_sources_of_every_kind_are_read() -> None:
    message = parse(
        user(
            {"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {
                "type": "document",
                "title": "A",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
            {"type": "document", "source": {"type": "content", "content": []}},
        )
    )
    assert message.parts == (
        Attachment("image", uri="https://e.org/a.png"),
        Attachment("image", file_id="file_1"),
        Attachment("file", data="AA==", media_type="application/pdf", name="A"),
        Attachment("file", data="d29yZHM=", media_type="text/plain"),
        Opaque("anthropic", {"type": "document", "source": {"type": "content", "content": []}}),
    )


def test_server_tools_go_back_as_they_came() -> None:
    record: Json = {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"encrypted_content": "E"}]},
            {"type": "text", "text": "Found."},
        ],
    }
    assert render(parse(record)) == [record]


def test_anthropic_keeps_thinking_next_to_its_tool_call() -> None:
    rendered = render(
        Message("user", (Text("Go"),)),
        Message("assistant", (Reasoning("hm", signature="sig"),)),
        Message("assistant", (Text("I look."),)),
        Message("assistant", (ToolCall("f", {}, id="a"),)),
        Message("assistant", (ToolCall("g", {}, id="b"),)),
        Message("tool", (ToolResult("b", (Text("B"),)),)),
        Message("tool", (ToolResult("a", (Text("A"),), is_error=True),)),
        Message("user", (Text("Well?"),)),
    )
    assert rendered == [
        {"role": "user", "content": "Go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "A", "is_error": True},
                {"type": "tool_result", "tool_use_id": "b", "content": "B"},
                {"type": "text", "text": "Well?"},
            ],
        },
    ]


@pytest.mark.parametrize("source", ["openai-responses", "codex", "gemini"])
def test_reasoning_of_another_provider_stays_out(source: str) -> None:
    message = Message(
        "assistant",
        (Reasoning("hm", signature="s"), Reasoning("hm", encrypted="x", id="rs_1"), Text("Hi")),
        original=Original(source, {}),
    )
    assert render(message) == [{"role": "assistant", "content": "Hi"}]


def test_thinking_of_a_claude_code_session_stays() -> None:
    message = Message(
        "assistant",
        (Reasoning("hm", signature="s"), Reasoning("", encrypted="blob"), Text("Hi")),
        original=Original("claude-code", {}),
    )
    kinds = [block["type"] for block in render(message)[0]["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text"]


def test_thinking_without_proof_stays_out() -> None:
    message = Message("assistant", (Reasoning("hm"), Reasoning("hm", encrypted="x", id="rs_1"), Text("Hi")))
    assert render(message) == [{"role": "assistant", "content": "Hi"}]


def test_system_text_goes_out_as_user_text_in_tags() -> None:
    assert render(Message("system", (Text("Be kind."),)), Message("developer", (Text("Be brief."),))) == [
        {"role": "user", "content": "<system>\nBe kind.\n</system>"},
        {"role": "user", "content": "<system>\nBe brief.\n</system>"},
    ]


def test_a_system_message_in_the_middle_is_read_and_given_back() -> None:
    record: Json = {"role": "system", "content": "From now on, in German."}
    message = parse_message("anthropic", record)
    assert message.role == "system"
    assert render(message) == [record]


def test_blank_text_and_empty_messages_are_left_out() -> None:
    assert render(Message("user", (Text(" \n"), Text("Hi"))), Message("assistant"), Message("user")) == [
        {"role": "user", "content": "Hi"}
    ]


def test_ids_the_api_refuses_are_made_anew_for_call_and_result() -> None:
    rendered = render(
        Message("assistant", (ToolCall("bash", {}, id="functions.bash:0"),)),
        Message("tool", (ToolResult("functions.bash:0", (Text("ok"),)),)),
    )
    made = rendered[0]["content"][0]["id"]
    assert made.startswith("call_1_")
    assert rendered[1]["content"][0]["tool_use_id"] == made


def test_ids_made_in_separate_stretches_of_a_conversation_differ() -> None:
    native = parse_message("anthropic", {"role": "user", "content": "And?"})
    stretches = [
        [
            Message("assistant", (ToolCall("bash", {"n": n}),)),
            Message("tool", (ToolResult(None, (Text("ok"),), name="bash"),)),
        ]
        for n in (1, 2)
    ]
    rendered = render(*stretches[0], native, *stretches[1])
    assert rendered[0]["content"][0]["id"] != rendered[3]["content"][0]["id"]


def test_arguments_that_are_no_object_stand_under_input() -> None:
    rendered = render(
        Message("assistant", (ToolCall("f", "*** x", id="a"), ToolCall("f", "", id="b"), ToolCall("f", [1], id="c")))
    )
    assert [block["input"] for block in rendered[0]["content"]] == [{"input": "*** x"}, {}, {"input": [1]}]


def test_what_has_no_form_here_is_named_in_words() -> None:
    message = Message(
        "user",
        (
            Attachment("audio", data="AA==", media_type="audio/wav"),
            Attachment("image", data="AA==", media_type="image/tiff"),
            Attachment("image", data="AA=="),
            Attachment("file", data="!", media_type="text/plain", name="a.txt"),
            Attachment("image", file_id="file-1"),
            Opaque("openai-responses", {"type": "web_search_call"}),
        ),
        original=Original("openai", {}),
    )
    assert [block["text"] for block in render(message)[0]["content"]] == [
        "[audio: audio/wav]",
        "[image: image/tiff]",
        "[image: inline]",
        "[file: a.txt, text/plain]",
        "[image: file id file-1]",
        "[web_search_call of openai-responses, not readable here]",
    ]


def test_a_picture_of_the_assistants_is_named_in_words() -> None:
    message = Message("assistant", (Attachment("image", uri="https://e.org/a.png"),))
    assert render(message) == [{"role": "assistant", "content": "[image: https://e.org/a.png]"}]


def test_a_call_and_result_in_one_assistant_message_are_parted() -> None:
    rendered = render(
        Message("assistant", (ToolCall("f", {}, id="a"), ToolResult("a", (Text("A"),)), Text("Done."))),
    )
    assert [(record["role"], record["content"][0]) for record in rendered[:2]] == [
        ("assistant", {"type": "tool_use", "id": "a", "name": "f", "input": {}}),
        ("user", {"type": "tool_result", "tool_use_id": "a", "content": "A"}),
    ]
    assert rendered[2] == {"role": "assistant", "content": "Done."}


def test_its_records_are_recognised_in_a_list() -> None:
    records: list[Json] = [
        {"role": "user", "content": "Hi"},
        user({"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}),
    ]
    assert [message.original and message.original.format for message in parse_messages(records)] == ["anthropic"] * 2


@pytest.mark.parametrize(
    "record",
    [
        user({"type": "tool_result", "tool_use_id": "x"}),
        user({"type": "image", "source": {}}),
        {"role": "assistant", "content": [], "stop_reason": "end_turn"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": ""}]},
    ],
)
def test_its_own_records_are_recognised(record: Json) -> None:
    assert [name for name, format_ in message_formats().items() if format_.recognises(record)] == ["anthropic"]


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        (3, "messages[0]", "must be an object, not a number"),
        ({"content": "Hi"}, "messages[0].role", "is missing; allowed are user, assistant, system"),
        ({"role": "tool", "content": "Hi"}, "messages[0].role", "is 'tool'; allowed are user, assistant, system"),
        ({"role": "user"}, "messages[0].content", "must be text or a list of blocks, not null"),
        ({"role": "user", "content": 1}, "messages[0].content", "not a number"),
        (user("Hi"), "messages[0].content[0]", "must be an object, not text"),
        (user({"type": None}), "messages[0].content[0].type", "must be text, not null"),
        (user({"type": "text", "text": []}), "messages[0].content[0].text", "must be text, not a list"),
        (user({"type": "image"}), "messages[0].content[0].source", "is missing"),
        (user({"type": "image", "source": {"type": "url"}}), "messages[0].content[0].source.url", "is missing"),
        (user({"type": "tool_use", "id": "a", "name": "f"}), "messages[0].content[0].input", "is missing"),
        (user({"type": "tool_result"}), "messages[0].content[0].tool_use_id", "is missing"),
        (
            user({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text"}]}),
            "messages[0].content[0].content[0].text",
            "is missing",
        ),
    ],
)
def test_a_wrong_record_is_refused_where_it_is_wrong(data: Json, path: str, problem: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        parse(data)
    assert caught.value.path == path
    assert problem in caught.value.problem
