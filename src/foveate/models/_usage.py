"""What a provider says a call took, as far as it can be believed: it is billed, shown and kept."""

from __future__ import annotations

from dataclasses import replace

from foveate.models import Answer
from foveate.turn import Usage

MAX_TOKENS = 10_000_000
"""No call takes more of a kind: it is about the largest window there is."""


def with_believed_usage(answer: Answer) -> Answer:
    """The answer, with its usage as `believed` has it."""
    usage = answer.message.usage
    if usage is None or usage == believed(usage):
        return answer
    return replace(answer, message=replace(answer.message, usage=believed(usage)))


def believed(usage: Usage) -> Usage:
    """The usage with nothing below zero or above MAX_TOKENS, and no more from the cache or into it than there was."""
    input_tokens = _within(usage.input_tokens, MAX_TOKENS)
    read_tokens = _within(usage.cache_read_tokens, input_tokens)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_within(usage.output_tokens, MAX_TOKENS),
        cache_read_tokens=read_tokens,
        cache_write_tokens=_within(usage.cache_write_tokens, input_tokens - read_tokens),
        reasoning_tokens=_within(usage.reasoning_tokens, MAX_TOKENS),
    )


def _within(tokens: int, most: int) -> int:
    return min(max(0, tokens), most)
