"""Every pattern of the strategies takes time in proportion to its text, whatever the text is."""

import re

import pytest

import foveate.strategy
from foveate.strategy.build import SourceTurn
from foveate.strategy.checkpoint.extract import find_all
from foveate.strategy.hybrid.tracker import track
from foveate.turn import Message, ToolCall
from support.pattern_steps import LENGTH, MOST_GROWTH, PAIRS, PatternSteps, check_growth, unbounded_patterns

PATTERNS = dict(unbounded_patterns(foveate.strategy))


@pytest.mark.parametrize("is_paired", PAIRS)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_twice_the_steps_for_twice_the_text(name: str, *, is_paired: bool) -> None:
    check_growth(PATTERNS[name], is_paired=is_paired)


@pytest.mark.parametrize("pattern", [r"^\s*(?:[-*])?\s*\[", r"„[^“\n]*“", r"\.+(?=\s)"])
def test_the_count_shows_patterns_that_are_not_linear(pattern: str) -> None:
    counter = PatternSteps(re.compile(pattern, re.MULTILINE))
    grown = [counter.count(f"{shape * (2 * LENGTH)}x") / counter.count(f"{shape * LENGTH}x") for shape in "\n„."]
    assert max(grown) > MOST_GROWTH


def test_a_todo_list_of_line_feeds_has_no_todos_and_real_ones_are_found() -> None:
    blank = "\n" * 100_000
    listed = f"{blank}  - [x] Read the log\n2. [ ] Fix it{blank}\n* [~]   Test it \n[-]\n"
    call = ToolCall("todo_write", {"todos": listed})
    todos = track([(1, (Message("assistant", (call,)),))]).todos
    assert [(todo.text, todo.status) for todo in todos] == [
        ("Read the log", "done"),
        ("Fix it", "open"),
        ("Test it", "active"),
    ]


class CountedPath(str):
    """A path that counts how often it is compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return str.__eq__(self, other)


def test_files_are_listed_without_comparing_each_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "foveate.strategy.checkpoint.extract._changed_by", lambda call: [CountedPath(call.arguments["path"])]
    )
    calls = tuple(ToolCall("write_file", {"path": f"f{number}.py"}) for number in range(600))
    messages = (Message("assistant", calls), Message("assistant", calls[:10]))
    found = find_all([SourceTurn(1, messages, (), "")])
    assert found.files[-10:] == [f"f{number}.py" for number in range(10)]
    assert CountedPath.compared < 4 * len(calls)
