"""Codex's rollout files come in whole, each line with its meaning, and go out again to the letter."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptMessage, TranscriptProblem, detect_transcript, parse_message
from foveate.formats.transcripts import codex
from foveate.turn import Attachment, Json, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, Usage
from support.paths import ROOT
from support.turns import split_turns

FIXTURES = ROOT / "tests" / "fixtures" / "codex"
FILES = sorted(FIXTURES.glob("*.jsonl"))
BARE, LEGACY, LATER = FILES
FIRST = "019a4c10-2b7e-7d31-9f55-6c0e81d2a4b7"


def read(path: Path) -> list[SessionHeader | TranscriptMessage | TranscriptProblem]:
    with path.open("rb") as stream:
        return list(codex.read(stream, path.name))


def read_bytes(
    content: bytes, name: str = f"rollout-{FIRST}.jsonl"
) -> list[SessionHeader | TranscriptMessage | TranscriptProblem]:
    return list(codex.read(io.BytesIO(content), name))


def found(items: list[SessionHeader | TranscriptMessage | TranscriptProblem]) -> list[TranscriptMessage]:
    return [item for item in items if isinstance(item, TranscriptMessage)]


def messages(path: Path) -> list[Message]:
    return [item.message for item in found(read(path))]


def lines_of(*records: Json) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def said(role: str, *texts: str) -> dict[str, Json]:
    content: list[Json] = [{"type": "input_text", "text": text} for text in texts]
    payload: dict[str, Json] = {"type": "message", "role": role, "content": content}
    return {"timestamp": "2026-11-03T14:00:00.000Z", "type": "response_item", "payload": payload}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_comes_in_once_and_in_order(path: Path) -> None:
    places = [item.place for item in read(path) if not isinstance(item, SessionHeader)]
    assert places == [f"line {number + 1}" for number, _ in enumerate(path.read_bytes().splitlines())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_writing_what_was_read_gives_every_line_back(path: Path) -> None:
    written = "".join(codex.write(messages(path)))
    assert [json.loads(line) for line in written.splitlines()] == [
        json.loads(line) for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_line_alone_means_what_it_means_in_its_file(path: Path) -> None:
    for message in messages(path):
        assert message.original is not None
        assert parse_message("codex", message.original.data) == message


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_are_recognised(path: Path) -> None:
    assert detect_transcript(path.read_bytes(), path.name) == "codex"


def test_a_first_line_too_long_to_see_is_recognised() -> None:
    long = json.dumps({"timestamp": "t", "type": "session_meta", "payload": {"id": "x" * 1000}}).encode()
    assert codex.detect(long[:500], "a.jsonl")
    assert codex.detect(b'{"timestamp": "cut', "folder/rollout-2026.jsonl")
    assert not codex.detect(b'{"timestamp": "cut', "other.jsonl")
    assert not codex.detect(b'{"type": "user", "sessionId": "x"}\n', "rollout-2026.jsonl")


def test_kinds_tell_what_was_said_from_what_was_put_in_and_what_was_shown() -> None:
    counts = [Counter(message.kind for message in messages(path)) for path in FILES]
    assert counts == [
        {"message": 5, "injection": 1, "display": 3},
        {"message": 19, "injection": 2, "display": 18},
        {"message": 8, "injection": 2, "display": 27},
    ]


def test_a_turn_opens_at_each_prompt_and_holds_its_tool_calls() -> None:
    groups = split_turns(messages(LEGACY))
    assert [next(message.text for message in group if message.opens_turn) for group in groups] == [
        "Why does the lantern flicker when two scenes overlap?",
        "Here is a photo of the lamp.",
        "Carry on, the shutter is fixed.",
    ]
    for group in groups:
        calls = [call.id for message in group for call in message.tool_calls]
        assert [result.call_id for message in group for result in message.tool_results] == calls
    assert [len(group) for group in groups] == [25, 11, 3]


def test_events_repeat_what_was_said_for_people_only() -> None:
    shown = [message for message in messages(LEGACY) if message.kind == "display" and message.text]
    assert [(message.role, message.text[:26]) for message in shown] == [
        ("user", "Why does the lantern flick"),
        ("assistant", "**Looking for the mixer**"),
        ("assistant", "I look at the mixer first."),
        ("user", "Here is a photo of the lam"),
        ("system", "stream disconnected, retry"),
        ("system", "lantern flicker"),
    ]


def test_reasoning_keeps_what_only_the_provider_can_read() -> None:
    thoughts = [part for message in messages(LEGACY) for part in message.parts if isinstance(part, Reasoning)]
    assert thoughts == [Reasoning("**Looking for the mixer**", encrypted="Z0FBQUFBYmM=")]


def test_tool_results_tell_exit_code_and_duration_however_they_are_written() -> None:
    results = {
        result.call_id: (result.exit_code, result.duration_seconds)
        for path in FILES
        for message in messages(path)
        for result in message.tool_results
    }
    assert results == {
        "call_rg": (0, 0.1),
        "call_make": (2, 2.531),
        "call_patch": (0, 0.0),
        "call_local": (0, 0.2),
        "call_view": (None, None),
        "call_exec": (None, 1.5),
        "call_1": (None, None),
    }


@pytest.mark.parametrize("output", ["Exit code: 1", "talk\nExit code: 1\nOutput:\n", "{broken", '{"metadata": 3}'])
def test_an_output_that_only_speaks_of_exit_codes_has_none(output: str) -> None:
    payload: Json = {"type": "function_call_output", "call_id": "c", "output": output}
    result = codex.parse({"type": "response_item", "payload": payload}, "record").tool_results[0]
    assert (result.exit_code, result.duration_seconds) == (None, None)
    assert result.content == (Text(output),)


def test_a_failed_output_of_the_first_versions_is_an_error() -> None:
    result = next(result for message in messages(BARE) for result in message.tool_results)
    assert result == ToolResult("call_1", (Text("ls: lamps: no such folder"),), is_error=True)


def test_a_local_shell_call_and_a_patch_are_calls_with_their_full_arguments() -> None:
    calls = {call.id: call for message in messages(LEGACY) for call in message.tool_calls}
    assert calls["call_rg"].arguments == {"command": ["bash", "-lc", "rg -n mix src"], "workdir": "/home/mara/lantern"}
    assert calls["call_local"].name == "local_shell"
    patch = calls["call_patch"].arguments
    assert isinstance(patch, str)
    assert patch.startswith("*** Begin Patch\n")


def test_pictures_in_prompts_and_results_are_attachments() -> None:
    photo = Attachment("image", data="/9j/4AAQ", media_type="image/jpeg")
    parts = [part for message in messages(LEGACY) for part in message.parts]
    assert photo in parts
    assert any(isinstance(part, ToolResult) and photo in part.content for part in parts)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["<environment_context>x</environment_context>"], "injection"),
        (["<user_instructions>\nx\n</user_instructions>\n"], "injection"),
        (["# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>"], "injection"),
        (["<environment_context>x</environment_context>", "and a question"], "message"),
        (["<environment_context> is what I ask about"], "message"),
        ([], "message"),
    ],
)
def test_only_what_a_program_wrapped_whole_is_an_injection(texts: list[str], kind: str) -> None:
    assert codex.parse(said("user", *texts), "record").kind == kind


def test_where_blocks_are_labelled_the_label_decides() -> None:
    labelled = [message for message in messages(LATER) if message.role == "user"]
    assert [(message.kind, message.text[:10]) for message in labelled] == [
        ("injection", "<environme"),
        ("message", "Measure th"),
        ("message", "<skill> is"),
        ("injection", "Scene 1 ha"),
    ]


def test_developer_messages_stay_with_the_developer() -> None:
    message = messages(LEGACY)[2]
    assert (message.role, message.kind) == ("developer", "message")


def test_counts_of_tokens_are_usage() -> None:
    usages = [message.usage for path in FILES for message in messages(path) if message.usage]
    assert usages == [
        Usage(9000, 120, cache_read_tokens=7000, reasoning_tokens=40),
        Usage(900, 40, cache_read_tokens=300, reasoning_tokens=10),
    ]


def test_compactions_snapshots_and_unknown_lines_are_kept_for_display() -> None:
    shown = [message for message in messages(LATER) if message.kind == "display"]
    assert "Scene 1 was measured: 412 lux." in [message.text for message in shown]
    unknown = [
        message.original.data
        for message in shown
        if message.original and "from_the_future" in json.dumps(message.original.data)
    ]
    assert len(unknown) == 3
    assert all(isinstance(part, Text | Opaque) for message in shown for part in message.parts)


def test_headers_tell_title_model_and_folder_and_a_fork_keeps_its_own_name() -> None:
    headers = [item for item in read(LEGACY) if isinstance(item, SessionHeader)]
    assert headers[0] == SessionHeader(FIRST, platform="codex", channel="/home/mara/lantern")
    assert headers[-2].title == "Why does the lantern flicker when two scenes overlap?"
    assert headers[-1] == SessionHeader(
        FIRST, title="lantern flicker", model="gpt-5.6-codex", platform="codex", channel="/home/mara/lantern"
    )
    assert {item.session for item in found(read(LATER))} == {"019a4c22-91c0-7a45-8d10-3b7f5e6a9c02"}
    assert {item.session for item in found(read(BARE))} == {"5973b6c0-94b8-487b-a530-2aeb6098ae0e"}


def test_without_a_first_line_the_file_name_names_the_session() -> None:
    assert found(read_bytes(lines_of(said("user", "a"))))[0].session == FIRST
    assert found(read_bytes(lines_of(said("user", "a")), "folder/mine.jsonl"))[0].session == "mine"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_keys_are_unique_and_stay_when_the_file_grows(path: Path) -> None:
    whole = [(item.session, item.key) for item in found(read(path))]
    assert len(set(whole)) == len(whole)
    raw = path.read_bytes().splitlines(keepends=True)
    for count in range(len(raw)):
        part = [(item.session, item.key) for item in found(read_bytes(b"".join(raw[:count]), path.name))]
        assert part == whole[:count]


def test_damaged_lines_are_reported_and_the_rest_is_read() -> None:
    whole = lines_of(said("user", "one"))
    content = whole + b"\n\t\n" + b'{"type": "\xff"}\n' + b'"text"\n' + whole[:50]
    items = [item for item in read_bytes(content) if not isinstance(item, SessionHeader)]
    assert [type(item).__name__ for item in items] == [
        "TranscriptMessage",
        "TranscriptProblem",
        "TranscriptProblem",
        "TranscriptProblem",
    ]
    reasons = [(item.place, item.reason) for item in items if isinstance(item, TranscriptProblem)]
    assert reasons[0] == ("line 4", "invalid UTF-8 at byte 10")
    assert "object" in reasons[1][1]
    assert "cut off" in reasons[2][1]


@pytest.mark.parametrize(
    "payload",
    [None, "text", {"type": "message", "role": "robot", "content": []}, {"type": "function_call", "name": 5}],
)
def test_an_item_that_can_not_be_read_is_a_problem_not_an_exception(payload: Json) -> None:
    (problem,) = read_bytes(lines_of({"type": "response_item", "payload": payload}))
    assert isinstance(problem, TranscriptProblem)
    assert problem.reason.startswith("record.payload")
    with pytest.raises(InvalidMessage):
        codex.parse({"type": "response_item", "payload": payload}, "record")


def test_a_session_from_elsewhere_is_written_and_read_again() -> None:
    at = messages(LEGACY)[0].at
    call, other = ToolCall("look", {"at": "sea"}), ToolCall("look", {"at": "sky"}, id="odd: id")
    session = [
        Message("developer", (Text("Be brief."),), at=at),
        Message("user", (Text("context"),), kind="injection"),
        Message("user", (Text("Look."),), at=at),
        Message("assistant", (call, other)),
        Message("tool", (ToolResult(None, (Text("blue"),), name="look", exit_code=3, duration_seconds=0.5),)),
        Message("tool", (ToolResult("odd: id", (Text("grey"),)),)),
        Message("system", (Text("shown"),), kind="display"),
        Message("assistant", (Text("Blue and grey."),)),
    ]
    written = "".join(codex.write(session))
    assert written == "".join(codex.write(session))
    items = found(read_bytes(written.encode(), "x.jsonl"))
    again = [item.message for item in items][1:]
    assert [message.text for message in again if message.text] == [
        "Be brief.", "context", "Look.", "shown", "Blue and grey.",
    ]  # fmt: skip
    assert len(split_turns(again)) == 1
    assert again[2].opens_turn
    assert again[2].at == at
    results = [result for message in again for result in message.tool_results]
    assert [result.call_id for result in results] == [call.id for message in again for call in message.tool_calls]
    assert (results[0].exit_code, results[0].duration_seconds) == (3, 0.5)
    assert results[0].content == (Text("blue"),)
    assert len({item.session for item in items}) == 1
    assert detect_transcript(written.encode(), "x.jsonl") == "codex"


def test_a_part_of_a_session_is_written_without_a_made_first_line() -> None:
    part = messages(LEGACY)[5:9]
    assert [json.loads(line) for line in codex.write(part)] == [
        message.original.data for message in part if message.original
    ]
    assert list(codex.write([])) == []


FIELDS = (
    *("action", "arguments", "author", "call_id", "content", "cwd", "encrypted_content", "exit_code", "id", "info"),
    *(
        "instructions",
        "last_token_usage",
        "message",
        "metadata",
        "model",
        "name",
        "output",
        "payload",
        "role",
        "success",
    ),
    *("summary", "text", "timestamp", "trigger_turn", "usage"),
)
TYPES = (
    *("session_meta", "response_item", "event_msg", "turn_context", "compacted", "message", "reasoning", "token_count"),
    *("function_call", "function_call_output", "local_shell_call", "agent_message", "inter_agent_communication"),
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(TYPES)
TYPED = st.dictionaries(st.sampled_from(("type", *FIELDS)), LEAVES, max_size=6)
VALUES = st.recursive(
    LEAVES | TYPED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("type", *FIELDS)), inner, max_size=6),
    max_leaves=12,
)
RECORDS = st.builds(
    lambda kind, inner, payload: {"type": kind, "payload": {**payload, "type": inner}},
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8),
)


@given(st.lists(RECORDS | VALUES, max_size=6))
def test_whatever_the_lines_hold_each_is_found_or_a_problem(records: list[Json]) -> None:
    items = [item for item in read_bytes(lines_of(*records)) if not isinstance(item, SessionHeader)]
    assert [item.place for item in items] == [f"line {number + 1}" for number in range(len(records))]
    assert all(item.reason for item in items if isinstance(item, TranscriptProblem))
