"""A context never exceeds its budget, and its segments add up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foveate.context.context import Context


def problem(context: Context) -> str | None:
    total = sum(segment.tokens for segment in context.segments)
    if total != context.tokens:
        return f"the segments have {total:,} tokens, the context says {context.tokens:,}"
    if context.tokens > context.budget_tokens:
        sizes: dict[str, int] = {}
        for segment in context.segments:
            sizes[segment.name] = sizes.get(segment.name, 0) + segment.tokens
        listed = ", ".join(f"{name} {tokens:,}" for name, tokens in sizes.items())
        return f"{context.tokens:,} tokens in a budget of {context.budget_tokens:,} ({listed})"
    return None
