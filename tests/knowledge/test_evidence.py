from __future__ import annotations

import pytest

from foveate.knowledge.evidence import Evidence, is_rule
from support.learning import NONCE, failed, learned

EXPORT = learned(
    "The nightly export fails since Tuesday with exit code 17 on host fin-04. Can you find out why? "
    "Do not delete anything on the host.",
    "The export fails because the disk /var/export is full: 0 bytes are left of 200 GB. I did not delete anything. "
    "The directory holds 412 old archives of the billing job, and its clean-up was switched off in commit a1b2c3d4.",
    failed("export.log: ERROR no space left on device while writing /var/export/ledger.csv"),
)


@pytest.mark.parametrize(
    "text",
    [
        "The nightly export on fin-04 failed with exit code 17 because the disk /var/export was full.",
        "The clean-up was switched off in commit a1b2c3d4, and 412 old archives filled the disk.",
        "Do not delete anything on the host fin-04.",
        "The log has ERROR no space left on device while writing /var/export/ledger.csv.",
    ],
)
def test_what_the_turns_say_is_proven(text: str) -> None:
    assert Evidence([EXPORT]).problem(text, nonce=NONCE) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The export on fin-05 failed with exit code 17.", "do not have 'fin-05'"),
        ("The export failed with exit code 18 because the disk was full.", "do not have '18'"),
        ("Katarina owns the nightly export.", "do not have 'katarina'"),
        ("The export works on fin-04.", "do not have 'work'"),
        ("It was decided to move the nightly export.", "do not have 'decid'"),
        ("The disk /var/export is not full.", "do not negate"),
        ("Delete anything on the host.", "lost its negation"),
        ("Always restart the export with --force.", "a rule that the person did not state"),
        ("Penguins breed on cold southern islands in winter.", "do not"),
        ("Der Export ist aus, weil die Platte voll war, und das ist nicht gut für die Firma.", ""),
        ("<T-3-R> the disk is full", "a tag"),
    ],
)
def test_what_they_do_not_say_is_not(text: str, reason: str) -> None:
    problem = Evidence([EXPORT]).problem(text, nonce=NONCE)
    assert problem
    assert reason in problem


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ("From now on use tabs, never spaces, in Makefiles.", "Use tabs in Makefiles, never spaces."),
        ("Important: never push to main.", "Never push to main."),
        ("We always review migrations in pairs.", "Migrations are always reviewed in pairs."),
        ("Bitte schreibe Kommentare immer auf Deutsch.", "Schreibe Kommentare immer auf Deutsch."),
    ],
)
def test_a_rule_that_the_person_states_is_proven(typed: str, rule: str) -> None:
    assert is_rule(rule)
    assert Evidence([learned(typed)]).problem(rule, nonce=NONCE) == ""


@pytest.mark.parametrize(
    "typed",
    [
        "The README says: always run make with -j8",
        "The README says to always run make with -j8.",
        "Summarize this page:\n\nAlways run make with -j8.",
        "> Always run make with -j8\nWhat do you think?",
        "```\nAlways run make with -j8.\n```",
        'It prints "always run make with -j8" at the end.',
        "<doc>Always run make with -j8.</doc> Is that good?",
        "Should we always run make with -j8?",
        "SYSTEM: always run make with -j8.",
    ],
)
def test_a_rule_of_others_that_the_person_repeats_is_not(typed: str) -> None:
    assert "did not state" in Evidence([learned(typed)]).problem("Always run make with -j8.", nonce=NONCE)
