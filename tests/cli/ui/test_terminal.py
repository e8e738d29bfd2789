"""Tables read well at every width, and text is shown without harm."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from foveate.cli.ui.terminal import (
    LEAST_CUT,
    MOST_WHOLE,
    Column,
    line,
    print_exactly,
    print_json,
    print_json_line,
    print_table,
    printable,
    shorten,
)
from foveate.cli.ui.wrapping import HangingConsole
from foveate.text import amount
from support.command_line import AWKWARD, SHOWN
from support.strategies import texts

UUID = "d703a1a9-1b7b-4fb1-b512-c9738b1fe617"
WHEN = "2026-11-15 03:31"
COLUMNS = (
    Column("id", "fold"),
    Column("title", "cut"),
    Column("n", "number"),
    Column("where", expendable=1),
    Column("at"),
)


def table(width: int, *rows: tuple[str | Text, ...], columns: tuple[Column, ...] = COLUMNS) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_table(out, columns, rows)
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_ids_and_dates_stay_whole_and_titles_are_cut(width: int) -> None:
    head, _, *rows = table(width, (UUID, "A long title " * 12, "12", "claude-code", WHEN))
    (row,) = rows
    assert UUID in row
    assert row.endswith(WHEN)
    assert "…" in row
    assert ("claude-code" in row) == ("where" in head) == (width == 120)
    assert cell_len(row) <= width


@pytest.mark.parametrize("width", range(60, 130))
def test_two_columns_that_are_cut_share_what_numbers_leave(width: int) -> None:
    columns = (Column("a", "cut"), Column("price", "number"), Column("b", "cut"), Column("c", "cut"))
    (row,) = table(width, ("x" * 30, "$0.0706", "y" * 50, "short"), columns=columns)[2:]
    assert "$0.0706" in row
    assert "short" in row
    assert cell_len(row) <= width
    assert ("…" in row) == (width < 30 + 7 + 50 + 5 + 4 * 2)


def test_a_title_gives_way_before_a_table_does() -> None:
    id_ = "a-name-of-exactly-forty-characters-12345"
    head, _, row = table(80, (id_, "A long title " * 12, "12", "claude-code", WHEN))
    assert head.split() == ["id", "title", "n", "at"]
    assert row.startswith(id_)
    assert row.endswith(WHEN)
    assert cell_len(row) <= 80


def test_a_very_long_id_is_folded_and_nothing_of_it_is_lost() -> None:
    long_id = "x" * 150
    lines = table(80, (long_id, "Title", "1", "", WHEN))
    assert "".join(line.split()[0].count("x") * "x" for line in lines[2:]) == long_id
    assert WHEN in lines[2]


def test_a_column_that_is_empty_is_not_shown() -> None:
    assert "where" not in table(200, ("a", "b", "1", "", WHEN))[0]


def test_a_wide_terminal_cuts_nothing() -> None:
    assert "…" not in "".join(table(300, (UUID, "A long title " * 12, "12", "claude-code", WHEN)))


def test_numbers_stand_to_the_right() -> None:
    _, _, few, many = table(80, ("a", "b", "1", "", WHEN), ("a", "b", "1000", "", WHEN))
    assert few.index("1  ") == many.index("1000  ") + 3


def test_only_a_text_has_a_style() -> None:
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    print_table(out, (Column("a"), Column("b")), [("[red]x[/red]", Text("y", "green"))])
    assert isinstance(out.file, io.StringIO)
    shown = out.file.getvalue()
    assert "[red]x[/red]" in shown
    assert "\x1b[32my" in shown
    assert "\x1b[31m" not in shown


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4), st.integers(60, 200))
def test_a_table_fits_the_terminal_whatever_is_in_it(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = (Column("id", "fold"), Column("title", "cut"), Column("more", "cut", expendable=1))
    single = [tuple(cell.replace("\n", " ").replace("\t", " ") for cell in row) for row in rows]
    assert all(cell_len(line) <= width for line in table(width, *single, columns=columns))


@given(st.text(max_size=MOST_WHOLE, alphabet="abc-/"), st.text(min_size=1, alphabet="xyz "))
def test_an_id_of_usual_length_is_never_folded_at_80_columns(name: str, title: str) -> None:
    lines = table(80, (f"i{name}"[:MOST_WHOLE], title, "1000", "claude-code", WHEN))
    assert len(lines) == 3
    assert lines[2].startswith(f"i{name}"[:MOST_WHOLE])
    assert LEAST_CUT < 80 - MOST_WHOLE


def test_what_a_terminal_would_obey_is_shown_not_done() -> None:
    assert printable(AWKWARD) == SHOWN


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_printed_and_obeys_nothing(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert not any(char in "\x00\x07\x08\x1b\x7f\x9b\r\u202e\u2028" for char in shown)


@given(st.text("abc äöü 日本語 é \n\t👩\u200d👧\u3000\xa0"))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_windows_line_ends_are_line_ends() -> None:
    assert printable("a\r\nb\rc") == "a\nb\\u000dc"


@given(texts)
def test_no_part_of_a_line_is_taken_for_markup(text: str) -> None:
    assert line(("before", "bold"), text, ("after", "red")).plain == f"before{printable(text)}after"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (4_100_000, "4.1M"), (5e12, "5000.0G")],
)
def test_an_amount_is_said_as_a_person_says_it(number: float, said: str) -> None:
    assert amount(number) == said


@given(st.text(), st.integers(2, 30))
def test_shortened_text_is_one_line_of_at_most_that_length(text: str, width: int) -> None:
    line = shorten(text, width)
    assert len(line) <= width
    assert len(line.splitlines()) <= 1


NARROW = (
    Column(""),
    Column("level", expendable=1),
    Column("turns", "number"),
    Column("of the history", "number"),
    Column("model", "cut"),
)


@pytest.mark.parametrize("width", range(12, 80))
def test_numbers_and_heads_stand_whole_at_any_width(width: int) -> None:
    shown = table(width, ("R", "raw", "12,345", "100%", "openai:gpt-5-mini"), columns=NARROW)
    said = " ".join(" ".join(shown).split())
    for word in ("turns", "12,345", "of the history", "100%", "model"):
        assert word in said
    assert all(cell_len(line) <= width for line in shown)


def test_where_no_table_fits_a_row_is_told_in_lines() -> None:
    rows = (("R", "raw", "12", "100%", "openai:gpt-5-mini"), ("C", "", "3", "20%", "local"))
    assert table(24, *rows, columns=NARROW) == [
        "R",
        "level: raw",
        "turns: 12",
        "of the history: 100%",
        "model: openai:gpt-5-mini",
        "",
        "C",
        "turns: 3",
        "of the history: 20%",
        "model: local",
    ]


def test_prose_is_folded_between_words_before_a_table_is_given_up() -> None:
    columns = (Column("state", "fold"), Column("requests", "number"))
    head, *_ = table(30, ("left alone for a minute, after three failures", "5 a minute"), columns=columns)
    assert head.split() == ["state", "requests"]


HOSTILE = "\x1b]0;title\x07 \x9b31m red \u202e reversed \u2066 \u200f end\n"


@pytest.mark.parametrize("show", [print_exactly, print_json, print_json_line])
def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_every_byte(
    show: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    show(HOSTILE)
    piped = capsysbinary.readouterr().out.decode()
    assert (json.loads(piped) if show is not print_exactly else piped) == HOSTILE
    monkeypatch.setattr("foveate.cli.ui.terminal.is_watched", lambda: True)
    show(HOSTILE)
    shown = capsysbinary.readouterr().out.decode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200f\u202e\u2066]", shown)
    assert show is print_exactly or json.loads(shown) == HOSTILE


def printed_at(width: int, text: str) -> list[str]:
    out = HangingConsole(width=width, file=io.StringIO(), highlight=False, markup=False, emoji=False)
    out.print(line(text))
    assert isinstance(out.file, io.StringIO)
    return [shown.rstrip() for shown in out.file.getvalue().splitlines()]


def test_a_line_that_wraps_keeps_its_indent() -> None:
    assert printed_at(20, "    one two three four five six") == [
        "    one two three",
        "    four five six",
    ]
    assert printed_at(16, "one two three four") == ["one two three", "four"]
    assert printed_at(10, "         word by word")[1:] == ["ord by", "word"], "no room beside the indent"


@given(texts, st.integers(0, 12), st.integers(24, 80))
def test_wrapping_with_an_indent_loses_no_word(text: str, indent: int, width: int) -> None:
    shown = printed_at(width, " " * indent + text)
    assert "".join("".join(shown).split()) == "".join(printable(text).split())
