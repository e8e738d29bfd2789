"""pi's sessions come in entry by entry, each with its meaning, and go out again line by line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from foveate.formats import SessionHeader, detect_transcript
from foveate.formats.transcripts import pi
from foveate.turn import Attachment, Json, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, Usage
from support.transcripts import (
    FIXTURES,
    deep,
    foreign_messages,
    import_bytes,
    import_fixture,
    json_lines,
    lines_of,
    written,
)
from support.turns import split_turns

CONTENT = (FIXTURES / "pi" / "tidebook.jsonl").read_bytes()
SESSION = "5f0c1a52-70be-4a65-9c8e-0f3a6a1de001"


def entry(role: str, content: Json, **fields: Json) -> dict[str, Json]:
    return {"type": "message", "message": {"role": role, "content": content}, **fields}


def test_a_session_is_recognised_by_its_first_line() -> None:
    assert detect_transcript(CONTENT, "x.jsonl") == "pi"
    assert not pi.detect(b'{"role": "user"}\n', "x.jsonl")
    assert not pi.detect(b"", "x.jsonl")


def test_every_entry_is_found_once_under_its_own_id() -> None:
    imported = import_fixture("pi", "tidebook.jsonl")
    assert not imported.problems
    assert [item.key for item in imported.found] == [SESSION, *(f"a000000{digit:x}" for digit in range(1, 15))]
    assert {item.session for item in imported.found} == {SESSION}


def test_the_header_has_the_model_and_the_name_the_user_gave() -> None:
    imported = import_fixture("pi", "tidebook.jsonl")
    expected = SessionHeader(SESSION, title="Husum is late", model="claude-sonnet-4-5", platform="pi")
    assert imported.headers == {SESSION: expected}
    first_prompt = next(item.title for item in imported.items if isinstance(item, SessionHeader) and item.title)
    assert first_prompt == "Why is high water an hour late in Husum?"


def test_what_is_said_is_told_from_what_is_put_in_and_what_is_shown() -> None:
    kinds = [(message.role, message.kind) for message in import_fixture("pi", "tidebook.jsonl").only()]
    shown, put_in = ("system", "display"), ("user", "injection")
    assert kinds == [
        shown,
        shown,
        ("user", "message"),
        ("assistant", "message"),
        ("tool", "message"),
        put_in,
        ("user", "display"),
        put_in,
        put_in,
        put_in,
        shown,
        shown,
        shown,
        ("user", "message"),
        ("assistant", "message"),
    ]
    assert len(split_turns(import_fixture("pi", "tidebook.jsonl").only())) == 2


def test_an_answer_has_its_thinking_its_calls_its_model_and_its_usage() -> None:
    answer = import_fixture("pi", "tidebook.jsonl").only()[3]
    assert answer.parts == (
        Reasoning("Summer time?", signature="c2ln"),
        Text("I'll look at the conversion."),
        ToolCall("read", {"path": "tides/zone.py"}, id="call_1"),
    )
    assert answer.model == "claude-sonnet-4-5"
    assert answer.usage == Usage(350, 20, cache_read_tokens=300, cache_write_tokens=40)
    assert answer.at == datetime(2026, 3, 2, 9, 2, tzinfo=UTC)


def test_a_tool_result_has_its_call_and_its_picture() -> None:
    result = import_fixture("pi", "tidebook.jsonl").only()[4]
    picture = Attachment("image", data="aGk=", media_type="image/png")
    assert result.parts == (ToolResult("call_1", (Text("OFFSET = 1"), picture), name="read"),)


def test_a_command_the_user_ran_says_what_it_printed() -> None:
    assert import_fixture("pi", "tidebook.jsonl").only()[5].text == "$ pytest -q\n2 failed\n(exit code 1)"


def test_a_block_nobody_knows_is_kept() -> None:
    assert import_fixture("pi", "tidebook.jsonl").only()[-1].parts[1] == Opaque("pi", {"type": "hologram", "depth": 3})


@pytest.mark.parametrize(
    ("role", "field"), [("custom", "content"), ("branchSummary", "summary"), ("compactionSummary", "summary")]
)
def test_what_pi_or_an_extension_put_in_is_an_injection(role: str, field: str) -> None:
    record: Json = {"type": "message", "message": {"role": role, field: "Mind the tide."}}
    (message,) = import_bytes(
        "pi",
        lines_of(
            record,
        ),
        "a.jsonl",
    ).only()
    assert (message.role, message.kind, message.text) == ("user", "injection", "Mind the tide.")


def test_an_answer_that_was_aborted_has_nothing_in_it() -> None:
    (message,) = import_bytes("pi", lines_of(entry("assistant", [])), "a.jsonl").only()
    assert message.parts == import_bytes("pi", lines_of(entry("assistant", "")), "a.jsonl").only()[0].parts == ()


def test_entries_of_the_first_version_are_named_by_place_and_content() -> None:
    header: Json = {"type": "session", "id": "s", "timestamp": "2025-11-20T23:33:50.805Z", "cwd": "/", "modelId": "m"}
    same = entry("user", "again")
    imported = import_bytes("pi", lines_of(header, same, same), "s.jsonl")
    assert len(set(imported.keys)) == 3
    assert imported.headers["s"].model == "m"


def test_a_grown_file_keeps_the_keys_of_what_it_had() -> None:
    half = CONTENT[: CONTENT.index(b"\n", len(CONTENT) // 2) + 1]
    before, after = import_bytes("pi", half, "a.jsonl").keys, import_bytes("pi", CONTENT, "a.jsonl").keys
    assert after[: len(before)] == before


def test_a_repeated_id_does_not_hide_an_entry() -> None:
    twice = [entry("user", "one", id="x"), entry("user", "two", id="x")]
    assert [item.message.text for item in import_bytes("pi", lines_of(*twice), "a.jsonl").found] == ["one", "two"]


def test_the_time_of_the_message_stands_in_for_that_of_the_entry() -> None:
    record = entry("user", "hi")
    record["message"] = {"role": "user", "content": "hi", "timestamp": 1_772_442_000_500}
    (message,) = import_bytes("pi", lines_of(record), "a.jsonl").only()
    assert message.at == datetime(2026, 3, 2, 9, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("timestamp", ["soon", 5, None, 1e308])
def test_an_unreadable_time_loses_no_message(timestamp: Json) -> None:
    record = entry("user", "hi", timestamp=timestamp)
    record["message"] = {"role": "user", "content": "hi", "timestamp": timestamp}
    (message,) = import_bytes("pi", lines_of(record), "a.jsonl").only()
    assert message.text == "hi"


def test_the_file_comes_back_line_by_line() -> None:
    assert json_lines(written("pi", import_fixture("pi", "tidebook.jsonl").only())) == json_lines(CONTENT)


def test_messages_of_other_formats_become_entries_that_follow_each_other() -> None:
    content = written("pi", foreign_messages()).encode()
    imported = import_bytes("pi", content, "a.jsonl")
    assert not imported.problems
    header, *entries = json_lines(content)
    assert pi.detect(content, "a.jsonl")
    assert isinstance(header, dict)
    links = [(record["parentId"], record["id"]) for record in entries if isinstance(record, dict)]
    assert [parent for parent, _ in links] == [None, *(own for _, own in links[:-1])]
    messages = imported.only()[1:]
    assert [message.role for message in messages] == ["user", "user", "user", "assistant", "tool", "assistant"]
    assert messages[3].without_original() == foreign_messages()[3]
    assert messages[4].without_original() == foreign_messages()[4]


def test_pictures_and_unknown_blocks_of_pis_own_are_written_as_they_were() -> None:
    picture = Attachment("image", data="aGk=", media_type="image/png")
    own = Opaque("pi", {"type": "hologram"})
    result = ToolResult("call_1", (Text("seen"), picture, own))
    before = [Message("user", (picture, own)), Message("tool", (result,)), Message("user", (result, Text("and?")))]
    after = import_bytes("pi", written("pi", before).encode(), "a.jsonl").only()[1:]
    assert [message.parts for message in after] == [(picture, own), (result,), (result,), (Text("and?"),)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'["not", "an", "object"]', "must be an object"),
        (b"{}", "has no type"),
        (b'{"type": "message"}', "entry.message"),
        (b'{"type": "message", "message": {"role": "oracle"}}', "'oracle'"),
        (b'{"type": "message", "message": {"role": "user", "content": 5}}', "entry.message.content"),
        (b'{"type": "message", "message": {"role": "user", "content": [5]}}', "entry.message.content[0]"),
        (b'{"type": "message", "mess', "cut off"),
        (b'{"type": "\xff"}', "invalid UTF-8"),
        (deep(5000).encode(), "nested too deeply"),
    ],
)
def test_what_can_not_be_read_is_a_problem_with_its_line_and_the_rest_is_read(line: bytes, reason: str) -> None:
    imported = import_bytes("pi", CONTENT + line, "a.jsonl")
    (problem,) = imported.problems
    assert problem.place == "line 16"
    assert reason in problem.reason
    assert len(imported.found) == 15


def test_an_empty_file_holds_nothing() -> None:
    assert import_bytes("pi", b"", "a.jsonl").items == []
