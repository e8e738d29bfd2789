from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foveate.errors import SettingsError
from foveate.plan import Ledger, NotRead
from foveate.settings import load_settings
from foveate.strategy import load
from foveate.strategy.topics import Language, Topics
from foveate.strategy.topics.phrases import languages
from foveate.strategy.topics.state import MAX_BULKS, BulkState, Seal, TopicsState, TopicState
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, exchange, step_items
from support.topic_snapshots import about, lived_through, rows_of, said, settled, talk

TOPICS = Topics()
ROOM = 10_000
HERE, THERE = (127, 0, 0), (0, 127, 0)


def test_a_strategy_of_this_name_is_found() -> None:
    assert load("topics").__name__ == "Topics"


def test_the_defaults_are_those_of_the_design() -> None:
    assert (TOPICS.current, TOPICS.past, TOPICS.bulk) == (0.50, 0.30, 0.20)
    assert (TOPICS.max_message_chars, TOPICS.topic_tokens, TOPICS.bulk_tokens) == (2_000, 200, 300)
    assert (TOPICS.bulk_topics, TOPICS.silence_minutes, TOPICS.seal_share) == (3, 30, 0.60)


def test_the_tiers_take_50_30_and_20_percent_of_the_room() -> None:
    plan, _ = settled(TOPICS, ListedSnapshot(talk(3, 10, 10)), ROOM)
    assert plan.notes["room_tokens"] == {"current": 5_000, "past": 3_000, "bulk": 2_000}


@pytest.mark.parametrize("shares", [{"current": 0.6}, {"past": 0.31}, {"current": 0.5, "past": 0.5, "bulk": 0.5}])
def test_allocations_of_more_than_everything_are_refused_and_named(shares: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="current, past and bulk must add up to at most 1; got") as caught:
        load_settings(environment={}, overrides={"topics": shares})
    assert caught.value.key == "topics"


def test_allocations_of_less_than_everything_are_allowed() -> None:
    plan, _ = settled(Topics(current=0.3, past=0.1, bulk=0.0), ListedSnapshot(talk(60, 10, 90)), ROOM)
    assert plan.tokens <= ROOM


def test_every_language_that_may_be_named_has_a_list() -> None:
    assert languages() == Language.__args__  # type: ignore[attr-defined]


def test_while_nothing_ends_a_topic_every_message_is_there() -> None:
    plan, _ = settled(TOPICS, ListedSnapshot(talk(20, 20, 100)), ROOM)
    assert rows_of(plan) == [(turn, turn, "R") for turn in range(1, 21)]
    assert not plan.events


@pytest.mark.parametrize(("minutes", "is_over"), [(29.9, False), (30, True), (25, False), (1_440, True), (-45, False)])
def test_30_minutes_of_silence_end_a_topic_and_a_clock_running_backwards_does_not(
    minutes: float, is_over: bool
) -> None:
    plan, _ = settled(TOPICS, ListedSnapshot(talk(4, 20, 100, pauses={3: minutes})), ROOM)
    assert [(event.kind, event.data["why"], event.turn) for event in plan.events] == (
        [("topic-sealed", "silence", 2)] if is_over else []
    )


def test_a_clock_that_was_wrong_and_is_right_again_is_no_silence() -> None:
    first = said(1, 20, 100)
    second = said(2, 20, 100, after_minutes=-60, before=first)
    third = said(3, 20, 100, after_minutes=2, before=first)
    assert not settled(TOPICS, ListedSnapshot([first, second, third]), ROOM)[0].events


def test_silence_can_be_left_out_or_be_longer() -> None:
    turns = talk(4, 20, 100, pauses={3: 45})
    for settings in (Topics(silence_minutes=None), Topics(silence_minutes=60)):
        assert not settled(settings, ListedSnapshot(turns), ROOM)[0].events


