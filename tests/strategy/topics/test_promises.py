"""The guarantees of the topics strategy for any conversation, replayed turn by turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate.plan import Ledger, Plan
from foveate.strategy.topics import Topics
from foveate.strategy.topics.state import TopicsState
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot
from support.examples import times
from support.topic_snapshots import about, rows_of, said, settled

ROOMS = st.integers(300, 12_000)
SIZES = st.lists(st.integers(1, 60) | st.integers(1, 3_000), min_size=1, max_size=5)
WAYS = st.sampled_from([(127, 0), (0, 127), (-127, 0)])


@st.composite
def talks(draw: st.DrawFn) -> tuple[ListedSnapshot, dict[int, Any]]:
    """Turns of any size with pauses, phrases and subjects of any sort; clocks may run backwards."""
    turns: Any = []
    signals: dict[int, Any] = {}
    for turn in range(1, draw(st.integers(1, 40)) + 1):
        minutes = draw(st.sampled_from([1, 1, 1, 29, 30, 600, -50]))
        turns.append(said(turn, *draw(SIZES), after_minutes=minutes, before=turns[-1] if turns else None))
        signals[turn] = {
            "phrase": draw(st.sampled_from(["", "", "", "new topic"])),
            "asked": about(draw(st.integers(0, 3)), draw(WAYS)),
            "before": about(draw(st.integers(0, 3)), draw(WAYS)),
        }
    return ListedSnapshot(turns, Ledger(budget_tokens=20_000)), signals


def check(plan: Plan, snapshot: ListedSnapshot, room: int) -> None:
    assert plan.tokens <= room
    covered = [turn for row in plan.rows for turn in range(row.first, row.last + 1)]
    assert sorted(set(covered)) == list(range(1, snapshot.last_turn + 1)), "a turn is neither shown nor named"
    assert covered == sorted(covered)


@examples(max_examples=times(20), deadline=None)
@given(talks(), ROOMS, st.booleans())
def test_every_turn_is_shown_or_named_and_the_tiers_keep_to_their_shares(
    given_talk: tuple[ListedSnapshot, dict[int, Any]], room: int, keep_full: bool
) -> None:
    snapshot, signals = given_talk
    settings = Topics(keep_full=keep_full)
    whole = snapshot.turns
    for count in range(1, len(whole) + 1):
        snapshot = replace(snapshot, turns=whole[:count])
        plan, snapshot = settled(settings, snapshot, room, overheads=USUAL_OVERHEADS, signals=signals)
        check(plan, snapshot, room)
        assert plan.rows[-1].last == count, "the newest turn is not shown"
        shares: Any = plan.notes.get("room_tokens")
        if not shares or keep_full:
            continue
        book = TopicsState.from_json(snapshot.state)
        past = sum(row.tokens for row in plan.rows if row.level == "A" and row.artefact.startswith("topic-"))
        bulks = sum(row.tokens for row in plan.rows if row.level == "A" and row.artefact.startswith("bulk-"))
        assert past <= shares["past"]
        assert bulks <= max(shares["bulk"], sum(shares.values()) - past)
        assert [topic.number for topic in book.topics] == list(
            range(book.sealed - len(book.topics) + 1, book.sealed + 1)
        )


@examples(max_examples=times(15), deadline=None)
@given(talks(), ROOMS, ROOMS)
def test_a_one_off_fits_any_room_and_names_every_turn(
    given_talk: tuple[ListedSnapshot, dict[int, Any]], room: int, other: int
) -> None:
    snapshot, signals = given_talk
    _, snapshot = settled(Topics(), snapshot, room, overheads=USUAL_OVERHEADS, signals=signals)
    once = replace(snapshot, ledger=Ledger(budget_tokens=20_000, is_preview=True))
    plan, _ = settled(Topics(), once, other, overheads=USUAL_OVERHEADS, signals=signals)
    check(plan, once, other)
    again, _ = settled(Topics(), once, other, overheads=USUAL_OVERHEADS, signals=signals)
    assert rows_of(plan) == rows_of(again)
