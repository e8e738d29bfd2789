"""Claude Code's session files come in whole, each record with its meaning, and go out again to the letter."""

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
from foveate.formats.transcripts import claude_code
from foveate.formats.transcripts.claude_code import MAX_LEADING_LINES
from foveate.turn import Attachment, Json, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, Usage
from support.paths import ROOT
from support.turns import split_turns

FIXTURES = ROOT / "tests" / "fixtures" / "claude_code"
FILES = sorted(FIXTURES.glob("*.jsonl"))
MAIN = "3f1c9a52-7d0e-4b86-9c41-5ae2d8b7f013"
BRANCHED = "c94e7712-5a3b-4d08-8e6f-b1f02d3c4e5a"


def read(name: str) -> list[SessionHeader | TranscriptMessage | TranscriptProblem]:
    with (FIXTURES / name).open("rb") as stream:
        return list(claude_code.read(stream, name))


def read_bytes(
    content: bytes, name: str = f"{MAIN}.jsonl"
) -> list[SessionHeader | TranscriptMessage | TranscriptProblem]:
    return list(claude_code.read(io.BytesIO(content), name))


def found(items: list[SessionHeader | TranscriptMessage | TranscriptProblem]) -> list[TranscriptMessage]:
    return [item for item in items if isinstance(item, TranscriptMessage)]


def by_line(items: list[SessionHeader | TranscriptMessage | TranscriptProblem]) -> dict[str, Message]:
    return {item.place: item.message for item in found(items)}


def messages(name: str, session: str | None = None) -> list[Message]:
    return [item.message for item in found(read(name)) if session in (None, item.session)]


