"""The picture of a context in a terminal."""

import re
from io import StringIO

from rich.console import Console

from foveate.cli.ui import picture
from foveate.cli.ui.terminal import PICTURE_MARGIN, timeline_width
from foveate.context.context import Context, PlanReport, Segment
from foveate.context.render import Layout
from foveate.plan import LevelChange
from foveate.session.picture import picture_of


def drawn(levels: str, width: int = 100) -> str:
    shown = Segment("history", 90, is_stable=True, first=1, last=len(levels), level="C", levels=levels)
    context = Context("", 90, 100, (shown,), "", "", Layout())
    out = Console(file=StringIO(), width=width)
    shape = picture_of(context.segments, 100, columns=timeline_width(width))
    picture.draw(out, context, shape, one_off=True, call="foveate context s")
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()


def timeline(text: str) -> list[str]:
    return [line[PICTURE_MARGIN:] for line in text.splitlines() if line.strip().startswith(picture.AXIS)]


def test_the_more_of_a_turn_is_shown_the_taller_it_is() -> None:
    rows = [row.ljust(16) for row in timeline(drawn("TCSR"))]
    heights = [sum(picture.EIGHTHS.index(row[4 * place]) for row in rows) for place in range(4)]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (8, 32)


def test_turns_without_words_are_drawn_hollow_and_counted() -> None:
    text = drawn("C-T---R")
    assert timeline(text)[-1].split() == ["███", "□□□", "███", "□□□", "□□□", "□□□", "███"]
    assert "7 turns in 90 of 100 tokens: 1 word for word, 2 shorter, 4 without words." in text
    assert re.search(r"□ +without words +4 +T-2 +T-6", text)


def test_a_picture_without_hollow_turns_has_no_legend_for_them() -> None:
    assert "□" not in drawn("CTR")
    assert "without words" not in drawn("CTR")


def test_a_long_conversation_fits_the_terminal_and_names_its_ranges() -> None:
    text = drawn("T" * 9_000 + "R" * 1_000, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "up to T-9956 a column is 433 turns, at their mean height" in text
    assert "foveate context s --why T-10000" in text


def test_the_number_of_changed_turns_is_a_sentence() -> None:
    one = PlanReport(changes=(LevelChange(3, 3, "R", "S"),))
    two = PlanReport(changes=(LevelChange(3, 4, "R", "S"),))
    assert picture._changed(one) == "1 turn changed its level; T-3 R→S."
    assert picture._changed(two) == "2 turns changed their level; T-3…4 R→S."
