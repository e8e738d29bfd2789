"""The turn as a model gets to read it: the original if it fits, else shortened by rules, at last cut.

raw ──► S by rules, tool compressors included ──► each call and its result as one note ──► head and tail
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foveate.compress import Count
from foveate.compress.smooth import smooth_messages
from foveate.compress.tools import summarise_call
from foveate.text import MARK_WORDS, message_text, part_text, turn_text
from foveate.turn import Message, Part, Reasoning, Text, ToolCall, ToolResult

PASSAGE_TOKENS = 40
"""A shorter passage is not worth a model's smoothing."""
MAX_PASSAGES = 40
"""So many passages of a turn are smoothed by a model, the first ones; rules do the rest."""
HEAD_SHARE = 0.6
"""What is left of a turn that must be cut is its beginning to this share; the rest is its end."""
CUT_NOTE = "\n(… {tokens} tokens left out here …)"
CUT_NOTE_TOKENS = 24
EXCERPT_NOTE = "(Only the passages with what was missing; the rest of the source is as before.)"
EXCERPT_LINE_CHARS = 400
MAX_TRIES = 12
CHARS_PER_TOKEN = 4

_LINE_MARK = re.compile(rf"\[(?:{MARK_WORDS})\b[^\]\n]*\]")


@dataclass(frozen=True, slots=True)
class Passage:
    """Words of a turn that a model may smooth: where they are, and what they say."""

    message: int
    part: int
    text: str


def find_passages(messages: Sequence[Message], count: Count) -> tuple[Passage, ...]:
    """What the user and the assistant say or think at some length, in order."""
    found = [
        Passage(place, index, part.text)
        for place, message in enumerate(messages)
        if message.kind == "message" and message.role in ("user", "assistant")
        for index, part in enumerate(message.parts)
        if isinstance(part, Text | Reasoning) and len(part.text) > PASSAGE_TOKENS
    ]
    return tuple([passage for passage in found if count(passage.text) >= PASSAGE_TOKENS][:MAX_PASSAGES])


def source_text(messages: Sequence[Message], max_tokens: int, count: Count, *, passages: Sequence[Passage] = ()) -> str:
    """What stands in the envelope, in at most `max_tokens`; passages bring their numbers along if nothing is cut."""
    raw = _numbered(messages, passages) if passages else turn_text(tuple(messages))
    if count(raw) <= max_tokens:
        return raw
    smoothed = smooth_messages(messages)
    if count(smoothed) <= max_tokens:
        return smoothed
    noted = smooth_messages(_with_notes(messages))
    return _cut(min(noted, smoothed, key=len), max_tokens, count)


def _numbered(messages: Sequence[Message], passages: Sequence[Passage]) -> str:
    numbers = {(passage.message, passage.part): number for number, passage in enumerate(passages, 1)}
    lines: list[str] = []
    for place, message in enumerate(messages):
        shown = {
            id(part): f"({number}) {part.text}"
            for index, part in enumerate(message.parts)
            if (number := numbers.get((place, index))) and isinstance(part, Text | Reasoning)
        }
        lines.append(message_text(message, lambda part, shown=shown: part_text(part, shown.get(id(part)))))  # type: ignore[misc]
    return "".join(lines)


def with_passages(
    messages: Sequence[Message], passages: Sequence[Passage], texts: Sequence[str | None]
) -> list[Message]:
    """The messages with new words for these passages, where there are some."""
    new = {(passage.message, passage.part): text for passage, text in zip(passages, texts, strict=True) if text}

    def changed(place: int, index: int, part: Part) -> Part:
        text = new.get((place, index))
        return replace(part, text=text) if text and isinstance(part, Text | Reasoning) else part

    return [
        replace(message, parts=tuple(changed(place, index, part) for index, part in enumerate(message.parts)))
        for place, message in enumerate(messages)
    ]


def _with_notes(messages: Sequence[Message]) -> list[Message]:
    """Each call with its result as one note in braces, as in C."""
    results = {result.call_id: result for message in messages for result in message.tool_results if result.call_id}
    called = {call.id for message in messages for call in message.tool_calls if call.id}

    def noted(part: Part) -> Part | None:
        if isinstance(part, ToolCall):
            return Text(summarise_call(part, results.get(part.id) if part.id else None))
        return None if isinstance(part, ToolResult) and part.call_id in called else part

    kept = [
        replace(message, parts=tuple(new for part in message.parts if (new := noted(part)))) for message in messages
    ]
    return [message for message in kept if message.parts]


def excerpt(source: str, words: Sequence[str], max_tokens: int, count: Count) -> str:
    """The lines of a source that have one of these words, each behind the mark of who says it."""
    lines, mark = [EXCERPT_NOTE], ""
    wanted = [word.casefold() for word in words]
    left = max_tokens - count(EXCERPT_NOTE)
    for line in source.splitlines():
        own = _LINE_MARK.match(line)
        mark = own[0] if own else mark
        folded = line.casefold()
        place = min((found for word in wanted if (found := folded.find(word)) >= 0), default=-1)
        if place < 0:
            continue
        start = max(0, place - EXCERPT_LINE_CHARS // 2)
        shown = line[start : start + EXCERPT_LINE_CHARS]
        shown = shown if own and not start else f"{mark} {'…' if start else ''}{shown}"
        left -= count(shown) + 1
        if left < 0:
            break
        lines.append(shown)
    return "\n".join(lines)


def _cut(text: str, max_tokens: int, count: Count) -> str:
    """The head and the tail of a text that fit, with a note between; each try aims at what the last one missed."""
    tokens = count(text)
    room = max_tokens - CUT_NOTE_TOKENS
    chars = int(len(text) * room / max(1, tokens))
    for _ in range(MAX_TRIES):
        if tokens <= max_tokens:
            break
        head, tail = int(chars * HEAD_SHARE), chars - int(chars * HEAD_SHARE)
        # What was the middle of a line stays one, so that no mark in it stands at a line's start.
        behind = "\n" if text[len(text) - tail - 1] == "\n" else " "
        cut = f"{text[:head]}{CUT_NOTE.format(tokens=tokens - room)}{behind}{text[len(text) - tail :]}"
        size = count(cut)
        if size <= max_tokens:
            return cut
        chars = int(chars * min(0.9, max_tokens / size))
    return text if tokens <= max_tokens else text[: max_tokens // CHARS_PER_TOKEN]
