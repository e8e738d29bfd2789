from __future__ import annotations

from typing import Any

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import load, message_formats, parse_message, parse_messages, render_messages
from foveate.turn import Attachment, Json, Message, Opaque, Original, Reasoning, Text, ToolCall, ToolResult


def parse(data: Json) -> Message:
    return load("openai").parse(data, "messages[0]")


def render(*messages: Message) -> list[Any]:
    return render_messages("openai", messages)


def call(call_id: str | None, name: str = "bash", **arguments: Json) -> ToolCall:
    return ToolCall(name, arguments, id=call_id)


def result(call_id: str | None, text: str, name: str | None = None) -> Message:
    return Message("tool", (ToolResult(call_id, (Text(text),), name=name),))


def test_a_call_and_its_arguments_are_read() -> None:
    message = parse(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_9",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Graz", "days": 3}'},
                }
            ],
        }
    )
    assert message == Message("assistant", (ToolCall("get_weather", {"city": "Graz", "days": 3}, id="call_9"),))


@pytest.mark.parametrize(
    "text",
    [
        '{"city": ',
        "[1, 2]",
        "3",
        "",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        '{"a":' * 300 + "1" + "}" * 300,
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_faithful_object_stay_text(text: str) -> None:
    function = {"name": "f", "arguments": text}
    (part,) = parse({"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}).parts
    assert part == ToolCall("f", text, id="1")


def test_arguments_given_as_an_object_are_taken_as_one() -> None:
    function: Json = {"name": "f", "arguments": {"a": 1}}
    assert parse({"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}).tool_calls[0].arguments == {
        "a": 1
    }


def test_a_custom_calls_input_stays_text_even_if_it_is_json() -> None:
    record: Json = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "patch", "input": '{"a":1}'}}],
    }
    assert parse(record).tool_calls == (ToolCall("patch", '{"a":1}', id="1"),)
    assert render(parse(record)) == [record]


def test_a_kind_of_call_yet_to_be_invented_still_pairs_with_its_result() -> None:
    record: Json = {"role": "assistant", "tool_calls": [{"id": "1", "type": "teleport", "teleport": {"to": "Graz"}}]}
    assert parse(record).tool_calls == (ToolCall("teleport", {"to": "Graz"}, id="1"),)


def test_legacy_function_calls_become_tool_calls() -> None:
    records: list[Json] = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "42"},
    ]
    first, second = render(*[parse(record) for record in records])
    (made,) = first["tool_calls"]
    assert made["function"] == {"name": "f", "arguments": "{}"}
    assert second == {"role": "tool", "tool_call_id": made["id"], "content": "42"}


def test_content_of_every_kind_is_read() -> None:
    message = parse(
        {
            "role": "user",
            "name": "Ada",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "https://e.org/a.png", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "flac"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
                {"type": "hologram", "depth": 3},
            ],
        }
    )
    assert message.name == "Ada"
    assert message.parts == (
        Text("Look"),
        Attachment("image", uri="https://e.org/a.png"),
        Attachment("image", data="AA==", media_type="image/png"),
        Attachment("audio", data="AA==", media_type="audio/mpeg"),
        Attachment("audio", data="AA==", media_type="audio/flac"),
        Attachment("file", file_id="file-1"),
        Attachment("file", data="AA==", media_type="application/pdf", name="a.pdf"),
        Opaque("openai", {"type": "hologram", "depth": 3}),
    )


def test_a_block_without_a_meaning_here_goes_back_as_it_came() -> None:
    record: Json = {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "hologram", "depth": 3}]}
    assert render(parse(record)) == [record]


def test_refusals_and_spoken_answers_are_words() -> None:
    assert parse({"role": "assistant", "content": None, "refusal": "No."}).text == "No."
    assert parse({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}).text == "No."
    spoken = parse({"role": "assistant", "audio": {"id": "a1", "data": "AA==", "transcript": "Hello", "expires_at": 1}})
    assert spoken.parts == (Text("Hello"), Attachment("audio", file_id="a1", data="AA=="))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_compatible_servers_is_read_and_not_said_again(field: str) -> None:
    message = parse({"role": "assistant", field: "hm", "content": "Hi"})
    assert message.parts == (Reasoning("hm"), Text("Hi"))
    assert render(message) == [{"role": "assistant", "content": "Hi"}]


