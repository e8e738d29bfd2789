"""What a model that words checkpoints and topics well would answer: as many of the notes as it was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from foveate.models import Ask
from foveate.testing.scripted import Behaviour, SaysJson

_LINE = re.compile(r"^(\d+) (user|assistant): (.*)$", re.MULTILINE)
_MESSAGE = re.compile(r"^(\d+)\. \[(?:user|assistant)\] (.*)$", re.MULTILINE)
_MOST = re.compile(r"At most (\d+) clauses")


def clauses_of(ask: Ask) -> list[dict[str, Any]]:
    """Clauses from all of the notes, in the shape that the schema asks for."""
    text = ask.messages[-1].text
    found, most = _LINE.findall(text), _MOST.search(text)
    assert most is not None
    chosen = found[:: max(1, -(-len(found) // int(most[1])))]
    named = "clauses" in _wanted(ask)
    return [
        {"turn": int(turn), **({"speaker": who} if named else {}), "text": " ".join(words.split()[:20])}
        for turn, who, words in chosen
    ]


def first_sentences(ask: Ask) -> list[dict[str, Any]]:
    """Of each message of a hybrid session its first sentence."""
    found = _MESSAGE.findall(ask.messages[-1].text)
    return [{"message": int(number), "text": f"{words.split('. ')[0]}."} for number, words in found]


def noted(ask: Ask) -> str:
    """What a request is about, without its random word and the size that is asked for."""
    return "\n".join(":".join(line) for line in _LINE.findall(ask.messages[-1].text))


def worded(ask: Ask) -> Behaviour:
    """An honest answer."""
    if "messages" in _wanted(ask):
        return SaysJson({"messages": first_sentences(ask)})
    clauses = clauses_of(ask)
    if "clauses" in _wanted(ask):
        return SaysJson({"title": " ".join(clauses[0]["text"].split()[:4]), "clauses": clauses})
    return SaysJson({"summary": clauses, "decisions": clauses[:1], "next_steps": clauses[-1:]})


def _wanted(ask: Ask) -> Mapping[str, Any]:
    assert ask.schema is not None
    wanted = ask.schema["properties"]
    assert isinstance(wanted, Mapping)
    return wanted