def test_a_phrase_ends_a_topic() -> None:
    plan, _ = settled(TOPICS, ListedSnapshot(talk(4, 20, 100)), ROOM, signals={3: {"phrase": "new topic"}})
    assert plan.events[0].data == {"id": "topic-1", "why": "phrase", "first": 1, "last": 2, "tokens": 240}
    assert rows_of(plan) == [(1, 2, "A"), (3, 3, "R"), (4, 4, "R")]


def test_another_subject_ends_a_topic_and_the_same_one_does_not() -> None:
    signals: dict[int, Any] = {turn: {"asked": about(1, HERE), "before": about(1, HERE)} for turn in range(2, 9)}
    signals[6] = {"asked": about(2, THERE), "before": about(1, HERE)}
    signals[7] = {"asked": about(2, THERE), "before": about(2, THERE)}
    signals[8] = {"asked": about(2, THERE), "before": about(2, THERE)}
    plan, _ = settled(Topics(subject_distance=0.25), ListedSnapshot(talk(8, 20, 100)), ROOM, signals=signals)
    assert [(event.data["why"], event.turn) for event in plan.events] == [("subject", 5)]
    silent, _ = settled(TOPICS, ListedSnapshot(talk(8, 20, 100)), ROOM, signals=signals)
    assert not silent.events


def test_a_topic_beyond_60_percent_of_its_share_is_sealed_but_for_its_newest_turn() -> None:
    turns = talk(5, 100, 900)
    below, _ = settled(TOPICS, ListedSnapshot(turns[:3]), ROOM)
    assert not below.events
    assert below.tokens == 3_000  # 60 % of 5,000, and not more
    above, _ = settled(TOPICS, ListedSnapshot(turns[:4]), ROOM)
    assert [(event.data["why"], event.data["first"], event.data["last"]) for event in above.events] == [("size", 1, 3)]
    assert rows_of(above) == [(1, 3, "A"), (4, 4, "R")]


def test_a_subject_goes_on_over_a_topic_that_was_sealed_for_its_size() -> None:
    signals: dict[int, Any] = {turn: {"asked": about(1, HERE), "before": about(1, HERE)} for turn in range(2, 7)}
    signals[6] = {"asked": about(2, THERE), "before": about(1, HERE)}
    plans = lived_through(Topics(subject_distance=0.25), talk(6, 100, 900), ROOM, signals=signals)
    told = [(event.data["why"], event.turn) for plan in plans for event in plan.events]
    assert told == [("size", 3), ("subject", 5)]


def test_a_seal_by_hand_ends_the_topic_at_once() -> None:
    snapshot = ListedSnapshot(talk(4, 20, 100), state=TopicsState(seals=(Seal(4, 7),)).as_json())
    plan, after = settled(TOPICS, snapshot, ROOM)
    assert [(event.data["why"], event.turn) for event in plan.events] == [("manual", 4)]
    assert rows_of(plan) == [(1, 4, "A")]
    state = TopicsState.from_json(after.state)
    assert (state.start, state.seals, state.topics[0].sealed_us) == (5, (), 7)


def test_a_turn_without_an_answer_is_not_sealed_by_hand() -> None:
    turns = [*talk(2, 20, 100), exchange(3, 20, is_open=True)]
    plan, after = settled(TOPICS, ListedSnapshot(turns, state=TopicsState(seals=(Seal(3, 7),)).as_json()), ROOM)
    assert rows_of(plan) == [(1, 2, "A"), (3, 3, "R")]
    alone, _ = settled(
        TOPICS, ListedSnapshot(turns[2:], state=TopicsState(start=3, seen=3, seals=(Seal(3, 7),)).as_json()), ROOM
    )
    assert not alone.events
    assert TopicsState.from_json(after.state).seals == ()


