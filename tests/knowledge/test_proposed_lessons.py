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


def passed(half: str, *, is_true: bool) -> list[str]:
    chosen = [each for each in LESSONS if each["half"] == half and each["is_true"] is is_true]
    assert len(chosen) == 10
    proofs = [(each["text"], Evidence([turn(n, text) for n, text in enumerate(each["turns"], 1)])) for each in chosen]
    return [text for text, proof in proofs if not proof.problem(text, nonce="n0nce0")]


@pytest.mark.parametrize(("half", "least"), [("tuned", 9), ("apart", 6)])
def test_most_true_lessons_pass(half: str, least: int) -> None:
    """The aim is 9 in both; 6 of the half set apart is what was measured, and nothing was tuned to it."""
    assert len(passed(half, is_true=True)) >= least


@pytest.mark.parametrize("half", ["tuned", "apart"])
def test_no_invented_lesson_passes(half: str) -> None:
    assert passed(half, is_true=False) == []


def test_a_report_that_begins_with_a_command_is_no_rule() -> None:
    assert not is_rule("make migrate failed because the relation does not exist.")
    assert is_rule("make the tables read-only")
    assert is_rule("Disable the checks, they failed before.")
