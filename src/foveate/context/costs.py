"""Exact token counts of tags and texts: those of a block's parts add up to that of the block.

All counts are base counts in the counter's encoding; a counter's scale applies to their sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from foveate.context.cut import cut_note
from foveate.context.dates import LONGEST_DAY, LONGEST_SPAN
from foveate.context.tags import (
    MARKED,
    SUMS,
    TagBlock,
    TagEntry,
    closing_text,
    content_text,
    date_text,
    escape_text,
    label_text,
    opening_text,
)
from foveate.plan import Overheads, ShownLevel
from foveate.tokens import Counter, EncodingName, count_tokens

_DIGIT = re.compile(r"\d")
MAX_CUT_TOKENS = 999_999_999
"""Size of the largest text whose cut note `overheads` covers."""


def content_tokens(text: str, level: ShownLevel, counter: Counter, *, in_steps: bool = False) -> int:
    """Count the tokens of a text in any block of this level, including escapes; this is stored with a rendition."""
    return counter.base(content_text(text, level, in_steps=in_steps))


def counting(level: ShownLevel, counter: Counter, *, in_steps: bool = False) -> Callable[[str], int]:
    """Return `content_tokens` as a function of the text alone, for `cut_text`; it counts any piece of a text."""
    if level in MARKED:
        return lambda text: counter.base(escape_text(text, level, in_steps=in_steps))
    return lambda text: content_tokens(text, level, counter, in_steps=in_steps)


def frame_tokens(block: TagBlock, counter: Counter) -> int:
    """Count the tokens of the opening and the closing tag."""
    return _shape_tokens(opening_text(block), counter) + _shape_tokens(closing_text(block), counter)


def label_tokens(number: int, level: ShownLevel, counter: Counter, *, in_steps: bool = False) -> int:
    """Count the tokens of `Turn 12:` before an entry of a range; they depend on the number of digits only."""
    return _digits_tokens(len(str(number)), level, counter, in_steps)


def date_tokens(date: str, level: ShownLevel, counter: Counter, *, is_range: bool) -> int:
    """Count the tokens of a date before an entry; 0 without one."""
    return _shape_tokens(date_text(date, level, is_range=is_range), counter) if date else 0


def block_tokens(block: TagBlock, counter: Counter) -> int:
    """Count the tokens of a block by its parts."""
    steps = bool(block.first_step)
    texts = sum(content_tokens(entry.text, block.level, counter, in_steps=steps) for entry in block.entries)
    texts += sum(date_tokens(entry.date, block.level, counter, is_range=block.is_range) for entry in block.entries)
    if not block.is_range:
        return frame_tokens(block, counter) + texts
    labels = sum(label_tokens(entry.number, block.level, counter, in_steps=steps) for entry in block.entries)
    return frame_tokens(block, counter) + labels + texts


@lru_cache(maxsize=256)
def overheads(last_turn: int, counter: Counter, *, last_step: int = 0, is_dated: bool = False) -> Overheads:
    """Return the maximum tokens of tags and labels in a conversation with this many turns and steps.

    If it `is_dated`, a block begins with a date or, in place of several turns, with a span.
    """
    turn, step = max(last_turn, 1), last_step
    levels: tuple[ShownLevel, ...] = ("R", "S", "C", "T", "U", "M")
    singles = [TagBlock(turn, turn, level, (TagEntry(turn, ""),)) for level in levels]
    ranges = [TagBlock(turn, turn, level, (), is_range=True) for level in levels]
    ranges += [TagBlock(turn, turn, level, (TagEntry(turn, ""),)) for level in SUMS]
    labels = [label_tokens(turn, level, counter) for level in levels]
    if step:
        singles += [TagBlock(turn, turn, level, (TagEntry(step, ""),), step, step) for level in levels]
        ranges += [TagBlock(turn, turn, level, (), step, step, is_range=True) for level in levels]
        labels += [label_tokens(step, level, counter, in_steps=True) for level in levels]
    date, span = (
        max(date_tokens(text, level, counter, is_range=False) for level in levels) if is_dated else 0
        for text in (LONGEST_DAY, LONGEST_SPAN)
    )
    return Overheads(
        line=max(labels),
        tag=max(frame_tokens(block, counter) for block in singles),
        range=max(frame_tokens(block, counter) for block in ranges) + span,
        cut_note=counter.base(f" {cut_note(MAX_CUT_TOKENS)}\n"),
        date=date,
    )


def _shape_tokens(text: str, counter: Counter) -> int:
    # Both encodings have a token for every one, two or three digits, so only the number of digits matters.
    return _counted(_DIGIT.sub("9", text), counter.encoding)


@lru_cache(maxsize=256)
def _digits_tokens(digits: int, level: ShownLevel, counter: Counter, in_steps: bool) -> int:
    return _shape_tokens(label_text(10 ** (digits - 1), level, in_steps=in_steps), counter)


@lru_cache(maxsize=4096)
def _counted(text: str, encoding: EncodingName) -> int:
    return count_tokens(text, encoding)
