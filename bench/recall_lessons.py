"""What lessons change: FACT of previews, and the cached share of a replay; see `recall.py --lessons`.

Each conversation is a session of a project of its own, and rules learn from it. Then the questions are asked with and
without lessons. For the cached share the same conversation is played again in a second session of the project,
prompt by prompt at its own budget, so that everything that was learned is there from the first prompt on.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foveate as library
import foveate.sync as foveate
from foveate import Message, Text, Turn
from foveate.context.context import Context
from foveate.context.prefix import matching_tokens
from foveate.knowledge.run import learn
from foveate.settings import Settings, load_settings
from retention import OWN_BUDGET, moment, record

PLAYED_BUDGET = 8_000
ITEMS = {"without lessons": 0, "with lessons": 3}
Score = Callable[[str, str, int, list[dict[str, Any]], Path], tuple[float, float]]


@dataclass(slots=True)
class Played:
    """What the calls of a replay came to."""

    calls: int = 0
    tokens: int = 0
    cached: int = 0
    recalled: int = 0
    """Calls with a memory layer,"""
    taught: int = 0
    """and with a lesson in it."""


def lessons_all(
    sets: dict[str, Sequence[dict[str, Any]]], budgets: Sequence[int], score: Score, played: int | None
) -> str:
    """A row for each set and way."""
    heads = ["set", "context", *(f"FACT (ALL) at {budget:,}" for budget in budgets)]
    heads += ["questions with a lesson", "cached share of a replay", "prompts with memory", "with a lesson"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, conversations in sets.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learned.db"
            with foveate.open(path) as fov:
                for each in conversations:
                    record(fov.session(each["id"], budget_tokens=OWN_BUDGET, channel=each["id"]), each, name)
                fov.settle()
            count = asyncio.run(learn_all(path))
            for label, items in ITEMS.items():
                cells = [name if items == 0 else f"{name}, {count} lessons", label]
                settings = settings_for(items)
                taught = 0
                with foveate.open(path, settings=settings) as fov:
                    for budget in budgets:
                        taught = 0
                        rows = []
                        for row, is_taught in ask(fov, conversations, budget):
                            rows.append(row)
                            taught += is_taught
                        fact, every = score(name, label, budget, rows, Path(folder))
                        cells.append(f"{fact:.3f} ({every:.3f})")
                result = play_all(path, name, conversations[:played], settings)
                cells += [f"{taught / len(rows):.1%}", f"{result.cached / result.tokens:.3f}"]
                cells += [f"{result.recalled / result.calls:.1%}", f"{result.taught / result.calls:.1%}"]
                lines.append(f"| {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    return "\n".join(lines)


def settings_for(items: int) -> Settings:
    return load_settings(environment={}, overrides={"recall": {"deadline_seconds": None, "knowledge_items": items}})


async def learn_all(path: Path) -> int:
    """Learn from each project; how many lessons there are."""
    async with library.open(path) as fov:
        await learn(fov)
        return len(await fov.knowledge.list(kind="lesson"))


def ask(fov: Any, conversations: Sequence[dict[str, Any]], budget: int) -> Iterator[tuple[dict[str, Any], bool]]:
    for conversation in conversations:
        session = fov.open_session(conversation["id"])
        for question in conversation["questions"]:
            context = session.context(question["question"], budget_tokens=budget)
            assert context.tokens <= budget
            row = {"question_id": question["id"], "context": context.text, "tokens": context.tokens}
            yield row, "knowledge" in context.planned.notes


def play_all(path: Path, name: str, conversations: Sequence[dict[str, Any]], settings: Settings) -> Played:
    copy = path.with_name("played.db")
    shutil.copy(path, copy)
    result = Played()
    with foveate.open(copy, settings=settings) as fov:
        for each in conversations:
            session = fov.session(f"{each['id']}-again", budget_tokens=PLAYED_BUDGET, channel=each["id"])
            play(fov, session, each, name, result)
    copy.unlink()
    return result


def play(fov: Any, session: Any, conversation: dict[str, Any], name: str, result: Played) -> None:
    before: Context | None = None
    for turn in conversation["turns"]:
        is_prompt = turn["who"] == "user" or not name.startswith("beam")
        said = turn["text"] if name.startswith("beam") else f"{turn['who']}: {turn['text']}"
        if is_prompt:
            context = session.context(said)
            result.calls += 1
            result.tokens += context.tokens
            result.cached += matching_tokens(before.segments, context.segments, session.counter) if before else 0
            result.recalled += any(segment.name == "memory" for segment in context.segments)
            result.taught += "knowledge" in context.planned.notes
            before = context
        message = Message("user" if is_prompt else "assistant", (Text(said),))
        session.record(Turn((message,)) if is_prompt else [message], at=moment(turn["date"]))
        fov.settle()
