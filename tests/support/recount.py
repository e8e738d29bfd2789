"""An independent count of a request, as a provider would make it: every text, image, file and tool definition in it.

    request = context.request("anthropic")
    assert recount("anthropic", request, model="claude-sonnet-4-5") <= context.budget_tokens

It reads the request alone, and shares with the library only the tokenizer and the rules of
`foveate.formats.media_tokens`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foveate.formats.media_tokens import block_media, image_rule, media_tokens
from foveate.tokens import counter_for

MESSAGE_TOKENS = 4
"""What a provider adds around each message."""
REPLY_TOKENS = 3
SIGNATURE_CHARS_PER_TOKEN = 4
MIN_SIGNATURE_CHARS = 64

_UNREAD = frozenset(
    {"type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control", "detail"}
)
"""Keys whose values are no text that a model reads."""
_SIGNATURES = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")


def recount(format: str, request: Mapping[str, Any], *, model: str | None = None, calibration: float = 1.0) -> int:  # noqa: A002
    """The tokens of a request as `Context.request` makes it, for a model."""
    counter = counter_for(model)
    config = request.get("config", {}) if format == "gemini" else request
    key = {"gemini": "contents", "openai-responses": "input"}.get(format, "messages")
    system = config.get("system") or config.get("system_instruction") or ""
    messages: Sequence[Any] = request[key]
    base = counter.base(system) + _framing(messages, has_system=bool(system))
    base += counter.base(_compact(config["tools"])) if config.get("tools") else 0
    fixed = 0
    for leaf in _leaves(messages):
        if isinstance(leaf, str):
            base += counter.base(leaf)
        elif isinstance(leaf, int):
            base += leaf
        else:
            attachment = block_media(leaf)
            assert attachment is not None
            fixed += media_tokens(attachment, image_rule(model), counter.count)
    return counter.scale(base + math.ceil(fixed / counter.factor), calibration)


def _framing(messages: Sequence[Any], *, has_system: bool) -> int:
    # In the Responses format calls, outputs and thinking are items, of which a provider makes one message.
    speaking = [message for message in messages if "role" in message or str(message.get("type")).endswith("_output")]
    return MESSAGE_TOKENS * (len(speaking) + has_system) + REPLY_TOKENS


def _leaves(value: Any, key: str = "") -> Iterator[str | int | Mapping[str, Any]]:
    """Texts, the tokens of signatures, and blocks that are images or files."""
    if isinstance(value, str):
        if key in _SIGNATURES:
            yield math.ceil(len(value) / SIGNATURE_CHARS_PER_TOKEN) if len(value) >= MIN_SIGNATURE_CHARS else 0
        elif key not in _UNREAD:
            yield value
    elif isinstance(value, Mapping):
        yield from _object_leaves(value, key)
    elif isinstance(value, Sequence):
        for element in value:
            yield from _leaves(element, key)


def _object_leaves(value: Mapping[str, Any], key: str) -> Iterator[str | int | Mapping[str, Any]]:
    if key in ("input", "args", "response"):
        yield _own_json(value)
    elif block_media(value):
        yield value
    elif value.get("type") == "redacted_thinking":
        yield from _leaves(value.get("data", ""), "signature")
    else:
        for name, inner in value.items():
            yield from _leaves(inner, name)


def _own_json(value: Mapping[str, Any]) -> str:
    """Arguments and results as compact JSON; a result that is one text is that text."""
    texts = [inner for name, inner in value.items() if name in ("output", "error") and isinstance(inner, str)]
    if len(value) == 1 and texts:
        return texts[0]
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
