"""Excerpts of tool output: which lines are shown, and how they are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foveate.compress.cues import estimate_tokens
from foveate.compress.excerpts import MAX_LINE_CHARS, MAX_LINES, Excerpts, find_excerpts, with_lines
from foveate.turn import Attachment, Json, Message, Text, ToolCall, ToolResult


def ran(*outputs: str, arguments: dict[str, Json] | None = None) -> list[Message]:
    """A turn with a call for each output."""
    calls = [ToolCall("exec", arguments or {"command": "run"}, str(number)) for number in range(len(outputs))]
    results = [ToolResult(str(number), (Text(output),)) for number, output in enumerate(outputs)]
    return [
        Message("assistant", tuple(calls)),
        *(Message("tool", (result,)) for result in results),
    ]


def lines_of(excerpts: Excerpts) -> list[tuple[int, str]]:
    return [(line.call, line.text) for line in excerpts.lines]


def test_each_different_line_of_output_is_found_once_with_its_call() -> None:
    found = find_excerpts(ran("port 8443 open\n\nport 8443 open", "port  8443   open\nport 9000 open"))
    assert lines_of(found) == [(0, "port 8443 open"), (1, "port 9000 open")]


def test_long_arguments_have_lines_too() -> None:
    found = find_excerpts(ran("", arguments={"path": "src/tides/mooring.py", "text": "DEPTH = 12\nBERTH = 40"}))
    assert lines_of(found) == [(0, "DEPTH = 12"), (0, "BERTH = 40")]


def test_lines_that_are_too_short_or_too_long_are_left_out() -> None:
    found = find_excerpts(ran(f"a = 1\n{'x1 ' * MAX_LINE_CHARS}\nport = 8443"))
    assert lines_of(found) == [(0, "port = 8443")]
    assert found.chars > 3 * MAX_LINE_CHARS


def test_an_image_has_no_lines() -> None:
    image = ToolResult("1", (Attachment("image", "image/png", "aGFyYm91cg=="),))
    assert not find_excerpts([Message("assistant", (ToolCall("see", {}, "1"),)), Message("tool", (image,))]).lines


def test_many_lines_of_one_call_leave_room_for_those_of_others() -> None:
    found = find_excerpts(ran("\n".join(f"line_{number}.py" for number in range(MAX_LINES)), "the_last_one.py"))
    assert len(found.lines) <= MAX_LINES
    assert lines_of(found)[-1] == (1, "the_last_one.py")


def test_lines_that_name_the_most_are_chosen_first() -> None:
    found = find_excerpts(ran("it went well so far\nsrc/tides/mooring.py:40 berth_depth\nall of it is fine"))
    assert found.best("", 20, 1.0) == {0: ["src/tides/mooring.py:40 berth_depth"]}


def test_what_the_known_text_names_is_not_shown_again() -> None:
    found = find_excerpts(ran("see src/tides/mooring.py\nsee src/tides/harbour.py"))
    assert found.best("I read src/tides/mooring.py first.", 100, 1.0) == {0: ["see src/tides/harbour.py"]}


def test_a_line_that_names_what_a_chosen_one_names_is_not_shown() -> None:
    found = find_excerpts(ran("see src/tides/mooring.py", "read src/tides/mooring.py"))
    assert len(found.best("", 100, 1.0)) == 1


def test_chosen_lines_keep_the_order_of_the_output() -> None:
    found = find_excerpts(ran("berth_1 is free\nberth_2 and crane_2 in src/tides/mooring.py\nberth_3 is free"))
    (lines,) = found.best("", 100, 1.0).values()
    assert lines == ["berth_1 is free", "berth_2 and crane_2 in src/tides/mooring.py", "berth_3 is free"]


@given(
    st.lists(st.from_regex(r"[a-z]{2,8}_[0-9]{1,4} [a-z/]{1,30}", fullmatch=True)),
    st.integers(0, 200),
    st.floats(0.5, 3),
)
def test_the_best_lines_fit_their_room(lines: list[str], room: int, scale: float) -> None:
    found = find_excerpts(ran("\n".join(lines))).best("", room, scale)
    shown = [line for own in found.values() for line in own]
    assert sum(estimate_tokens(line) * scale + 1 for line in shown) <= room


def test_lines_are_added_inside_the_note() -> None:
    note = with_lines("{read app.py: 40 lines}", ["def main():", "PORT = 8080"])
    assert note == "{read app.py: 40 lines: def main(): | PORT = 8080}"


def test_a_note_without_lines_stays_as_it_is() -> None:
    assert with_lines("{read app.py: 40 lines}", []) == "{read app.py: 40 lines}"


@given(st.lists(st.text(st.sampled_from("{}ab |:"), max_size=12), min_size=1))
def test_no_line_can_end_a_note(lines: list[str]) -> None:
    note = with_lines("{read app.py: 40 lines}", lines)
    assert note.count("}") == 1
    assert note.endswith("}")
