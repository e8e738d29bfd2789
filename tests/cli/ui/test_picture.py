"""The picture of a context in a terminal."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from foveate.cli.ui import picture
from foveate.context.context import Context, PlanReport, Segment
from foveate.context.render import Layout
from foveate.plan import LevelChange


def drawn(levels: str) -> str:
    shown = Segment("history", 9, is_stable=True, first=1, last=len(levels), level="C", levels=levels)
    context = Context("", 1, 2, (shown,), "", "", Layout())
    planned = PlanReport(turns_without_words=levels.count("-"))
    out = Console(file=StringIO(), width=100)
    picture.draw(out, replace(context, planned=planned), one_off=True)
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()


def test_turns_without_words_are_drawn_hollow_and_counted() -> None:
    text = drawn("C-T---R")
    assert " □  without words" in text
    assert " C  □  T  □ 3 turns   R " in text
    assert "; 4 turns without words" in text


def test_a_picture_without_hollow_turns_has_no_legend_for_them() -> None:
    assert "□" not in drawn("CTR")
    assert "without words" not in drawn("CTR")


def test_the_number_of_changed_turns_is_a_sentence() -> None:
    one = PlanReport(changes=(LevelChange(3, 3, "R", "S"),))
    two = PlanReport(changes=(LevelChange(3, 4, "R", "S"),))
    assert picture._changed(one) == "1 turn changed its level; T-3 R→S."
    assert picture._changed(two) == "2 turns changed their level; T-3…4 R→S."