def lines_of(*records: Json) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def prompt(text: str, **fields: Json) -> dict[str, Json]:
    return {"type": "user", "sessionId": MAIN, "uuid": text, "message": {"role": "user", "content": text}, **fields}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_comes_in_once(path: Path) -> None:
    places = [item.place for item in read(path.name) if not isinstance(item, SessionHeader)]
    assert places == [f"line {number + 1}" for number, _ in enumerate(path.read_bytes().splitlines())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_writing_what_was_read_gives_every_line_back(path: Path) -> None:
    written = "".join(claude_code.write(messages(path.name)))
    assert [json.loads(line) for line in written.splitlines()] == [
        json.loads(line) for line in path.read_text().splitlines()
    ]
    assert written.endswith("\n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_record_alone_means_what_it_means_in_its_file(path: Path) -> None:
    for item in found(read(path.name)):
        assert item.message.original is not None
        assert parse_message("claude-code", item.message.original.data) == item.message


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_are_recognised(path: Path) -> None:
    assert detect_transcript(path.read_bytes(), path.name) == "claude-code"


def test_a_first_line_too_long_to_see_is_recognised() -> None:
    head = lines_of({"parentUuid": None, "sessionId": MAIN, "type": "user", "message": "x" * 1000})[:500]
    assert claude_code.detect(head, "a.jsonl")
    assert not claude_code.detect(b'{"role": "user", "content": "sessionId"}\n', "a.jsonl")
    assert not claude_code.detect(b'{"type": "session_meta", "sessionId": "x", "payload": {}}\n', "a.jsonl")


def test_kinds_tell_what_was_said_from_what_was_put_in_and_what_was_shown() -> None:
    counts = Counter(message.kind for message in messages("everyday.jsonl"))
    assert counts == {"message": 21, "injection": 2, "display": 9}
    counts = Counter(message.kind for message in messages("every_kind.jsonl"))
    assert counts == {"message": 7, "injection": 7, "display": 23}


def test_a_turn_opens_at_each_prompt_and_holds_its_tool_calls() -> None:
    groups = split_turns(messages("everyday.jsonl"))
    prompts = [next(message.text for message in group if message.opens_turn) for group in groups]
    assert [text[:20] for text in prompts] == [
        "The tide table for S",
        "Keep winter and summ",
        "[Image #1] The chart",
        "<command-message>shi",
    ]
    for group in groups:
        calls = [call.id for message in group for call in message.tool_calls]
        results = [result.call_id for message in group for result in message.tool_results]
        assert sorted(map(str, calls)) == sorted(map(str, results))


def test_thinking_keeps_its_signature_and_redacted_thinking_its_data() -> None:
    thoughts = [part for message in messages("everyday.jsonl") for part in message.parts if isinstance(part, Reasoning)]
    assert thoughts[0].text.startswith("An hour since Sunday")
    assert [thought.signature for thought in thoughts] == ["c2lnbmF0dXJlLW9uZQ==", None]
    assert thoughts[1].encrypted == "cmVkYWN0ZWQtdGhvdWdodHM="


def test_model_time_and_usage_with_its_cache_are_known() -> None:
    message = by_line(read("everyday.jsonl"))["line 5"]
    assert message.model == "claude-opus-4-8"
    assert message.at is not None
    assert message.at.isoformat() == "2026-11-02T09:00:02.074000+00:00"
    assert message.usage == Usage(16_204, 88, cache_read_tokens=15_000, cache_write_tokens=1_200)


def test_tool_results_tell_exit_code_and_duration() -> None:
    results = {result.call_id: result for message in messages("everyday.jsonl") for result in message.tool_results}
    assert (results["toolu_01Test"].exit_code, results["toolu_01Test"].is_error) == (1, True)
    assert results["toolu_01Grep"].duration_seconds == 0.041
    assert results["toolu_01Web"].duration_seconds == 1.53
    assert results["toolu_01Web"].exit_code is None, "an HTTP status is no exit code"
    agent = next(m for m in messages("sidechains.jsonl") for r in m.tool_results if r.call_id == "toolu_03C")
    assert agent.tool_results[0].duration_seconds == 8.4


def test_pictures_in_prompts_and_results_are_attachments() -> None:
    lines = by_line(read("everyday.jsonl"))
    assert lines["line 22"].parts[0] == Attachment("image", data="iVBORw0KGgo=", media_type="image/png")
    result = lines["line 24"].tool_results[0]
    assert result.content == (
        Text("Rendered the chart."),
        Attachment("image", data="iVBORw0KGgoB", media_type="image/png"),
    )


def test_what_was_typed_while_the_model_worked_is_a_prompt_and_a_task_report_is_not() -> None:
    assert by_line(read("everyday.jsonl"))["line 15"].opens_turn
    reports = [message for message in messages("every_kind.jsonl") if message.text.startswith("<task-notification>")]
    assert [(message.role, message.kind) for message in reports] == [("user", "injection")] * 2


def test_an_error_that_speaks_as_the_assistant_is_only_shown() -> None:
    spoken = [message for message in messages("every_kind.jsonl") if message.role == "assistant"]
    assert [(message.kind, message.model) for message in spoken] == [
        ("display", None),
        ("injection", None),
        ("message", "claude-opus-4-8"),
        ("message", "claude-opus-4-8"),
    ]


def test_records_that_say_nothing_to_a_model_are_kept_for_display() -> None:
    shown = [message for message in messages("every_kind.jsonl") if message.kind == "display"]
    texts = [message.text for message in shown if message.text]
    assert texts[:3] == ["Tide chart in the browser", "browser chart", "browser chart"]
    unknown = next(
        message.original.data
        for message in shown
        if message.original
        and isinstance(message.original.data, dict)
        and message.original.data["type"] == "from-the-future"
    )
    assert unknown == {
        "type": "from-the-future",
        "sessionId": "8a60d3b1-24c7-4f19-b5de-0c7719e4a2f6",
        "payloads": [1, 2.5, None, {"deep": ["er"]}],
    }
    assert all(isinstance(part, Text | Opaque) for message in shown for part in message.parts)


def test_a_compaction_is_marked_and_its_summary_is_no_prompt() -> None:
    lines = by_line(read("compaction.jsonl"))
    assert (lines["line 6"].kind, lines["line 6"].text) == ("display", "Conversation compacted")
    assert (lines["line 7"].role, lines["line 7"].kind) == ("user", "injection")
    assert lines["line 8"].kind == "display"
    assert len(split_turns(lines.values())) == 2


def test_a_record_written_again_under_its_id_gets_a_key_of_its_own() -> None:
    first, again = (item for item in found(read("compaction.jsonl")) if item.message.tool_results)
    assert first.key.startswith("00000192-0000-4000-8000-000000000192")
    assert again.key.startswith("00000192-0000-4000-8000-000000000192")
    assert first.key != again.key


def test_a_subagent_is_a_session_of_its_own() -> None:
    sessions = Counter(item.session for item in found(read("sidechains.jsonl")))
    assert sessions == {
        BRANCHED: 7,
        f"{BRANCHED}/sidechain-000000d2-0000-4000-8000-0000000000d2": 4,
        f"{BRANCHED}/sidechain-000000dc-0000-4000-8000-0000000000dc": 2,
        f"{BRANCHED}/a7f3c21": 2,
    }
    assert {item.session for item in found(read("agent-ab12f09.jsonl"))} == {f"{MAIN}/ab12f09"}
    titles = {item.session: item.title for item in read("sidechains.jsonl") if isinstance(item, SessionHeader)}
    assert titles[f"{BRANCHED}/a7f3c21"] == "Count our constituents."


def test_every_session_has_a_header_before_its_first_message() -> None:
    for path in FILES:
        known = set()
        for item in read(path.name):
            if isinstance(item, SessionHeader):
                known.add(item.session)
            elif isinstance(item, TranscriptMessage):
                assert item.session in known


def test_headers_tell_title_model_and_folder_as_they_become_known() -> None:
    headers = [item for item in read("everyday.jsonl") if isinstance(item, SessionHeader)]
    assert headers[0] == SessionHeader(MAIN, platform="claude-code")
    assert headers[1].title == "The tide table for Skarvik is an hour off since Sunday. Please find out why and…"
    assert headers[-1] == SessionHeader(
        MAIN,
        title="Fix the tide table after the clock change",
        model="claude-opus-4-8",
        platform="claude-code",
        channel="/home/mara/tidepool",
    )
    moved = [item for item in read("every_kind.jsonl") if isinstance(item, SessionHeader)][-1]
    assert (moved.title, moved.channel) == ("browser chart", "/home/mara/tidepool/site")


def test_a_title_a_person_chose_is_not_replaced_by_a_made_one() -> None:
    items = read_bytes(
        lines_of(
            prompt("<command-name>/ship</command-name><command-args>it now</command-args>"),
            {"type": "custom-title", "customTitle": "mine", "sessionId": MAIN},
            {"type": "ai-title", "aiTitle": "made", "sessionId": MAIN},
        )
    )
    assert [item.title for item in items if isinstance(item, SessionHeader)] == [None, "mine"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_keys_are_unique_and_stay_when_the_file_grows(path: Path) -> None:
    whole = [(item.session, item.key) for item in found(read(path.name))]
    assert len(set(whole)) == len(whole)
    raw = path.read_bytes().splitlines(keepends=True)
    name = f"{found(read(path.name))[0].session.split('/')[0]}.jsonl"
    for count in range(len(raw)):
        part = [(item.session, item.key) for item in found(read_bytes(b"".join(raw[:count]), name))]
        assert part == whole[:count]


def test_lines_before_the_session_is_named_go_to_it() -> None:
    items = read_bytes(lines_of({"type": "summary", "summary": "s", "leafUuid": "x"}, prompt("a")), "elsewhere.jsonl")
    assert [item.session for item in found(items)] == [MAIN, MAIN]
    alone = read_bytes(lines_of({"type": "summary", "summary": "s", "leafUuid": "x"}), "elsewhere.jsonl")
    assert [item.session for item in found(alone)] == ["elsewhere"]
    many = [{"type": "summary", "summary": str(n), "leafUuid": "x"} for n in range(MAX_LEADING_LINES + 1)]
    assert {item.session for item in found(read_bytes(lines_of(*many), "a.jsonl"))} == {"a"}


def test_damaged_lines_are_reported_and_the_rest_is_read() -> None:
    whole = lines_of(prompt("one"))
    content = whole + b"\n  \n" + b'{"type": "user", "message": "\xff\xfe"}\n' + b"[1, 2]\n" + whole[:40]
    items = [item for item in read_bytes(content) if not isinstance(item, SessionHeader)]
    assert [type(item).__name__ for item in items] == [
        "TranscriptMessage",
        "TranscriptProblem",
        "TranscriptProblem",
        "TranscriptProblem",
    ]
    reasons = [(item.place, item.reason) for item in items if isinstance(item, TranscriptProblem)]
    assert reasons[0] == ("line 4", "invalid UTF-8 at byte 29")
    assert reasons[1][0] == "line 5"
    assert "object" in reasons[1][1]
    assert "cut off" in reasons[2][1]


@pytest.mark.parametrize(
    "message",
    [None, "text", {"role": "robot", "content": "x"}, {"role": "assistant", "content": "x"}, {"content": 5}],
)
def test_a_message_that_can_not_be_read_is_a_problem_not_an_exception(message: Json) -> None:
    items = read_bytes(lines_of({"type": "user", "sessionId": MAIN, "uuid": "u", "message": message}))
    (problem,) = items
    assert isinstance(problem, TranscriptProblem)
    assert problem.reason.startswith("record.message")
    with pytest.raises(InvalidMessage):
        claude_code.parse({"type": "user", "message": message}, "record")


def test_an_unreadable_time_does_not_lose_the_message() -> None:
    (item,) = found(read_bytes(lines_of(prompt("a", timestamp="yesterday"))))
    assert (item.message.text, item.message.at) == ("a", None)


def test_a_session_from_elsewhere_is_written_and_read_again() -> None:
    at = by_line(read("everyday.jsonl"))["line 5"].at
    call, other = ToolCall("look", {"at": "sea"}), ToolCall("look", {"at": "sky"}, id="odd: id")
    session = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("context"),), kind="injection"),
        Message("user", (Text("Look."),), at=at),
        Message("assistant", (Text("Yes."), call, other), model="m", usage=Usage(10, 2, 3, 1), at=at),
        Message("tool", (ToolResult(None, (Text("blue"),), name="look", exit_code=3, duration_seconds=0.5),)),
        Message("tool", (ToolResult("odd: id", (Text("grey"),), is_error=True),)),
        Message("system", (Text("shown"),), kind="display"),
        Message("assistant", (Text("Blue and grey."),)),
    ]
    written = "".join(claude_code.write(session))
    assert written == "".join(claude_code.write(session))
    items = found(read_bytes(written.encode(), "x.jsonl"))
    again = [item.message for item in items]
    assert [message.text for message in again] == [message.text for message in session]
    assert [message.kind for message in again] == [
        "injection", "injection", "message", "message", "message", "message", "display", "message",
    ]  # fmt: skip
    assert again[3].model == "m"
    assert (again[3].usage, again[3].at) == (Usage(10, 2, 3, 1), at)
    results = [result for message in again for result in message.tool_results]
    assert [result.call_id for result in results] == [made.id for made in again[3].tool_calls]
    assert (results[0].exit_code, results[0].duration_seconds, results[1].is_error) == (3, 0.5, True)
    assert len({item.session for item in items}) == 1
    assert detect_transcript(written.encode(), "x.jsonl") == "claude-code"