def test_a_turn_that_goes_on_after_it_was_sealed_is_shown_until_the_next_begins() -> None:
    turns = talk(3, 20, 100)
    _, snapshot = settled(TOPICS, ListedSnapshot(turns, state=TopicsState(seals=(Seal(3, 7),)).as_json()), ROOM)
    grown = [*turns[:2], exchange(3, 20, 100, 50, 60, started_us=turns[2].started_us)]
    plan, snapshot = settled(TOPICS, replace(snapshot, turns=grown), ROOM)
    assert rows_of(plan) == [(1, 2, "A"), (3, 3, "R")]
    plan, snapshot = settled(TOPICS, snapshot, ROOM)
    assert rows_of(plan) == [(1, 2, "A"), (3, 3, "R")]
    more = [*grown, said(4, 20, 100, before=grown[-1])]
    plan, snapshot = settled(TOPICS, replace(snapshot, turns=more), ROOM)
    assert rows_of(plan) == [(1, 2, "A"), (3, 3, "A"), (4, 4, "R")]
    assert [topic.why for topic in TopicsState.from_json(snapshot.state).topics] == ["manual", "manual"]


def test_steps_are_taken_in_the_order_of_the_design_and_each_only_when_needed() -> None:
    """First truncation, then summaries of topics, then bulks, and at the last the oldest bulk is left out."""
    room = 4_000  # 2,000 for the current topic, 1,200 for past ones, 800 for bulks
    turns = [exchange(1, 20, 1_900, 300)]  # over 2,000 with its long answer
    turns += [exchange(turn, 20, 100, started_us=turn * 40 * 60_000_000) for turn in range(2, 42)]
    seen: list[str] = []
    for plan in lived_through(TOPICS, turns, room):
        assert plan.tokens <= room
        notes: Any = plan.notes
        for step, is_taken in (
            ("truncated", bool(notes["truncated"])),
            ("summarised", bool(notes["topics"])),
            ("merged", bool(notes["bulks"])),
            ("left out", bool(notes["left_out_bulks"])),
        ):
            if is_taken and step not in seen:
                seen.append(step)
        past = sum(row.tokens for row in plan.rows if row.level == "A")
        if "merged" not in seen:
            assert past <= 1_200
        if notes["left_out_bulks"]:
            assert plan.rows[0].level == "E"
    assert seen == ["truncated", "summarised", "merged", "left out"]


def test_three_oldest_topics_become_a_bulk_when_past_topics_exceed_their_share() -> None:
    pauses = dict.fromkeys(range(2, 40), 40.0)
    plans = lived_through(TOPICS, talk(18, 20, 100, pauses=pauses), ROOM)
    # Fifteen summaries of 200 fill the 3,000 tokens; the sixteenth is one too many.
    assert [len(plan.notes["topics"]) for plan in plans[14:17]] == [14, 15, 13]  # type: ignore[arg-type]
    merged = [event for plan in plans for event in plan.events if event.kind == "bulk-merged"]
    assert merged[0].data == {"id": "bulk-1", "topics": ["topic-1", "topic-2", "topic-3"], "first": 1, "last": 3}
    assert [event.kind for event in plans[16].events] == ["topic-sealed", "bulk-merged"]
    assert rows_of(plans[16])[:2] == [(1, 3, "A"), (4, 4, "A")]


def test_the_oldest_bulk_is_left_out_when_bulks_exceed_their_share_and_stays_kept() -> None:
    pauses = dict.fromkeys(range(2, 201), 40.0)
    snapshot = ListedSnapshot(talk(200, 20, 100, pauses=pauses), Ledger(budget_tokens=ROOM))
    plan, after = settled(TOPICS, snapshot, ROOM)
    bulks = TopicsState.from_json(after.state).bulks
    notes: Any = plan.notes
    assert len(bulks) == len(notes["bulks"]) + notes["left_out_bulks"]
    assert notes["left_out_bulks"] > 0
    assert (plan.rows[0].level, plan.rows[0].first, plan.rows[0].last) == (
        "E",
        1,
        bulks[notes["left_out_bulks"] - 1].last,
    )
    # With more room it is shown again.
    wider, _ = settled(TOPICS, replace(after, ledger=Ledger(budget_tokens=40_000)), 40_000)
    assert wider.notes["left_out_bulks"] == 0


