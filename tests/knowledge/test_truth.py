"""What holds now: the newest statement on a subject."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.knowledge.run import learn
from foveate.knowledge.statements import says_change, statements_in
from foveate.knowledge.truth import read_claim
from support.engine import with_store
from support.knowledge import SHOP, record

PAIRS = tomllib.loads(Path(__file__).with_name("statement_pairs.toml").read_text("utf-8"))["pair"]
REPLACED = (
    (
        "production deploys only on Tuesdays before noon",
        "production deploys are on Thursdays now, no longer on Tuesdays",
    ),
    ("production runs PostgreSQL 15", "we've upgraded, production is on PostgreSQL 16 now"),
    ("my cello lesson is thursdays at 6", "the cello lesson moved, it's on Wednesdays now"),
    ("we live in leeds btw", "we moved!! were in york now"),
    (
        "Refunds above 200 euros need the approval of Lotte",
        "refunds above 150 euros need Lotte's approval, no longer 200",
    ),
    ("Always use npm.", "Always use pnpm instead of npm."),
    ("Immer npm benutzen.", "Ab jetzt pnpm statt npm."),
    ("Wir deployen dienstags.", "Wir deployen jetzt nur noch donnerstags."),
    ("Always indent with tabs.", "Use spaces instead of tabs."),
    ("CI runs on Jenkins", "We moved from Jenkins to GitHub Actions."),
    ("Die Abnahme ist am 3. Mai", "Die Abnahme ist nicht am 3. Mai, sondern am 10. Mai"),
    ("Je rends le manuscrit le 15 avril", "je rends le manuscrit le 30 avril, plus le 15"),
    ("we use pnpm not npm, and node 20", "were on node 22 since yesterday"),
)
KEPT = (
    ("Always answer in German.", "Always answer in English when the ticket is in English."),
    ("Always answer in German.", "From now on answer in English when the ticket is in English."),
    ("Antworte immer auf Deutsch.", "Antworte jetzt auf Englisch, wenn das Ticket auf Englisch ist."),
    ("Never deploy on Friday.", "Always deploy on Friday to staging."),
    (
        "Always run the tests with make check before you push.",
        "Never run the tests with make check on my laptop, only on the CI.",
    ),
    (
        "If a fix is urgent, Ingrid can approve a deploy",
        "production deploys are on Thursdays now, no longer on Tuesdays",
    ),
    ("Remember: production deploys only on Tuesdays", "production is on PostgreSQL 16 now"),
    ("Anna's birthday is 3 June", "Tom's birthday is 5 July"),
    ("Deploy staging only on Mondays", "Deploy production only on Tuesdays"),
    ("I'm allergic to peanuts", "I'm allergic to shellfish"),
    ("I don't eat pork", "I don't eat fish"),
)


@pytest.mark.parametrize(("before", "now"), REPLACED)
def test_a_changed_statement_replaces_the_one_on_the_same_subject(before: str, now: str) -> None:
    assert read_claim(now, is_change=True).replaces(read_claim(before))


@pytest.mark.parametrize(("before", "now"), KEPT)
def test_a_statement_on_another_subject_replaces_nothing(before: str, now: str) -> None:
    assert not read_claim(now, is_change="now" in now).replaces(read_claim(before))


def test_a_case_or_place_replaces_no_general_rule_even_if_the_model_takes_it_for_a_change() -> None:
    for before, now in KEPT[:5]:
        assert not read_claim(now, is_change=True).replaces(read_claim(before))


@pytest.mark.parametrize(
    ("half", "relation", "least", "of"),
    [
        ("tuned", "replaces", 13, 16),
        ("tuned", "both", 9, 9),
        ("tuned", "unrelated", 7, 7),
        ("apart", "replaces", 13, 16),
        ("apart", "both", 5, 9),
        ("apart", "unrelated", 6, 7),
    ],
)
def test_pairs_of_statements_are_told_apart(half: str, relation: str, least: int, of: int) -> None:
    """What was measured; nothing was tuned to the half set apart."""
    chosen = [each for each in PAIRS if (each["half"], each["relation"]) == (half, relation)]
    assert len(chosen) == of
    changed = [read_claim(each["now"], is_change=says_change(each["now"])) for each in chosen]
    found = (now.replaces(read_claim(each["before"])) for now, each in zip(changed, chosen, strict=True))
    assert sum(each is (relation == "replaces") for each in found) >= least


async def _current(fov: Foveate) -> list[str]:
    await learn(fov, SHOP, quick=True)
    return sorted(item.text for item in await fov.knowledge.list(kind="lesson"))


DOUBTFUL = "henrik left, paywall lead is now yasmin"
"""A change that the model of statements doubts."""


def test_a_doubtful_change_is_learned_if_it_replaces_a_statement_and_else_dropped(tmp_path: Path) -> None:
    assert [each.is_tentative for each in statements_in(DOUBTFUL)] == [True]

    async def job(fov: Foveate) -> None:
        await record(fov, "a", DOUBTFUL)
        assert await _current(fov) == []
        await record(fov, "b", "Henrik leads the paywall team.", day=3)
        assert await _current(fov) == ["Henrik leads the paywall team."]
        await record(fov, "c", DOUBTFUL, day=9)
        assert await _current(fov) == [DOUBTFUL]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_only_the_newest_is_current_and_the_older_ones_are_linked_history(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "The standup is at 7:45.")
        assert await _current(fov) == ["The standup is at 7:45."]
        (before,) = await fov.knowledge.list(kind="lesson")
        await record(fov, "b", "Standup is at 7:15 now, not 7:45.", day=9)
        assert await _current(fov) == ["Standup is at 7:15 now, not 7:45."]
        (now,) = await fov.knowledge.list(kind="lesson")
        (old,) = await fov.knowledge.versions(before.id)
        assert old.superseded_by == now.id
        assert old.reason.startswith("said otherwise on 9 ")
        await learn(fov, SHOP, quick=False)
        assert await _current(fov) == ["Standup is at 7:15 now, not 7:45."]
        assert len(await fov.knowledge.versions(before.id)) == 1

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_bare_correction_changes_the_value_of_what_was_just_said(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "The standup is at 7:45.", "sorry, not 7:45, 7:15")
        assert await _current(fov) == ["The standup is at 7:15."]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_statement_counts_how_often_and_when_it_was_confirmed(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "Never deploy on a Friday.")
        await record(fov, "b", "As a reminder: never deploy on a Friday!", day=3)
        await learn(fov, SHOP, quick=True)
        (item,) = await fov.knowledge.list(kind="lesson")
        assert item.times_said == 2
        assert [day.split()[0] for day in item.said_on] == ["1", "3"]
        await record(fov, "c", "never deploy on a friday", day=8)
        await learn(fov, SHOP, quick=True)
        (item,) = await fov.knowledge.list(kind="lesson")
        assert (item.times_said, len(item.said_on), len(item.sources)) == (3, 3, 3)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_rejected_statement_never_comes_back(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "Never deploy on a Friday.")
        await learn(fov, SHOP, quick=True)
        (item,) = await fov.knowledge.list(kind="lesson")
        await fov.knowledge.retire(item.id, "a joke")
        await record(fov, "b", "never deploy on a Friday!", day=5)
        for quick in (True, False):
            await learn(fov, SHOP, quick=quick)
            assert await fov.knowledge.list(kind="lesson") == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_pinned_statement_is_not_replaced_by_a_run(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "The standup is at 7:45.")
        await learn(fov, SHOP, quick=True)
        (item,) = await fov.knowledge.list(kind="lesson")
        await fov.knowledge.pin(item.id)
        await record(fov, "b", "Standup is at 7:15 now, not 7:45.", day=9)
        await learn(fov, SHOP, quick=True)
        assert {each.state for each in await fov.knowledge.list(kind="lesson")} == {"pinned", "proposed"}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_rule_for_one_case_replaces_no_general_one() -> None:
    general = read_claim("Always answer in German.")
    assert not read_claim("Always answer in English when the ticket is in English.").replaces(general)
    assert read_claim("Always use pnpm instead of npm.").replaces(read_claim("Always use npm."))
