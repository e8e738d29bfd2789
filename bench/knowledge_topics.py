"""What is learned without a model: how pure the topics are, what a real log teaches, what it costs, whether it helps.

    python bench/knowledge_topics.py --purity            # topics against the chats and sittings that turns are from
    python bench/knowledge_topics.py --log               # recurring errors, rules and profile of a year of coding chat
    python bench/knowledge_topics.py --ranking           # whether topics help a search to find the evidence
    python bench/knowledge_topics.py --scale 100 1000    # time and memory, each size in a process of its own

Needs ../shared/data. `--simple` finds clusters without scikit-learn; `--keep DIRECTORY` keeps the stores for next time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import foveate
from foveate import Foveate, Message, Session, Text, Turn
from foveate.knowledge.failures import find_failures
from foveate.knowledge.gather import Gathered, gather, vectors_of
from foveate.knowledge.lessons import find_lessons
from foveate.knowledge.topics import TopicsFound, find_topics
from foveate.recall.embed import static
from foveate.recall.scopes import Scope
from foveate.recall.search import Hit
from foveate.recall.table import Floats
from foveate.store.codec import draft_messages
from foveate.store.knowledge import KnowledgeRow, KnowledgeSource, NewKnowledge
from foveate.turn import turn_number
from retention import SHARED, moment

DATA = SHARED / "data"
SETS = ("locomo-dev", "beam-100k-dev")
SCOPE = Scope("project", "bench")
AIDER = DATA / "transcripts" / "aider-chat-history.md"
FOUND = 50
"""Turns that a search finds for the ranking by topics,"""
VOTERS = 5
"""of which so many first ones say what topics a question is on."""
DEPTHS = (5, 10, 20)
SHARES = (0.05, 0.1, 0.2, 0.4)
BATCH_TURNS = 2_000

Conversation = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A scope with what its turns are known to belong to."""

    gathered: Gathered
    vectors: Floats
    chats: Mapping[KnowledgeSource, str]
    sittings: Mapping[KnowledgeSource, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--purity", action="store_true")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--ranking", action="store_true")
    parser.add_argument("--scale", nargs="*", type=int, metavar="TURNS")
    parser.add_argument("--one-size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--simple", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    if options.simple:
        sys.modules["sklearn.cluster"] = None  # type: ignore[assignment]
    if not DATA.is_dir():
        sys.exit("the data in ../shared/data is not here")
    if options.one_size:
        print(json.dumps(asyncio.run(measure(options.one_size))))
    for size in options.scale or ():
        simple = ["--simple"] if options.simple else []
        subprocess.run([sys.executable, __file__, "--one-size", str(size), *simple], check=True)
    if options.purity:
        for name in options.sets:
            asyncio.run(report_purity(name, options.keep))
    if options.log:
        asyncio.run(report_log(options.keep))
    if options.ranking:
        for name in options.sets:
            asyncio.run(report_ranking(name, options.keep))


def turns_of(conversation: Conversation, name: str) -> Iterator[tuple[list[Message], dict[str, Any]]]:
    """Turns as they were: of two people each utterance is one; of a chat with an assistant, a prompt and its answer."""
    if not name.startswith("beam"):
        for said in conversation["turns"]:
            yield [Message("user", (Text(f"{said['who']}: {said['text']}"),))], said
        return
    messages: list[Message] = []
    first: dict[str, Any] = {}
    for said in conversation["turns"]:
        if said["who"] == "user" and messages:
            yield messages, first
            messages = []
        first = said if not messages else first
        messages = [*messages, Message(said["who"], (Text(said["text"]),))]
    yield messages, first


@asynccontextmanager
async def store(name: str, keep: Path | None) -> AsyncIterator[Foveate]:
    with tempfile.TemporaryDirectory() as folder:
        async with foveate.open((keep or Path(folder)) / f"{name}.db") as fov:
            yield fov


async def labelled(fov: Foveate, name: str) -> Labelled:
    """All conversations of a set, a session each, in one project. What a kept store has is not recorded again."""
    chats: dict[KnowledgeSource, str] = {}
    sittings: dict[KnowledgeSource, str] = {}
    for conversation in json.loads((DATA / "qa" / f"{name}.json").read_text()):
        session = await fov.session(conversation["id"], channel=SCOPE.name)
        recorded = session.info.turns
        for number, (messages, said) in enumerate(turns_of(conversation, name), 1):
            if number > recorded:
                await session.record(Turn(tuple(messages)), at=moment(said["date"]))
            source = KnowledgeSource(conversation["id"], number)
            chats[source], sittings[source] = conversation["id"], f"{conversation['id']} {said['session']}"
    await fov.settle()
    gathered = await gather(fov, SCOPE)
    return Labelled(gathered, await vectors_of(fov, gathered), chats, sittings)


async def report_purity(name: str, keep: Path | None) -> None:
    async with store(name, keep) as fov:
        known = await labelled(fov, name)
    found = find_topics(known.gathered, known.vectors, ())
    main_topics = heaviest(found)
    report: dict[str, object] = {
        "set": name,
        "turns": len(known.gathered.turns),
        "topics": len(found.items),
        "turns with a topic": round(len(main_topics) / len(known.gathered.turns), 3),
        "purity by chat": purity(main_topics, known.chats),
        "purity by sitting": purity(main_topics, known.sittings),
        "of one topic for all, by chat": purity(dict.fromkeys(main_topics, "all"), known.chats),
    }
    for share in (0.5, 0.9, 0.99):
        report[f"grown from {share:.0%}"] = grown(known, share)
    print(json.dumps(report, ensure_ascii=False), flush=True)
    for item in sorted(found.items, key=lambda item: -item.weight)[:12]:
        print(f"    {item.weight:.2f}  {', '.join(word for word, _ in item.keywords[:6])}")


def heaviest(found: TopicsFound) -> dict[KnowledgeSource, str]:
    """The first topic of each turn."""
    topics: dict[KnowledgeSource, str] = {}
    for session_id, row in found.turn_topics:
        topics.setdefault(KnowledgeSource(session_id, row.turn), row.topic)
    return topics


def purity(topics: Mapping[KnowledgeSource, str], labels: Mapping[KnowledgeSource, str]) -> float:
    """The share of turns whose label is the commonest one of their topic."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for source, topic in topics.items():
        counts[topic][labels[source]] += 1
    return round(sum(max(each.values()) for each in counts.values()) / max(1, len(topics)), 3)


def grown(known: Labelled, share: float) -> dict[str, object]:
    """Topics of the first part of each session, and then of all: what stays."""
    lengths = Counter(turn.source.session_id for turn in known.gathered.turns)
    places = [
        place
        for place, turn in enumerate(known.gathered.turns)
        if turn.source.turn <= share * lengths[turn.source.session_id]
    ]
    part = replace(known.gathered, turns=tuple(known.gathered.turns[place] for place in places))
    before = find_topics(part, known.vectors[places], ())
    after = find_topics(known.gathered, known.vectors, as_rows(before))
    titles = {item.id: item.title for item in after.items}
    old = {(session_id, row.turn, row.topic) for session_id, row in before.turn_topics}
    new = {(session_id, row.turn, row.topic) for session_id, row in after.turn_topics}
    return {
        "topics before": len(before.items),
        "topics after": len(after.items),
        "ids kept": sum(item.id in titles for item in before.items),
        "titles kept": sum(titles.get(item.id) == item.title for item in before.items),
        "topics of turns kept": round(len(old & new) / max(1, len(old)), 3),
        "purity by chat": purity(heaviest(after), known.chats),
    }


def as_rows(found: TopicsFound) -> list[KnowledgeRow]:
    stored: dict[str, Any] = {"tenant": "", "version": 1, "created_us": 0, "superseded_by": "", "uses": 0, "helped": 0}
    names = [each.name for each in fields(NewKnowledge)]
    return [
        KnowledgeRow(last_used_us=None, **stored, **{name: getattr(item, name) for name in names})
        for item in found.items
    ]


async def report_log(keep: Path | None) -> None:
    async with store("aider", keep) as fov:
        session = (await fov.import_file(AIDER)).sessions[0]
        await fov.settle()
        gathered = await gather(fov, Scope("session", session.id))
        vectors = await vectors_of(fov, gathered)
    topics = find_topics(gathered, vectors, ())
    print(f"{len(gathered.turns)} turns, {len(topics.items)} topics\n")
    print("| error | turns | what ended it |\n| --- | --- | --- |")
    for failure in find_failures(gathered.turns):
        turns = ", ".join(f"T-{gathered.turns[place].source.turn}" for place in failure.places[:8])
        ending = failure.ending
        told = " ".join([ending.call, ending.sentence]).strip() if ending else "not known"
        print(f"| `{failure.line[:110]}` | {turns} | {told} |")
    for item in find_lessons(gathered, topics).items:
        if item.kind in ("lesson", "profile"):
            turns = ", ".join(f"T-{source.turn}" for source in item.sources[:8])
            print(f"\n{item.kind} {item.id}, weight {item.weight}, from {turns}\n{item.text}")


async def report_ranking(name: str, keep: Path | None) -> None:
    """Evidence among the first turns of a search, before and after turns on the question's likely topics move up."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    async with store(name, keep) as fov:
        await labelled(fov, name)
        for conversation in json.loads((DATA / "qa" / f"{name}.json").read_text()):
            gathered = await gather(fov, Scope("session", conversation["id"]))
            topics = find_topics(gathered, await vectors_of(fov, gathered), ())
            weights: dict[int, dict[str, float]] = defaultdict(dict)
            for _, row in topics.turn_topics:
                weights[row.turn][row.topic] = row.weight
            numbers = _numbers(conversation, name)
            session = await fov.open_session(conversation["id"])
            for question in conversation["questions"]:
                evidence = {numbers[str(each)] for each in question["evidence"] if str(each) in numbers}
                if evidence:
                    await _rank(session, question["question"], evidence, weights, found)
    for (method, depth), values in sorted(found.items()):
        print(f"{name:14} {method:24} evidence in the first {depth:2}: {sum(values) / len(values):.4f}", flush=True)


def _numbers(conversation: Conversation, name: str) -> dict[str, int]:
    """The turn of each utterance."""
    numbers: dict[str, int] = {}
    number = 0
    for said in conversation["turns"]:
        number += not name.startswith("beam") or said["who"] == "user" or not number
        numbers[str(said["id"])] = number
    return numbers


async def _rank(
    session: Session,
    question: str,
    evidence: set[int],
    weights: Mapping[int, Mapping[str, float]],
    found: dict[tuple[str, int], list[float]],
) -> None:
    hits = await session.search(question, FOUND)
    votes: Counter[str] = Counter()
    for hit in hits[:VOTERS]:
        votes.update(dict(weights.get(turn_number(hit.turn_id) or 0, {})))
    total = sum(votes.values()) or 1.0
    span = hits[0].score - hits[-1].score if hits else 0.0
    near = {number + step for hit in hits[:VOTERS] for step in (-1, 1) if (number := turn_number(hit.turn_id) or 0)}

    def on_topics(hit: Hit) -> float:
        on = weights.get(turn_number(hit.turn_id) or 0, {})
        return sum(weight * votes[topic] / total for topic, weight in on.items())

    def is_neighbour(hit: Hit) -> float:
        return float(turn_number(hit.turn_id) in near)

    methods: list[tuple[str, float, Callable[[Hit], float]]] = [("as it is", 0.0, on_topics)]
    methods += [(f"topics count {share:.2f}", share, on_topics) for share in SHARES]
    methods += [(f"neighbours count {share:.2f}", share, is_neighbour) for share in SHARES]
    for method, share, gain in methods:
        scores = {hit.turn_id: hit.score + share * span * gain(hit) for hit in hits}
        ranked = sorted(hits, key=lambda hit: -scores[hit.turn_id])
        for depth in DEPTHS:
            first = {turn_number(hit.turn_id) for hit in ranked[:depth]}
            found[method, depth].append(len(evidence & first) / len(evidence))


async def measure(size: int) -> dict[str, object]:
    """Processor time and memory of a run's steps over turns made of real prompts and answers."""
    with tempfile.TemporaryDirectory() as folder:
        async with foveate.open(Path(folder) / "chat.db") as fov:
            session = await fov.session("s", channel=SCOPE.name)
            made = list(itertools.islice(_mixed(), size))
            for start in range(0, size, BATCH_TURNS):
                messages = [message for turn in made[start : start + BATCH_TURNS] for message in turn]
                drafts = await draft_messages(
                    messages, None, [None] * len(messages), session.engine.sizes, session.engine.compression_level
                )
                await session.engine.append(drafts)
            began = time.process_time()
            before_mb = _peak_mb()
            gathered = await gather(fov, SCOPE)
            gathered_at = time.process_time()
            print(f"gathered after {gathered_at - began:.1f} s, {_peak_mb()} MB", file=sys.stderr)
    vectors = _embedded(gathered)
    with suppress(ImportError):
        import sklearn.cluster  # type: ignore[import-untyped]  # noqa: F401 - loading it is not measured
    embedded_at = time.process_time()
    topics = find_topics(gathered, vectors, ())
    topics_at = time.process_time()
    print(f"topics after {topics_at - embedded_at:.1f} s, {_peak_mb()} MB", file=sys.stderr)
    items = find_lessons(gathered, topics).items
    ended = time.process_time()
    return {
        "turns": size,
        "gather_cpu_seconds": round(gathered_at - began, 1),
        "topics_cpu_seconds": round(topics_at - embedded_at, 1),
        "lessons_cpu_seconds": round(ended - topics_at, 1),
        "topics": len(topics.items),
        "items": dict(Counter(item.kind for item in items)),
        "recorded_mb": before_mb,
        "peak_mb": _peak_mb(),
    }


def _mixed() -> Iterator[list[Message]]:
    """Turns without end: real prompts, each time with another one's answer and a number."""
    pairs: list[tuple[str, str]] = []
    for name in SETS:
        for conversation in json.loads((DATA / "qa" / f"{name}.json").read_text()):
            for messages, _ in turns_of(conversation, name):
                pairs.append((messages[0].text, messages[-1].text if len(messages) > 1 else "I see."))
    for number in itertools.count():
        prompt = pairs[number % len(pairs)][0]
        answer = pairs[(number * 7 + number // len(pairs)) % len(pairs)][1]
        yield [Message("user", (Text(f"{prompt} ({number})"),)), Message("assistant", (Text(answer),))]


def _embedded(gathered: Gathered) -> Floats:
    """Vectors of the prompts, as the index would have them."""
    import numpy as np

    rows: Sequence[Floats] = [
        static.embed([turn.user[:400] for turn in gathered.turns[start : start + BATCH_TURNS]])
        for start in range(0, len(gathered.turns), BATCH_TURNS)
    ]
    return np.concatenate(rows)


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
