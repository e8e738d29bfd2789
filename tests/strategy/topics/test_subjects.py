from hypothesis import given
from hypothesis import strategies as st

from foveate.strategy.topics.subjects import SCALE, WINDOW_TURNS, Gist, is_new_subject, margin, subject_distance

DISTANCE = 0.25
HERE, THERE = (SCALE, 0, 0, 0), (0, SCALE, 0, 0)


def gist(direction: tuple[int, ...], first: int, count: int = 20) -> Gist:
    return Gist(direction, {first + place: 1.0 for place in range(count)})


def test_a_prompt_in_another_direction_with_other_words_is_elsewhere() -> None:
    before = [gist(HERE, 0)] * 6
    assert is_new_subject(gist(THERE, 500), before, DISTANCE)
    assert not is_new_subject(gist(HERE, 500), before, DISTANCE)


def test_a_prompt_with_the_words_of_the_turns_before_it_is_not_far() -> None:
    assert subject_distance(gist(THERE, 0), [gist(HERE, 0)]) == 0


def test_a_prompt_of_few_words_is_not_far() -> None:
    before = [gist(HERE, 0)] * 8
    assert subject_distance(gist(THERE, 500, count=1), before) < subject_distance(gist(THERE, 500, count=4), before) < 1
    assert not is_new_subject(gist(THERE, 500, count=1), before, DISTANCE)


def test_the_less_is_known_the_farther_a_prompt_has_to_be() -> None:
    assert margin([gist(HERE, 0, 10)]) > margin([gist(HERE, 0, 10)] * 3) > margin([gist(HERE, 0, 60)] * 3)


def test_only_the_newest_turns_count() -> None:
    old, new = [gist(HERE, 0)] * 40, [gist(THERE, 100)] * WINDOW_TURNS
    assert not is_new_subject(gist(THERE, 500), [*old, *new], DISTANCE)
    assert is_new_subject(gist(HERE, 500), [*old, *new], DISTANCE)


def test_what_nothing_is_known_of_is_not_far() -> None:
    assert subject_distance(gist(THERE, 1), []) == 0
    assert subject_distance(Gist(), [gist(HERE, 1)]) == 0
    assert subject_distance(gist((1, 2), 1), [gist(HERE, 1)]) == 0
    assert not is_new_subject(gist(THERE, 1), [], DISTANCE)


gists = st.builds(
    Gist,
    st.lists(st.integers(-SCALE, SCALE), min_size=8, max_size=8).map(tuple),
    st.dictionaries(
        st.integers(0, 0xFFFF), st.floats(0, 1.25).map(lambda weight: round(weight * 200) / 200), max_size=64
    ),
)


@given(gists)
def test_a_gist_comes_back_as_it_was_kept(one: Gist) -> None:
    assert Gist.from_json(one.as_json()) == one


@given(gists, st.lists(gists, max_size=10))
def test_farness_is_a_share(one: Gist, before: list[Gist]) -> None:
    assert -1e-9 <= subject_distance(one, before) <= 2


@given(st.none() | st.text() | st.dictionaries(st.text(), st.text()))
def test_anything_else_is_an_empty_gist(kept: object) -> None:
    assert Gist.from_json(kept) == Gist()  # type: ignore[arg-type]
