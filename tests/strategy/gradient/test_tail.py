"""The verbatim part of a context: a share of the room, cut between steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.tail import FRAMING_TOKENS, tail_start, verbatim_share, work_share
from foveate.testing.histories import exchange
from support.examples import times
from support.growth import SteppedSnapshot

GRADIENT = Gradient()
EXAMPLES = times(30)
ROOMS = st.integers(500, 40_000)
WORK = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@st.composite
def sessions(draw: st.DrawFn, *, is_open: bool = False) -> SteppedSnapshot:
    """1 to 80 turns of one to nine messages."""
    sizes = st.lists(st.one_of(st.integers(1, 200), st.integers(1, 6_000)), min_size=1, max_size=9)
    drawn = draw(st.lists(sizes, min_size=1, max_size=8))
    count = draw(st.integers(1, 80))
    turns = [exchange(turn, *drawn[turn * turn % len(drawn)]) for turn in range(1, count + 1)]
    return SteppedSnapshot([*turns[:-1], replace(turns[-1], is_open=is_open)])


def share_of(work: float) -> float:
    return GRADIENT.raw_share + (GRADIENT.recent - GRADIENT.raw_share) * work


@settings(max_examples=EXAMPLES, deadline=None)
@given(sessions(), ROOMS, WORK)
def test_the_verbatim_part_is_within_its_share_or_the_newest_step_alone(
    snapshot: SteppedSnapshot, room: int, work: float
) -> None:
    tokens = snapshot.tokens_after(*tail_start(GRADIENT, snapshot, room, verbatim_share(GRADIENT, work, 0.0)))
    newest = sum(message.tokens + FRAMING_TOKENS for message in snapshot.turns[-1].steps[-1])
    assert tokens <= share_of(work) * room or tokens == newest <= GRADIENT.newest_share * room


@settings(max_examples=EXAMPLES, deadline=None)
@given(sessions(), ROOMS, WORK)
def test_no_older_exchange_would_fit_the_share(snapshot: SteppedSnapshot, room: int, work: float) -> None:
    turn, step = tail_start(GRADIENT, snapshot, room, verbatim_share(GRADIENT, work, 0.0))
    if turn:
        first = max(0, (step or len(snapshot.turns[turn - 1].steps)) - 2)
        more = snapshot.tokens_after(turn, first) if first else snapshot.tokens_after(turn - 1, 0)
        assert more > share_of(work) * room


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.one_of(sessions(), sessions(is_open=True)), ROOMS, WORK)
def test_a_prompt_is_not_divided_from_its_first_answer(snapshot: SteppedSnapshot, room: int, work: float) -> None:
    assert tail_start(GRADIENT, snapshot, room, verbatim_share(GRADIENT, work, 0.0))[1] != 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(sessions(is_open=True), ROOMS, WORK, st.sets(st.integers(1, 5)))
def test_a_turn_in_progress_is_divided_only_after_an_answered_step(
    snapshot: SteppedSnapshot, room: int, work: float, unanswered: set[int]
) -> None:
    answered = [step for step in range(1, len(snapshot.turns[-1].steps)) if step not in unanswered]
    turn, step = tail_start(GRADIENT, replace(snapshot, answered=answered), room, verbatim_share(GRADIENT, work, 0.0))
    assert turn < snapshot.last_turn or step in answered


def test_a_turn_in_progress_without_an_answered_step_stays_whole() -> None:
    snapshot = SteppedSnapshot([exchange(1, 50, 50), exchange(2, *([900] * 9), is_open=True)], answered=())
    assert tail_start(GRADIENT, snapshot, 4_000, verbatim_share(GRADIENT, 1.0, 0.0)) == (1, 0)


def test_a_large_turn_is_divided_between_its_steps() -> None:
    snapshot = SteppedSnapshot([exchange(1, 50, *([100] * 80))])
    turn, step = tail_start(GRADIENT, snapshot, 10_000, verbatim_share(GRADIENT, 1.0, 0.0))
    assert (turn, step) == (1, 41 - 19)  # of 40 % of the room
    assert snapshot.tokens_after(turn, step) == 19 * 208


def test_a_newest_step_above_its_share_is_not_verbatim() -> None:
    snapshot = SteppedSnapshot([exchange(1, 50, 50), exchange(2, 50, 7_000)])
    assert tail_start(GRADIENT, snapshot, 10_000, verbatim_share(GRADIENT, 0.0, 0.0)) == (2, 0)


def test_a_history_that_fits_the_share_is_all_verbatim() -> None:
    snapshot = SteppedSnapshot([exchange(1, 50, 50), exchange(2, 50, 50)])
    assert tail_start(GRADIENT, snapshot, 10_000, 0.1) == (0, 0)


def test_the_more_work_with_tools_the_longer_the_verbatim_part() -> None:
    snapshot = SteppedSnapshot([exchange(turn, 96, 96) for turn in range(1, 101)])
    starts = [tail_start(GRADIENT, snapshot, 10_000, verbatim_share(GRADIENT, work, 0.0)) for work in (0.0, 0.5, 1.0)]
    assert starts == [(95, 0), (88, 0), (80, 0)]


def test_the_share_of_work_is_that_of_turns_with_tool_results_in_quarters() -> None:
    chats = [exchange(turn, 100, 100) for turn in range(1, 4)]
    assert work_share(SteppedSnapshot(chats)) == 0.0
    assert work_share(SteppedSnapshot([*chats, exchange(4, 60, 60, 60)])) == 0.25
    assert work_share(SteppedSnapshot([exchange(1, 60, 60, 60)])) == 1.0


def test_the_share_of_work_follows_the_newest_turns() -> None:
    worked = [exchange(turn, 60, 60, 60, 60) for turn in range(1, 100)]
    assert work_share(SteppedSnapshot([*worked, *(exchange(turn, 9, 9) for turn in range(100, 140))])) == 0.0


def test_turns_with_code_are_work_without_tools_too() -> None:
    snapshot = SteppedSnapshot([exchange(turn, 60, 60) for turn in range(1, 5)]).until(4, 0)
    coded = [replace(item, is_work=item.turn in (2, 3)) for item in snapshot.items]
    assert work_share(replace(snapshot, items=coded)) == 0.5
