from hypothesis import given
from hypothesis import strategies as st

from foveate.strategy.topics.subjects import ENOUGH_WORDS, SCALE, Gist, subject_distance

DISTANCE = 0.25
HERE, THERE = (SCALE, 0, 0, 0), (0, SCALE, 0, 0)


def gist(direction: tuple[int, ...], first: int, count: int = 20) -> Gist:
    return Gist(direction, {first + place: 1.0 for place in range(count)})


def test_a_prompt_in_another_direction_with_other_words_is_elsewhere() -> None:
    before = [gist(HERE, 0)] * 4
    assert subject_distance(gist(THERE, 500), before) == 1
    assert subject_distance(gist(HERE, 500), before) < DISTANCE


def test_a_prompt_with_the_words_of_the_turns_before_it_is_not_far() -> None:
    assert subject_distance(gist(THERE, 0), [gist(HERE, 0)]) == 0


def test_a_prompt_of_few_words_is_not_far() -> None:
    before = [gist(HERE, 0)] * 4
    assert subject_distance(gist(THERE, 500, count=ENOUGH_WORDS), before) == 1
    assert subject_distance(gist(THERE, 500, count=ENOUGH_WORDS - 1), before) == 0
    assert subject_distance(gist(THERE, 500), [gist(HERE, 0, count=ENOUGH_WORDS - 1)]) == 0


def test_words_that_the_whole_conversation_has_do_not_hide_a_change_of_subject() -> None:
    """A conversation about a will: each turn has its words, and words of its own."""
    theme = dict.fromkeys(range(12), 1.0)

    def about(first: int, direction: tuple[int, ...]) -> Gist:
        return Gist(direction, {**theme, **{first + place: 1.0 for place in range(12)}})

    background = [about(1_000 * turn, HERE) for turn in range(1, 17)]
    before = [about(100, HERE)] * 2
    assert subject_distance(about(200, THERE), before) == 0
    assert subject_distance(about(200, THERE), before, background) > DISTANCE
    assert subject_distance(about(100, HERE), before, background) == 0


def test_what_nothing_is_known_of_is_not_far() -> None:
    assert subject_distance(gist(THERE, 1), []) == 0
    assert subject_distance(Gist(), [gist(HERE, 1)]) == 0
    assert subject_distance(gist((1, 2), 1), [gist(HERE, 1)]) == 0


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
