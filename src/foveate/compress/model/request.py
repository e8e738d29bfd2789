"""The turn in a request to a model: the original if it fits, else shortened by rules, and finally cut.

raw ──► S by rules, tool compressors included ──► each call and its result as one note ──► head and tail
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from foveate.compress.smooth import smooth_messages
from foveate.compress.tools import summarise_call
from foveate.models.prompts import prompt_text
from foveate.renditions import Count, Level
from foveate.text import MARK_WORDS, message_text, part_text, turn_text
from foveate.turn import Json, Message, Part, Reasoning, Text, ToolCall, ToolResult

PASSAGE_TOKENS = 40
"""A shorter passage is not worth smoothing by a model."""
MAX_PASSAGES = 40
"""Maximum number of passages of a turn that a model smooths, from the first; rules smooth the rest."""
HEAD_SHARE = 0.6
"""Share of the beginning in a turn that must be cut; the rest is its end."""
CUT_NOTE = "\n(… {tokens} tokens left out here …)"
CUT_NOTE_TOKENS = 24
EXCERPT_NOTE = "(Only the passages with what was missing; the rest of the source is as before.)"
EXCERPT_LINE_CHARS = 400
MAX_TRIES = 12
CHARS_PER_TOKEN = 4

_LINE_MARK = re.compile(rf"\[(?:{MARK_WORDS})\b[^\]\n]*\]")


@dataclass(frozen=True, slots=True)
class ProsePassage:
    """Words of a turn that a model may smooth: their position and text."""

    message: int
    part: int
    text: str


def find_passages(messages: Sequence[Message], count: Count) -> tuple[ProsePassage, ...]:
    """Find the longer passages of the user's and the assistant's words and reasoning, in order."""
    found = [
        ProsePassage(place, index, part.text)
        for place, message in enumerate(messages)
        if message.kind == "message" and message.role in ("user", "assistant")
        for index, part in enumerate(message.parts)
        if isinstance(part, Text | Reasoning) and len(part.text) > PASSAGE_TOKENS
    ]
    return tuple([passage for passage in found if count(passage.text) >= PASSAGE_TOKENS][:MAX_PASSAGES])


def source_text(
    messages: Sequence[Message], max_tokens: int, count: Count, *, passages: Sequence[ProsePassage] = ()
) -> str:
    """Write the content of the envelope, in at most `max_tokens`; passages have numbers if nothing is cut."""
    raw = _numbered(messages, passages) if passages else turn_text(tuple(messages))
    if count(raw) <= max_tokens:
        return raw
    smoothed = smooth_messages(messages, cut=False)
    if count(smoothed) <= max_tokens:
        return smoothed
    noted = smooth_messages(_with_notes(messages), cut=False)
    return _cut(min(noted, smoothed, key=len), max_tokens, count)


def _numbered(messages: Sequence[Message], passages: Sequence[ProsePassage]) -> str:
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
    messages: Sequence[Message], passages: Sequence[ProsePassage], texts: Sequence[str | None]
) -> list[Message]:
    """Replace the words of these passages, where there are new ones."""
    new = {(passage.message, passage.part): text for passage, text in zip(passages, texts, strict=True) if text}

    def changed(place: int, index: int, part: Part) -> Part:
        text = new.get((place, index))
        return replace(part, text=text) if text and isinstance(part, Text | Reasoning) else part

    return [
        replace(message, parts=tuple(changed(place, index, part) for index, part in enumerate(message.parts)))
        for place, message in enumerate(messages)
    ]


def _with_notes(messages: Sequence[Message]) -> list[Message]:
    """Replace each call and its result by one note in braces, as in C."""
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
    """Return the lines of a source that have one of these words, each after its speaker's mark."""
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
    """Cut a text to its head and tail, with a note between; each attempt corrects the size of the last."""
    tokens = count(text)
    room = max_tokens - CUT_NOTE_TOKENS
    chars = int(len(text) * room / max(1, tokens))
    for _ in range(MAX_TRIES):
        if tokens <= max_tokens:
            break
        head, tail = int(chars * HEAD_SHARE), chars - int(chars * HEAD_SHARE)
        # The middle of a line stays the middle, so that no mark in it moves to the start of a line.
        behind = "\n" if text[len(text) - tail - 1] == "\n" else " "
        cut = f"{text[:head]}{CUT_NOTE.format(tokens=tokens - room)}{behind}{text[len(text) - tail :]}"
        size = count(cut)
        if size <= max_tokens:
            return cut
        chars = int(chars * min(0.9, max_tokens / size))
    return text if tokens <= max_tokens else text[: max_tokens // CHARS_PER_TOKEN]


NAMES: Mapping[Level, str] = {"S": "smoothed", "C": "compressed", "T": "tiny"}
"""The key of each level in an answer."""
SPEAKERS = ("user", "assistant")
"""The parts of a C or T; Foveate joins them, so an answer needs no marks and can't forge one."""

_TASKS: Mapping[Level, str] = {"S": "smooth", "C": "compress", "T": "tiny"}
_NONCE = re.compile(r"[A-Za-z0-9]{8,64}")


def prompt_file(name: str) -> str:
    """Return a prompt of this package, or the text that overrides it."""
    return prompt_text(f"compress/{name}").strip()


def system_prompt(levels: tuple[Level, ...]) -> str:
    """Return the rules, and the instructions for each of these levels."""
    parts = [prompt_file("rules"), *(prompt_file(_TASKS[level]) for level in levels)]
    if set(levels) & {"C", "T"}:
        parts.append(prompt_file("said"))
    return "\n\n".join(parts)


def request(source: str, limits: str, *, nonce: str) -> str:
    """Write the turn in its envelope. The nonce does not occur inside it, so nothing there can end it."""
    assert _NONCE.fullmatch(nonce), "a nonce is a random word of 8 to 64 letters and digits"
    shown = without_nonce(source, nonce).rstrip("\n")
    return prompt_file("request").replace("{nonce}", nonce).replace("{limits}", limits).replace("{source}", shown, 1)


def source_of(request: str, nonce: str) -> str:
    """Return the content of a request's envelope."""
    _, _, behind = request.partition(f"<source-{nonce}>\n")
    return behind.partition(f"\n</source-{nonce}>")[0]


def follow_up(refused: Sequence[str], levels: Sequence[Level], *, nonce: str) -> str:
    """Write the problems of an answer. The facts named in it are the turn's, so they are in an envelope too."""
    names = " and ".join(f'"{NAMES[level]}"' for level in levels)
    shown = without_nonce("\n".join(refused), nonce)
    return prompt_file("again").replace("{nonce}", nonce).replace("{names}", names).replace("{refused}", shown, 1)


def without_nonce(text: str, nonce: str) -> str:
    return re.sub(re.escape(nonce), "…", text, flags=re.IGNORECASE)


@cache
def schema(levels: tuple[Level, ...]) -> Mapping[str, Json]:
    """Return the schema of the answer; every object is closed and every key required, as strict providers demand."""
    return closed_object({NAMES[level]: _passages() if level == "S" else _said() for level in levels})


def _said() -> Json:
    return closed_object({speaker: {"type": "string"} for speaker in SPEAKERS})


def _passages() -> Json:
    return {"type": "array", "items": closed_object({"passage": {"type": "integer"}, "text": {"type": "string"}})}


def closed_object(properties: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


OTHER_TOKENIZERS = 1.6
"""Factor for models that need more tokens for a text than counted here, JSON's escapes included."""
SHAPE_TOKENS = 40
"""Tokens of the keys, quotes and braces around a level."""
LEAST_WORDS = 8
FEWEST_WORDS_PER_TOKEN, MOST_WORDS_PER_TOKEN = 0.35, 0.75
"""Range of words per token; with fewer words the language has no spaces between them, and characters are counted."""


def asked_limits(levels: Sequence[Level], rooms: Mapping[Level, int], source: str, source_tokens: int) -> str:
    """Write the limits in words, which models follow better than tokens: `150 words for "compressed"`."""
    per_token = len(source.split()) / max(1, source_tokens)
    unit = "words"
    if per_token < FEWEST_WORDS_PER_TOKEN and not source.isascii():
        unit, per_token = "characters", len(source) / max(1, source_tokens)
    per_token = min(per_token, MOST_WORDS_PER_TOKEN) if unit == "words" else per_token
    said = [
        f'{max(LEAST_WORDS, int(rooms[level] * per_token))} {unit} for "{NAMES[level]}"'
        for level in levels
        if level in rooms
    ]
    if "S" in levels:
        said.append('60 % of each passage for "smoothed"')
    return " and ".join(said)


def answer_tokens(rooms: Mapping[Level, int], passages_tokens: int = 0) -> int:
    """Return the provider's output limit: enough for any acceptable answer, and for no essay."""
    needed = sum(passages_tokens if level == "S" else tokens for level, tokens in rooms.items())
    return math.ceil(needed * OTHER_TOKENIZERS) + SHAPE_TOKENS * max(1, len(rooms))
