from __future__ import annotations

from foveate.history.kept_prefix import best_seam
from hypothesis import given
from hypothesis import strategies as st

from foveate.plan import Block, ShownLevel

LEVELS: tuple[ShownLevel, ...] = ("T", "C", "S", "R")


def block(first: int, last: int, level: ShownLevel, tokens: int, **values: bool | int) -> Block:
    return Block(first, last, level, tokens, is_range=last > first and level != "E", **values)  # type: ignore[arg-type]


OLD = [block(1, 20, "T", 1_000), block(21, 30, "C", 2_000), block(31, 31, "R", 600)]
"""The turns 32 to 45 were appended to it."""
NEW = [block(1, 35, "T", 1_750), block(36, 40, "C", 1_000), block(41, 45, "R", 3_000)]


def kept(old: list[Block], new: list[Block], *, room: int = 12_000, most: int = 8_000) -> tuple[int, list[Block]]:
    seam = best_seam(old, [row.tokens for row in old], new, room_tokens=room, most_tokens=most)
    return seam.kept, list(seam.rows)


def test_the_oldest_blocks_stay_where_the_new_plan_shows_their_turns_alike() -> None:
    count, rows = kept(OLD, NEW)
    assert count == 1
    assert [(row.first, row.last, row.level) for row in rows] == [(21, 35, "T"), (36, 40, "C"), (41, 45, "R")]


def test_no_turn_stays_more_detailed_than_a_newer_one() -> None:
    old = [block(1, 20, "C", 1_000), *OLD[1:]]
    assert kept(old, NEW) == (0, NEW)


def test_a_block_stays_where_it_would_be_lowered_only_later() -> None:
    new = [block(1, 24, "T", 1_200), block(25, 40, "C", 3_200), block(41, 45, "R", 600)]
    count, rows = kept(OLD, new)
    assert count == 2
    assert rows[0] == block(31, 40, "C", 2_000)


def test_blocks_that_leave_too_little_room_are_rewritten() -> None:
    assert kept(OLD, NEW, most=5_749) == (0, NEW)
    assert kept(OLD, NEW, most=5_750)[0] == 1


def test_turns_as_messages_and_makeshift_blocks_are_not_kept() -> None:
    raw = [block(number, number, "R", 600) for number in range(1, 46)]
    assert kept(raw[:10], raw, room=100_000, most=90_000) == (0, raw)
    for row in (block(1, 20, "E", 40, is_cut=True), block(1, 1, "R", 90, is_cut=True)):
        assert kept([row, *OLD[1:]], NEW)[0] == 0


def test_a_block_of_eras_is_divided_between_two_of_them() -> None:
    old = [block(1, 32, "E", 800, era_level=1), block(33, 70, "T", 2_000)]
    new = [block(1, 64, "E", 1_600, era_level=1), block(65, 70, "T", 300)]
    assert kept(old, new) == (1, [block(33, 64, "E", 800, era_level=1), new[1]])
    assert kept([block(1, 30, "E", 800, era_level=1), *old[1:]], new) == (0, new)


@st.composite
def plans(draw: st.DrawFn, last: int) -> list[Block]:
    """Blocks of falling age and rising detail."""
    ends = sorted(draw(st.sets(st.integers(1, last), min_size=1, max_size=6)) | {last})
    levels = sorted(draw(st.lists(st.sampled_from(LEVELS), min_size=len(ends), max_size=len(ends))), key=LEVELS.index)
    starts = [1, *(end + 1 for end in ends[:-1])]
    sizes = st.integers(10, 500)
    return [block(*row, draw(sizes)) for row in zip(starts, ends, levels, strict=True)]


@given(plans(30), plans(40), st.integers(0, 5_000))
def test_every_turn_is_shown_once_within_the_room_and_detail_never_falls(
    old: list[Block], new: list[Block], most: int
) -> None:
    seam = best_seam(old, [row.tokens for row in old], new, room_tokens=6_000, most_tokens=most)
    rows = [*old[: seam.kept], *seam.rows]
    assert [turn for row in rows for turn in range(row.first, row.last + 1)] == list(range(1, 41))
    assert [LEVELS.index(row.level) for row in rows] == sorted(LEVELS.index(row.level) for row in rows)
    assert seam.tokens <= most or not seam.kept
