"""Thinking that a provider requires with a call is sent with it: before it in one answer, or as its signature."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from foveate.turn import Json, Message, Reasoning, ToolCall

Record: TypeAlias = Mapping[str, Json]


def problem(format: str, rendered: Sequence[Json], native: Sequence[Message]) -> str | None:  # noqa: A002
    """Check the messages that were recorded in this format: a provider requires its own signatures only."""
    own = [message for message in native if message.original and message.original.format == format]
    records = [record for record in rendered if isinstance(record, Mapping)]
    match format:
        case "anthropic":
            return _anthropic(records, own)
        case "openai-responses":
            return _responses(records, native)
        case "gemini":
            return _gemini(records, own)
    return None


def _anthropic(records: Sequence[Record], own: Sequence[Message]) -> str | None:
    behind = dict(_thought_before_calls(records))
    for message in own:
        proofs: list[str] = []
        for part in message.parts:
            if isinstance(part, Reasoning):
                proofs += [proof for proof in (part.signature, part.encrypted) if proof is not None]
            elif isinstance(part, ToolCall) and proofs and not set(proofs) <= behind.get(part.id, set()):
                return f"the call {part.id!r} is sent without the thinking that led to it"
    return None


def _thought_before_calls(records: Sequence[Record]) -> Iterator[tuple[Json, set[str]]]:
    for record in records:
        proofs: set[str] = set()
        for block in _blocks(record, "content"):
            proof = block.get("signature", block.get("data"))
            if block.get("type") in ("thinking", "redacted_thinking") and isinstance(proof, str):
                proofs.add(proof)
            elif block.get("type") == "tool_use":
                yield block.get("id"), set(proofs)


def _responses(records: Sequence[Record], native: Sequence[Message]) -> str | None:
    """Check that a reasoning item recorded before a call is followed by an item of the model."""
    expected = _reasoning_before_calls(native)
    for place, record in enumerate(records):
        if record.get("type") != "reasoning" or record.get("id") not in expected:
            continue
        following = records[place + 1] if place + 1 < len(records) else {}
        if following.get("role") == "user" or str(following.get("type", "")).endswith("_output") or not following:
            return f"the reasoning {record.get('id')!r} is sent without the call it led to"
    return None


def _reasoning_before_calls(native: Sequence[Message]) -> set[str]:
    ids: set[str] = set()
    parts = [(part, message) for message in native for part in message.parts]
    for (part, message), (following, _) in itertools.pairwise(parts):
        is_own = message.original is not None and message.original.format == "openai-responses"
        if is_own and isinstance(part, Reasoning) and part.id and isinstance(following, ToolCall):
            ids.add(part.id)
    return ids


def _gemini(records: Sequence[Record], own: Sequence[Message]) -> str | None:
    signed = {
        block.get("thoughtSignature", block.get("thought_signature"))
        for record in records
        for block in _blocks(record, "parts")
        if "functionCall" in block or "function_call" in block
    }
    for message in own:
        for call in message.tool_calls:
            if call.signature and call.signature not in signed:
                return f"the call of {call.name} has lost its signature"
    return None


def _blocks(record: Record, key: str) -> Iterator[Record]:
    content = record.get(key)
    if not isinstance(content, str) and isinstance(content, Sequence):
        yield from (block for block in content if isinstance(block, Mapping))
