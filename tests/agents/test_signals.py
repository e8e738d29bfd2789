"""What a model says of where it stands, by lines and by calls of tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.agents.signals import (
    REASONS,
    UPDATE,
    Reason,
    Signal,
    is_complete,
    read_change,
    read_outcome,
    read_signal,
    tool_definitions,
)
from foveate.agents.tasks import TaskList, parse_tasks
from foveate.errors import InputError
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

LISTED = parse_tasks("- [ ] a\n- [ ] b")


def said(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", (Text(text), *calls) if text else calls)


def result(call: ToolCall) -> Message:
    return Message("tool", (ToolResult(call.id, (Text("ok"),), name=call.name),))


@pytest.mark.parametrize(
    ("text", "reason", "told"),
    [
        ("All is built.\nSTATUS: done", "done", "All is built."),
        ("STATUS: done.", "done", ""),
        ("STATUS: DONE - the house stands", "done", "the house stands"),
        ("**STATUS: done**", "done", ""),
        ("**STATUS:** done", "done", ""),
        ("## STATUS: Completed", "done", ""),
        ("STATUS: question: Which port?", "question", "Which port?"),
        ("Which port?\n\nSTATUS: question", "question", "Which port?"),
        ("STATUS: question\nSTATUS: question: Which host?", "question", "Which host?"),
        ("STATUS: blocked: no access", "blocked", "no access"),
        ("STATUS: blocked by a missing key\n\nTell me when it is there!", "blocked", "by a missing key"),
    ],
)
def test_a_status_line_is_understood(text: str, reason: Reason, told: str) -> None:
    assert read_outcome([said(text)], LISTED).signal == Signal(reason, told)


@pytest.mark.parametrize(
    "text",
    [
        "STATUS: working",
        "STATUS: done with the first part",
        "I will write STATUS: done when it is.",
        "Task 1\nStatus: done",
        "```\nSTATUS: done\n```",
        "> STATUS: done",
        "STATUS:",
        "",
    ],
)
def test_what_only_looks_like_a_status_is_none(text: str) -> None:
    assert read_outcome([said(text)], LISTED).signal is None


@pytest.mark.parametrize(
    "text",
    [
        "TASKS:\n- [x] a\n- [ ] c",
        "Well.\n**TASKS:**\n\n- [x] a\n- [ ] c\n\nSo much for now.",
        "TASKS:\n```\n- [x] a\n- [ ] c\n```\nSTATUS: working",
        "TASKS:\n1. [x] a\n2. c",
        "TASKS:\n- [ ] old\nTASKS:\n- [x] a\n- [ ] c",
    ],
)
def test_a_list_of_tasks_takes_the_place_of_the_one_before(text: str) -> None:
    assert read_outcome([said(text)], LISTED).tasks.markdown() == "- [x] a\n- [ ] c\n"


def test_a_status_behind_a_fenced_list_counts() -> None:
    outcome = read_outcome([said("TASKS:\n```markdown\n- [x] a\n```\nSTATUS: done")], LISTED)
    assert outcome.signal == Signal("done", "")
    assert outcome.tasks.markdown() == "- [x] a\n"


@pytest.mark.parametrize("text", ["TASKS:", "TASKS:\nnone", "Tasks:\n- [x] a", "TASKS:\n- " + "long" * 2_000])
def test_what_is_no_list_changes_nothing(text: str) -> None:
    assert read_outcome([said(text)], LISTED).tasks == LISTED


@pytest.mark.parametrize(
    ("name", "arguments", "signal"),
    [
        ("finish", {"summary": "All built."}, Signal("done", "All built.")),
        ("finish", {}, Signal("done", "")),
        ("ask_user", {"question": "Which port?"}, Signal("question", "Which port?")),
        ("ask_user", '{"text": "Which port?"}', Signal("question", "Which port?")),
        ("report_blocker", {"problem": "No key."}, Signal("blocked", "No key.")),
        ("ask_user", {}, None),
        ("report_blocker", "no JSON", None),
        ("finish", [1], None),
    ],
)
def test_a_call_says_the_same(name: str, arguments: Json, signal: Signal | None) -> None:
    assert read_outcome([said("", ToolCall(name, arguments))], LISTED).signal == signal


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        ({"done": [1]}, "- [x] a\n- [ ] b\n"),
        ({"done": 2, "added": ["c"]}, "- [ ] a\n- [x] b\n- [ ] c\n"),
        ({"tasks": "- [x] a\n- [ ] d"}, "- [x] a\n- [ ] d\n"),
        ({"tasks": ["- [x] a", "d"]}, "- [x] a\n- [ ] d\n"),
        ({"tasks": [{"text": "a", "done": True}, {"task": "d", "status": "open"}]}, "- [x] a\n- [ ] d\n"),
        ({"tasks": "- [x] a", "done": None, "reopened": [1]}, "- [ ] a\n"),
        ('{"done": ["1"]}', "- [x] a\n- [ ] b\n"),
        ({"done": [9]}, "- [ ] a\n- [ ] b\n"),
        ({"done": ["first"]}, "- [ ] a\n- [ ] b\n"),
        ({"added": [3]}, "- [ ] a\n- [ ] b\n"),
        ({"tick": [1]}, "- [ ] a\n- [ ] b\n"),
        ({"tasks": 7}, "- [ ] a\n- [ ] b\n"),
        ({}, "- [ ] a\n- [ ] b\n"),
    ],
)
def test_a_call_changes_the_tasks_or_changes_nothing(arguments: Json, listed: str) -> None:
    assert read_outcome([said("", ToolCall(UPDATE, arguments))], LISTED).tasks.markdown() == listed


def test_only_what_the_model_says_itself_counts() -> None:
    call = ToolCall("get_turn", {"turn_id": "T-1"}, id="c")
    heard = Message("tool", (ToolResult("c", (Text("STATUS: done\nTASKS:\n- [x] all"),)),))
    messages = [Message("user", (Text("STATUS: done"),)), said("Let me look.", call), heard, said("Not yet.")]
    assert read_outcome(messages, LISTED) == read_outcome([], LISTED)


def test_of_several_signals_the_last_one_holds() -> None:
    messages = [said("STATUS: blocked: no key"), said("Found it.", ToolCall("finish", {"summary": "Done."}))]
    assert read_outcome(messages, LISTED).signal == Signal("done", "Done.")


def test_a_change_that_is_refused_changes_nothing() -> None:
    def refuse(_before: TaskList, _after: TaskList) -> TaskList:
        raise InputError("too long")

    messages = [said("TASKS:\n- [x] a", ToolCall(UPDATE, {"done": [1]}))]
    assert read_outcome(messages, LISTED, refuse).tasks == LISTED


def test_an_iteration_is_complete_once_nothing_is_asked_for() -> None:
    prompt = Message("user", (Text("Go on."),))
    look, tick = ToolCall("get_turn", {"turn_id": "T-1"}, id="c"), ToolCall(UPDATE, {"done": [1]}, id="d")
    assert not is_complete([prompt])
    assert not is_complete([prompt, said("", look), result(look)])
    assert not is_complete([prompt, said("", look, tick), result(look), result(tick)])
    assert is_complete([prompt, said("", tick), result(tick)])
    assert is_complete([prompt, said("", look), result(look), said("Seen.")])


@given(
    st.text(max_size=300), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
)
def test_nothing_a_model_writes_breaks_the_reading(text: str, value: Json) -> None:
    for prefix in ("", "TASKS:\n", "STATUS: "):
        read_outcome([said(prefix + text)], LISTED)
    for name in (UPDATE, *REASONS):
        for arguments in (value, {"tasks": value}, {"done": value, "added": value}, {"question": value}):
            read_outcome([said("x", ToolCall(name, arguments))], LISTED)


def test_the_tools_are_defined_and_say_what_they_take() -> None:
    names = [definition["function"]["name"] for definition in tool_definitions()]  # type: ignore[index, call-overload]
    assert names == [UPDATE, *REASONS]
    with pytest.raises(InputError, match="there is no argument 'tick'"):
        read_change({"tick": [1]})
    with pytest.raises(InputError, match="question is missing"):
        read_signal("ask_user", {})
