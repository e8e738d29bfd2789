"""Plain messages of any provider are read from lines, lists and objects, and are written back as they were."""

from __future__ import annotations

import io
import json

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import TranscriptMessage, detect_transcript
from foveate.formats.transcripts import jsonl
from foveate.turn import Json, Message, ToolCall
from support.transcripts import (
    FIXTURES,
    Imported,
    deep,
    foreign_messages,
    import_bytes,
    import_fixture,
    json_lines,
    lines_of,
    written,
)

HI: Json = {"role": "user", "content": "hi"}


def content_of(name: str) -> bytes:
    return (FIXTURES / "jsonl" / name).read_bytes()


def formats(messages: list[Message]) -> list[str]:
    return [message.original.format for message in messages if message.original]


@pytest.mark.parametrize("name", ["openai.jsonl", "anthropic.jsonl", "finetune.jsonl", "list.json", "object.json"])
def test_files_of_messages_are_recognised_by_the_fallback(name: str) -> None:
    assert detect_transcript(content_of(name), name) == "jsonl"


def test_other_files_are_not_taken_for_messages() -> None:
    assert not jsonl.detect(b"Dear diary", "diary.txt")
    assert not jsonl.detect(b"Dear diary", "diary.json")
    assert not jsonl.detect(b'{"level": "info"}\n', "program.log")
    assert jsonl.detect(b'{"role": "user", "content": "hi"}\n', "program.log")


def test_lines_of_messages_are_one_session_named_after_the_file() -> None:
    imported = import_fixture("jsonl", "openai.jsonl")
    assert not imported.problems
    messages = imported.sessions["openai"]
    assert formats(messages) == ["openai"] * 4 + ["jsonl"]
    assert [message.kind for message in messages] == ["message"] * 4 + ["display"]
    assert messages[2].parts == (ToolCall("find_berth", {"boat": "Kittiwake"}, id="call_a"),)
    assert [item.place for item in imported.found] == [f"line {number}" for number in range(1, 6)]


def test_a_message_that_could_be_anybodys_is_taken_for_that_of_its_neighbours() -> None:
    messages = import_fixture("jsonl", "anthropic.jsonl").only()
    assert formats(messages) == ["anthropic"] * 3
    assert messages[2].tool_results[0].call_id == "toolu_1"


def test_each_line_with_a_list_is_a_session() -> None:
    imported = import_fixture("jsonl", "finetune.jsonl")
    assert not imported.problems
    assert {name: [message.text for message in messages] for name, messages in imported.sessions.items()} == {
        "finetune/1": ["Flood?", "Rising water."],
        "finetune/2": ["", "Ebb?", "Falling water."],
        "finetune/3": ["You know the sea.", "Neap?"],
    }
    assert imported.sessions["finetune/2"][0].kind == "display"
    assert imported.sessions["finetune/3"][0].kind == "message"
    assert imported.found[0].place == "line 1, message 1"


