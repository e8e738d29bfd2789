"""Ranking: words and vectors made one score, and what stands around a passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.dates import TimeSpan
from foveate.recall.rank import (
    FULL_WORDS,
    MeasureScores,
    Passages,
    PassageScores,
    RankWeights,
    best_first,
    fuse,
    lift,
    outstanding,
    rank,
    said_by_user,
    score,
)
from foveate.recall.table import Floats, moments

HOUR_US = 3_600_000_000
PLAIN = RankWeights(user=0.0, near=0.0, far=0.0, date=0.0)
VALUES = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=30)


def scored(values: Sequence[float]) -> MeasureScores:
    return measure_scores(np.array(values, np.float32))


def measure_scores(values: Floats) -> MeasureScores:
    return MeasureScores(values, *moments(values))


def passages(
    turns: Sequence[int],
    *,
    hours: Sequence[float] | None = None,
    users: Sequence[bool] = (),
    words: Sequence[int] = (),
) -> Passages:
    moments = np.array([int(hour * HOUR_US) for hour in hours] if hours else np.zeros(len(turns)), np.int64)
    is_user = np.array(users or [True] * len(turns), np.bool_)
    counts = np.array(words or [FULL_WORDS] * len(turns), np.int64)
    turn = np.array(turns, np.int64)
    return Passages(
        key=np.arange(len(turns)), turn=turn, at_us=moments, is_user=is_user, is_assistant=~is_user, words=counts
    )


def test_a_blend_counts_how_far_each_score_stands_out() -> None:
    blended = fuse(scored([0, 0, 9]), scored([0.1, 0.1, 0.4]))
    assert blended.argmax() == 2
    assert blended[0] == blended[1]


def test_one_measure_alone_is_enough() -> None:
    assert fuse(scored([1, 5, 2]), None).argmax() == 1
    assert fuse(None, scored([1, 5, 2])).argmax() == 1


def test_a_measure_that_tells_nothing_changes_nothing() -> None:
    assert (fuse(scored([3, 3, 3]), scored([1, 2, 3])) == fuse(None, scored([1, 2, 3]))).all()


def test_the_turns_around_a_hit_are_raised_within_its_sitting() -> None:
    known = scored([9.0, 0, 0, 0, 0, 0, 0, 0])
    here = passages([1, 2, 3, 4, 5, 6, 7, 8])
    scores = score(here, fuse(known, None), RankWeights(user=0, near=0.4, far=0.2))
    assert scores[0] > scores[1] > scores[2] > scores[4]
    apart = passages([1, 2, 3, 4, 5, 6, 7, 8], hours=[0, 48, 48, 48, 48, 48, 48, 48])
    scores = score(apart, fuse(known, None), RankWeights(user=0, near=0.4, far=0.2))
    assert scores[1] == scores[7]


def test_what_the_user_said_comes_before_what_others_did() -> None:
    both = passages([1, 1, 1], users=[False, True, False])
    assert score(both, fuse(scored([1, 1, 1]), None), RankWeights(user=4)).argmax() == 1


def test_a_short_turn_is_ranked_as_a_whole_and_a_long_one_by_passage() -> None:
    scores = score(passages([1, 1, 2, 2, 2]), fuse(scored([5, 0, 4, 0, 0]), None), PLAIN)
    assert scores[0] == scores[1]
    assert scores[2] > scores[3]


def test_of_equal_matches_a_full_passage_comes_before_a_few_words() -> None:
    here = passages([1, 2, 3, 4, 5], words=[6, 60, 20, FULL_WORDS, 1])
    scores = score(here, fuse(scored([1] * 5), None), replace(PLAIN, length=1.0))
    assert scores[1] == scores[3] > scores[2] > scores[0] > scores[4]
    assert len(set(score(here, fuse(scored([1] * 5), None), replace(PLAIN, length=0.0)).tolist())) == 1


def test_a_broad_question_gets_one_passage_of_each_long_turn_before_the_second_of_any() -> None:
    here = passages([1, 1, 1, 2, 2, 2, 3, 3])
    known = PassageScores(passages=here, words=scored([9, 8, 7, 6, 5, 4, 3, 2]))
    best = rank(known, PLAIN, limit=8)
    assert here.turn[best.places].tolist()[:3] == [1, 1, 1]
    spread = rank(known, replace(PLAIN, spread=9.0), limit=8)
    assert here.turn[spread.places].tolist() == [1, 2, 3, 3, 1, 2, 1, 2]  # turn 3 is short: shown whole


def test_the_users_words_count_more_or_the_assistants_if_the_prompt_asks_for_them() -> None:
    here = passages([1, 2], users=[True, False])
    alike = fuse(scored([1, 1]), None)
    assert score(here, alike, replace(PLAIN, user=4.0)).argmax() == 0
    assert score(here, alike, replace(PLAIN, user=4.0, is_for_answers=True)).argmax() == 1


def test_a_time_that_the_question_names_counts() -> None:
    days = passages([1, 2, 3], hours=[0, 24, 48])
    span = TimeSpan(24 * HOUR_US, 48 * HOUR_US)
    assert score(days, fuse(scored([1, 1, 1]), None), RankWeights(user=0, date=1.0), [span]).argmax() == 1
    everything = TimeSpan(0, 100 * HOUR_US)
    assert len(set(score(days, fuse(scored([1, 1, 1]), None), RankWeights(user=0), [everything]).tolist())) == 1


def test_visible_turns_are_left_out_and_the_newer_of_equals_comes_first() -> None:
    here = passages([1, 2, 3, 4, 5])
    found = rank(PassageScores(passages=here, words=scored([1, 1, 1, 9, 1])), PLAIN, visible={4}, limit=3)
    assert here.turn[found.places].tolist() == [5, 3, 2]


def test_lifted_passages_move_ahead_by_the_weight() -> None:
    here = passages([1, 2, 3, 4, 5])
    found = rank(PassageScores(passages=here, words=scored([5, 4, 3, 2, 9])), PLAIN, limit=5)
    assert here.turn[found.places].tolist() == [5, 1, 2, 3, 4]
    moved = lift(found, [2], weight=0.5)
    assert here.turn[moved.places].tolist() == [5, 1, 3, 2, 4]
    assert lift(found, [], weight=1.0).places.tolist() == found.places.tolist()


def test_the_users_passages_that_have_something_are_lifted_from_anywhere() -> None:
    here = passages([1, 2, 3, 4, 5], users=[True, False, True, True, True])
    found = rank(PassageScores(passages=here, words=scored([1, 2, 3, 8, 9])), PLAIN, limit=2)
    having = np.array([1, 1, 1, 0, 1], np.float32)
    best = said_by_user(found, having, visible={5}, limit=9)
    assert here.turn[best.places].tolist() == [3, 1]
    assert here.turn[lift(found, best.places.tolist(), 9.0).places].tolist() == [3, 1, 5, 4]
    assert here.turn[found.places].tolist() == [5, 4]


def test_a_hit_stands_out_further_than_noise() -> None:
    here = passages(range(1, 101))
    noise = np.random.default_rng(1).random(100).astype(np.float32)
    hit = noise.copy()
    hit[7] = 20
    assert outstanding(PassageScores(passages=here, words=measure_scores(hit))) > 2 * outstanding(
        PassageScores(passages=here, words=measure_scores(noise))
    )
    nothing = passages([])
    assert outstanding(PassageScores(passages=nothing, words=scored([]))) == 0.0


@given(VALUES, st.data())
def test_any_scores_rank_every_allowed_passage_once_best_first(values: list[float], data: st.DataObject) -> None:
    size = len(values)
    turns = data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
    here = passages(sorted(turns))
    limit = data.draw(st.integers(1, size + 3))
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    scores = score(here, fuse(scored(values), scored(values[::-1])), RankWeights())
    places = best_first(here, scores, allowed, limit)
    assert len(places) == min(limit, int(allowed.sum())) == len(set(places.tolist()))
    assert allowed[places].all()
    assert (np.diff(scores[places]) <= 0).all()
    assert (score(here, fuse(scored(values), scored(values[::-1])), RankWeights()) == scores).all()
