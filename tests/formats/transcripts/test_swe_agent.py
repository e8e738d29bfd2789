"""SWE-agent's trajectories come in with their history as a conversation, and go out again as they were."""

from __future__ import annotations

import json

import pytest

from foveate.formats import detect_transcript, files
from foveate.formats.transcripts import swe_agent
from foveate.turn import Json, Reasoning, Text, ToolCall
from support.transcripts import FIXTURES, deep, foreign_messages, import_bytes, import_fixture, written
from support.turns import split_turns

CONTENT = (FIXTURES / "swe_agent" / "sundays.traj").read_bytes()


def test_a_trajectory_is_recognised_by_name_or_fields() -> None:
    assert detect_transcript(CONTENT, "sundays.traj") == "swe-agent"
    assert detect_transcript(CONTENT, "sundays.json") == "swe-agent"
    assert not swe_agent.detect(b'{"messages": []}', "x.json")
    assert not swe_agent.detect(b"[]", "x.traj")


def test_the_history_is_the_conversation_and_the_rest_one_record_after_it() -> None:
    imported = import_fixture("swe-agent", "sundays.traj")
    assert not imported.problems
    messages = imported.sessions["sundays"]
    assert [(message.role, message.kind) for message in messages] == [
        ("system", "message"),
        ("user", "injection"),
        ("user", "message"),
        ("assistant", "message"),
        ("tool", "message"),
        ("system", "display"),
    ]
    assert messages[-1].original is not None
    assert messages[-1].original.data == {**json.loads(CONTENT), "history": []}
    assert len(split_turns(messages)) == 1


def test_a_step_has_its_thinking_its_call_and_its_result() -> None:
    messages = import_fixture("swe-agent", "sundays.traj").only()
    assert messages[3].parts == (
        Reasoning("range(6)?", signature="c2ln"),
        Text("Let me look."),
        ToolCall("open", {"path": "week.py"}, id="call_9"),
    )
    assert messages[4].tool_results[0].call_id == "call_9"


def test_the_model_is_that_of_the_configuration() -> None:
    assert import_fixture("swe-agent", "sundays.traj").headers["sundays"].model == "gpt-4o"
    plain: Json = {"agent": {"model": {"name": "m"}}}
    for config, model in ((plain, "m"), ("{", None), (7, None)):
        content = json.dumps({"history": [], "replay_config": config}).encode()
        assert import_bytes("swe-agent", content, "a.traj").headers["a"].model == model


def test_observations_of_a_model_without_tool_calls_open_turns() -> None:
    imported = import_fixture("swe-agent", "old.traj")
    assert [message.role for message in imported.only()] == ["system", "user", "assistant", "user"]
    assert len(split_turns(imported.only())) == 2


@pytest.mark.parametrize("name", ["sundays.traj", "old.traj"])
def test_a_trajectory_comes_back_as_it_was(name: str) -> None:
    path = FIXTURES / "swe_agent" / name
    assert json.loads(written("swe-agent", import_fixture("swe-agent", name).only())) == json.loads(path.read_bytes())


def test_a_grown_trajectory_keeps_the_keys_of_its_messages() -> None:
    shorter = json.loads(CONTENT)
    shorter["history"] = shorter["history"][:3]
    before = import_bytes("swe-agent", json.dumps(shorter).encode(), "sundays.traj").keys
    assert import_fixture("swe-agent", "sundays.traj").keys[:3] == before[:3]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (CONTENT[:-20], "invalid JSON"),
        (b'{"history": ["\xff"]}', "invalid UTF-8"),
        (b"[1]", "no list 'history'"),
        (b'{"history": 5}', "no list 'history'"),
        (deep(5000).encode(), "nested too deeply"),
    ],
)
def test_a_file_that_is_no_trajectory_is_a_problem(content: bytes, reason: str) -> None:
    imported = import_bytes("swe-agent", content, "a.traj")
    assert not imported.found
    (problem,) = imported.problems
    assert reason in problem.reason


def test_a_message_that_can_not_be_read_is_a_problem_and_the_rest_is_read() -> None:
    history = ["hi", {"role": "oracle", "content": "x"}, {"role": "user", "content": "hi"}]
    imported = import_bytes("swe-agent", json.dumps({"history": history}).encode(), "a.traj")
    assert [problem.place for problem in imported.problems] == ["message 1", "message 2"]
    assert [message.text for message in imported.only()] == ["hi"]


def test_a_file_beyond_the_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100)
    (problem,) = import_bytes("swe-agent", CONTENT, "a.traj").problems
    assert "longer than 100 bytes" in problem.reason


def test_an_empty_file_holds_nothing() -> None:
    assert import_bytes("swe-agent", b"", "a.traj").items == []


def test_messages_of_other_formats_become_a_history() -> None:
    imported = import_bytes("swe-agent", written("swe-agent", foreign_messages()).encode(), "a.traj")
    assert not imported.problems
    calls = [call for message in imported.only() for call in message.tool_calls]
    results = [result for message in imported.only() for result in message.tool_results]
    assert [call.arguments for call in calls] == [{"day": "today"}]
    assert [result.call_id for result in results] == [calls[0].id]
