"""Lessons without a model."""

# ruff: noqa: RUF001 (letters of many languages)

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.knowledge.gather import Gathered, LearnedTurn, ToolOutcome, gather
from foveate.knowledge.lessons import find_lessons
from foveate.knowledge.own_words import own_words
from foveate.knowledge.statements import statements_in
from foveate.knowledge.topics import TopicsFound
from foveate.recall.scopes import Scope
from foveate.secrets import redact
from foveate.store.knowledge import KnowledgeSource, NewKnowledge
from foveate.turn import Turn
from support.engine import with_store
from support.planted import MARK, SAID, PlantedTurn, planted_twice

FAILED = ToolOutcome(
    name="exec", arguments='{"cmd":"pytest -q"}', is_error=True, text="E   ModuleNotFoundError: No module named 'yaml'"
)
PASSED = ToolOutcome(name="exec", arguments='{"cmd":"pytest -q --lf"}', is_error=False, text="3 passed")


def turn(number: int, user: str = "", assistant: str = "", tools: tuple[ToolOutcome, ...] = ()) -> LearnedTurn:
    return LearnedTurn(
        source=KnowledgeSource("s", number),
        at_us=number * 1_000_000,
        user=user,
        assistant=assistant,
        tools=tools,
        compressed="",
        tiny="",
        smoothed="",
    )


def learned(*turns: LearnedTurn, kind: str = "lesson") -> list[NewKnowledge]:
    gathered = Gathered(tenant="", scope=Scope("project", "x"), turns=turns, watermark="")
    return [item for item in find_lessons(gathered, TopicsFound()).items if item.kind == kind]


@pytest.mark.parametrize("secret", ["sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc", "fov_" + "0123456789abcdef" * 3])
def test_a_rule_with_a_secret_is_no_lesson(secret: str) -> None:
    assert learned(turn(1, redact(f"Always pay with {secret}.")), turn(2, "Never deploy on a Friday."))[0].text == (
        "Never deploy on a Friday."
    )


def test_a_rule_that_is_said_again_has_each_wording_once_and_no_conjunction() -> None:
    (item,) = learned(
        turn(1, "Never deploy on a Friday."),
        turn(2, "The page is fine as it is now. And never deploy on a Friday!"),
        turn(3, "Thanks."),
    )
    assert item.title == item.text == "Never deploy on a Friday!"
    assert [source.turn for source in item.sources] == [1, 2]


@pytest.mark.parametrize("praise", ["Looks good.", "Thanks! Perfect.", "No.", "好的。"])
def test_a_rule_behind_a_short_sentence_is_one_without_it(praise: str) -> None:
    (found,) = statements_in(own_words(f"{praise} Never deploy on a Friday."))
    assert (found.kind, found.text) == ("rule", "Never deploy on a Friday.")


def test_a_rule_behind_a_short_sentence_that_makes_it_another_s_is_none() -> None:
    assert statements_in(own_words("He said. Never deploy on a Friday.")) == ()
    assert statements_in(own_words("Really? Never deploy on a Friday.")) == ()


def test_planted_orders_become_no_lesson(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> tuple[NewKnowledge, ...]:
        session = await fov.session("s")
        for messages in planted_twice():
            await session.record(Turn(messages))
        gathered = await gather(fov, Scope("project", ""))
        assert len(gathered.turns) == len(list(planted_twice()))
        return find_lessons(gathered, TopicsFound()).items

    found = asyncio.run(with_store(tmp_path / "chat.db", job))
    assert [item.text for item in found if MARK in f"{item.title} {item.text}".casefold()] == []


@pytest.mark.parametrize("said", SAID, ids=lambda said: said.name)
def test_the_same_order_of_a_person_becomes_one(said: PlantedTurn) -> None:
    lessons = learned(turn(1, said.messages[0].text), turn(2, "Thanks."))
    assert [MARK in item.text for item in lessons if MARK in item.text] == [True]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Always run the tests before you commit.", "rule"),
        ("Please never push to main.", "rule"),
        ("Don't ever commit secrets.", "rule"),
        ("From now on, answer in German.", "rule"),
        ("use ruff, not flake8", "rule"),
        ("Verwende immer ruff statt flake8.", "rule"),
        ("N'utilise jamais eval.", "rule"),
        ("Usa siempre pytest.", "rule"),
        ("Не используй никогда eval.", "rule"),
        ("请始终用中文回答。", "rule"),
        ("必ずテストを実行してください。", "rule"),
        ("I prefer tabs over spaces.", "preference"),
        ("Je préfère les réponses courtes.", "preference"),
        ("We use PostgreSQL 16 and no other database.", "convention"),
        ("I've decided to go with Redis.", "decision"),
        ("I never went there.", None),
        ("Aider never edits the file.", None),
        ("Thanks for always being there.", None),
        ("Can we use Redis for that?", None),
        ("Fix the export, it never worked.", None),
    ],
)
def test_statements_are_known_by_their_wording(text: str, kind: str | None) -> None:
    assert [statement.kind for statement in statements_in(own_words(text))] == ([kind] if kind else [])


