"""A long, realistic conversation to try Foveate with, including planted facts that can be asked for later.

A developer and a coding assistant work for weeks on Quayside, a fictional service for booking berths: 300 turns, stored
next to this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from foveate import formats
from foveate.store import bodies
from foveate.turn import Json, Turn

MAX_TURNS = 300
FILE = "conversation.json.zst"


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A fact stated once, in turn `turn` (from 1), to be asked for later in other words."""

    id: str
    turn: int
    kind: str
    needle: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class DemoConversation:
    """Turns, and the facts planted in them."""

    title: str
    turns: tuple[Turn, ...]
    facts: tuple[PlantedFact, ...]


def load_conversation(turns: int = MAX_TURNS) -> DemoConversation:
    """Load the first turns of the demo conversation, and the facts in them."""
    if not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"turns is {turns}; it can be 1 to {MAX_TURNS}")
    whole = _load()
    facts = tuple(fact for fact in whole.facts if fact.turn <= turns)
    return DemoConversation(whole.title, whole.turns[:turns], facts)


def pack(conversation: DemoConversation) -> bytes:
    """Pack a conversation for the file."""
    render = formats.load_messages("foveate").render
    facts: list[Json] = [
        [fact.id, fact.turn, fact.kind, fact.needle, fact.question, fact.answer] for fact in conversation.facts
    ]
    turns: list[Json] = [render(turn.messages) for turn in conversation.turns]
    return bodies.squeeze({"title": conversation.title, "turns": turns, "facts": facts}, compression_level=19)


@cache
def _load() -> DemoConversation:
    stored: Any = bodies.expand(files("foveate.demo").joinpath(FILE).read_bytes())
    parse = formats.load("foveate").parse
    turns = (Turn(tuple(parse(record, "demo") for record in turn)) for turn in stored["turns"])
    return DemoConversation(stored["title"], tuple(turns), tuple(PlantedFact(*fact) for fact in stored["facts"]))
