"""Sends signed thinking only with the prefix that it was signed for: a provider rejects it after any other.

Anthropic binds a thinking block to the system prompt, the tools and every message before it, ignoring `cache_control`.
An answer is stored with a hash of that prefix (`Message.prefix`); its blocks are omitted after a different one.

Claude up to 4.6 does not bind them. With `thinking: {"type": "enabled"}` it demands one at the start of a turn in
progress, so there they are kept after any prefix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from foveate.tokens import CLAUDE_4, counter_for
from foveate.turn import Json, Message, Reasoning

Record: TypeAlias = Mapping[str, Json]

FORMAT: Final[Literal["anthropic"]] = "anthropic"
"""The only format whose provider binds thinking to its prefix."""
FRAMEWORKS: Final = ("langchain", "pydantic-ai")
"""Formats of frameworks, which may contain the thinking of any provider."""
DROP_UNBOUND: Final[Mapping[str, Json]] = {
    "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    "extra_headers": {"anthropic-beta": "thinking-binding-controls-2026-08-01"},
}
"""Arguments of Anthropic's call that make it drop thinking of another prefix instead of rejecting the request."""
_SIGNED: Final = ("thinking", "redacted_thinking")
_Hash: TypeAlias = "hashlib.blake2b"


def request_prefix(system: str, tools: Sequence[Record], messages: Sequence[Json]) -> str:
    """Return the hash of a whole request, which is the prefix of its answer."""
    digest = _begin(system, tools)
    for record in _records(messages):
        for block in _blocks(record):
            _add(digest, record, block)
    return digest.hexdigest()


def is_signed(message: Message) -> bool:
    """Return whether an answer has thinking that its provider binds to its prefix."""
    source = message.original.format if message.original else None
    is_own = source == FORMAT or (source in FRAMEWORKS and _is_of_claude(message))
    return is_own and any(isinstance(part, Reasoning) and _proof(part) for part in message.parts)


def without_unbound(
    system: str,
    tools: Sequence[Record],
    messages: Sequence[Json],
    answers: Iterable[Message],
    *,
    needs_thinking: bool = False,
) -> list[Json]:
    """Remove thinking whose prefix has changed or is not known.

    In the turn in progress, thinking with an unknown prefix stays: the provider requires it with the results of its
    calls. With `needs_thinking`, all of that turn's thinking stays.
    """
    made_under = {
        proof: None if needs_thinking or not _binds(answer.model) else answer.prefix
        for answer in answers
        for part in answer.parts
        if (proof := _proof(part))
    }
    if not made_under:
        return list(messages)
    records = list(_records(messages))
    in_progress = _turn_start(records)
    digest = _begin(system, tools)
    kept: list[Json] = []
    for index, record in enumerate(records):
        prefix = digest.hexdigest()
        blocks = [
            block
            for block in _blocks(record)
            if block.get("type") not in _SIGNED
            or _is_bound(made_under.get(_block_proof(block)), prefix, in_progress=index > in_progress)
        ]
        for block in blocks:
            _add(digest, record, block)
        if len(blocks) == len(_blocks(record)):
            kept.append(record)
        elif blocks:
            kept.append({**record, "content": blocks})
    return _joined(kept) if len(kept) < len(records) else kept


def bound_answer(answer: Message, messages: Sequence[Message], tools: Sequence[Record]) -> Message:
    """Add the hash of its prefix to a canonical answer, if its thinking is signed."""
    if not (_is_of_claude(answer) and any(map(_proof, answer.parts))):
        return answer
    return replace(answer, prefix=messages_prefix(messages, tools))


def messages_prefix(messages: Sequence[Message], tools: Sequence[Record]) -> str:
    """Return the hash of a request of canonical messages, which is the prefix of its answer."""
    digest = _begin("", tools)
    for message in messages:
        _add_message(digest, message)
    return digest.hexdigest()