def test_a_message_of_reasoning_alone_is_left_out() -> None:
    assert render(Message("assistant", (Reasoning("hm"),))) == []


def test_messages_of_one_response_become_one() -> None:
    assert render(
        Message("assistant", (Reasoning("hm", encrypted="x", id="rs_1"),)),
        Message("assistant", (Text("I look."),)),
        Message("assistant", (call("a"),)),
        Message("assistant", (call("b"),)),
        result("b", "B"),
        result("a", "A"),
        Message("assistant", (Text("Done."),)),
    ) == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "assistant", "content": "Done."},
    ]


def test_a_late_result_is_moved_up_to_its_call() -> None:
    rendered = render(
        Message("assistant", (call("a"),)),
        Message("user", (Text("Hurry"),), kind="injection"),
        result("a", "A"),
        Message("assistant", (Text("Done."),)),
    )
    assert [record["role"] for record in rendered] == ["assistant", "tool", "user", "assistant"]


def test_a_call_that_was_never_answered_gets_a_result_that_says_so() -> None:
    rendered = render(Message("assistant", (call("a"),)), Message("user", (Text("Stop"),)))
    assert rendered[1] == {
        "role": "tool",
        "tool_call_id": "a",
        "content": "[No result of this call was recorded.]",
    }


def test_a_call_at_the_end_waits_for_its_result() -> None:
    assert len(render(Message("user", (Text("Go"),)), Message("assistant", (call("a"),)))) == 2


def test_a_result_without_a_call_becomes_text_that_says_so() -> None:
    rendered = render(Message("user", (Text("Go"),)), result("zz", "A", name="bash"))
    assert rendered[1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "[Result of a tool call that is not part of this conversation: bash zz]"},
            {"type": "text", "text": "A"},
        ],
    }


def test_a_result_whose_call_is_an_original_record_stays_a_result() -> None:
    record: Json = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
    }
    rendered = render(parse_message("openai", record), result("a", "A"))
    assert rendered == [record, {"role": "tool", "tool_call_id": "a", "content": "A"}]


