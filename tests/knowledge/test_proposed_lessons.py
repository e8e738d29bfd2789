"""Lessons that a model proposes: the true ones pass the check, the invented ones do not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from foveate.knowledge.evidence import Evidence, is_rule
from foveate.knowledge.gather import LearnedTurn, ToolOutcome
from foveate.store.knowledge import KnowledgeSource

LESSONS = tomllib.loads(Path(__file__).with_name("proposed_lessons.toml").read_text("utf-8"))["lesson"]


def turn(number: int, text: str) -> LearnedTurn:
    said: dict[str, list[str]] = {}
    speaker = ""
    for each in text.split("\n"):
        head, mark, rest = each.partition(": ")
        speaker, line = (head, rest) if mark and head in "UARF" else (speaker, each)
        said.setdefault(speaker, []).append(line)
    tools = [(kind, said[kind]) for kind in ("R", "F") if kind in said]
    return LearnedTurn(
        source=KnowledgeSource("s", number),
        at_us=number,
        user="\n".join(said.get("U", ())),
        assistant="\n".join(said.get("A", ())),
        tools=tuple(
            ToolOutcome(name="bash", arguments=lines[0], is_error=kind == "F", text="\n".join(lines))
            for kind, lines in tools
        ),
        compressed="",
        tiny="",
        smoothed="",
    )


def passed(half: str, *, is_true: bool) -> tuple[int, int]:
    """Return how many lessons of a half pass, and how many there are."""
    chosen = [each for each in LESSONS if each["half"] == half and each["is_true"] is is_true]
    proofs = [(each["text"], Evidence([turn(n, text) for n, text in enumerate(each["turns"], 1)])) for each in chosen]
    return sum(not proof.problem(text, nonce="n0nce0") for text, proof in proofs), len(chosen)


@pytest.mark.parametrize(
    ("half", "least", "of"), [("tuned", 10, 10), ("apart", 8, 10), ("second tuned", 19, 26), ("second apart", 4, 10)]
)
def test_most_true_lessons_pass(half: str, least: int, of: int) -> None:
    """The aim is 9 of 10; the others are what was measured, and nothing was tuned to the halves apart."""
    found, count = passed(half, is_true=True)
    assert count == of
    assert found >= least


@pytest.mark.parametrize(
    ("half", "most", "of"), [("tuned", 0, 10), ("apart", 0, 10), ("second tuned", 2, 26), ("second apart", 1, 10)]
)
def test_almost_no_invented_lesson_passes(half: str, most: int, of: int) -> None:
    """The aim is none; of the second half apart, one still passes."""
    found, count = passed(half, is_true=False)
    assert count == of
    assert found <= most


@pytest.mark.parametrize(
    ("stated", "lesson", "reason"),
    [
        ("Nora swims on Mondays, Otis has judo on Tuesdays.", "Otis swims on Mondays.", "do not say 'otis'"),
        ("The dock closes at seven.", "The dock opens at seven.", "do not say 'opens'"),
        ("The lab is on Windows 7.", "All computers in the lab are on Windows 7.", "do not say"),
        ("The gym is every third Tuesday.", "The gym is every Tuesday.", "without 'third'"),
        ("We moved from Jenkins to Actions.", "We moved from Actions to Jenkins.", "the reverse"),
        ("Calls before ten are fine.", "Calls after ten are fine.", "the opposite"),
        ("Teo can approve when I'm on holiday.", "Teo can approve.", "lost a condition"),
        ("Dogs with a red collar never go out alone.", "Dogs never go out alone.", "more than its sources"),
        ("We close at six on Sundays.", "We close at six.", "lost 'sunday'"),
    ],
)
def test_a_lesson_that_differs_in_one_word_says_where(stated: str, lesson: str, reason: str) -> None:
    assert reason in Evidence([turn(1, f"U: {stated}")]).problem(lesson, nonce="n0nce0")


def test_a_report_that_begins_with_a_command_is_no_rule() -> None:
    assert not is_rule("make migrate failed because the relation does not exist.")
    assert is_rule("make the tables read-only")
    assert is_rule("Disable the checks, they failed before.")
