"""Reads what a provider says of a request that is too long: the limit, and the sizes of prompt and answer.

Providers of one protocol word it differently, and most of them state numbers. An error about anything else, such as a
tool's name that is too long, is not one of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

MAX_BODY_DEPTH: Final = 6
MAX_BODY_CHARS: Final = 100_000
"""Maximum size of a provider's nested JSON error message."""
MAX_DIGITS: Final = 18
"""A longer number is no number of tokens, and Python converts no more than 4,300 digits."""

_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|prompt is too long|context window"
    r"|exceeds? the (?:available )?context size|context size has been exceeded"
    r"|reduce the length of the (?:messages|prompt)|tokens must be reduced"
    r"|input token count .{0,40}exceeds|input length and `?max_tokens`? exceed|request_too_large"
    r"|(?:longer|greater) than the (?:maximum model|model's context|context) length"
    r"|exceed(?:s|ed) (?:the|max) context length|context the overflows|maximum prompt length"
    r"|`inputs` (?:tokens \+ `max_new_tokens` must be|must have less than)"
    r"|input is too long for requested model|exceeded model token limit",
    re.IGNORECASE,
)
_WINDOWS: Final = re.compile(
    r"context limit: \d+ \+ \d+ > (\d+)|context length is (?:only )?(\d+)|context size \((\d+)"
    r"|(?<!\d)(\d+) maximum\s+context|max_new_tokens` must be <= (\d+)|context length of only (\d+)"
    r"|n_ctx: (\d+)|token limit: (\d+)|context length \((\d+)|maximum model length of (\d+)",
    re.IGNORECASE,
)
"""Limits of prompt and answer together."""
_PROMPT_LIMITS: Final = re.compile(
    r"tokens > (\d+)|tokens allowed \((\d+)\)|maximum prompt length is (\d+)|must have less than (\d+)", re.IGNORECASE
)
"""Limits of the prompt alone."""
_PROMPTS: Final = re.compile(
    r"(?<!\d)(\d+) tokens > \d|limit: (\d+) \+|(?<!\d)(\d+) in the messages|resulted in (\d+)|token count \(?(\d+)"
    r"|request \((\d+) tokens|request contains (\d+)|prompt contains (\d+)|(?<!\d)(\d+) input tokens"
    r"|input \((\d+) tokens|prompt \(length (\d+)|n_keep: (\d+)|given: (\d+) `inputs`",
    re.IGNORECASE,
)
_EXTRAS: Final = re.compile(r"(?<!\d)(\d+) in the functions", re.IGNORECASE)
_ANSWERS: Final = re.compile(
    r"(?<!\d)(\d+) in the completion|limit: \d+ \+ (\d+)|and (\d+) `max_new_tokens`", re.IGNORECASE
)

_QUOTES: Final = re.compile("['\"`\u2018\u2019\u201c\u201d]")
_BACKQUOTED: Final = re.compile(r"`([^`]*)`")


@dataclass(frozen=True, slots=True)
class Overflow:
    """What a provider states of a request that was too long, in its own tokens; None: not stated."""

    window_tokens: int | None = None
    """The limit of prompt and answer together."""
    limit_tokens: int | None = None
    """The limit of the prompt alone."""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    """The tokens that the request reserves for the answer."""

    def room_tokens(self, answer_tokens: int) -> int | None:
        """Return the tokens left to a prompt when `answer_tokens` are reserved; None if unknown."""
        if self.limit_tokens is not None:
            return self.limit_tokens
        return None if self.window_tokens is None else self.window_tokens - (self.answer_tokens or answer_tokens)


def is_too_long(evidence: str) -> bool:
    """Report whether an error's code or message says that the request is larger than the model's window."""
    return bool(_TOO_LONG.search(evidence))


def read_overflow(body: bytes) -> Overflow | None:
    """Read the body of an error; None if it is not about the size of the prompt."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = body.decode(errors="replace")
    message = _in_own_words(message_in(data))
    if not is_too_long(" ".join([*_codes(data), message])):
        return None
    message = re.sub(r"(?<=\d)[,_](?=\d{3})", "", message)
    prompt = _number(_PROMPTS, message)
    return Overflow(
        _number(_WINDOWS, message),
        _number(_PROMPT_LIMITS, message),
        prompt if prompt is None else prompt + (_number(_EXTRAS, message) or 0),
        _number(_ANSWERS, message),
    )


def _in_own_words(message: str) -> str:
    """Return a message without its quoted parts, which may be of the request, but for an error that a router passes on
    as JSON."""
    before, brace, _ = message.partition("{")
    if brace and not _QUOTES.search(before) and len(message) <= MAX_BODY_CHARS:
        with suppress(ValueError, RecursionError):
            error, _ = json.JSONDecoder().raw_decode(message, len(before))
            message = before + message_in(error) if "error" in error else message
    for quotes in ("'\u2018\u2019", '"\u201c\u201d'):
        start = re.search(rf"(?<!\w)[{quotes}]", message)
        stops = [found.end() for found in re.finditer(rf"[{quotes}](?!\w)", message)]
        if start and stops and stops[-1] > start.end():
            message = message[: start.start()] + message[stops[-1] :]
    return _BACKQUOTED.sub(lambda found: " " if " " in found[1] else found[0], message)  # names of fields stay


def message_in(body: object, depth: int = 0) -> str:
    """Return the message in an error body; that of the provider behind a router, if there is one."""
    if isinstance(body, str):
        return _message_in_text(body, depth)
    if depth == MAX_BODY_DEPTH:
        return ""
    if isinstance(body, list):
        return message_in(body[0], depth + 1) if body else ""
    if not isinstance(body, Mapping):
        return ""
    metadata = body.get("metadata")
    behind = metadata.get("raw") if isinstance(metadata, Mapping) else None
    parts = (behind, *(body.get(key) for key in ("error", "message", "detail", "msg")))
    return next(filter(None, (message_in(part, depth + 1) for part in parts)), "")


def _message_in_text(text: str, depth: int) -> str:
    """Return the text, or the message in it if it is JSON."""
    if depth < MAX_BODY_DEPTH and len(text) <= MAX_BODY_CHARS and text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return message_in(json.loads(text), depth + 1) or text
    return text if text.strip() else ""


def _codes(body: object) -> list[str]:
    inner = body.get("error") if isinstance(body, Mapping) else None
    found = [part.get(key) for part in (body, inner) if isinstance(part, Mapping) for key in ("code", "type")]
    return [code for code in found if isinstance(code, str)]


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    digits = next(filter(None, match.groups()), "") if match else ""
    return int(digits) if 0 < len(digits) <= MAX_DIGITS else None
