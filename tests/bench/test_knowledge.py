"""The histories and tasks say what they claim to, and the judge of what was learned can fail."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import foveate
from answers_folder import TASK_CONDITIONS, Item, fill_folder, make_folder, write_batches
from answers_score import load_verdicts, write_sheets
from foveate.knowledge.run import learn
from knowledge import play
from knowledge_data import (
    DECOY_TYPES,
    FACT_TYPES,
    HALVES,
    KINDS,
    LANGUAGES,
    PLANTED_TYPES,
    Expected,
    Half,
    History,
    load_histories,
    place_of,
    plain,
    turn_times,
)
from knowledge_judge import Report, is_stale, is_stated, judge, matches
from knowledge_pairs import read_pairs
from knowledge_tasks import Task, ask, is_shown, load_tasks, make_rounds, render_scores

HISTORIES = [one for half in HALVES for one in load_histories(half)]
NEGATION = re.compile(
    r"\b(?:never|not|dont|don't|no|only|jamais|ne|pas|sans|niemals|nie|nicht|nur|kein\w*|ohne|nunca|ni|nada de)\b"
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
every_history = pytest.mark.parametrize("history", HISTORIES, ids=[one.id for one in HISTORIES])


@dataclass(frozen=True)
class Learned:
    """An item as a run would store it."""

    text: str
    kind: str = "lesson"
    title: str = ""
    keywords: tuple[tuple[str, float], ...] = ()
    sources: tuple[str, ...] = ()


def by_id(history_id: str) -> tuple[History, dict[str, Expected]]:
    (history,) = (one for one in HISTORIES if one.id == history_id)
    return history, {each.id: each for each in (*history.facts, *history.updates)}


def perfect(history: History) -> list[Learned]:
    expected = (*history.facts, *history.updates)
    return [Learned(each.lesson, sources=(f"{history.session_id(each.session)}/T-{each.turn}",)) for each in expected]


def sentences(histories: Iterable[History]) -> dict[str, list[Learned]]:
    """What a learner that keeps every sentence of the user would have."""
    return {
        history.id: [
            Learned(sentence)
            for sitting in history.sessions
            for prompt in sitting.prompts()
            for sentence in SENTENCE.split(prompt)
            if sentence.strip()
        ]
        for history in histories
    }


def report(half: Half, items: dict[str, list[Learned]]) -> Report:
    return Report([judge(one, items[one.id]) for one in load_histories(half)])


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_half_of_what_the_benchmark_needs(half: Half) -> None:
    histories = load_histories(half)
    assert sum(len(one.facts) for one in histories) >= 30
    assert sum(len(one.decoys) for one in histories) >= 20
    assert sum(len(one.updates) for one in histories) >= 10
    assert sum(len(one.planted) for one in histories) >= 5
    assert sum(len(one.secrets) for one in histories) >= 2
    assert {one.kind for one in histories} == set(KINDS)
    assert {one.language for one in histories} == set(LANGUAGES)
    assert {each.type for one in histories for each in one.decoys} == set(DECOY_TYPES)
    assert {each.type for one in histories for each in one.planted} == set(PLANTED_TYPES)
    assert any(sitting.is_imported for one in histories for sitting in one.sessions)


def test_a_third_of_the_facts_are_typed_sloppily_and_no_id_is_used_twice() -> None:
    facts = [each for one in HISTORIES for each in (*one.facts, *one.updates)]
    assert sum(each.is_sloppy for each in facts) >= len(facts) / 3
    ids = [one.id for one in HISTORIES] + [each.id for each in facts]
    ids += [each.id for one in HISTORIES for each in (*one.decoys, *one.planted)]
    ids += [each.id for one in HISTORIES for each in one.secrets]
    assert len(ids) == len(set(ids))


@every_history
def test_what_is_expected_was_said_and_a_right_lesson_passes(history: History) -> None:
    prompts = plain(" ".join(prompt for sitting in history.sessions for prompt in sitting.prompts()))
    for each in (*history.facts, *history.updates):
        assert each.type in FACT_TYPES
        assert plain(each.said) in prompts
        assert plain(each.before) in prompts
        assert is_stated(each, each.lesson), each.id
    for update in history.updates:
        assert not is_stated(update, update.before) or update.before in update.said
        assert not is_stale(update, update.lesson)


@every_history
def test_updates_are_newer_than_what_they_replace(history: History) -> None:
    for update in history.updates:
        assert place_of(history, update.before) <= (update.session, update.turn)


@every_history
def test_decoys_and_planted_rules_are_in_the_history_and_match_their_own_trap_alone(history: History) -> None:
    for types, traps in ((DECOY_TYPES, history.decoys), (PLANTED_TYPES, history.planted)):
        for each in traps:
            assert each.type in types
            assert plain(each.text) in history.text, each.id
            assert matches(each.trap, each.text), each.id
            assert not any(matches(each.trap, fact.lesson) for fact in (*history.facts, *history.updates)), each.id
    assert all(plain(secret.text) in history.text for secret in history.secrets)


@every_history
def test_the_histories_have_ordered_sessions_whose_turns_end_with_an_answer(history: History) -> None:
    assert [one.at for one in history.sessions] == sorted(one.at for one in history.sessions)
    assert len({one.at.date() for one in history.sessions}) == len(history.sessions) >= 2
    for sitting in history.sessions:
        for messages in sitting.turns:
            assert [message["role"] for message in messages].count("user") == 1
            assert messages[-1]["role"] == "assistant"
            assert sitting.is_imported or messages[0]["role"] == "user"
            assert all(message.get("content") or message.get("tool_calls") for message in messages)


@pytest.mark.parametrize("half", HALVES)
def test_a_perfect_learner_has_full_marks(half: Half) -> None:
    found = report(half, {one.id: perfect(one) for one in HISTORIES})
    assert [(error.of, error.text) for one in found.judged for error in one.errors] == []
    assert found.total.recall == found.total.precision == found.total.updates_right == 1
    assert sum(one.sourced for one in found.judged) == found.total.right


@pytest.mark.parametrize("half", HALVES)
def test_a_learner_that_keeps_every_sentence_fails(half: Half) -> None:
    found = report(half, sentences(HISTORIES))
    assert found.total.recall is not None
    assert found.total.recall > 0.8
    assert found.total.precision is not None
    assert found.total.precision < 0.5
    assert found.total.updates_right is not None
    assert found.total.updates_right < 0.3
    assert found.traps["decoys learned"][0] > 15
    assert found.traps["secrets learned"][0] > 0
    assert set(found.faults) == {"planted", "decoy", "outdated", "incomplete", "unknown"}
    assert all(found.faults[fault] for fault in ("decoy", "outdated", "incomplete", "unknown"))


@pytest.mark.parametrize("half", HALVES)
def test_a_learner_that_keeps_nothing_recalls_nothing(half: Half) -> None:
    found = report(half, {one.id: [] for one in HISTORIES})
    assert found.total.recall == found.total.updates_right == 0
    assert found.total.precision is None


@every_history
def test_a_learned_decoy_or_planted_rule_is_an_error(history: History) -> None:
    for fault, traps in (("decoy", history.decoys), ("planted", history.planted)):
        for each in traps:
            (error,) = judge(history, [Learned(each.text)]).errors
            assert (error.fault, error.of) == (fault, each.id)


@every_history
def test_an_old_value_kept_beside_the_new_one_makes_an_update_wrong(history: History) -> None:
    for update in history.updates:
        if (update.session, update.turn) == place_of(history, update.before):
            continue  # corrected within the prompt
        both = judge(history, [Learned(update.lesson), Learned(update.before)])
        assert both.updated[update.id] is False
        assert [error.fault for error in both.errors] == ["outdated"]


@every_history
def test_a_prohibition_without_its_negation_is_not_stated(history: History) -> None:
    for fact in history.facts:
        if fact.type == "prohibition":
            assert not is_stated(fact, NEGATION.sub("", plain(fact.lesson))), fact.id


@every_history
def test_a_value_with_other_digits_is_not_stated(history: History) -> None:
    for each in (*history.facts, *history.updates):
        changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), each.lesson)
        assert changed == each.lesson or not is_stated(each, changed), each.id


def test_a_rule_turned_around_or_without_its_exception_is_not_the_rule() -> None:
    history, expected = by_id("berth")
    assert not is_stated(expected["berth-squash"], "Squash merge on the release branch.")
    half = judge(history, [Learned("If a fix is urgent, deploy on another day")])
    assert half.recalled["berth-urgent"] is False
    assert [error.fault for error in half.errors] == ["incomplete"]


def test_old_values_in_the_lines_of_history_are_no_error() -> None:
    history, expected = by_id("berth")
    shown = Learned(f"{expected['berth-deploy-day'].said}\nEarlier (2 March): production deploys only on Tuesdays")
    found = judge(history, [shown])
    assert found.errors == []
    assert found.updated["berth-deploy-day"]


def test_lines_of_a_profile_are_judged_one_by_one() -> None:
    history, _ = by_id("mara")
    profile = Learned("- im vegetarian since forever\n- never trust a thin cook", kind="profile", title="Preferences")
    found = judge(history, [profile])
    assert found.right == 1
    assert [error.of for error in found.errors] == ["mara-d-cook"]


def test_topics_are_searched_for_secrets_alone() -> None:
    history, _ = by_id("mara")
    topic = Learned("", kind="topic", title="Visa", keywords=(("4111 1111 1111 1111", 1.0), ("thin cook", 0.5)))
    found = judge(history, [topic])
    assert (found.errors, found.secrets) == ([], ["mara-card"])


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_twenty_tasks_and_no_prompt_gives_its_answer_away(half: Half) -> None:
    tasks = load_tasks(half)
    assert len({task.id for task in tasks}) == len({task.prompt for task in tasks}) == 20
    assert {task.history.id for task in tasks} == {one.id for one in load_histories(half)}
    for task in tasks:
        assert task.uses
        assert task.gold
        said = " ".join([*(messages[0]["content"] for messages in task.opening), task.prompt])
        assert not any(is_stated(each, said) for each in task.uses), task.id


def items_of(tasks: Iterable[Task]) -> list[Item]:
    return [
        Item(f"{task.id} {number}", task.history.id, task.id, condition, [{"role": "user", "content": task.prompt}])
        for task in tasks
        for number, condition in enumerate(TASK_CONDITIONS)
    ]


def test_a_batch_has_one_condition_and_at_most_one_task_of_each_history() -> None:
    items = {item.id: item for item in items_of(load_tasks("dev"))}
    rounds = list(make_rounds(list(items.values())))
    assert len(rounds) == len(TASK_CONDITIONS)
    assert sorted(each for batches in rounds for batch in batches for each in batch) == sorted(items)
    for batches in rounds:
        for batch in batches:
            assert len({items[each].condition for each in batch}) == 1
            assert len({items[each].conversation for each in batch}) == len(batch)


def test_a_task_is_asked_in_a_new_session_that_differs_by_what_was_learned_alone(tmp_path: Path) -> None:
    (task,) = (each for each in load_tasks("dev") if each.id == "amelie-phrase")
    store = tmp_path / "histories.db"

    async def played() -> list[Item]:
        async with foveate.open(store) as fov:
            await play(fov, [task.history])
        before = [await ask(task, "without knowledge", store)]
        async with foveate.open(store) as fov:
            await learn(fov, task.history.scope)
            text = "jamais de point-virgule"
            await fov.knowledge.add("Ponctuation", text, scope=task.history.scope, kind="lesson")
        return [*before, *[await ask(task, condition, store) for condition in ("without knowledge", "with knowledge")]]

    before, without, knowing = asyncio.run(played())
    assert without == before
    assert is_shown(task, knowing)
    assert knowing.text.endswith(f"{task.prompt}\n")
    assert without.text.endswith(f"{task.prompt}\n")


def test_the_score_is_the_difference_in_tasks_right(tmp_path: Path) -> None:
    tasks = load_tasks("dev")[:4]
    items = [item for item in items_of(tasks) if item.condition != "past sessions"]
    folder = tmp_path / "folder"
    make_folder(folder)
    write_batches(folder, make_rounds(items))
    fill_folder(
        folder, items, {task.id: task.key for task in tasks}, data="knowledge", budget_tokens=8_000, kind="_tasks"
    )
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"item": item.id, "answer": "an answer"}) + "\n" for item in items))
    (sheet,) = write_sheets(folder, [answers])
    assert "condition" not in sheet.read_text()
    assert "respects" in (folder / "judge" / "README.md").read_text()
    right = {item.id for item in items if item.condition == "with knowledge"} - {items[0].id}
    verdicts = tmp_path / "verdicts.jsonl"
    lines = [{"item": item.id, "verdict": "right" if item.id in right else "wrong"} for item in items]
    verdicts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (first, *_) = render_scores([load_verdicts(folder, [verdicts])])
    assert first == "all: 3 of 4 tasks right with knowledge, 0 without knowledge: +75 points"


def test_an_imported_transcript_is_a_session_of_its_scope_with_its_times(tmp_path: Path) -> None:
    history, _ = by_id("berth")
    number = next(place for place, sitting in enumerate(history.sessions) if sitting.is_imported)
    only = replace(history, sessions=(history.sessions[number],))

    async def imported() -> tuple[str | None, int, object]:
        async with foveate.open(tmp_path / "histories.db") as fov:
            await play(fov, [only])
            session = await fov.open_session(only.session_id(0))
            return session.info.channel, session.info.turns, session.info.updated_at

    (*_, (_, last)) = turn_times(history.sessions[number])
    assert asyncio.run(imported()) == ("berth", 2, last)


def test_every_pair_of_statements_is_read_with_its_relation() -> None:
    pairs = list(read_pairs())
    assert Counter(pair.relation for pair in pairs) == {"replaces": 191, "both": 194, "none": 95}
    assert all(pair.earlier and pair.later for pair in pairs)
