"""What clients add to a prompt is found in time that is proportional to the text."""

import pytest

import foveate.intake
from foveate.intake.additions import without_reminders
from support.pattern_steps import PAIRS, check_growth, unbounded_patterns

PATTERNS = dict(unbounded_patterns(foveate.intake))
RULES = "# File editing rules:\n\nReturn edits like this."


@pytest.mark.parametrize("is_paired", PAIRS)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_twice_the_steps_for_twice_the_text(name: str, *, is_paired: bool) -> None:
    check_growth(PATTERNS[name], is_paired=is_paired)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<system-reminder>one</system-reminder>Hello.<system-reminder>two</system-reminder>", "Hello."),
        ("Hello. <system-reminder>not closed", "Hello. <system-reminder>not closed"),
        (f"Hello. \n\n  {RULES}", "Hello. "),
        (RULES, RULES),
        (f"Why do you repeat {RULES}", f"Why do you repeat {RULES}"),
    ],
)
def test_what_a_client_adds_to_a_prompt_is_left_out(text: str, said: str) -> None:
    assert without_reminders(text) == said
