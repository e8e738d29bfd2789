"""How well a model answers questions from a context: whole history, gradient, newest turns; and how it uses tools.

    python bench/answers_words.py                                          # a reader without a language model
    python bench/answers_words.py --model local --budget 2000 --window 8192 --turns 60 --questions 2
    python bench/answers_words.py --model openai:NAME --conversations 2 --json

Needs ../shared/data. Every question is asked in a fork of its own, so no answer is in the context of another. The
newest turns are what the strategy `standard` sends. An answer is scored by words: F1 against the expected answer, and
the share of its words that the answer has. Where the whole history does not fit the model's window, it is skipped;
`--turns` takes the beginning of each conversation, with the questions that it answers.

The default model, `reader`, answers with the eight lines that share most rare words with the question, and calls
`search_history` once if it is offered. It shows what can be found in a context; it says nothing of a model's skill,
and its long answers have a low F1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foveate.agents.chat import AnswerSummary, Chat, ToolRequest
from foveate.client import Foveate
from foveate.errors import ModelError
from foveate.models import Ask, Model
from foveate.models.names import load_model
from foveate.models.settings import ModelsSettings
from foveate.recall.words import STOP_WORDS
from foveate.session import Session
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text, ToolResult, Turn
from retention import SHARED, moment

READER = "reader"
WAYS = ("whole history", "newest turns", "gradient", "gradient, history tools", "gradient and recall")
SETS = ("locomo-dev", "beam-100k-dev")
SYSTEM = "Answer the last question in a few words, from the conversation alone. If it is not there, answer: unknown."
MARGIN_TOKENS = 600
"""Of a window, for the answer and the frame of a request."""
FRAME_TOKENS = 45
"""Most that the frame of a turn takes."""
MAX_OUTPUT_TOKENS = 120
ANSWER_SECONDS = 600.0
"""For one answer: a local model reads a long prompt slowly."""

READ_LINES = 8

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question."""

    question: str
    answer: str
    f1: float
    found: float
    """Share of the expected words that the answer has."""
    tool_calls: tuple[str, ...]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    way: str
    asked: int
    failed: int
    f1: float
    found: float
    called: float
    """Share of the questions for which a history tool was called."""
    found_after_call: float
    prompt_tokens: float
    note: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=READER, help="any model of the settings, 'local', or 'reader' (default)")
    parser.add_argument("--set", dest="data", default=SETS[0], choices=SETS)
    parser.add_argument("--budget", type=int, default=4_000, metavar="TOKENS")
    parser.add_argument("--window", type=int, default=128_000, metavar="TOKENS")
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--questions", type=int, default=40, help="of each conversation")
    parser.add_argument("--turns", type=int, help="only the first N of each conversation")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--json", action="store_true", help="every answer too")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the questions in ../shared/data/qa are not here")
    asyncio.run(run(options))


async def run(options: argparse.Namespace) -> None:
    path = SHARED / "data" / "qa" / f"{options.data}.json"
    conversations = json.loads(path.read_text())[: options.conversations]
    for conversation in conversations:
        conversation["turns"] = conversation["turns"][: options.turns]
        shown = {turn["id"] for turn in conversation["turns"]}
        answered = [each for each in conversation["questions"] if shown.issuperset(each["evidence"])]
        conversation["questions"] = answered[: options.questions]
    if not options.json:
        print("| context | asked | failed | F1 | words found | called a tool | found after a call | tokens a prompt |")
        print(f"|{' --- |' * 8}")
    for way in options.ways:
        row, replies = await measure(way, conversations, options)
        if options.json:
            print(json.dumps({**asdict(row), "replies": [asdict(reply) for reply in replies]}), flush=True)
        else:
            print(render(row), flush=True)


async def measure(
    way: str, conversations: Sequence[dict[str, Any]], options: argparse.Namespace
) -> tuple[Row, list[Reply]]:
    replies: list[Reply] = []
    failed = too_large = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(way, options.model)
        store = await open_store(str(Path(folder) / "answers.db"), settings.store)
        fov = Foveate(store, settings, load=partial(load, options.model))
        try:
            for conversation in conversations:
                whole = sum(count_tokens(turn["text"]) + FRAME_TOKENS for turn in conversation["turns"])
                if way == "whole history" and whole > options.window - MARGIN_TOKENS:
                    too_large += 1
                    continue
                session = await recorded(fov, conversation, way, options)
                for place, question in enumerate(conversation["questions"]):
                    asked = await session.fork(f"{conversation['id']}-{place}")
                    try:
                        replies.append(await ask(fov, asked, question, way, options))
                    except ModelError as error:
                        failed += 1
                        print(f"{question['id']}: {error}", file=sys.stderr)
        finally:
            await fov.close()
    note = f"{too_large} of {len(conversations)} conversations do not fit the window" if too_large else ""
    return summary(way, replies, failed, note), replies


