"""The turns that the store's benchmarks record: taken from the demo conversation, as a provider's API has them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import cast

from conversation import make_conversation
from foveate.formats import render_messages
from foveate.turn import Json, Message, Text

Record = dict[str, Json]

DEMO_TURNS = 300


@cache
def chat_turns() -> tuple[list[Record], ...]:
    """Turns of two messages: a prompt and the answer, about 1 kB together."""
    turns = []
    for turn in make_conversation(DEMO_TURNS).turns:
        answers = [text for message in turn.messages[1:] if (text := _words(message))]
        if answers:
            prompt: Record = {"role": "user", "content": _words(turn.messages[0])}
            turns.append([prompt, cast("Record", {"role": "assistant", "content": answers[-1]})])
    return tuple(turns)


@cache
def agent_turns() -> tuple[list[Record], ...]:
    """Whole turns with their tool calls and results."""
    return tuple(
        cast("list[Record]", render_messages("openai", turn.messages)) for turn in make_conversation(DEMO_TURNS).turns
    )


def endless(turns: Sequence[list[Record]]) -> Iterator[list[Record]]:
    return itertools.cycle(turns)


def json_bytes(turns: Sequence[list[Record]]) -> float:
    """The mean size of a turn in JSON."""
    return sum(len(json.dumps(turn, ensure_ascii=False).encode()) for turn in turns) / len(turns)


def _words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
