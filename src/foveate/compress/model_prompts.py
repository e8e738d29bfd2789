"""What a model is told: prompts from files, the source in an envelope that nothing inside can end, the schema.

The system prompt depends on the levels alone, so that a provider's cache has it after the first turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from foveate.compress import Level
from foveate.turn import Json

NAMES: Mapping[Level, str] = {"S": "smoothed", "C": "compressed", "T": "tiny"}
"""What each level is called in an answer."""
SPEAKERS = ("user", "assistant")
"""The parts of a C or T; we put them together, so an answer needs no marks and can't forge one."""

_TASKS: Mapping[Level, str] = {"S": "smooth", "C": "compress", "T": "tiny"}
_NONCE = re.compile(r"[A-Za-z0-9]{8,64}")


@cache
def prompt_file(name: str) -> str:
    return files("foveate.compress").joinpath("prompts", f"{name}.md").read_text("utf-8").strip()


@cache
def system_prompt(levels: tuple[Level, ...]) -> str:
    """The rules, and what to make of a turn for each of these levels."""
    parts = [prompt_file("rules"), *(prompt_file(_TASKS[level]) for level in levels)]
    if set(levels) & {"C", "T"}:
        parts.append(prompt_file("said"))
    return "\n\n".join(parts)


def request(source: str, limits: str, *, nonce: str) -> str:
    """The turn in its envelope. The nonce does not occur inside it, so nothing there can end it."""
    assert _NONCE.fullmatch(nonce), "a nonce is a random word of 8 to 64 letters and digits"
    shown = without_nonce(source, nonce).rstrip("\n")
    return prompt_file("request").replace("{nonce}", nonce).replace("{limits}", limits).replace("{source}", shown, 1)


def source_of(request: str, nonce: str) -> str:
    """What stands in a request's envelope."""
    _, _, behind = request.partition(f"<source-{nonce}>\n")
    return behind.partition(f"\n</source-{nonce}>")[0]


def follow_up(refused: Sequence[str], levels: Sequence[Level], *, nonce: str) -> str:
    """What was wrong with an answer. The facts named in it are the turn's, so they stand in an envelope too."""
    names = " and ".join(f'"{NAMES[level]}"' for level in levels)
    shown = without_nonce("\n".join(refused), nonce)
    return prompt_file("again").replace("{nonce}", nonce).replace("{names}", names).replace("{refused}", shown, 1)


def without_nonce(text: str, nonce: str) -> str:
    return re.sub(re.escape(nonce), "…", text, flags=re.IGNORECASE)


@cache
def schema(levels: tuple[Level, ...]) -> Mapping[str, Json]:
    """The answer's shape; every object is closed and every key required, as strict providers want it."""
    return closed_object({NAMES[level]: _passages() if level == "S" else _said() for level in levels})


def _said() -> Json:
    return closed_object({speaker: {"type": "string"} for speaker in SPEAKERS})


def _passages() -> Json:
    return {"type": "array", "items": closed_object({"passage": {"type": "integer"}, "text": {"type": "string"}})}


def closed_object(properties: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of an object that has these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
