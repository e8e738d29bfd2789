"""Anthropic's `thinking: {"type": "enabled"}`: a turn in progress must begin with thinking, or the request has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foveate.session.client_requests import lacks_thinking, without_thinking

Record = dict[str, Any]


def needs_thinking(body: Mapping[str, Any]) -> bool:
    """Report whether a request demands thinking at the start of the turn in progress."""
    thinking = body.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def with_valid_thinking(body: Record) -> Record:
    """Turn thinking off for a request whose turn in progress does not begin with it.

    That is the case if the first step of a long turn is no longer shown in full, or was answered without thinking.
    """
    if not needs_thinking(body) or not lacks_thinking(body["messages"]):
        return body
    kept = {key: value for key, value in body.items() if key not in ("thinking", "context_management")}
    if edits := _edits(body):
        kept["context_management"] = edits
    return {**kept, "messages": without_thinking(body["messages"])}


def _edits(body: Record) -> Record | None:
    """Return the provider's context management without edits of thinking, which it rejects in such a request."""
    management = body.get("context_management")
    if not isinstance(management, Mapping):
        return None
    edits = [edit for edit in management.get("edits") or () if "thinking" not in str(edit.get("type"))]
    return {**management, "edits": edits} if edits else None
