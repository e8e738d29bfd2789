"""A cut text never exceeds its size, keeps its head and tail, and says how large it was."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveate.context.costs import counting, overheads
from foveate.context.cut import MAX_COUNTED_CHARS, cut_note, cut_text, estimated_size, take_head
from foveate.context.tags import TagBlock, TagEntry, parse_blocks, write_block
from foveate.plan import ShownLevel
from foveate.tokens import O200K, Counter
from support.contexts import counters, forgeries, levels, marked
from support.strategies import texts

long_texts = st.lists(
    st.sampled_from(["word ", "line\n", "日本語", "👩‍👩‍👧", "🇩🇪", "e\u0301", "<T-5-R>", "x" * 90, " " * 40, "שלום "])
    | texts
    | forgeries,
    min_size=1,
    max_size=60,
).map("".join)


@given(long_texts, levels, st.integers(0, 120), counters)
@example(" " * 5_000, "R", 3, O200K)
def test_a_cut_text_never_exceeds_its_size(text: str, level: ShownLevel, most: int, counter: Counter) -> None:
    given_text = marked(text, level)
    count = counting(level, counter)
    cut = cut_text(given_text, most, count, 12_345)
    assert count(cut) <= most or not cut


@given(long_texts, st.integers(0, 120))
def test_a_text_that_fits_is_left_as_it_is(text: str, most: int) -> None:
    count = counting("C", O200K)
    assert count(text) > most or cut_text(text, most, count, 12_345) == text


@given(long_texts, st.integers(40, 400))
def test_head_and_tail_stay_and_the_size_is_stated(text: str, most: int) -> None:
    text = f"Begins here. {text * 40} Ends here."
    count = counting("C", O200K)
    cut = cut_text(text, most, count, count(text))
    if count(text) > most:
        head, _, tail = cut.partition(cut_note(count(text)))
        assert text.startswith(head.removesuffix(" "))
        assert text.endswith(tail.removeprefix("\n"))
        assert f"{count(text):,} tokens in all" in cut


@given(long_texts, st.integers(0, 120), levels)
def test_a_cut_text_is_still_a_whole_block(text: str, most: int, level: ShownLevel) -> None:
    cut = cut_text(marked(text, level), most, counting(level, O200K), 99)
    block = TagBlock(7, 7, level, (TagEntry(7, cut),))
    assert parse_blocks(write_block(block)) == [block]


@given(long_texts, st.integers(0, 120))
def test_the_same_text_is_cut_the_same_way(text: str, most: int) -> None:
    count = counting("C", O200K)
    assert cut_text(text, most, count, 99) == cut_text(text, most, count, 99)


def test_a_cut_falls_between_lines() -> None:
    text = "[user] first\n" + "a line of text\n" * 400
    cut = cut_text(text, 60, counting("R", O200K), 1_604)
    assert cut == ("[user] first\n" + "a line of text\n" * 4 + f"{cut_note(1_604)}\n" + "a line of text\n" * 3)


def test_a_cut_uses_nearly_all_its_room() -> None:
    text = "[user] " + "Some words that make a sentence of a common length. " * 2_000 + "\n"
    count = counting("R", O200K)
    for most in (100, 1_000, 10_000):
        assert count(cut_text(text, most, count, count(text))) >= 0.9 * most


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧", "🇩🇪", "e\u0301", "👍🏽"])
def test_characters_that_belong_together_stay_together(cluster: str) -> None:
    text = cluster * 300
    for most in range(3, 60):
        head = take_head(text, most, O200K.base)
        assert head == cluster * (len(head) // len(cluster))


def test_the_note_fits_where_the_overheads_say_so() -> None:
    most = overheads(10, O200K).cut_note
    assert cut_note(60_412) in cut_text("word " * 60_412, most, counting("C", O200K), 60_412)


def test_without_room_for_the_note_a_sign_of_the_cut_stays() -> None:
    count = counting("C", O200K)
    assert cut_text("word " * 99, 3, count, 99) == "…"
    assert cut_text("word " * 99, 0, count, 99) == ""


def test_a_huge_text_is_counted_in_part_only_however_little_room_it_has() -> None:
    text = "word " * MAX_COUNTED_CHARS
    counted: list[int] = []

    def count(part: str) -> int:
        counted.append(len(part))
        return len(part) // 5

    for room in (0, 1, 100, 2_000):
        assert len(cut_text(text, room, count, 1)) <= 5 * room + 4
    assert max(counted) < MAX_COUNTED_CHARS
    assert estimated_size(text, count) == len(text) // 5
    assert max(counted) == MAX_COUNTED_CHARS
    assert estimated_size("word word", count) == 1