def test_ids_that_are_missing_repeated_or_too_long_are_made_the_same_for_call_and_result() -> None:
    messages = [
        Message("assistant", (call(None, "f"), call("x" * 41, "g"))),
        result(None, "F", name="f"),
        result("x" * 41, "G"),
        Message("assistant", (call("same"),)),
        result("same", "1"),
        Message("assistant", (call("same"),)),
        result("same", "2"),
    ]
    rendered = render(*messages)
    ids = [made["id"] for record in rendered for made in record.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert max(map(len, ids)) <= 40
    assert [(record["tool_call_id"], record["content"]) for record in rendered if record["role"] == "tool"] == [
        (ids[0], "F"),
        (ids[1], "G"),
        ("same", "1"),
        (ids[3], "2"),
    ]
    assert render(*messages) == rendered


def test_a_result_of_a_repeated_id_answers_the_latest_call() -> None:
    rendered = render(
        Message("assistant", (call("0", "f"),)),
        Message("user", (Text("Stop"),)),
        Message("assistant", (call("0", "g"),)),
        result("0", "G"),
    )
    assert rendered[1]["content"] == "[No result of this call was recorded.]"
    assert rendered[-1]["content"] == "G"


def test_what_a_result_has_attached_follows_in_a_user_message() -> None:
    picture = Attachment("image", data="AA==", media_type="image/png", name="shot.png")
    rendered = render(
        Message("assistant", (call("a"), call("b"))),
        Message("tool", (ToolResult("a", (Text("see"), picture)), ToolResult("b", (Text("B"),)))),
    )
    assert [record["role"] for record in rendered] == ["assistant", "tool", "tool", "user"]
    assert rendered[1]["content"][1] == {"type": "text", "text": "[image: shot.png, image/png]"}
    assert rendered[3]["content"] == [
        {"type": "text", "text": "[Attached to the result of call a:]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_what_has_no_form_here_is_named_in_words() -> None:
    foreign = Original("anthropic", {})
    message = Message(
        "user",
        (
            Attachment("video", uri="https://e.org/a.mp4"),
            Attachment("file", file_id="file_1"),
            Attachment("audio", data="AA==", media_type="audio/flac"),
            Attachment("image"),
            Opaque("anthropic", {"type": "search_result"}),
            Opaque("gemini", {"executableCode": {}}),
        ),
        original=foreign,
    )
    (rendered,) = render(message)
    assert [block["text"] for block in rendered["content"]] == [
        "[video: https://e.org/a.mp4]",
        "[file: file id file_1]",
        "[audio: audio/flac]",
        "[image: inline]",
        "[search_result of anthropic, not readable here]",
        "[A block of gemini, not readable here]",
    ]


def test_system_and_developer_messages_stay_in_place() -> None:
    records: list[Json] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "Be brief."},
    ]
    assert render(*[parse(record) for record in records]) == records


def test_a_display_message_never_reaches_a_model() -> None:
    assert render(Message("user", (Text("secret"),), kind="display")) == []


def test_plain_records_are_taken_as_this_format() -> None:
    (message,) = parse_messages([{"role": "user", "content": "Hi"}])
    assert message.original == Original("openai", {"role": "user", "content": "Hi"})


@pytest.mark.parametrize(
    "record",
    [
        {"role": "tool", "tool_call_id": "1", "content": ""},
        {"role": "function", "name": "f", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
    ],
)
def test_its_own_records_are_recognised(record: Json) -> None:
    assert message_formats()["openai"].recognises(record)


@pytest.mark.parametrize("record", ["text", None, [], {}, {"role": "user"}, {"role": "user", "content": "Hi"}])
def test_anybodys_records_are_not_recognised(record: Json) -> None:
    assert not [name for name, format_ in message_formats().items() if format_.recognises(record)]


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        ([], "messages[0]", "must be an object, not a list"),
        (None, "messages[0]", "must be an object, not null"),
        ({"content": "Hi"}, "messages[0].role", "is missing; allowed are system, developer, user, assistant, tool"),
        ({"role": "bot", "content": "Hi"}, "messages[0].role", "is 'bot'; allowed are"),
        ({"role": ["user"], "content": "Hi"}, "messages[0].role", "allowed are"),
        ({"role": "user"}, "messages[0].content", "a user message needs text or a list of blocks"),
        ({"role": "system", "content": None}, "messages[0].content", "a system message needs"),
        ({"role": "user", "content": 3}, "messages[0].content", "must be text or a list of blocks, not a number"),
        ({"role": "user", "content": {}}, "messages[0].content", "not an object"),
        ({"role": "user", "content": ["Hi"]}, "messages[0].content[0]", "must be an object, not text"),
        ({"role": "user", "content": [{"text": "Hi"}]}, "messages[0].content[0].type", "is missing"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text", "is missing"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "u"}]},
            "messages[0].content[0].image_url",
            "must be an object, not text",
        ),
        ({"role": "user", "content": [{"type": "file"}]}, "messages[0].content[0].file", "is missing"),
        ({"role": "user", "name": True, "content": ""}, "messages[0].name", "must be text, not true or false"),
        ({"role": "assistant", "tool_calls": "x"}, "messages[0].tool_calls", "must be a list, not text"),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {}}]},
            "messages[0].tool_calls[0].function.name",
            "is missing",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": 1}}]},
            "messages[0].tool_calls[0].function.arguments",
            "must be text or an object, not a number",
        ),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id", "names the call it answers"),
        ({"role": "function", "content": "x"}, "messages[0].name", "names the function"),
    ],
)
def test_a_wrong_record_is_refused_where_it_is_wrong(data: Json, path: str, problem: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        parse(data)
    assert caught.value.path == path
    assert problem in caught.value.problem


def test_a_block_of_another_api_without_its_text_goes_out_as_it_came() -> None:
    block: Json = {"type": "output_text"}
    message = parse({"role": "user", "content": [block]})
    assert render(message) == [{"role": "user", "content": [block]}]
