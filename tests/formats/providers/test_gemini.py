from __future__ import annotations

from typing import Any

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import load, message_formats, parse_messages, render_messages
from foveate.formats.acceptance import Acceptance
from foveate.turn import Attachment, Json, Message, Opaque, Original, Reasoning, Text, ToolCall, ToolResult


def parse(data: Json) -> Message:
    return load("gemini").parse(data, "contents[0]")


def render(*messages: Message) -> list[Any]:
    return render_messages("gemini", messages)


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def test_parts_of_every_kind_are_read() -> None:
    code: Json = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    message = parse(
        model(
            {"text": "hm", "thought": True},
            {"text": "Hi"},
            {"inlineData": {"mimeType": "audio/wav", "data": "AA==", "displayName": "a.wav"}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf"}},
            {"functionCall": {"name": "f", "args": {"n": 1}}, "thoughtSignature": "sig"},
            {"functionCall": {"id": "c2", "name": "g"}},
            code,
        )
    )
    assert message == Message(
        "assistant",
        (
            Reasoning("hm"),
            Text("Hi"),
            Attachment("audio", data="AA==", media_type="audio/wav", name="a.wav"),
            Attachment("file", uri="gs://b/a.pdf", media_type="application/pdf"),
            ToolCall("f", {"n": 1}, signature="sig"),
            ToolCall("g", {}, id="c2"),
            Opaque("gemini", code),
        ),
    )


def test_snake_case_is_read_as_camel_case() -> None:
    snake = model(
        {"function_call": {"name": "f", "args": {"file_uri": "kept"}}, "thought_signature": "sig"},
        {"inline_data": {"mime_type": "image/png", "data": "AA=="}},
        {"file_data": {"mime_type": "video/mp4", "file_uri": "gs://b/a.mp4"}},
    )
    camel = model(
        {"functionCall": {"name": "f", "args": {"file_uri": "kept"}}, "thoughtSignature": "sig"},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a.mp4"}},
    )
    assert parse(snake) == parse(camel)
    assert render(parse(snake)) == [camel]


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "Hi", "thoughtSignature": "sig"}],
        [{"text": "Hi"}, {"text": "", "thoughtSignature": "sig"}],
        [{"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "sig"}],
        [{"text": "hm", "thought": True, "thoughtSignature": "sig"}, {"text": "Hi", "thoughtSignature": "two"}],
        [
            {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "sig"},
            {"functionCall": {"name": "g", "args": {}}},
        ],
    ],
)
def test_a_signature_stays_on_its_part(parts: list[Json]) -> None:
    assert render(parse(model(*parts))) == [model(*parts)]


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"output": "ok"}, "ok", False),
        ({"error": "boom"}, "boom", True),
        ({"result": "ok", "n": 1}, '{"result":"ok","n":1}', False),
        ({"output": {"n": 1}}, '{"output":{"n":1}}', False),
        ({}, "{}", False),
    ],
)
def test_a_response_is_read_as_text_and_becomes_the_same_response(response: Json, text: str, is_error: bool) -> None:
    record: Json = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]}
    assert parse(record).parts == (ToolResult(None, (Text(text),), name="f", is_error=is_error),)
    assert render(parse(record)) == [record]


@pytest.mark.parametrize("text", ['{"a": 1}', '{"output":"x"}', "[1]", "plain", '{"a":1,"a":2}'])
def test_text_that_is_no_compact_object_stays_the_text_it_is(text: str) -> None:
    (rendered,) = render(Message("tool", (ToolResult("c", (Text(text),), name="f"),)))
    assert rendered["parts"][0]["functionResponse"]["response"] == {"output": text}
    assert parse(rendered).tool_results[0].content == (Text(text),)


def test_a_content_without_a_role_is_the_users() -> None:
    assert parse({"parts": [{"text": "Hi"}]}).role == "user"
    assert parse({"role": "", "parts": [{"text": "Hi"}]}).role == "user"


def test_role_function_is_a_tools() -> None:
    message = parse({"role": "function", "parts": [{"function_response": {"name": "f", "response": {"output": "x"}}}]})
    assert message == Message("tool", (ToolResult(None, (Text("x"),), name="f"),))


def test_calls_stand_in_model_content_and_their_results_in_the_next_user_content() -> None:
    rendered = render(
        Message("assistant", (Text("I look."),)),
        Message("assistant", (ToolCall("f", {"n": 1}), ToolCall("g", {}))),
        Message("tool", (ToolResult(None, (Text("G"),), name="g"),)),
        Message("tool", (ToolResult(None, (Text("F"),), name="f"),)),
        Message("assistant", (Text("Done."),)),
    )
    assert rendered == [
        model(
            {"text": "I look."},
            {"functionCall": {"name": "f", "args": {"n": 1}}},
            {"functionCall": {"name": "g", "args": {}}},
        ),
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "F"}}},
                {"functionResponse": {"name": "g", "response": {"output": "G"}}},
            ],
        },
        model({"text": "Done."}),
    ]


