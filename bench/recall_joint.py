"""Questions asked between the turns of a conversation, at the session's own budget: what is kept, and what is cached.

Every utterance is a prompt and then a turn. A question is asked at the end of the sitting that has its last evidence;
it is a call of its own and not recorded, so that nothing is learned from it. A prompt's cached part is the prefix that
it shares with the prompt before it, question or not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from foveate import Message, Text, Turn
from foveate.context.context import Context
from foveate.context.prefix import matching_tokens
from foveate.settings import load_settings
from foveate.tokens import Counter
from retention import SHARED, moment

BUDGET = 8_000


@dataclass(slots=True)
class Tally:
    """What all calls came to."""

    tokens: int = 0
    cached: int = 0
    turns: int = 0
    turns_recalled: int = 0
    questions: int = 0
    questions_recalled: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


def play_all(conversations: Sequence[dict[str, Any]], budget_tokens: int = BUDGET) -> str:
    tally = Tally()
    settings = load_settings(overrides={"recall": {"deadline_seconds": None}})
    with tempfile.TemporaryDirectory() as folder:
        for conversation in conversations:
            with foveate.open(Path(folder) / f"{conversation['id']}.db", settings=settings) as fov:
                play(fov, conversation, tally, budget_tokens)
            print(f"{conversation['id']}: cached {tally.cached / tally.tokens:.3f} so far", file=sys.stderr, flush=True)
        contexts = Path(folder) / "contexts.jsonl"
        contexts.write_text("".join(json.dumps(row) + "\n" for row in tally.rows))
        data = SHARED / "data" / "qa" / "locomo-dev.json"
        command = [sys.executable, str(SHARED / "eval" / "score.py"), "--data", str(data), str(contexts)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return (
        f"{told}cached {tally.cached / tally.tokens:.3f} of all calls' tokens ({tally.turns} turns, {tally.questions} "
        f"questions, {budget_tokens:,} tokens)\nrecalled for {tally.questions_recalled / tally.questions:.1%} "
        f"of questions, {tally.turns_recalled / tally.turns:.1%} of turns"
    )


def play(fov: Any, conversation: dict[str, Any], tally: Tally, budget_tokens: int) -> None:
    session = fov.session(conversation["id"], budget_tokens=budget_tokens)
    turns = conversation["turns"]
    asked = questions_by_sitting(conversation)
    before: Context | None = None
    for place, turn in enumerate(turns):
        said = f"{turn['who']}: {turn['text']}"
        context = session.context(said)
        note(tally, before, context, session.counter)
        tally.turns += 1
        tally.turns_recalled += is_recalled(context)
        session.record(Turn((Message("user", (Text(said),)),)), at=moment(turn["date"]))
        fov.settle()
        before = context
        if place + 1 < len(turns) and turns[place + 1]["session"] == turn["session"]:
            continue
        for question in asked[turn["session"]]:
            context = session.context(question["question"])
            note(tally, before, context, session.counter)
            tally.questions += 1
            tally.questions_recalled += is_recalled(context)
            tally.rows.append({"question_id": question["id"], "context": context.text, "tokens": context.tokens})
            before = context


def questions_by_sitting(conversation: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    sitting = {turn["id"]: turn["session"] for turn in conversation["turns"]}
    asked: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for question in conversation["questions"]:
        asked[max(sitting[turn] for turn in question["evidence"])].append(question)
    return asked


def note(tally: Tally, before: Context | None, context: Context, counter: Counter) -> None:
    assert context.tokens <= context.budget_tokens
    tally.tokens += context.tokens
    if before is not None:
        tally.cached += matching_tokens(before.segments, context.segments, counter)


def is_recalled(context: Context) -> bool:
    return any(segment.name == "memory" for segment in context.segments)
