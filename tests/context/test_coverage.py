"""Which turns of a context have no words."""

from foveate.compress.eras import era_text
from foveate.compress.facts import find_facts
from foveate.context.context import Segment
from foveate.context.coverage import turns_without_words
from foveate.history.blocks import ONLY_NAMED
from foveate.plan import ShownLevel
from foveate.renditions import Unit
from foveate.tokens import count_tokens

SAID = "Ingrid moved the mooring invoices to Lindesnes harbour"


def part(level: ShownLevel, first: int, last: int, text: str = "", levels: str = "") -> Segment:
    tagged = f"<T-{first}-through-{last}-{level}>\n{text}\n</T-{first}-through-{last}-{level}>\n"
    return Segment("history", 9, is_stable=True, first=first, last=last, level=level, text=tagged, levels=levels)


def silent(*parts: Segment) -> list[int]:
    return [turn for run in turns_without_words(parts) for turn in run]


def test_turns_with_a_line_have_words() -> None:
    assert silent(part("C", 1, 3), part("R", 4, 4), part("T", 5, 6, levels="TC")) == []


def test_turns_that_are_only_named_have_none() -> None:
    assert silent(part("E", 1, 4, ONLY_NAMED), part("R", 5, 5)) == [1, 2, 3, 4]


def test_turns_without_a_line_in_a_block_of_lines_have_none() -> None:
    assert silent(part("C", 1, 5, f"Turn 2: {SAID}", levels="-C--T")) == [1, 3, 4]


def test_turns_that_a_context_leaves_out_have_none() -> None:
    assert silent(part("R", 4, 4), part("R", 6, 7)) == [1, 2, 3, 5]


def test_a_line_of_an_era_speaks_for_eight_turns() -> None:
    assert silent(part("E", 1, 32, f"T-3 {SAID}\nT-17 {SAID}; {SAID}")) == [*range(9, 17), *range(25, 33)]


def test_a_line_of_an_era_may_begin_with_its_date() -> None:
    assert silent(part("E", 1, 16, f"4 May 2023: T-3 {SAID}")) == list(range(9, 17))
    assert silent(part("E", 1, 8, "14 September 2023: T-3 it was the one that Ingrid moved there")) == list(range(1, 9))


def test_a_line_with_few_words_speaks_for_none() -> None:
    assert silent(part("E", 1, 8, "T-1 [assistant] it was the one that Ingrid moved there")) == list(range(1, 9))


def test_each_line_of_a_summary_speaks_for_eight_turns() -> None:
    assert silent(part("A", 1, 20, f"{SAID}\n{SAID}")) == [17, 18, 19, 20]


def test_a_turn_of_a_summary_that_has_its_own_line_has_words() -> None:
    assert silent(part("A", 1, 4, ONLY_NAMED), part("U", 2, 2), part("U", 4, 4)) == [1, 3]


def test_lines_about_the_turns_without_a_line_count_in_their_block() -> None:
    levels = "-T" * 12
    notes = f"T-1 {SAID}\nTurn 2: {SAID}"
    assert silent(part("T", 1, 24, notes, levels=levels)) == [17, 19, 21, 23]


def test_an_eras_own_text_leaves_no_turn_without_words() -> None:
    units = [Unit(turn, f"{SAID} {turn}", 1.0, frozenset(find_facts(SAID))) for turn in range(33, 65)]
    text = era_text(units, 100, count_tokens, turns=range(33, 65))
    assert silent(part("E", 1, 32, text.replace("T-", "T-9")), part("E", 33, 64, text)) == list(range(1, 33))
