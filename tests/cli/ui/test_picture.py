"""The lines below the picture of a context."""

from foveate.cli.ui import picture
from foveate.context.context import PlanReport
from foveate.plan import LevelChange


def test_the_number_of_changed_turns_is_a_sentence() -> None:
    one = PlanReport(changes=(LevelChange(3, 3, "R", "S"),))
    two = PlanReport(changes=(LevelChange(3, 4, "R", "S"),))
    assert picture._changed(one) == "1 turn changed its level; T-3 R→S."
    assert picture._changed(two) == "2 turns changed their level; T-3…4 R→S."
