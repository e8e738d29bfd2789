"""Each run of a tau-bench file is a session of OpenAI messages, and what is known of the run comes with it."""

from __future__ import annotations

import json

import pytest

from foveate.errors import InvalidMessage
from foveate.formats import detect_transcript
from foveate.formats.transcripts import tau_bench
from foveate.turn import Json, Message, ToolCall
from support.transcripts import FIXTURES, deep, foreign_messages, import_bytes, import_fixture, written
from support.turns import split_turns

CONTENT = (FIXTURES / "tau_bench" / "harbour.json").read_bytes()


def test_results_are_recognised_by_their_first_run() -> None:
    assert detect_transcript(CONTENT, "harbour.json") == "tau-bench"
    assert not tau_bench.detect(b'[{"role": "user"}]', "harbour.json")


def test_each_run_is_a_session_named_by_task_and_trial() -> None:
    imported = import_fixture("tau-bench", "harbour.json")
    assert not imported.problems
    assert {name: len(messages) for name, messages in imported.sessions.items()} == {
        "harbour/3-0": 7,
        "harbour/3-1": 3,
        "harbour/8-0": 6,
    }
    assert imported.headers["harbour/3-1"].title == "tau-bench task 3, trial 1"


def test_messages_are_openais_and_the_run_is_display_only() -> None:
    *said, run = import_fixture("tau-bench", "harbour.json").sessions["harbour/3-0"]
    assert {message.original.format for message in said if message.original} == {"openai"}
    assert [message.role for message in said] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert said[2].parts == (ToolCall("find_berth", {"boat": "Kittiwake"}, id="call_a"),)
    assert said[3].tool_results[0].call_id == "call_a"
    assert len(split_turns(said)) == 2
    assert run.kind == "display"
    assert run.original is not None
    assert run.original.data == {**json.loads(CONTENT)[0], "traj": []}


def test_each_run_comes_back_as_it_was() -> None:
    sessions = import_fixture("tau-bench", "harbour.json").sessions.values()
    assert [json.loads(written("tau-bench", messages))[0] for messages in sessions] == json.loads(CONTENT)


def test_a_second_run_of_the_same_task_and_trial_is_a_session_of_its_own() -> None:
    run = json.loads(CONTENT)[0]
    imported = import_bytes("tau-bench", json.dumps([run, run]).encode(), "h.json")
    assert list(imported.sessions) == ["h/3-0", "h/3-0-2"]


def test_of_a_cut_off_file_the_whole_runs_are_read() -> None:
    imported = import_bytes("tau-bench", CONTENT[:-40], "harbour.json")
    assert list(imported.sessions) == ["harbour/3-0", "harbour/3-1"]
    (problem,) = imported.problems
    assert problem.place == "run 3"
    assert "cut off" in problem.reason


@pytest.mark.parametrize(
    ("run", "place", "reason"),
    [
        ("5", "run 1", "no list 'traj'"),
        ('{"task_id": 1}', "run 1", "no list 'traj'"),
        ('{"task_id": 1, "traj": 5}', "run 1", "no list 'traj'"),
        ('{"task_id": 1, "traj": ["hi"]}', "run 1, message 1", "must be an object"),
        ('{"task_id": 1, "traj": [{"role": "oracle", "content": "x"}]}', "run 1, message 1", "oracle"),
        (f'{{"task_id": 1, "traj": {deep(300)}}}', "run 1", "nested too deeply"),
    ],
)
def test_what_can_not_be_read_is_a_problem_and_the_next_run_is_read(run: str, place: str, reason: str) -> None:
    good = json.dumps({"task_id": 2, "traj": [{"role": "user", "content": "hi"}], "trial": 0})
    imported = import_bytes("tau-bench", f"[{run}, {good}]".encode(), "h.json")
    assert [problem.place for problem in imported.problems] == [place]
    assert reason in imported.problems[0].reason
    assert [message.text for message in imported.sessions["h/2-0"]] == ["hi", ""]


@pytest.mark.parametrize("content", [b"", b'[{"task_id": "\xff"}]', b"{}"])
def test_a_file_that_is_no_list_of_runs_is_a_problem(content: bytes) -> None:
    imported = import_bytes("tau-bench", content, "h.json")
    assert not imported.found
    assert len(imported.problems) == 1


def test_a_run_that_still_has_its_messages_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        tau_bench.parse({"traj": [{"role": "user"}]}, "run")


def test_messages_of_other_formats_become_a_run() -> None:
    content = written("tau-bench", foreign_messages()).encode()
    imported = import_bytes("tau-bench", content, "h.json")
    assert not imported.problems
    messages: list[Message] = imported.only()
    assert messages[-1].kind == "display"
    calls: list[Json] = [call.arguments for message in messages for call in message.tool_calls]
    assert calls == [{"day": "today"}]