def without_unbound_messages(messages: Sequence[Message], tools: Sequence[Record]) -> tuple[Message, ...]:
    """Remove thinking from canonical messages as `without_unbound` does."""
    prompts = (place for place, message in enumerate(messages) if message.role == "user" and not message.tool_results)
    in_progress = max(prompts, default=-1)
    digest = _begin("", tools)
    kept: list[Message] = []
    for place, message in enumerate(messages):
        is_signed_answer = _is_of_claude(message) and any(map(_proof, message.parts))
        made_under = message.prefix if _binds(message.model) else None
        if is_signed_answer and not _is_bound(made_under, digest.hexdigest(), in_progress=place > in_progress):
            parts = tuple(part for part in message.parts if not _proof(part))
            message = replace(message, parts=parts, original=None)  # noqa: PLW2901 - sent instead
        if message.parts:
            _add_message(digest, message)
            kept.append(message)
    return tuple(kept)


def _is_of_claude(message: Message) -> bool:
    return message.role == "assistant" and "claude" in (message.model or "").lower()


def lacks_thinking(messages: Sequence[Json]) -> bool:
    """Report whether tool results are last, and the turn that made their calls does not begin with thinking."""
    records = list(_records(messages))
    loop = records[_turn_start(records) + 1 :]
    first = next((_blocks(record) for record in loop if record.get("role") == "assistant"), None)
    return first is not None and bool(first) and first[0].get("type") not in _SIGNED


def without_thinking(messages: Sequence[Json]) -> list[Json]:
    """Remove all thinking, for a request without it."""
    kept: list[Json] = []
    for record in _records(messages):
        blocks = [block for block in _blocks(record) if block.get("type") not in _SIGNED]
        if len(blocks) == len(_blocks(record)):
            kept.append(record)
        elif blocks:
            kept.append({**record, "content": blocks})
    return _joined(kept)


def _binds(model: str | None) -> bool:
    """Report whether a model may bind its thinking to what precedes it; those up to Claude 4.6 do not."""
    return model is None or counter_for(model) is not CLAUDE_4


def _add_message(digest: _Hash, message: Message) -> None:
    digest.update(repr((message.role, message.parts)).encode("utf-8", "surrogatepass"))


def _is_bound(made_under: str | None, prefix: str, *, in_progress: bool) -> bool:
    return in_progress if made_under is None else made_under == prefix


def _turn_start(records: Sequence[Record]) -> int:
    """Return the index of the prompt of the turn in progress: the last user message without results.

    Clients add reminders to results; that does not begin a turn.
    """
    for index in range(len(records) - 1, -1, -1):
        has_results = any(block.get("type") == "tool_result" for block in _blocks(records[index]))
        if records[index].get("role") == "user" and not has_results:
            return index
    return -1


def _joined(records: Sequence[Json]) -> list[Json]:
    """Join messages of one role that follow each other since an answer without any other content was removed."""
    joined: list[Json] = []
    for record in _records(records):
        last = joined[-1] if joined else None
        if isinstance(last, Mapping) and last.get("role") == record.get("role"):
            joined[-1] = {**last, "content": [*_blocks(last), *_blocks(record)]}
        else:
            joined.append(record)
    return joined


def _begin(system: str, tools: Sequence[Record]) -> _Hash:
    # A context ends its system prompt with a line break; a client's own request, which may be sent instead, does not.
    digest = hashlib.blake2b(digest_size=16)
    digest.update(_canonical([system.rstrip("\n"), [_bare(tool) for tool in tools]]))
    return digest


def _add(digest: _Hash, record: Record, block: Record) -> None:
    digest.update(_canonical([record.get("role"), _bare(block)]))


def _bare(block: Record) -> Record:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _canonical(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _records(messages: Sequence[Json]) -> Iterator[Record]:
    yield from (message for message in messages if isinstance(message, Mapping))


def _blocks(record: Record) -> list[Record]:
    content = record.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, Sequence) else []


def _block_proof(block: Record) -> str:
    return str(block.get("signature" if block.get("type") == "thinking" else "data"))


def _proof(part: object) -> str:
    return (part.signature or part.encrypted or "") if isinstance(part, Reasoning) else ""