def settings_for(way: str, model: str) -> Settings:
    recall = {"enabled": way == "gradient and recall", "deadline_seconds": None}
    models = {"chat": None if model == READER else model, "timeout_seconds": ANSWER_SECONDS}
    return load_settings(overrides={"recall": recall, "models": models})


def load(chosen: str, name: str, settings: ModelsSettings) -> Model:
    return ScriptedModel(read, name=READER) if chosen == READER else load_model(name, settings)


async def recorded(fov: Foveate, conversation: dict[str, Any], way: str, options: argparse.Namespace) -> Session:
    """The session that questions are asked in."""
    is_raw = way in ("whole history", "newest turns")
    session = await fov.session(
        conversation["id"],
        budget_tokens=options.window - MARGIN_TOKENS if way == "whole history" else options.budget,
        strategy="standard" if is_raw else "gradient",
        model=options.model,
    )
    for turn in conversation["turns"]:
        is_beam = options.data.startswith("beam")
        said = turn["text"] if is_beam else f"{turn['who']}: {turn['text']}"
        message = Message(turn["who"] if is_beam else "user", (Text(said),))
        await session.record(Turn((message,)), at=moment(turn["date"]))
    await fov.settle()
    return session


async def ask(fov: Foveate, session: Session, question: Mapping[str, str], way: str, options: Any) -> Reply:
    chat = Chat(
        session,
        fov.caller,
        [options.model],
        system=SYSTEM,
        max_output_tokens=MAX_OUTPUT_TOKENS,
        has_tools=way == "gradient, history tools",
        temperature=0.0,
    )
    calls: list[str] = []
    done: AnswerSummary | None = None
    async with aclosing(chat.say(question["question"])) as events:
        async for event in events:
            if isinstance(event, ToolRequest):
                calls.append(event.name)
            elif isinstance(event, AnswerSummary):
                done = event
    assert done is not None
    f1, found = score(done.text, str(question["answer"]))
    return Reply(question["id"], done.text, f1, found, tuple(calls), done.tokens)


def words_of(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def score(answer: str, expected: str) -> tuple[float, float]:
    """F1 of the words of an answer, and the share of the expected ones that it has."""
    given, wanted = Counter(words_of(answer)), Counter(words_of(expected))
    shared = (given & wanted).total()
    if not shared:
        return 0.0, 0.0
    precision, recall = shared / given.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall), recall


def read(request: Ask) -> Behaviour:
    """The sentences of the context that share most with the question; with tools, after one search."""
    # What is recalled comes before the question, in the same message.
    *_, last = (message for message in request.messages if message.role == "user")
    question = last.text.splitlines()[-1]
    results = [part for m in request.messages[-2:] for part in m.parts if isinstance(part, ToolResult)]
    wanted = set(words_of(question))
    if request.tools and not results:
        return CallsTool("search_history", {"query": question})
    text = "\n".join(turn_text((message,)) for message in request.messages).replace(question, "")
    sentences = [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]
    seen = Counter(word for sentence in sentences for word in set(words_of(sentence)))

    def worth(sentence: str) -> float:
        return sum(math.log(1 + len(sentences) / seen[word]) for word in wanted & set(words_of(sentence)))

    return Says("\n".join(sorted(sentences, key=worth, reverse=True)[:READ_LINES]) or "unknown")


def summary(way: str, replies: Sequence[Reply], failed: int, note: str) -> Row:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    called = [reply for reply in replies if reply.tool_calls]
    return Row(
        way,
        len(replies),
        failed,
        mean([reply.f1 for reply in replies]),
        mean([reply.found for reply in replies]),
        mean([bool(reply.tool_calls) for reply in replies]),
        mean([reply.found for reply in called]),
        mean([reply.prompt_tokens for reply in replies]),
        note,
    )


def render(row: Row) -> str:
    after = f"{row.found_after_call:.2f}" if row.called else ""
    cells = f"{row.asked} | {row.failed} | {row.f1:.3f} | {row.found:.3f} | {row.called:.2f} | {after}"
    return f"| {row.way} | {cells} | {row.prompt_tokens:,.0f} | {row.note}".rstrip()


if __name__ == "__main__":
    main()
