"""An answer's words arrive whole and in order, on lines that fit."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foveate.cli.chat.flow import LineFlow

pieces = st.lists(st.text(alphabet="ab,. \n日", max_size=12), max_size=20)


def flowed(given_pieces: list[str], width: int | None) -> str:
    shown: list[str] = []
    flow = LineFlow(shown.append, lambda: width)
    for piece in given_pieces:
        flow.add(piece)
    flow.end()
    return "".join(shown)


@given(pieces, st.integers(1, 30))
def test_words_stay_whole_and_in_order(said: list[str], width: int) -> None:
    assert flowed(said, width).split() == "".join(said).split()


@given(pieces, st.integers(1, 30))
def test_only_a_word_or_a_gap_too_long_for_a_line_is_longer_than_it(said: list[str], width: int) -> None:
    for line in flowed(said, width).split("\n"):
        assert cell_len(line) <= width or " " not in line.strip(" ") or "  " in line


def test_a_space_without_room_before_a_line_end_is_left_out() -> None:
    assert flowed(["aa a a ", "\n"], 3) == "aa \na a\n\n"


@given(pieces)
def test_without_a_width_text_goes_through_as_it_comes(said: list[str]) -> None:
    text = "".join(said)
    assert flowed(said, None) == (f"{text}\n" if text else "")


def test_a_line_ends_between_words_whatever_the_pieces() -> None:
    assert flowed(["A proxy stan", "ds between ", "two hosts."], 14) == "A proxy stands\nbetween two \nhosts.\n"
    assert flowed(["A proxy\n\n  ind", "ented"], 20) == "A proxy\n\n  indented\n"


def test_a_flow_can_be_used_again() -> None:
    shown: list[str] = []
    flow = LineFlow(shown.append, lambda: 20)
    flow.add("One")
    flow.end()
    flow.end()
    flow.add("Two")
    flow.end()
    assert "".join(shown) == "One\nTwo\n"


def test_lines_fit_a_terminal_that_is_resized_meanwhile() -> None:
    shown: list[str] = []
    widths = iter([10, 10, 20, 20])
    flow = LineFlow(shown.append, lambda: next(widths, 20))
    flow.add("one two three ")
    flow.add("four five six seven ")
    flow.end()
    assert "".join(shown) == "one two \nthree four five six \nseven \n"