def test_a_history_brought_in_at_once_has_the_topics_of_one_lived_through() -> None:
    turns = talk(70, 30, 170, pauses=dict.fromkeys(range(4, 70, 5), 31.0))
    lived = lived_through(TOPICS, turns, ROOM)[-1]
    brought_in, _ = settled(TOPICS, ListedSnapshot(turns, Ledger(budget_tokens=ROOM)), ROOM)
    assert brought_in.rows == lived.rows
    assert brought_in.notes == lived.notes


def test_long_messages_are_truncated_oldest_first_and_no_more_than_needed() -> None:
    settings = Topics(seal_share=1.0)
    turns = [exchange(1, 20, 1_200), exchange(2, 20, 1_200), exchange(3, 20, 900)]
    plan, _ = settled(settings, ListedSnapshot(turns), 6_000)
    assert rows_of(plan) == [(1, 1, "M"), (2, 2, "R"), (3, 3, "R")]
    assert plan.notes["truncated"] == {"1": [1]}
    assert plan.rows[0].tokens == 520


def test_one_giant_message_is_truncated_rather_than_ending_its_topic() -> None:
    turns = [*talk(3, 20, 100), exchange(4, 20, 20_000)]
    plan, _ = settled(TOPICS, ListedSnapshot(turns), ROOM)
    assert not [event for event in plan.events if event.data["why"] == "size"]
    assert rows_of(plan)[-1] == (4, 4, "M")


def test_a_newest_turn_beyond_its_share_takes_what_the_others_leave_and_is_cut_beyond_that() -> None:
    many = exchange(1, *[400] * 20)  # 8,000 tokens, and no message is long
    plan, _ = settled(TOPICS, ListedSnapshot([many]), ROOM)
    assert rows_of(plan) == [(1, 1, "R")]
    more = exchange(1, *[400] * 40)
    cut, _ = settled(TOPICS, ListedSnapshot([more]), ROOM)
    assert (cut.rows[0].is_cut, cut.tokens, cut.notes["is_cut"]) == (True, ROOM, True)


def test_a_turn_at_work_that_is_too_large_keeps_its_prompt_and_its_newest_step() -> None:
    info = replace(exchange(3, 60, *[400, 500] * 40), is_open=True)
    turns = [*talk(2, 20, 100), info]
    items = [*(item for item in reversed(list(ListedSnapshot(turns[:2]).newest()))), *step_items(info)]
    plan, _ = settled(TOPICS, ListedSnapshot(turns, items=items), ROOM, overheads=USUAL_OVERHEADS)
    steps = [row for row in plan.rows if row.first_step]
    assert (steps[0].first_step, steps[0].level, steps[0].is_cut) == (1, "R", False)
    assert (steps[-1].last_step, steps[-1].level) == (41, "R")
    assert plan.tokens <= ROOM


def test_a_one_off_undoes_merges_and_shows_the_newest_past_topics_in_full() -> None:
    pauses = dict.fromkeys(range(2, 80), 40.0)
    turns = talk(30, 20, 100, pauses=pauses)
    plan, after = settled(TOPICS, ListedSnapshot(turns, Ledger(budget_tokens=ROOM)), ROOM)
    assert plan.notes["bulks"]
    wide = replace(after, ledger=Ledger(budget_tokens=30_000, is_preview=True))
    once, _ = settled(TOPICS, wide, 30_000)
    assert not once.notes["bulks"]
    assert rows_of(once) == [(turn, turn, "R") for turn in range(1, 31)]
    kept = replace(after, ledger=Ledger(budget_tokens=30_000))
    assert settled(TOPICS, kept, 30_000)[0].notes["bulks"] == plan.notes["bulks"]


def test_past_topics_stay_in_full_while_there_is_room_if_asked_for() -> None:
    turns = talk(30, 20, 400, pauses={10: 40.0, 20: 40.0})
    plan, _ = settled(Topics(keep_full=True, seal_share=1.0), ListedSnapshot(turns), ROOM)
    assert rows_of(plan)[0] == (1, 9, "A")
    assert rows_of(plan)[1:] == [(turn, turn, "R") for turn in range(10, 31)]


