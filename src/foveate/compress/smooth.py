"""A turn at level S: everything that was said and done, without the noise.

Prose is cleaned, reasoning condensed to its conclusions, long standing instructions to their rules; arguments are
described and outputs cut to what a reader looks for. Marks and escapes are those of `foveate.text`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from foveate.compress.prose import smooth_prose
from foveate.compress.tools import smooth_call, smooth_result
from foveate.compress.tools._lines import clip
from foveate.text import compact_json, message_text, part_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

__all__ = ["conclusions", "rules", "smooth_messages", "smooth_prose"]

REASONING_WORDS = 60
"""Reasoning no longer than this stays whole."""
REASONING_SHARE = 0.5
RULES_CHARS = 1_500
"""Longer system and injected text is condensed to its rules."""
RULES_SHARE = 0.45
OPAQUE_CHARS = 400
REPEATED_CHARS = 200
"""A result or a system text that comes again in the same turn is named, not repeated, from this length on."""

_CONCLUSION = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|decid\w+|conclu\w+|because|root cause|turns out|means that|instead|the"
    r" (?:bug|problem"
    r"|issue|cause|fix|reason|answer|plan|result) is|i'll|i will|let's|should|must|need to|needs to|won't|don't|cannot"
    r"|can't|never|fails?|failed|works|fixed|found|best|better|correct|wrong)\b"
)
_RULE = re.compile(
    r"(?i)\b(?:must|never|always|only|not|cannot|can't|don't|no|at most|at least|unless|until|before|after"
    r"|requires?|should"
    r"|exactly|without|except|if|allowed|forbidden|deny|confirm\w*|error|instead)\b|\d|`|\""
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_HEADING = re.compile(r"^\s*(?:#{1,6} |\*\*[^*]+\*\*:?$)")


def smooth_messages(messages: Sequence[Message]) -> str:
    """The turn at level S; no message of it takes more tokens than it does raw."""
    return "".join(map(_Smoother(messages).message, messages))


class _Smoother:
    """What is known of a turn while its messages are smoothed: its calls by id, and what was shown already."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._calls = {call.id: call for message in messages for call in message.tool_calls if call.id}
        self._shown: dict[bytes, str] = {}
        self._speaker: Message | None = None

    def message(self, message: Message) -> str:
        self._speaker = message
        raw = message_text(message)
        smoothed = message_text(message, self._part)
        return smoothed if smoothed == raw or count_tokens(smoothed) <= count_tokens(raw) else raw

    def _part(self, part: Part) -> str:
        match part:
            case Text(text):
                return part_text(part, self._words(text))
            case Reasoning(text):
                return part_text(part, conclusions(text))
            case ToolCall():
                return part_text(part, smooth_call(part))
            case ToolResult():
                return part_text(part, self._result(part))
            case Opaque(_, data):
                return part_text(part, clip(compact_json(data), OPAQUE_CHARS))
            case _:
                return part_text(part)

    def _words(self, text: str) -> str:
        assert self._speaker is not None
        standing = self._speaker.role in ("system", "developer") or self._speaker.kind == "injection"
        if standing:
            return self._again(text, "text") or rules(text)
        return smooth_prose(text, is_answer=self._speaker.role == "assistant")

    def _result(self, result: ToolResult) -> str:
        call = self._calls.get(result.call_id) if result.call_id else None
        text = "\n".join(part.text for part in result.content if isinstance(part, Text))
        return self._again(text, "output") or smooth_result(call, result)

    def _again(self, text: str, noun: str) -> str | None:
        """A note in place of a long text that this turn has shown before."""
        if len(text) < REPEATED_CHARS:
            return None
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key in self._shown:
            return f"(the same {noun} as above: {self._shown[key]})"
        self._shown[key] = clip(" ".join(text[:200].split()), 60)
        return None


def conclusions(text: str) -> str:
    """Reasoning without the way there: its last paragraph, and the sentences that decide or find something."""
    text = smooth_prose(text)
    if len(text.split()) <= REASONING_WORDS:
        return text
    before, _, last = text.rpartition("\n\n")
    sentences = [sentence for part in before.split("\n") for sentence in _SENTENCE.split(part) if sentence.strip()]
    if not before:
        *sentences, last = _SENTENCE.split(last)
    room = int(len(text) * REASONING_SHARE) - len(last)
    chosen: list[str] = []
    for sentence in reversed(sentences):
        if _CONCLUSION.search(sentence) and len(sentence) < room:
            chosen.append(sentence.strip())
            room -= len(sentence)
    return " ".join(reversed(chosen)) + ("\n" if chosen else "") + last


@lru_cache(maxsize=32)
def rules(text: str) -> str:
    """Standing instructions, the long ones condensed: headings, and the sentences that order, forbid or limit.

    The last ones are kept at hand, since an agent sends the same ones with every conversation.
    """
    text = smooth_prose(text)
    if len(text) <= RULES_CHARS:
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    sentences = [
        (index, sentence)
        for index, line in enumerate(lines)
        if not _HEADING.match(line)
        for sentence in _SENTENCE.split(line)
    ]
    room = int(len(text) * RULES_SHARE)
    chosen = _choose(sentences, room)
    said: dict[int, list[str]] = {}
    for place in sorted(chosen):
        said.setdefault(sentences[place][0], []).append(sentences[place][1])
    kept = [
        line if _HEADING.match(line) else " ".join(said[index])
        for index, line in enumerate(lines)
        if index in said or _HEADING.match(line)
    ]
    return "\n".join([*kept, f"(… {len(sentences) - len(chosen)} of {len(sentences)} sentences left out)"])


def _choose(sentences: Sequence[tuple[int, str]], room: int) -> set[int]:
    """The sentences with the most cues for their length, as many as there is room for; always the first."""
    worth = {
        place: (len(_RULE.findall(sentence)) + 0.5) / (len(sentence) + 40)
        for place, (_, sentence) in enumerate(sentences)
    }
    chosen: set[int] = set()
    for place in sorted(worth, key=lambda place: (place > 0, -worth[place], place)):
        length = len(sentences[place][1])
        if length <= room:
            chosen.add(place)
            room -= length
    return chosen