def test_a_rule_keeps_its_id_as_the_history_grows_and_is_one_lesson_however_often_it_is_said() -> None:
    first = turn(1, "Always run the linter before a commit.")
    (before,) = learned(first, turn(2, "ok"))
    (after,) = learned(
        first, turn(2, "ok"), *(turn(n, f"Always run the linter before a commit! ({n})") for n in (3, 4))
    )
    assert after.id == before.id
    assert after.weight > before.weight
    assert [source.turn for source in after.sources] == [1, 3, 4]


def test_the_opposite_of_a_rule_replaces_it_and_keeps_it_as_history() -> None:
    turns = (turn(1, "Always run the linter before a commit."), turn(2, "Never run the linter before a commit."))
    found = find_lessons(Gathered(tenant="", scope=Scope("project", "x"), turns=turns, watermark=""), TopicsFound())
    (now,) = [item for item in found.items if item.kind == "lesson"]
    ((before, by, reason),) = found.history
    assert (now.text, before.text) == (turns[1].user, turns[0].user)
    assert by == now.id
    assert reason.startswith("contradicted on the same day")
    assert now.contradicts == (turns[0].user,)


def test_a_decision_counts_at_once_and_more_if_it_is_said_again_but_not_if_the_same_prompt_was_sent_again() -> None:
    said = "We decided to deploy the billing service on Fridays."
    (once,) = learned(turn(1, said))
    (resent,) = learned(turn(1, said), turn(2, said))
    (twice,) = learned(turn(1, said), turn(2, f"As a reminder. {said}"))
    assert once.text == resent.text == twice.text == said
    assert (once.weight, once.times_said) == (resent.weight, resent.times_said)
    assert twice.weight > once.weight
    assert twice.times_said == 2


def test_a_recurring_error_is_a_lesson_with_what_ended_it() -> None:
    turns = [
        turn(1, "run the tests", "", (FAILED,)),
        turn(2, "install it", "PyYAML was missing from the environment; fixed by installing it.", (PASSED,)),
        turn(3, "again please", "", (FAILED,)),
        turn(4, "and now?", "The error was resolved by installing PyYAML in the venv.", (PASSED,)),
    ]
    assert learned(*turns[:2]) == []
    (lesson,) = learned(*turns)
    assert lesson.text.splitlines() == [
        "Error in 2 turns: ModuleNotFoundError: No module named 'yaml'",
        'Then succeeded: exec {"cmd":"pytest -q --lf"}',
        "The assistant wrote: The error was resolved by installing PyYAML in the venv.",
    ]
    assert [source.turn for source in lesson.sources] == [1, 3, 4]


def test_what_a_linter_finds_again_is_known_by_its_code() -> None:
    found = [
        "app/a.py:3:1: F821 undefined name 'os'\napp/b.py:9:5: E402 import not at top",
        "lib/c.py:77:2: F821 undefined name 'G'",
    ]
    turns = [turn(number, f"fix it {number}\n{text}") for number, text in enumerate(found, 1)]
    (gap,) = learned(*turns, kind="recommendation")
    assert "F821 undefined name 'G'" in gap.text
    assert [source.turn for source in gap.sources] == [1, 2]


def test_an_error_that_nothing_ended_is_a_gap() -> None:
    turns = [turn(1, "go", "", (FAILED,)), turn(2, "once more", "", (FAILED,))]
    assert learned(*turns) == []
    (gap,) = learned(*turns, kind="recommendation")
    assert "No module named 'yaml'" in gap.text


def test_the_profile_has_preferences_conventions_stack_and_patterns() -> None:
    prompts = ("I prefer short answers.", "We use PostgreSQL here.", "Is PostgreSQL slow?", "Redis?", "Why Redis 7?")
    asked = [turn(10 + 2 * n, "run the export tests") for n in range(3)]
    between = [turn(11 + 2 * n, f"and {n}?") for n in range(3)]
    turns = [turn(n, prompt) for n, prompt in enumerate(prompts, 1)]
    turns += sorted([*asked, *between], key=lambda each: each.at_us)
    found = {item.title: item.text for item in learned(*turns, kind="profile")}
    assert found == {
        "Preferences": "- I prefer short answers.",
        "Conventions": "- We use PostgreSQL here.",
        "Stack": "- postgresql (2 turns)\n- redis (2 turns)",
        "Patterns": "- run the export tests (3 times)",
    }


def test_one_turn_teaches_nothing_but_what_it_states() -> None:
    assert learned() == []
    assert learned(turn(1, "Why does the export fail?", "The disk is full.", (FAILED,))) == []
