from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foveate.plan import Artefact, ArtefactSpec, Ledger, Overheads, Plan
from foveate.strategy import load
from foveate.strategy.checkpoint import Checkpoint
from foveate.strategy.checkpoint import planner as _checkpoint_planner
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive
from support.checkpoint_snapshots import Talk, grown, lived_through, settled, snapshot_of
from support.docs_examples import python_examples, run_example
from support.paths import ROOT

CHECKPOINT = Checkpoint()
FREE = Overheads(line=0, tag=0, range=0, cut_note=12)
SIXTEEN = Ledger(budget_tokens=16_000, fixed_tokens=1_000)
ROOM = 13_500


def test_a_strategy_of_this_name_is_found() -> None:
    assert load("checkpoint").__name__ == Checkpoint.__name__


@pytest.mark.parametrize(
    ("size", "tier", "usable", "checkpoints"),
    [
        (500, 1, 425, 0),
        (2_000, 1, 1_700, 0),
        (4_000, 1, 3_400, 0),
        (6_000, 1, 5_100, 0),
        (8_000, 2, 6_800, 1),
        (12_000, 2, 10_200, 1),
        (16_000, 3, 13_600, 3),
        (31_999, 3, 27_199, 3),
        (32_000, 4, 27_200, 10),
        (64_000, 5, 54_400, 15),
        (128_000, 5, 108_800, 15),
        (2_000_000, 5, 1_700_000, 15),
    ],
)
def test_the_context_size_decides_the_tier(size: int, tier: int, usable: int, checkpoints: int) -> None:
    assert CHECKPOINT.tier(size) == tier
    assert CHECKPOINT.checkpoint_limit(tier) == checkpoints
    plan, _ = settled(CHECKPOINT, snapshot_of([Talk(5, (5,))], Ledger(budget_tokens=size)), size, FREE)
    assert plan.notes["tier"] == tier
    assert plan.notes["available_tokens"] == usable


def test_the_budgets_after_each_compression_are_those_of_the_design() -> None:
    talks = [Talk(0, (1_000, 500)) for _ in range(40)]
    plans = lived_through(CHECKPOINT, talks, SIXTEEN, ROOM, FREE)
    seen: list[tuple[Any, Any, list[Any]]] = []
    for plan in plans:
        checkpoints: Any = plan.notes["checkpoints"]
        sizes = [checkpoint["current_tokens"] for checkpoint in checkpoints]
        found = (plan.notes["available_tokens"], plan.notes["trigger_tokens"], sizes)
        if not seen or seen[-1] != found:
            seen.append(found)
    assert seen[:4] == [
        (12_600, 10_080, []),
        (11_400, 9_120, [1_200]),
        (10_800, 8_640, [600, 1_200]),
        (10_500, 8_400, [300, 600, 1_200]),
    ]
    # From the fourth on the two oldest merge, so the budget stays where it is.
    assert len(seen) == 4


def test_a_history_brought_in_at_once_is_compressed_as_if_it_had_been_lived_through() -> None:
    talks = [Talk(20 + turn % 7, (300 + turn * 37 % 900, turn * 91 % 1_500)) for turn in range(120)]
    lived = lived_through(CHECKPOINT, talks, SIXTEEN, ROOM)[-1]
    brought_in, _ = settled(CHECKPOINT, snapshot_of(talks, SIXTEEN), ROOM)
    assert brought_in.rows == lived.rows
    assert brought_in.notes == lived.notes


def test_the_threshold_is_at_80_percent_of_what_is_available() -> None:
    below = [Talk(0, (4_040,)), Talk(0, (4_000,)), Talk(0, (2_040,))]
    assert not settled(CHECKPOINT, snapshot_of(below, SIXTEEN), ROOM, FREE)[0].events
    above = [*below[:2], Talk(0, (2_041,))]
    plan, _ = settled(CHECKPOINT, snapshot_of(above, SIXTEEN), ROOM, FREE)
    assert plan.events[0].data == {"used_tokens": 10_081, "trigger_tokens": 10_080, "available_tokens": 12_600}
    assert [(row.first, row.last, row.level) for row in plan.rows] == [(1, 2, "A"), (1, 2, "U"), (3, 3, "R")]


