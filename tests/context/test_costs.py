"""The costs of parts add up to the count of the whole, and the overheads are never exceeded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.costs import (
    block_tokens,
    content_tokens,
    counting,
    frame_tokens,
    label_tokens,
    overheads,
)
from foveate.context.cut import cut_note
from foveate.context.tags import SUMS, TagBlock, TagEntry, content_text, write_block
from foveate.plan import ShownLevel
from foveate.tokens import CL100K, O200K, Counter, count_tokens
from support.contexts import blocks, counters, forgeries, histories, levels, marked


@given(histories(), counters)
def test_summed_costs_are_the_count_of_the_whole(history: list[TagBlock], counter: Counter) -> None:
    whole = "".join(map(write_block, history))
    assert sum(block_tokens(block, counter) for block in history) == counter.base(whole)


@given(blocks(), counters)
def test_a_blocks_structure_stays_within_the_overheads(block: TagBlock, counter: Counter) -> None:
    most = overheads(block.last, counter, last_step=block.last_step)
    is_wide = block.is_range or block.level in SUMS
    assert frame_tokens(block, counter) <= (most.range if is_wide else most.tag)
    steps = bool(block.first_step)
    for entry in block.entries:
        assert label_tokens(entry.number, block.level, counter, in_steps=steps) <= most.line


@given(st.integers(1, 999_999_999), counters)
def test_a_note_of_a_cut_stays_within_the_overheads(total: int, counter: Counter) -> None:
    assert counter.base(f" {cut_note(total)}\n") <= overheads(1, counter).cut_note


@pytest.mark.parametrize("counter", [O200K, CL100K])
def test_every_group_of_digits_is_one_token(counter: Counter) -> None:
    assert {count_tokens(str(number), counter.encoding) for number in range(1000)} == {1}


@given(forgeries, levels, counters)
def test_stored_tokens_are_those_of_the_text_where_nothing_needs_escaping(
    text: str, level: ShownLevel, counter: Counter
) -> None:
    plain = marked("[user] " + text.replace("<", "").replace(":", ""), level)
    expected = {"C": f" {plain}\n", "T": f" {plain}\n", "E": f"{plain}\n", "A": f"{plain}\n"}.get(level, plain)
    assert content_text(plain, level) == expected
    assert content_tokens(plain, level, counter) == counter.base(expected)
    assert counting(level, counter)(plain) == counter.base(expected)


def test_overheads_grow_with_the_digits_of_turns_alone() -> None:
    assert overheads(101, O200K) == overheads(999, O200K)
    assert overheads(1_000, O200K).line == overheads(999, O200K).line + 1
    assert overheads(0, O200K) == overheads(1, O200K)


def test_a_single_entry_costs_its_tag_and_its_text() -> None:
    block = TagBlock(183, 183, "R", (TagEntry(183, "[user] hello\n"),))
    assert block_tokens(block, O200K) == frame_tokens(block, O200K) + O200K.base("[user] hello\n")
