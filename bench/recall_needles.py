"""A hundred facts planted in a long chat, and a hundred in an agent's session: are they there, and are they found?

48 facts are those of `foveate.testing.conversation`, the others are told here. Each has a needle (a name, number or
code that nothing else mentions), some key words, and a question in other words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from foveate import Message, Text, Turn
from foveate.recall.words import STOP_WORDS
from foveate.settings import load_settings
from foveate.testing.conversation import make_conversation
from foveate.turn import ToolResult

FACTS = 100
CHAT_TURNS, CHAT_TOKENS = 500, 16_000
AGENT_TURNS, AGENT_TOKENS = 150, 32_000
SOURCE_TURNS = 600
OWN_BUDGET = 1_000_000
RESULTS = 10

# How it is told, how it is asked for in other words; and for each: subject, needle, the subject in other words.
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
        ("boat shed", "KH-731", "boathouse"),
        ("crane", "417", "lifting gear"),
        ("winter storage", "INV-Zeta-88", "keeping boats over the cold months"),
        ("the pilot launch", "Marigold Seven", "the pilot's boat"),
        ("dredger", "3 February 2031", "dredging vessel"),
        ("tide gauge", "04:47", "water level meter"),
        ("weather console", "grandmother's accordion", "meteo terminal"),
        ("fuel pump", "QX-55120-B", "petrol dispenser"),
        ("floodlights", "the Lindqvist foundation", "big lamps"),
        ("breakwater beacon", "oxide rose", "light on the mole"),
        ("gate camera", "37 days", "CCTV at the entrance"),
        ("berth painter", "quay-brushwork", "tool that draws the moorings"),
        ("slipway winch", "Ottoline Brask", "hoist on the ramp"),
    ),
    (
        ("pump room", "PR-209", "room with the pumps"),
        ("ice machine", "208", "ice maker"),
        ("the regatta", "INV-Kite-12", "the sailing race"),
        ("the rescue boat", "Copper Finch", "the lifeboat"),
        ("car park", "19 August 2029", "parking lot"),
        ("payment bridge", "05:20", "link to the bank"),
        ("ledger tool", "seven yellow lemons", "bookkeeping program"),
        ("gangway motor", "MM-0093-K", "engine of the footbridge"),
        ("new fenders", "aunt Philippa", "fresh bumpers"),
        ("office door", "heron grey", "entrance of the bureau"),
        ("lock gates", "14 months", "sluice doors"),
        ("berth forecaster", "quay-oracle", "occupancy predictor"),
        ("sewage lift", "Bartholomew Ives", "waste water station"),
    ),
    (
        ("sail loft", "SL-064", "attic for the sails"),
        ("radar mast", "48", "radar pole"),
        ("guest week", "INV-Moss-40", "the days for visitors"),
        ("the harbour tug", "Velvet Anvil", "the towing boat"),
        ("waste collection", "30 November 2027", "rubbish pick-up"),
        ("message relay", "06:05", "forwarder of notices"),
        ("map server", "three blind herons", "chart service"),
        ("water meter", "WN-7741-C", "gauge for drinking water"),
        ("swimming ladder", "the rotary club", "steps for bathers"),
        ("crane cabin", "signal plum", "operator's booth of the hoist"),
        ("door badges", "11 weeks", "entry cards"),
        ("invoice printer", "quay-letterpress", "thing that prints bills"),
        ("heat pump", "Ingeborg Tveit", "heating"),
    ),
    (
        ("north cellar", "NC-518", "basement on the northern side"),
        ("battery bank", "96", "accumulators"),
        ("diver training", "INV-Pearl-03", "lessons for divers"),
        ("the patrol", "Sandpiper Two", "the guards"),
        ("roof lease", "1 May 2033", "rent of the roof"),
        ("backup runner", "03:33", "job that copies the data"),
        ("rota sheet", "purple walrus", "shift plan"),
        ("label maker", "LB-2210-Z", "sticker device"),
        ("jetty planks", "captain Morwenna", "boards of the pier"),
        ("tool chest", "ferry teal", "box for spanners"),
        ("radio traffic", "5 years", "spoken messages over the air"),
        ("tariff rules", "quay-abacus", "code for prices"),
        ("fire alarm", "Casimir Dole", "smoke detector"),
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
        for (told, asked), (subject, needle, other) in zip(TOLD, row, strict=True):
            text = told.format(subject, needle)
            yield text, needle, _keywords(text.replace(needle, "")), asked.format(other)


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