def test_events_come_in_the_order_of_the_timeline() -> None:
    talks = [Talk(0, (1_000, 500)) for _ in range(16)]
    plans = lived_through(CHECKPOINT, talks, SIXTEEN, ROOM, FREE)
    first, second = [plan for plan in plans if plan.events]
    start = ["context-threshold-reached", "compression-triggered", "checkpoint-created"]
    assert [event.kind for event in first.events] == [*start, "budget-recalculated", "compressed"]
    assert [event.kind for event in second.events] == [
        *start,
        "checkpoints-aged",
        "budget-recalculated",
        "compressed",
    ]
    created: Any = second.events[2].data
    assert (created["id"], created["level"], created["compression_count"]) == ("cp-2", 3, 1)
    assert created["original_tokens"] == 1_500 * (second.rows[1].last - second.rows[1].first + 1)
    assert second.events[3].data == {"aged": ["cp-1"], "merged": []}
    assert second.events[4].data["available_tokens"] == 10_800


def levels(plan: Plan) -> list[tuple[str, int, int]]:
    checkpoints: Any = plan.notes["checkpoints"]
    return [(one["id"], one["level"], one["compression_count"]) for one in checkpoints]


def test_checkpoints_age_and_past_the_count_the_two_oldest_merge() -> None:
    plans = lived_through(CHECKPOINT, [Talk(0, (1_000, 500)) for _ in range(40)], SIXTEEN, ROOM, FREE)
    after = [levels(plan) for plan in plans if plan.events]
    assert after[:4] == [
        [("cp-1", 3, 1)],
        [("cp-1", 2, 2), ("cp-2", 3, 1)],
        [("cp-1", 1, 3), ("cp-2", 2, 2), ("cp-3", 3, 1)],
        [("cp-1", 1, 4), ("cp-3", 2, 2), ("cp-4", 3, 1)],
    ]
    merged = [plan for plan in plans if plan.events][3]
    assert next(event for event in merged.events if event.kind == "checkpoints-aged").data["merged"] == ["cp-1", "cp-2"]
    rows = [row for row in merged.rows if row.level == "A"]
    assert rows[0].first == 1
    assert all(older.last + 1 == newer.first for older, newer in pairwise(rows))


def test_the_one_checkpoint_of_tier_2_stays_detailed() -> None:
    plans = lived_through(
        CHECKPOINT, [Talk(0, (800,)) for _ in range(30)], Ledger(budget_tokens=8_000, fixed_tokens=500), 6_500, FREE
    )
    after = [levels(plan) for plan in plans if plan.events]
    assert [len(found) for found in after] == [1] * len(after)
    assert {found[0][1] for found in after} == {3}
    assert len(after) > 2


def test_an_artefact_is_named_by_its_range_and_level_so_ageing_makes_it_from_the_turns_again() -> None:
    plans = lived_through(CHECKPOINT, [Talk(0, (1_000, 500)) for _ in range(40)], SIXTEEN, ROOM, FREE)
    wanted = {name.name: name for plan in plans for name in plan.wants}
    of_first = sorted((one.data["level"], one.tokens) for one in wanted.values() if (one.first, one.last) == (1, 6))
    assert of_first == [(1, 300), (2, 600), (3, 3_720)]  # the newest one has the preserved list


def test_user_messages_that_no_longer_fit_roll_over_and_say_so() -> None:
    talks = [Talk(400, (200,)) for _ in range(60)]
    plans = lived_through(CHECKPOINT, talks, SIXTEEN, ROOM)
    rolled = [plan for plan in plans if any(event.data.get("rolled_over") for event in plan.events)]
    assert rolled
    first = rolled[0]
    assert first.notes["rollovers"] == 1
    assert "get_turn" in str(first.notes["message"])
    last = int(str(first.notes["tiny_through"]).removeprefix("T-"))
    tinies = [row for row in first.rows if row.level == "T"]
    assert (tinies[0].first, tinies[-1].last) == (1, last)
    users = [row for row in first.rows if row.level == "U"]
    assert users[0].first == last + 1
    assert {one[1] for one in levels(first)} == {1}
    # A rollover makes room for a while: it does not come with every turn.
    assert len(rolled) < 6


def test_tier_1_keeps_the_users_words_without_checkpoints_and_says_so() -> None:
    plans = lived_through(
        CHECKPOINT, [Talk(40, (160,)) for _ in range(30)], Ledger(budget_tokens=4_000, fixed_tokens=400), 3_200
    )
    assert {row.level for plan in plans for row in plan.rows} == {"U", "R"}
    last = plans[-1]
    assert last.notes["tier"] == 1
    assert "rollovers" not in last.notes
    assert "only the user's words are shown" in str(last.notes["message"])
    assert {turn for row in last.rows for turn in range(row.first, row.last + 1)} == set(range(1, 31))
    assert [event.kind for plan in plans for event in plan.events][:4] == [
        "context-threshold-reached",
        "compression-triggered",
        "budget-recalculated",
        "compressed",
    ]


