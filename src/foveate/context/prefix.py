"""Measures the common prefix of two prompts: provider caches match prefixes, so that part of the second is cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foveate.text import common_length
from foveate.tokens import Counter


class PrefixPart(Protocol):
    """A part of a prompt: a segment of a context, or a message."""

    @property
    def text(self) -> str: ...

    @property
    def tokens(self) -> int: ...

    @property
    def is_native(self) -> bool:
        """Whether it is a separate message; the same text inside another message is a different prompt."""
        ...


def matching_tokens(before: Sequence[PrefixPart], after: Sequence[PrefixPart], counter: Counter) -> int:
    """Count the tokens of the prefix that two prompts share."""
    matched = 0
    for old, new in zip(before, after, strict=False):
        if old.is_native != new.is_native:
            break
        if old.text != new.text:
            return matched + _common_tokens(old, new, counter)
        matched += new.tokens
    return matched


def _common_tokens(old: PrefixPart, new: PrefixPart, counter: Counter) -> int:
    """Count the common tokens of two parts that begin alike; the shorter remainder is counted."""
    common = common_length(old.text, new.text)
    if common < len(old.text) // 2:
        return min(new.tokens, counter.count(old.text[:common]))
    return min(new.tokens, max(0, old.tokens - counter.count(old.text[common:])))