def test_a_result_gets_the_name_of_its_call() -> None:
    rendered = render(
        Message("assistant", (ToolCall("f", {}, id="c"),)), Message("tool", (ToolResult("c", (Text("F"),)),))
    )
    assert rendered[1]["parts"][0]["functionResponse"]["name"] == "f"


def test_a_result_without_a_record_gets_the_name_of_a_call_that_another_provider_recorded() -> None:
    use: Json = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    (call,) = parse_messages([use], "anthropic")
    (_, answer) = render(call, Message("tool", (ToolResult("c", (Text("F"),)),)))
    assert answer["parts"][0]["functionResponse"]["name"] == "f"


@pytest.mark.parametrize("recorded", ["canonical", "gemini"])
def test_a_result_that_names_another_tool_is_sent_under_the_name_of_its_call(recorded: str) -> None:
    said = [
        Message("assistant", (ToolCall("read", {}, id="c"),)),
        Message("tool", (ToolResult("c", (Text("F"),), name="exec"),)),
    ]
    if recorded == "gemini":
        call = model({"functionCall": {"id": "c", "name": "read", "args": {}}})
        response: Json = {"id": "c", "name": "exec", "response": {"output": "F"}}
        said = parse_messages([call, {"role": "user", "parts": [{"functionResponse": response}]}], "gemini")
    (_, answer) = render(*Acceptance("gemini").prepare(said))
    assert answer["parts"][0]["functionResponse"]["name"] == "read"


def test_a_result_whose_call_is_elsewhere_is_named_after_it() -> None:
    (rendered,) = render(Message("tool", (ToolResult("c", ()),)))
    assert rendered["parts"] == [{"functionResponse": {"id": "c", "name": "c", "response": {"output": ""}}}]


def test_the_first_call_of_another_providers_response_gets_the_signature_google_names() -> None:
    foreign = Message(
        "assistant",
        (ToolCall("f", {}, id="a", signature="theirs"), ToolCall("g", {}, id="b")),
        original=Original("anthropic", {}),
    )
    assert [part.get("thoughtSignature") for part in render(foreign)[0]["parts"]] == [
        "skip_thought_signature_validator",
        None,
    ]


def test_reasoning_of_another_provider_stays_out() -> None:
    foreign = Message("assistant", (Reasoning("hm", signature="s"), Text("Hi")), original=Original("anthropic", {}))
    assert render(foreign) == [model({"text": "Hi"})]


def test_system_text_goes_out_as_user_text_in_tags() -> None:
    assert render(parse({"role": "system", "parts": [{"text": "Be kind."}]})) == [
        {"role": "user", "parts": [{"text": "<system>\nBe kind.\n</system>"}]}
    ]


def test_what_a_result_has_attached_stands_in_its_parts() -> None:
    picture = Attachment("image", data="AA==", media_type="image/png")
    content = (Text("see"), picture, Attachment("file", file_id="x"), Opaque("anthropic", {"type": "search_result"}))
    (rendered,) = render(Message("tool", (ToolResult("c", content, name="f"),)))
    response = rendered["parts"][0]["functionResponse"]
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]
    assert response["response"] == {"output": "see\n[file: file id x]\n[search_result of anthropic, not readable here]"}


def test_empty_messages_are_left_out() -> None:
    assert render(Message("user"), Message("assistant", (Text(""),))) == []


def test_its_contents_are_recognised_in_a_list() -> None:
    (message,) = parse_messages([{"role": "user", "parts": [{"text": "Hi"}]}])
    assert message.original is not None
    assert message.original.format == "gemini"
    assert not message_formats()["gemini"].recognises({"role": "user", "parts": "Hi"})


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        ("Hi", "contents[0]", "must be an object, not text"),
        ({"role": "assistant", "parts": []}, "contents[0].role", "is 'assistant'; allowed are user, model"),
        ({"role": "user"}, "contents[0].parts", "is missing; it must be a list of parts"),
        ({"role": "user", "parts": "Hi"}, "contents[0].parts", "must be a list, not text"),
        ({"role": "user", "parts": ["Hi"]}, "contents[0].parts[0]", "must be an object, not text"),
        (model({"text": 1}), "contents[0].parts[0].text", "must be text, not a number"),
        (model({"text": "", "thoughtSignature": 1}), "contents[0].parts[0].thoughtSignature", "must be text"),
        (model({"functionCall": {}}), "contents[0].parts[0].functionCall.name", "is missing"),
        (
            model({"functionCall": {"name": "f", "args": [1]}}),
            "contents[0].parts[0].functionCall.args",
            "must be text or an object, not a list",
        ),
        (
            model({"functionResponse": {"name": "f"}}),
            "contents[0].parts[0].functionResponse.response",
            "is missing; it must be an object",
        ),
        (model({"inlineData": {}}), "contents[0].parts[0].inlineData.data", "is missing"),
        (model({"fileData": {}}), "contents[0].parts[0].fileData.fileUri", "is missing"),
    ],
)
def test_a_wrong_content_is_refused_where_it_is_wrong(data: Json, path: str, problem: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        parse(data)
    assert caught.value.path == path
    assert problem in caught.value.problem