def test_switched_off_it_shows_the_newest_turns_as_standard_does() -> None:
    plan, _ = settled(Topics(enabled=False), ListedSnapshot(talk(200, 20, 100)), 2_000)
    assert {row.level for row in plan.rows} == {"R", "E"}
    assert plan.notes["dropped_turns"]


@pytest.mark.parametrize("room", [0, 50, 255, 300, 700])
def test_a_room_too_small_for_topics_still_shows_the_newest_turn(room: int) -> None:
    turns = talk(30, 20, 100, pauses={10: 40.0})
    plan, _ = settled(TOPICS, ListedSnapshot(turns), room, overheads=USUAL_OVERHEADS)
    assert plan.tokens <= room
    if room >= 255:
        assert plan.rows[-1].last == 30


def test_what_is_kept_comes_back_as_it_was() -> None:
    topic = TopicState(4, 10, 12, 99, "silence", 300)
    state = TopicsState(13, 10, 15, (topic,), (BulkState(1, 98, (topic, topic)),), 4, 1, (Seal(15, 5, waits=True),), 3)
    assert TopicsState.from_json(state.as_json()) == state
    assert TopicsState.from_json({}) == TopicsState()


def test_the_kept_bulks_have_a_limit() -> None:
    state = TopicsState()
    for number in range(1, MAX_BULKS + 5):
        state = state.with_bulk(BulkState(number, 0, (TopicState(number, number, number, 0, "size", 10),)))
    assert len(state.bulks) == MAX_BULKS
    assert (state.bulks[0].first, state.bulks[0].last, state.bulks[1].first) == (1, 5, 6)
    assert sum(topic.tokens for topic in state.bulks[0].topics) == 50


def test_a_sealed_turn_that_is_not_in_memory_is_requested() -> None:
    turns = talk(6, 20, 100)
    topic = TopicState(1, 1, 3, 7, "manual", 360)
    book = TopicsState(start=4, subject=4, seen=3, topics=(topic,), sealed=1, tail=1)
    snapshot = ListedSnapshot(turns, state=book.as_json())
    with pytest.raises(NotRead) as lacking:
        TOPICS.plan(replace(snapshot, first_read=6), snapshot.state, Ledger(budget_tokens=ROOM, history_tokens=ROOM))
    assert (lacking.value.kind, lacking.value.turn) == ("turns", 3)
    plan, after = settled(TOPICS, replace(snapshot, first_read=3), ROOM)
    assert TopicsState.from_json(after.state).topics[0].last == 2
    assert settled(TOPICS, snapshot, ROOM)[0] == plan


def test_what_the_other_tiers_leave_shows_more_bulks() -> None:
    pauses = dict.fromkeys(range(2, 201), 40.0)
    plan, _ = settled(TOPICS, ListedSnapshot(talk(200, 20, 100, pauses=pauses), Ledger(budget_tokens=4_000)), 4_000)
    notes: Any = plan.notes
    assert plan.tokens >= 0.8 * 4_000
    assert len(notes["bulks"]) > notes["room_tokens"]["bulk"] // 300
    assert notes["left_out_bulks"] > 0


def test_bulks_give_way_again_while_the_current_topic_grows_and_not_with_each_turn() -> None:
    pauses = dict.fromkeys(range(2, 151), 40.0)
    plans = lived_through(TOPICS, talk(162, 20, 60, pauses=pauses), 4_000)[149:]
    assert {len(plan.events) for plan in plans[1:]} == {0}, "one topic"
    left_out: list[Any] = [plan.notes["left_out_bulks"] for plan in plans]
    assert left_out == sorted(left_out)
    assert 1 < len(set(left_out)) <= 4
    assert all(0.7 * 4_000 < plan.tokens <= 4_000 for plan in plans)