def test_what_is_added_to_a_subagents_session_stays_in_it() -> None:
    added = [*messages("agent-ab12f09.jsonl"), Message("user", (Text("And Nordvik?"),))]
    items = found(read_bytes("".join(claude_code.write(added)).encode()))
    assert [item.session for item in items] == [f"{MAIN}/ab12f09"] * 4


def test_nothing_is_written_of_nothing() -> None:
    assert list(claude_code.write([])) == []


FIELDS = (
    *(
        "agentId",
        "attachment",
        "content",
        "cwd",
        "durationMs",
        "exitCode",
        "input_tokens",
        "isCompactSummary",
        "isMeta",
    ),
    *("isSidechain", "kind", "message", "model", "origin", "parentUuid", "prompt", "role", "sessionId", "snapshot"),
    *("subtype", "summary", "text", "timestamp", "toolUseResult", "usage", "uuid"),
)
TYPES = ("user", "assistant", "system", "attachment", "summary", "relocated", "text", "tool_result", "queued_command")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(TYPES)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("type", *FIELDS)), inner, max_size=6),
    max_leaves=12,
)
RECORDS = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8),
)


@given(st.lists(RECORDS | VALUES, max_size=6))
def test_whatever_the_lines_hold_each_is_found_or_a_problem(records: list[Json]) -> None:
    items = [item for item in read_bytes(lines_of(*records)) if not isinstance(item, SessionHeader)]
    assert sorted(int(item.place.split()[1]) for item in items) == list(range(1, len(records) + 1))
    written = "".join(claude_code.write([item.message for item in items if isinstance(item, TranscriptMessage)]))
    assert written.count("\n") == sum(isinstance(item, TranscriptMessage) for item in items)
