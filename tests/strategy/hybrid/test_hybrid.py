"""The hybrid strategy: which messages become short, when, and what happens if that is not enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foveate.errors import SettingsError
from foveate.plan import Ledger, Plan
from foveate.settings import Settings, make_strategy
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.hybrid.messages import protect
from foveate.testing.histories import USUAL_OVERHEADS
from support.hybrid_snapshots import made_up, planned, said, short_places, snapshot_of, turns_of

TAG = USUAL_OVERHEADS.tag


def tokens_of(plan: Plan, level: str) -> int:
    return sum(row.tokens for row in plan.rows if row.level == level)


def test_the_numbers_of_the_design_are_the_defaults() -> None:
    settings = Hybrid()
    assert (settings.window_tokens, settings.trigger, settings.target) == (80_000, 0.70, 0.40)
    assert settings.protected_messages == 5
    assert (settings.user_tokens, settings.assistant_tokens) == (50, 200)
    assert (settings.read_tokens, settings.write_tokens, settings.edit_tokens) == (150, 50, 40)


def test_the_designs_example_protects_the_same_five_messages() -> None:
    """Messages 92 to 100 of the design: 94, 96, 97, 99 and 100 are protected, the tools 95 and 98 are not."""
    spoken = [(92, 1, "a"), (93, 2, "u"), (94, 2, "a"), (95, 2, "t"), (96, 3, "u"), (97, 3, "a"), (98, 3, "t")]
    spoken += [(99, 3, "a"), (100, 4, "u")]
    places: dict[tuple[int, int], int] = {}
    letters = ["ua", "", "", ""]
    places[1, 1] = 92
    for number, turn, who in spoken[1:]:
        places[turn, len(letters[turn - 1])] = number
        letters[turn - 1] += who
    protection = protect(turns_of(*letters), messages=5, injections=1)
    assert [places[place] for place in protection.talk] == [94, 96, 97, 99, 100]
    assert {places[place] for place in protection.all} == {94, 96, 97, 99, 100}


def test_nothing_is_short_below_the_trigger() -> None:
    snapshot = snapshot_of(turns_of(*["ua"] * 8, tokens=400))
    raw = sum(info.tokens + TAG for info in snapshot.turns)
    plan, _ = planned(snapshot, int(raw / 0.70) + 2)
    assert all(row.level == "R" for row in plan.rows)
    assert plan.events == ()


def test_the_trigger_makes_the_oldest_short_until_the_target_is_reached() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 12, tokens=400))
    raw = sum(info.tokens + TAG for info in snapshot.turns)
    budget = int(raw / 0.70) - 20
    plan, _ = planned(snapshot, budget)
    assert plan.tokens <= 0.40 * budget
    shown = sorted(short_places(plan))
    order = [(info.turn, message.position) for info in snapshot.turns for message in info.messages]
    assert shown == order[: len(shown)], "the oldest come first"
    # One message less would not have been enough.
    assert plan.tokens > 0.40 * budget - 400
    assert [event.kind for event in plan.events] == [
        "context-threshold-reached",
        "compression-triggered",
        "compressed",
    ]
    assert plan.events[-1].data["is_target_reached"] is True
    assert plan.notes["original_tokens"] == 400 * len(shown)
    assert plan.notes["protected"] == 5


def test_short_messages_stay_short_and_nothing_else_changes_until_the_next_trigger() -> None:
    turns = turns_of(*["uata"] * 30, tokens=400)
    budget = 20_000
    snapshot = snapshot_of(turns[:8])
    shown: list[tuple[int, ...]] = []
    before: Plan | None = None
    for count in range(8, 31):
        snapshot = replace(snapshot_of(turns[:count]), state=snapshot.state, made=snapshot.made)
        plan, snapshot = planned(snapshot, budget)
        assert plan.tokens <= budget
        if before is not None and not plan.events:
            assert plan.rows[: len(before.rows)] == before.rows, f"the prefix changed at turn {count}"
        shown.append((count, plan.tokens, len(plan.events)))
        before = plan
    compressions = [count for count, _, events in shown if events]
    assert 2 <= len(compressions) <= 6, shown


def test_the_last_five_messages_are_never_short_whatever_is_asked() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 20, tokens=300))
    for budget in (3_000, 4_000, 8_000, 20_000):
        plan, _ = planned(snapshot, budget)
        protected = {(20, 3), (20, 1), (20, 0), (19, 3), (19, 1)}
        assert not protected & short_places(plan), budget


def test_results_that_nobody_has_read_yet_are_not_short() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 10, "uatat", tokens=300, is_open=True), in_steps=True)
    for budget in (4_000, 8_000):
        plan, _ = planned(snapshot, budget)
        assert (11, 4) not in short_places(plan)


def test_the_prompt_of_a_turn_at_work_stays_though_it_is_old() -> None:
    snapshot = snapshot_of(turns_of("ua", "u" + "at" * 40, tokens=300, is_open=True), in_steps=True)
    plan, _ = planned(snapshot, 8_000)
    prompt = next(row for row in plan.rows if row.first == 2 and row.first_step == 1)
    assert (prompt.level, prompt.is_cut) == ("R", False)
    assert plan.rows[-1].level == "R", "the newest step is as it was"
    assert any(row.level == "M" and row.first_step > 1 for row in plan.rows)


def test_steps_that_were_made_short_are_shown_the_same_as_the_turn_goes_on() -> None:
    budget = 10_000
    snapshot = snapshot_of(turns_of("ua", "uat", tokens=200, is_open=True), in_steps=True)
    before: Plan | None = None
    for steps in range(2, 60):
        turns = turns_of("ua", "u" + "at" * steps, tokens=200, is_open=True)
        snapshot = replace(snapshot_of(turns, in_steps=True), state=snapshot.state, made=snapshot.made)
        plan, snapshot = planned(snapshot, budget)
        assert plan.tokens <= budget
        if before is not None and not plan.events:
            kept = before.rows[:-1]
            assert plan.rows[: len(kept)] == kept, f"the prefix changed at step {steps}"
        before = plan


def test_old_injections_are_short_and_the_newest_is_not() -> None:
    snapshot = snapshot_of(turns_of(*["iua"] * 12, tokens=400))
    plan, _ = planned(snapshot, 12_000)
    injected = {place for place in short_places(plan) if place[1] == 0}
    assert (1, 0) in injected
    assert (12, 0) not in injected


def test_display_only_items_are_counted_as_removed_and_cost_nothing() -> None:
    snapshot = snapshot_of(turns_of("uda", "ua", tokens=100))
    plan, _ = planned(snapshot, 10_000)
    assert plan.notes["display_removed"] == 1
    assert plan.tokens == 4 * 100 + 2 * TAG


def test_system_messages_stay_word_for_word_even_when_their_turn_is_rolled_up() -> None:
    snapshot = snapshot_of(turns_of("sua", *["uata"] * 200, tokens=300))
    plan, snapshot = planned(snapshot, 6_000)
    rolled = int(str(plan.notes["rolled_through"]).removeprefix("T-"))
    assert rolled >= 1
    assert (plan.rows[0].level, plan.rows[0].first) == ("A", 1)
    wanted = next(wanted for wanted in plan.wants if wanted.name == plan.rows[0].artefact)
    assert wanted.data == {"system": True}
    assert (1, 0) not in short_places(plan)


def test_what_is_too_much_even_when_short_becomes_sentences_and_eras() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 400, tokens=300))
    plan, _ = planned(snapshot, 8_000)
    levels = [row.level for row in plan.rows]
    assert levels[0] == "E"
    assert "T" in levels
    assert "M" in levels
    shown = [turn for row in plan.rows for turn in range(row.first, row.last + 1)]
    assert shown == list(range(1, 401)), "every turn is shown or named"


def test_a_target_that_can_not_be_reached_is_said_and_the_plan_goes_on() -> None:
    snapshot = snapshot_of(turns_of("uata", "uata", "ua", tokens=1_000))
    plan, after = planned(snapshot, 10_000)
    assert 4_000 < plan.tokens <= 10_000
    assert "can't be reached" in str(plan.notes["message"])
    assert plan.events[-1].data["is_target_reached"] is False
    again, _ = planned(after, 10_000)
    assert again.events == (), "it is told once"
    assert again.rows == plan.rows


def test_protected_messages_that_are_too_large_are_cut_oldest_first_and_told() -> None:
    snapshot = snapshot_of(turns_of("ua", "ua", "ua", "ua", tokens=3_000))
    plan, after = planned(snapshot, 10_000)
    assert plan.tokens <= 10_000
    cut = [event for event in plan.events if event.data.get("cut") == "protected"]
    assert [(event.turn, event.data["position"]) for event in cut] == [(2, 1), (3, 0)]
    assert "are cut" in str(plan.notes["message"])
    newest = plan.rows[-1]
    assert (newest.first, newest.level) == (4, "R"), "the newest are whole"
    again, _ = planned(after, 10_000)
    assert not [event for event in again.events if event.data.get("cut")]


def test_a_giant_closed_turn_leaves_messages_out_before_it_cuts_any() -> None:
    snapshot = snapshot_of(turns_of("u" + "at" * 300 + "a", "ua", tokens=100))
    plan, _ = planned(snapshot, 3_000)
    assert plan.tokens <= 3_000
    assert "cut" not in plan.notes
    wanted = next(wanted for wanted in plan.wants if "hidden" in wanted.data)
    assert wanted.last == 1


def test_a_one_off_is_filled_to_the_full_and_ignores_what_was_kept() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 40, tokens=400))
    plan, kept = planned(snapshot, 30_000)
    assert plan.tokens <= 0.4 * 30_000
    once, _ = planned(replace(kept, ledger=Ledger(budget_tokens=1_000_000, is_preview=True)), 50_000)
    assert 45_000 < once.tokens <= 50_000


def test_the_window_limits_a_history_that_has_more_room() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 40, tokens=400))
    plan, _ = planned(snapshot, 1_000_000, Hybrid(window_tokens=20_000))
    assert plan.tokens <= 0.4 * 20_000
    assert plan.notes["window_tokens"] == 20_000


def test_other_limits_make_short_messages_of_other_names() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 12, tokens=400))
    usual, _ = planned(snapshot, 12_000)
    other, _ = planned(snapshot, 12_000, Hybrid(user_tokens=30))
    assert not {wanted.name for wanted in usual.wants} & {wanted.name for wanted in other.wants}
    assert {wanted.data["tokens"]["user"] for wanted in other.wants} == {30}  # type: ignore[index,call-overload]


def test_a_message_whose_short_form_is_no_smaller_stays() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 12, tokens=400))
    plan, _ = planned(snapshot, 12_000, short_tokens=500)
    assert short_places(plan) == set()
    assert plan.tokens <= 12_000


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingsError, match="below trigger"):
        make_strategy("hybrid", Settings(), {"target": 0.8})
    with pytest.raises(SettingsError, match="hybrid"):
        make_strategy("hybrid", Settings(), {"protected": 3})


def test_a_story_without_messages_that_were_pruned_is_planned() -> None:
    pruned = [replace(info, messages=(said(0, "u", 10), said(1, "a", 0))) for info in turns_of(*["ua"] * 30)]
    plan, _ = planned(snapshot_of(pruned), 600)
    assert plan.tokens <= 600


def test_what_is_wanted_is_what_the_rows_show() -> None:
    snapshot = snapshot_of(turns_of(*["uata"] * 30, tokens=400))
    plan, after = planned(snapshot, 20_000)
    names = {wanted.name for wanted in plan.wants}
    assert {row.artefact for row in plan.rows if row.artefact} == names <= set(after.made)
    for wanted in plan.wants:
        assert wanted.last - 16 <= wanted.first <= wanted.last
        assert made_up(wanted, after).sizes
