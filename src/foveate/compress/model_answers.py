"""A model's answer read: one JSON object of the schema, or the reason why it is none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.compress import Level
from foveate.compress.model_checks import visible
from foveate.compress.model_prompts import NAMES, SPEAKERS
from foveate.models import Answer

MAX_ANSWER_CHARS = 400_000
"""No more of an answer is read."""
TRUNCATED = "the answer was cut off at its output limit; say less"
FILTERED = "the provider's filter stopped the answer"

_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_TOOLS_NOTE = re.compile(r"\s*\{\d+ tools? called\}")


@dataclass(frozen=True, slots=True)
class Said:
    """A C or T in its two parts."""

    user: str
    assistant: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.user, self.assistant) if part)


@dataclass(frozen=True, slots=True)
class Fields:
    """An answer by levels; `problems` says what is wrong with those that are not there."""

    said: Mapping[Level, Said]
    smoothed: Mapping[int, str] | None
    """Texts by the number of their passage."""
    problems: Mapping[Level, str]


def read_answer(answer: Answer, levels: Sequence[Level]) -> Fields:
    """What an answer has for each level. Keys that nobody asked for are passed over."""
    loaded, problem = load_object(answer)
    if loaded is None:
        return Fields({}, None, dict.fromkeys(levels, problem))
    said: dict[Level, Said] = {}
    smoothed: Mapping[int, str] | None = None
    problems: dict[Level, str] = {}
    for level in levels:
        value = loaded.get(NAMES[level])
        found = _read_passages(value) if level == "S" else _read_said(value)
        if isinstance(found, Said):
            said[level] = found
        elif found is not None:
            smoothed = found
        else:
            problems[level] = f'"{NAMES[level]}" is missing, or not as the schema has it'
    return Fields(said, smoothed, problems)


def load_object(answer: Answer) -> tuple[dict[str, object] | None, str]:
    """The object that an answer is, in a code fence or not; or what is wrong with it."""
    text = answer.text
    problem = ""
    if answer.finish == "refused":
        problem = FILTERED
    elif answer.finish == "length":
        problem = TRUNCATED
    elif not text.strip():
        problem = "the answer is empty"
    elif len(text) > MAX_ANSWER_CHARS:
        problem = "the answer is far too long"
    if problem:
        return None, problem
    fenced = _FENCE.fullmatch(text)
    try:
        loaded = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None, "the answer is not one JSON object alone"
    return (loaded, "") if isinstance(loaded, dict) else (None, "the answer is no JSON object")


def _read_said(value: object) -> Said | None:
    if not isinstance(value, dict):
        return None
    parts = [value.get(speaker) for speaker in SPEAKERS]
    if not all(isinstance(part, str) for part in parts):
        return None
    return Said(*(_tidy(str(part)) for part in parts))


def _read_passages(value: object) -> dict[int, str] | None:
    if not isinstance(value, list):
        return None
    texts: dict[int, str] = {}
    for item in value:
        number, text = (item.get("passage"), item.get("text")) if isinstance(item, dict) else (None, None)
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(text, str) or number in texts:
            return None
        texts[number] = visible(text).strip()
    return texts


def _tidy(text: str) -> str:
    """Lines without blank ones between them, and without a count of tools: that is ours to give."""
    lines = (" ".join(line.split()) for line in _TOOLS_NOTE.sub("", visible(text)).split("\n"))
    return "\n".join(line for line in lines if line)