def test_tier_1_rolls_over_once_the_users_words_no_longer_fit() -> None:
    plans = lived_through(
        CHECKPOINT, [Talk(200, (160,)) for _ in range(30)], Ledger(budget_tokens=4_000, fixed_tokens=400), 3_200
    )
    first = next(plan for plan in plans if plan.notes.get("rollovers"))
    assert {row.level for row in first.rows} >= {"T", "U", "R"}
    shown = [row for row in plans[plans.index(first) - 1].rows if row.level == "U"]
    assert sum(row.tokens for row in shown) > 0.75 * 3_000
    assert "up to T-" in str(first.notes["message"])


def test_nothing_rolls_over_while_the_users_words_fit() -> None:
    talks = [Talk(400, (300,)) for _ in range(24)]
    plans = lived_through(CHECKPOINT, talks, SIXTEEN, ROOM)
    assert sum(talk.user for talk in talks) > 0.75 * 12_600
    assert not any("rollovers" in plan.notes for plan in plans)
    words = {row.level for row in plans[-1].rows for _ in range(row.first, row.last + 1)}
    assert words == {"A", "U", "R"}


def test_prompt_board_and_recall_are_not_held_back_from_what_is_available() -> None:
    ledger = Ledger(budget_tokens=16_000, fixed_tokens=1_230, prompt_tokens=700, own_tokens=230)
    plan, _ = settled(CHECKPOINT, snapshot_of([Talk(10, (1_000,))], ledger), 14_070)
    assert plan.notes["available_tokens"] == 12_600


def test_architecture_decisions_are_not_taken_from_what_is_available() -> None:
    plans = []
    snapshot = snapshot_of((), SIXTEEN)
    for count in range(1, 17):
        snapshot = grown(snapshot, [Talk(0, (1_000, 500))] * count)
        plan, snapshot = settled(CHECKPOINT, snapshot, ROOM, FREE, share=1.2)
        plans.append(plan)
    after = [plan.notes["available_tokens"] for plan in plans if plan.events]
    assert after == [11_400, 10_800]


def test_eras_stand_for_rolled_over_turns_that_are_too_many() -> None:
    plan, _ = settled(
        CHECKPOINT,
        snapshot_of([Talk(40, (160,)) for _ in range(2_000)], Ledger(budget_tokens=4_000, fixed_tokens=400)),
        3_200,
    )
    assert (plan.rows[0].level, plan.rows[0].first) == ("E", 1)
    assert "eras_through" in plan.notes


def test_a_history_too_long_to_go_through_begins_with_one_checkpoint_for_all_that_is_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_checkpoint_planner, "MAX_CATCH_UP_TURNS", 50)
    talks = [Talk(20, (300, 200)) for _ in range(400)]
    _, early = settled(CHECKPOINT, snapshot_of(talks[:90], SIXTEEN), ROOM)
    plan, _ = settled(CHECKPOINT, grown(early, talks), ROOM)
    checkpoints = [row for row in plan.rows if row.level == "A"]
    assert checkpoints[0].first == 1
    assert checkpoints[0].last >= 350
    assert {turn for row in plan.rows for turn in range(row.first, row.last + 1)} == set(range(1, 401))
    assert plan.notes["tiny_through"] == "T-350"
    compressions: Any = plan.notes["compressions"]
    assert compressions < 30


def test_a_large_answer_at_the_end_leaves_the_prompt_as_it_was() -> None:
    plan, _ = settled(CHECKPOINT, snapshot_of([Talk(50, (400,)), Talk(90, (30_000,))], SIXTEEN), ROOM)
    newest = [row for row in plan.rows if row.first == 2]
    assert [(row.level, row.is_cut) for row in newest] == [("R", True)]
    assert "newest" in plan.notes
    plan, _ = settled(CHECKPOINT, snapshot_of([Talk(50, (400,)), Talk(9_000, (30_000,))], SIXTEEN), ROOM)
    assert [(row.level, row.is_cut) for row in plan.rows if row.first == 2] == [("U", False)]