def test_gemini_contents_are_a_list_of_messages_too() -> None:
    line: Json = {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    messages = import_bytes("jsonl", lines_of(line, HI), "g.jsonl").sessions["g/1"]
    assert [(message.role, message.text) for message in messages] == [("system", "Be brief."), ("user", "hi")]
    assert formats(messages) == ["jsonl", "gemini"]


def test_a_list_is_one_session() -> None:
    imported = import_fixture("jsonl", "list.json")
    assert [message.text for message in imported.sessions["list"]] == ["Spring?", "The largest range."]
    assert [item.place for item in imported.found] == ["record 1", "record 2"]


@pytest.mark.parametrize("indent", [None, 1])
def test_an_object_with_a_list_is_one_session_however_it_is_laid_out(indent: int | None) -> None:
    content = json.dumps(json.loads(content_of("object.json")), indent=indent).encode() + b"\n\n"
    imported = import_bytes("jsonl", content, "object.json")
    assert [message.text for message in imported.sessions["object"]] == ["", "Slack?", "Still water."]


def test_lines_in_a_json_file_are_read_as_lines() -> None:
    imported = import_bytes("jsonl", b"\n" + lines_of(HI, {"messages": [HI]}), "mixed.json")
    assert [(item.session, item.place) for item in imported.found] == [
        ("mixed", "line 2"),
        ("mixed/2", "line 3, message 1"),
    ]


def test_a_first_line_longer_than_the_beginning_is_read_whole() -> None:
    long: Json = {"role": "user", "content": "x" * 200_000}
    for name in ("long.jsonl", "long.json"):
        assert len(import_bytes("jsonl", lines_of(long, HI), name).only()) == 2
    assert len(import_bytes("jsonl", lines_of({"messages": [long]}), "long.json").sessions["long"]) == 1


def test_a_grown_file_keeps_the_keys_of_what_it_had() -> None:
    content = content_of("openai.jsonl")
    before = import_bytes("jsonl", content[: content.index(b"\n") + 1], "a.jsonl").keys
    assert import_bytes("jsonl", content, "a.jsonl").keys[:1] == before
    cut = import_bytes("jsonl", content[:-10], "a.jsonl")
    assert len(cut.problems) == 1
    assert import_bytes("jsonl", content, "a.jsonl").keys[:4] == cut.keys


def test_the_same_message_twice_is_two_messages() -> None:
    assert len(import_bytes("jsonl", lines_of(HI, HI), "a.jsonl").found) == 2


@pytest.mark.parametrize("name", ["openai.jsonl", "anthropic.jsonl"])
def test_lines_come_back_as_they_were(name: str) -> None:
    assert json_lines(written("jsonl", import_fixture("jsonl", name).only())) == json_lines(content_of(name))


def test_a_line_with_a_list_and_more_comes_back_as_it_was() -> None:
    sessions = import_fixture("jsonl", "finetune.jsonl").sessions
    lines = json_lines(content_of("finetune.jsonl"))
    assert [json_lines(written("jsonl", sessions[f"finetune/{number}"])) for number in (2, 3)] == [
        lines[1:2],
        lines[2:],
    ]


def test_messages_of_other_formats_are_written_as_openais() -> None:
    imported = import_bytes("jsonl", written("jsonl", foreign_messages()).encode(), "a.jsonl")
    assert not imported.problems
    assert set(formats(imported.only())) == {"openai"}
    calls = [call.arguments for message in imported.only() for call in message.tool_calls]
    assert calls == [{"day": "today"}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1, 2]", "must be an object"),
        (b'"hi"', "must be an object"),
        (b'{"role": "oracle", "content": "x"}', "oracle"),
        (b'{"role": "user", "content": {"deep": 1}}', "content"),
        (b'{"role": "user", "con', "cut off"),
        (b'{"role": "\xff"}', "invalid UTF-8"),
        (deep(5000).encode(), "nested too deeply"),
        (b'{"role": "user", "content": ' + deep(300).encode() + b"}", "nested too deeply"),
    ],
)
def test_what_can_not_be_read_is_a_problem_with_its_line_and_the_rest_is_read(line: bytes, reason: str) -> None:
    imported = import_bytes("jsonl", lines_of(HI) + line, "a.jsonl")
    (problem,) = imported.problems
    assert problem.place == "line 2"
    assert reason in problem.reason
    assert [message.text for message in imported.only()] == ["hi"]


def test_of_a_cut_off_list_the_whole_messages_are_read() -> None:
    imported = import_bytes("jsonl", content_of("list.json")[:-5], "list.json")
    assert [message.text for message in imported.only()] == ["Spring?"]
    assert "cut off" in imported.problems[0].reason


def test_a_cut_off_object_is_a_problem() -> None:
    (problem,) = import_bytes("jsonl", content_of("object.json")[:-5], "object.json").items
    assert problem == import_bytes("jsonl", content_of("object.json")[:-5], "object.json").problems[0]


def test_an_empty_file_holds_nothing() -> None:
    for content in (b"", b"\n\n"):
        assert import_bytes("jsonl", content, "a.jsonl").items == []


def test_a_record_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        jsonl.parse([1], "record")


class Endless(io.BytesIO):
    """A file of messages without an end."""

    def __init__(self, begin: bytes, record: bytes) -> None:
        super().__init__()
        self._begin = self._next = begin
        self._record = record

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._next = self._begin
        return super().seek(offset, whence)

    def read(self, size: int | None = -1, /) -> bytes:
        begun, self._next = self._next, b""
        return begun + self._record * 10

    def readline(self, size: int | None = -1, /) -> bytes:
        begun, self._next = self._next, b""
        return begun + self._record


@pytest.mark.parametrize(("begin", "end"), [(b"", b"\n"), (b"[", b",")])
def test_a_file_is_read_as_it_comes(begin: bytes, end: bytes) -> None:
    items = jsonl.read(Endless(begin, json.dumps(HI).encode() + end), "endless.json")
    found = [item for item, _ in zip(items, range(500), strict=False) if isinstance(item, TranscriptMessage)]
    assert len(found) == 499


def test_nothing_but_headers_comes_twice() -> None:
    imported: Imported = import_fixture("jsonl", "finetune.jsonl")
    assert len(imported.items) == len(imported.found) + len(imported.headers)
