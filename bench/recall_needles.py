"""A hundred facts planted in a long chat, and a hundred in an agent's session: are they there, and are they found?

48 facts are those of `bench/conversation`, the others are told here. Each has a needle (a name, number or
code that nothing else mentions), some key words, and a question in other words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from conversation import make_conversation
from foveate import Message, Text, Turn
from foveate.recall.words import STOP_WORDS
from foveate.settings import load_settings
from foveate.turn import ToolResult

FACTS = 100
CHAT_TURNS, CHAT_TOKENS = 500, 16_000
AGENT_TURNS, AGENT_TOKENS = 150, 32_000
SOURCE_TURNS = 600
OWN_BUDGET = 1_000_000
RESULTS = 10

# How it is told, and how it is asked for in other words; only its subject keeps its name.
TOLD = (
    ("The spare key of the {} hangs on hook {}.", "On which peg can I find the extra key to the {}?"),
    ("Mind that the {} may only be fed with {} volts.", "What voltage is allowed for the {}?"),
    ("We agreed that {} is to be invoiced under {}.", "What is the billing reference for {}?"),
    ("For the record, {} goes by the call sign {}.", "How is {} addressed over the radio?"),
    ("The contract for the {} ends on {}.", "When does the agreement on the {} run out?"),
    ("Never restart the {} before {}.", "What is the earliest time to reboot the {}?"),
    ("My password hint for the {} is {}.", "How do I recall the login of the {}?"),
    ("The serial number of the {} is {}.", "What is printed on the type plate of the {}?"),
    ("The {} was paid for by {}.", "Who bore the cost of the {}?"),
    ("Someone asked: the {} is painted in {}.", "Which colour has the {}?"),
    ("Logs of the {} are kept for {}.", "How long do we hold on to the records of the {}?"),
    ("The {} lives in the repository {}.", "Where is the source code of the {}?"),
    ("If the {} fails, phone {}.", "Whom do I ring when the {} breaks down?"),
)
SUBJECTS = (
    (
        ("boat shed", "KH-731"),
        ("crane", "417.5"),
        ("winter storage", "INV-Zeta-88"),
        ("the pilot launch", "Marigold Seven"),
        ("dredger", "3 February 2031"),
        ("tide gauge", "04:47"),
        ("weather console", "grandmother's accordion"),
        ("fuel pump", "QX-55120-B"),
        ("floodlights", "the Lindqvist foundation"),
        ("breakwater beacon", "oxide rose"),
        ("gate camera", "37 tides"),
        ("berth painter", "quay-brushwork"),
        ("slipway winch", "Ottoline Brask"),
    ),
    (
        ("pump room", "PR-209"),
        ("ice machine", "208.3"),
        ("the regatta", "INV-Kite-12"),
        ("the rescue boat", "Copper Finch"),
        ("car park", "19 August 2029"),
        ("payment bridge", "05:20"),
        ("ledger tool", "seven yellow lemons"),
        ("gangway motor", "MM-0093-K"),
        ("new fenders", "aunt Philippa"),
        ("office door", "heron grey"),
        ("lock gates", "14 fortnights"),
        ("berth forecaster", "quay-oracle"),
        ("sewage lift", "Bartholomew Ives"),
    ),
    (
        ("sail loft", "SL-064"),
        ("radar mast", "48.25"),
        ("guest week", "INV-Moss-40"),
        ("the harbour tug", "Velvet Anvil"),
        ("waste collection", "30 November 2027"),
        ("message relay", "06:05"),
        ("map server", "three blind herons"),
        ("water meter", "WN-7741-C"),
        ("swimming ladder", "the rotary club"),
        ("crane cabin", "signal plum"),
        ("door badges", "11 lunar weeks"),
        ("invoice printer", "quay-letterpress"),
        ("heat pump", "Ingeborg Tveit"),
    ),
    (
        ("north cellar", "NC-518"),
        ("battery bank", "96.75"),
        ("diver training", "INV-Pearl-03"),
        ("the patrol", "Sandpiper Two"),
        ("roof lease", "1 May 2033"),
        ("backup runner", "03:33"),
        ("rota sheet", "purple walrus"),
        ("label maker", "LB-2210-Z"),
        ("jetty planks", "captain Morwenna"),
        ("tool chest", "ferry teal"),
        ("radio traffic", "5 leap years"),
        ("tariff rules", "quay-abacus"),
        ("fire alarm", "Casimir Dole"),
    ),
)


@dataclass(frozen=True, slots=True)
class Needle:
    turn: int
    needle: str
    keywords: str
    question: str


@dataclass(frozen=True, slots=True)
class Found:
    """How many of the needles are there, or are found in one search."""

    shown: int
    by_code: int
    by_keywords: int
    by_question: int
    unreachable: int


def seek_all() -> str:
    lines = ["| session | in the context | by code | by keywords | by question | unreachable |", "|" + " --- |" * 6]
    for name, story, budget in (
        ("chat, 500 turns, 16k", chat_story(), CHAT_TOKENS),
        ("agent, 150 turns, 32k", agent_story(), AGENT_TOKENS),
    ):
        found = seek(*story, budget)
        row = (found.shown, found.by_code, found.by_keywords, found.by_question, found.unreachable)
        lines.append(f"| {name} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def chat_story() -> tuple[list[Turn], list[Needle]]:
    made = make_conversation(CHAT_TURNS)
    return plant(list(made.turns), [Needle(f.turn, f.needle, _keywords(f.answer), f.question) for f in made.facts])


def agent_story() -> tuple[list[Turn], list[Needle]]:
    """Turns at work, and those that tell a fact."""
    made = make_conversation(SOURCE_TURNS, seed=7)
    told = {fact.turn for fact in made.facts}
    at_work = [n for n, turn in enumerate(made.turns, 1) if any(m.tool_calls for m in turn.messages) and n not in told]
    chosen = sorted([*told, *at_work[:: max(1, len(at_work) // (AGENT_TURNS - len(told)))]][:AGENT_TURNS])
    place = {number: index for index, number in enumerate(chosen, 1)}
    facts = [Needle(place[f.turn], f.needle, _keywords(f.answer), f.question) for f in made.facts]
    return plant([made.turns[number - 1] for number in chosen], facts)


def plant(turns: list[Turn], facts: list[Needle]) -> tuple[list[Turn], list[Needle]]:
    """The rest of the hundred, evenly among the turns that tell nothing yet, said by all who speak there."""
    told = {fact.turn for fact in facts}
    free = [number for number in range(1, len(turns) + 1) if number not in told]
    made = list(_facts())[: FACTS - len(facts)]
    for index, (text, needle, keywords, question) in enumerate(made):
        number = free[index * len(free) // len(made)]
        turns[number - 1] = _say(turns[number - 1], text, index)
        facts.append(Needle(number, needle, keywords, question))
    return turns, sorted(facts, key=lambda fact: fact.turn)


def _facts() -> Iterator[tuple[str, str, str, str]]:
    for row in SUBJECTS:
        for (told, asked), (subject, needle) in zip(TOLD, row, strict=True):
            text = told.format(subject, needle)
            yield text, needle, _keywords(text.replace(needle, "")), asked.format(subject)


def _keywords(text: str) -> str:
    return " ".join(word for word in text.replace(".", " ").split() if word.lower() not in STOP_WORDS)


def _say(turn: Turn, text: str, index: int) -> Turn:
    """In the prompt, in the answer, or at the end of what a tool said."""
    messages = list(turn.messages)
    kinds = ("user", "assistant", "tool")
    order = [kinds[(index + shift) % 3] for shift in range(3)]
    for kind in order:
        for place, message in enumerate(messages):
            if message.role == kind and (grown := _grown(message, text)) is not None:
                messages[place] = grown
                return replace(turn, messages=tuple(messages))
    raise ValueError("a turn without words")


def _grown(message: Message, text: str) -> Message | None:
    parts = list(message.parts)
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            parts[place] = Text(f"{part.text} {text}")
        elif isinstance(part, ToolResult) and part.content and isinstance(part.content[-1], Text):
            last = Text(f"{part.content[-1].text}\n# {text}")
            parts[place] = replace(part, content=(*part.content[:-1], last))
        else:
            continue
        return replace(message, parts=tuple(parts))
    return None


def seek(turns: Sequence[Turn], needles: Sequence[Needle], budget_tokens: int) -> Found:
    settings = load_settings(environment={}, overrides={"recall": {"deadline_seconds": None}})
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "n.db", settings=settings) as fov:
        session = fov.session("s", budget_tokens=OWN_BUDGET)
        for turn in turns:
            session.record(turn)
        fov.settle()
        text = _plain(session.context("", budget_tokens=budget_tokens).text)
        asked = {
            "code": [_is_found(session, needle, needle.needle) for needle in needles],
            "keywords": [_is_found(session, needle, needle.keywords) for needle in needles],
            "question": [_is_found(session, needle, needle.question) for needle in needles],
        }
        lost = [n for n in needles if _plain(n.needle) not in _plain(session.get_turn(n.turn, "R", "plain").content)]
        shown = sum(_plain(needle.needle) in text for needle in needles)
        code, keywords, question = (sum(hits) for hits in asked.values())
        return Found(shown, code, keywords, question, len(lost))


def _is_found(session: Any, needle: Needle, query: str) -> bool:
    return f"T-{needle.turn}" in [found.turn_id for found in session.search(query, max_results=RESULTS)]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