def test_a_turn_at_work_keeps_its_prompt_and_its_newest_step_raw() -> None:
    snapshot = snapshot_of([Talk(50, (400,)) for _ in range(9)] + [Talk(300, (350,) * 200)], SIXTEEN, is_running=True)
    plan, _ = settled(CHECKPOINT, snapshot, ROOM)
    steps = [row for row in plan.rows if row.first_step]
    assert (steps[0].first_step, steps[0].last_step, steps[0].level, steps[0].is_cut) == (1, 1, "R", False)
    assert (steps[-1].last_step, steps[-1].level) == (201, "R")
    assert [row.first_step for row in steps[1:]] == [row.last_step + 1 for row in steps[:-1]]


def test_a_one_off_keeps_the_sessions_tier_and_checkpoints() -> None:
    talks = [Talk(10, (1_000, 500)) for _ in range(20)]
    own, snapshot = settled(CHECKPOINT, snapshot_of(talks, SIXTEEN), ROOM)
    larger = Ledger(budget_tokens=100_000, fixed_tokens=1_000, is_preview=True)
    wide, _ = settled(CHECKPOINT, replace(snapshot, ledger=larger), 90_000)
    assert wide.notes["tier"] == own.notes["tier"] == 3
    assert wide.rows == own.rows
    smaller = Ledger(budget_tokens=5_000, fixed_tokens=1_000, is_preview=True)
    narrow, _ = settled(CHECKPOINT, replace(snapshot, ledger=smaller), 3_600)
    assert narrow.notes["tier"] == 3
    assert narrow.tokens <= 3_600


def test_another_budget_of_the_session_is_another_tier() -> None:
    talks = [Talk(10, (1_000, 500)) for _ in range(20)]
    _, snapshot = settled(CHECKPOINT, snapshot_of(talks, SIXTEEN), ROOM)
    plan, _ = settled(CHECKPOINT, replace(snapshot, ledger=Ledger(budget_tokens=32_000, fixed_tokens=1_000)), 28_000)
    assert plan.notes["tier"] == 4


def test_switched_off_it_makes_no_checkpoints_and_rolls_over_when_nothing_else_fits() -> None:
    plans = lived_through(Checkpoint(enabled=False), [Talk(40, (600,)) for _ in range(40)], SIXTEEN, ROOM)
    assert not any(row.level == "A" for plan in plans for row in plan.rows)
    before = next(plan for plan in plans if plan.events)
    assert before.events[0].data["trigger_tokens"] == before.events[0].data["available_tokens"]


def test_nothing_changes_between_compressions_but_what_is_appended() -> None:
    plans = lived_through(CHECKPOINT, [Talk(30, (400, 200)) for _ in range(60)], SIXTEEN, ROOM)
    for before, after in pairwise(plans):
        if not after.events:
            assert after.rows[: len(before.rows)] == before.rows


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tier_tokens": (8_000, 8_000, 32_000, 64_000)}, "four increasing sizes"),
        ({"tier_checkpoints": (0, 1, -3, 10, 15)}, "five counts"),
        ({"compact_tokens": 700}, "must grow in this order"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Checkpoint(**wrong)


def test_an_empty_conversation_has_no_rows() -> None:
    assert settled(CHECKPOINT, snapshot_of([], SIXTEEN), ROOM)[0].rows == ()


def test_the_docs_example_runs(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "docs" / "concepts" / "checkpoint.md")
    assert run_example(example, tmp_path) == "standard 0.95\n"


def made_of_decisions(wanted: ArtefactSpec, _snapshot: ListedSnapshot) -> Artefact:
    """A text that takes all that it may, with as many architecture decisions as its preserved list has room for."""
    preserved = wanted.data.get("architecture_tokens", 0)
    data = {"preserved_tokens": preserved}
    return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, tokens=wanted.tokens, text="…", data=data)


@pytest.mark.parametrize(("budget_tokens", "rest", "most"), [(8_000, 200, 40), (16_000, 400, 20), (64_000, 1_400, 8)])
def test_a_session_full_of_decisions_is_not_compressed_again_and_again(
    budget_tokens: int, rest: int, most: int
) -> None:
    talks = [Talk(20, (rest,))] * 150
    snapshot = replace(snapshot_of((), Ledger(budget_tokens=budget_tokens)), overheads=USUAL_OVERHEADS)
    for count in range(1, len(talks) + 1):
        plan, snapshot = drive(CHECKPOINT, grown(snapshot, talks[:count]), int(budget_tokens * 0.85), made_of_decisions)
    notes: Any = plan.notes
    assert 0 < notes["compressions"] <= most
    assert all(one["current_tokens"] <= CHECKPOINT.level_tokens(one["level"]) for one in notes["checkpoints"])
    assert 0 < notes["preserved_tokens"] <= 0.2 * budget_tokens
    assert "rollovers" not in notes
