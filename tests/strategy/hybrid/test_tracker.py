"""The context tracker: files read and changed, todos, and their links, from messages alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from foveate.strategy.hybrid.tracker import (
    MAX_CALLS,
    MAX_FILES,
    FileChange,
    FileRead,
    Todo,
    Tracker,
    sections_of,
    to_json,
    track,
)
from foveate.turn import Message, Text, ToolCall, ToolResult

AT = datetime(2026, 11, 15, 10, 2, tzinfo=UTC)
SOURCE = (
    '"""Signs and checks tokens."""\n\nimport hmac\n\n\nclass Token:\n    key: str\n    life: int\n'
    "\n\ndef sign(token):\n    return 1\n"
)


def exchange(name: str, arguments: Any, output: str, *, number: int = 1, failed: bool = False) -> list[Message]:
    call = ToolCall(name, arguments, id=f"c{number}")
    result = ToolResult(f"c{number}", (Text(output),), name=name, is_error=failed)
    return [Message("assistant", (call,), at=AT), Message("tool", (result,), at=AT)]


def seen(tracker: Tracker, messages: list[Message], turn: int = 1) -> list[FileRead | FileChange | None]:
    found = [one for place, message in enumerate(messages) for one in tracker.follow(turn, place, message)]
    return [one.file for one in found]


def test_a_file_that_was_read_has_its_hash_summary_and_sections() -> None:
    (read,) = seen(Tracker(), exchange("read_file", {"file_path": "src/jwt.py"}, SOURCE))
    assert isinstance(read, FileRead)
    assert (read.path, read.lines, read.summary) == ("src/jwt.py", 12, "Signs and checks tokens.")
    assert len(read.digest) == 8
    assert [(section.name, section.first, section.last) for section in read.sections] == [
        ("Token", 6, 10),
        ("sign", 11, 12),
    ]


def test_numbered_output_gives_the_real_lines() -> None:
    numbered = "\n".join(f"{660 + place:>6}\tdef step{place}():" for place in range(3))
    (read,) = seen(Tracker(), exchange("view", {"path": "app.py"}, numbered))
    assert isinstance(read, FileRead)
    assert [(section.name, section.first) for section in read.sections] == [
        ("step0", 660),
        ("step1", 661),
        ("step2", 662),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "change", "lines"),
    [
        ("write_file", {"path": "a.py", "content": "x = 1\ny = 2\n"}, "written", "2 lines"),
        ("create", {"path": "a.py", "file_text": "x"}, "created", "1 line"),
        (
            "replace_lines",
            {"path": "a.py", "line_start": 234, "line_end": 250, "content": "x"},
            "modified",
            "lines 234-250",
        ),
        ("insert_lines", {"path": "a.py", "line_start": 12, "line_end": 12, "content": "x"}, "modified", "line 12"),
        ("edit", {"path": "a.py", "old_string": "a\nb", "new_string": "c"}, "modified", "-2 +1 lines"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.py", "file_text": "x"}, "written", "1 line"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch"}, "created", "-0 +1 lines"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"}, "deleted", "-0 +0 lines"),
        ("delete_file", {"path": "a.py"}, "deleted", "ok"),
    ],
)
def test_changes_are_told_apart(name: str, arguments: Any, change: str, lines: str) -> None:
    (found,) = seen(Tracker(), exchange(name, arguments, "ok"))
    assert isinstance(found, FileChange)
    assert (found.path, found.change, found.lines, found.at) == ("a.py", change, lines, AT)


def test_a_file_known_before_is_modified_by_a_write() -> None:
    messages = [
        *exchange("read", {"path": "a.py"}, "x\ny\n", number=1),
        *exchange("write", {"path": "a.py", "content": "z"}, "ok", number=2),
    ]
    _, change = seen(Tracker(), messages)
    assert isinstance(change, FileChange)
    assert change.change == "modified"


def test_what_failed_changed_nothing() -> None:
    tracker = Tracker()
    assert seen(
        tracker, exchange("edit", {"path": "a.py", "old_string": "a", "new_string": "b"}, "no match", failed=True)
    ) == [None]
    assert tracker.changes == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"todos": [{"content": "Read it", "status": "completed"}, {"content": "Add checks", "status": "in_progress"}]},
        {"plan": [{"step": "Read it", "status": "done"}, {"step": "Add checks", "status": "in-progress"}]},
        {"todos": "- [x] Read it\n- [~] Add checks\n- [ ] Test"},
    ],
)
@pytest.mark.parametrize("tool", ["TodoWrite", "update_plan", "mcp__plans__todo_write"])
def test_a_change_is_linked_to_the_todo_it_was_made_for(tool: str, arguments: Any) -> None:
    messages = [
        *exchange(tool, arguments, "ok", number=1),
        *exchange("edit", {"path": "a.py", "old_string": "a", "new_string": "b"}, "ok", number=2),
    ]
    tracker = track([(3, messages)])
    assert tracker.active_todo == "Add checks"
    assert tracker.changes[0].todo == "Add checks"


def fields_of(value: FileRead | Todo) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_a_tracker_is_shown_as_json_with_every_field() -> None:
    messages = [
        *exchange("read", {"path": "src/jwt.py"}, SOURCE, number=1),
        *exchange("todo", {"items": ["one", "two"]}, "ok", number=2),
        *exchange("write", {"path": "src/jwt.py", "content": "z"}, "ok", number=3),
    ]
    tracker = track([(7, messages)])
    kept = json.loads(json.dumps(to_json(tracker)))
    ((_, read),) = tracker.reads.items()
    sections = [{"name": one.name, "first": one.first, "last": one.last} for one in read.sections]
    at = read.at.isoformat() if read.at else None
    assert sections
    assert kept["reads"] == [{**fields_of(read), "sections": sections, "at": at}]
    assert [change["change"] for change in kept["changes"]] == [change.change for change in tracker.changes]
    assert kept["todos"] == [fields_of(todo) for todo in tracker.todos]


def test_results_without_ids_find_their_calls_in_order() -> None:
    calls = Message("assistant", (ToolCall("read", {"path": "a"}), ToolCall("read", {"path": "b"})))
    results = Message(
        "tool", (ToolResult(None, (Text("x\ny"),), name="read"), ToolResult(None, (Text("z"),), name="read"))
    )
    found = seen(Tracker(), [calls, results])
    assert [one.path for one in found if isinstance(one, FileRead)] == ["a", "b"]


def test_a_file_of_many_sections_keeps_the_largest_in_their_order() -> None:
    lines = [line for size in range(1, 20) for line in [f"def f{size}():", *["    x"] * size]]
    sections = list(sections_of(lines))
    assert len(sections) == 8
    assert [section.name for section in sections] == [f"f{size}" for size in range(12, 20)]


def test_odd_messages_do_no_harm() -> None:
    odd = [
        Message("tool", (ToolResult("never-called", (Text("x"),)),)),
        Message("assistant", (ToolCall("read", "not json {"), ToolCall("todowrite", {"todos": 3}, id="t"))),
        Message("user", ()),
    ]
    assert seen(Tracker(), odd) == [None]


@pytest.mark.parametrize("arguments", [{"file_path": "src/jwt.py"}, {}])
def test_a_file_read_as_a_json_object_is_known_by_its_content(arguments: dict[str, Any]) -> None:
    (plain,) = seen(Tracker(), exchange("read_file", {"file_path": "src/jwt.py"}, SOURCE))
    wrapped = json.dumps({"status": "success", "file_path": "src/jwt.py", "content": SOURCE})
    (read,) = seen(Tracker(), exchange("read_file", arguments, wrapped))
    assert read == plain


def test_a_json_file_that_was_read_stays_as_it_is() -> None:
    settings = json.dumps({"name": "shop", "version": 3})
    (read,) = seen(Tracker(), exchange("read_file", {"file_path": "package.json"}, settings))
    assert isinstance(read, FileRead)
    assert read.lines == 1


def test_what_a_tracker_holds_is_bounded() -> None:
    tracker = Tracker()
    for number in range(MAX_CALLS + 5):
        tracker.follow(1, number, Message("assistant", (ToolCall("read", {}, id=f"lost{number}"),)))
    assert len(tracker._calls) == MAX_CALLS
    for number in range(MAX_FILES + 5):
        seen(tracker, exchange("read", {"path": f"{number}.py"}, SOURCE, number=number))
    assert [path for path, _ in tracker.reads.items()] == [f"{number}.py" for number in range(5, MAX_FILES + 5)]
