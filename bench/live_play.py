"""Play a conversation at a session's own budget, one context before every turn or step, and note each call."""

from __future__ import annotations

import functools
import hashlib
import itertools
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import foveate.sync as foveate
from foveate import Message, Text, Turn
from foveate.context.context import Context, Segment
from foveate.context.prefix import matching_tokens
from foveate.plan import Cause
from foveate.settings import Settings
from foveate.text import message_text, turn_text
from foveate.tokens import count_tokens
from foveate.turn import Role
from live_score import QuestionScore, Transcript, Use, absent_turns, measure_use, shared_module
from retention import moment

Age = Literal["fresh", "later", "end"]
AGES: tuple[Age, ...] = ("fresh", "later", "end")
LATER_SITTINGS = 10
PROMPT_CHARS = 6_000
"""The part of a prompt that `../shared/eval/working_set.py` sends."""
SKIPPED_TURNS = 12
"""Turns before the first that counts for the working set; as in that script."""


@dataclass(frozen=True, slots=True)
class Call:
    tokens: int
    cached_tokens: int
    rebuilt: Cause | None
    absent: float
    absent_strict: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the context of one question had, at one or more ages that are the same moment."""

    question: str
    category: str
    ages: tuple[Age, ...]
    fact: float
    is_complete: bool


@dataclass(slots=True)
class Played:
    """A conversation at a budget."""

    conversation: str
    budget_tokens: int
    calls: list[Call] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    digest: str = ""
    """A hash of all contexts: two runs of the same code have the same."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Which questions are asked, and when."""

    ages: tuple[Age, ...] = AGES
    questions: int | None = None
    """Only the first so many of a conversation."""
    by_utterance: bool = False
    """Record an assistant's answer as a turn of its own, as previews of these questions do."""


class Player:
    """A session that is played, and what each of its calls came to."""

    def __init__(self, fov: Any, name: str, budget_tokens: int) -> None:
        self.played = Played(name, budget_tokens)
        self.fov = fov
        self.session = fov.session("live", budget_tokens=budget_tokens)
        self._before: Sequence[Segment] = ()
        self._texts = hashlib.sha256()

    def call(self, prompt: str, past_turns: int) -> Context:
        context: Context = self.session.context(prompt)
        assert context.tokens <= context.budget_tokens
        segments = [segment for segment in context.segments if segment.text]
        matched = matching_tokens(self._before, segments, self.session.counter)
        absent = absent_turns(context.text, past_turns)
        self.played.calls.append(
            Call(
                tokens=context.tokens,
                # The framing of messages has no text: it is cached with them.
                cached_tokens=matched * context.tokens // max(1, sum(segment.tokens for segment in segments)),
                rebuilt=context.planned.cause if context.planned.is_new else None,
                absent=absent.plain,
                absent_strict=absent.strict,
            )
        )
        self._before = segments
        self._texts.update(context.text.encode())
        return context

    def record(self, messages: Turn | Sequence[Message], at: str = "") -> None:
        """Record messages, and wait for their renditions: the next context is the same in every run."""
        self.session.record(messages, at=moment(at))
        self.fov.settle()

    def finish(self) -> Played:
        self.played.digest = self._texts.hexdigest()[:16]
        return self.played


def play_questions(conversation: Mapping[str, Any], budget_tokens: int, settings: Settings, asking: Asking) -> Played:
    """Play a conversation sitting by sitting, with each question as a call of its own that is not recorded."""
    score = QuestionScore(conversation)
    due = questions_due(conversation, asking)
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "live.db", settings=settings) as fov:
        player = Player(fov, conversation["id"], budget_tokens)
        turns = 0
        for sitting, exchanges in sittings(conversation["turns"], by_utterance=asking.by_utterance):
            for exchange in exchanges:
                if exchange.prompt:
                    player.call(exchange.prompt, turns)
                player.record(exchange.turn, exchange.date)
                turns += 1
            for question, ages in due[sitting]:
                context = player.call(question["question"], turns)
                fact, is_complete = score.score(question, context.text)
                player.played.answers.append(Answer(question["id"], question["category"], ages, fact, is_complete))
        return player.finish()


@dataclass(frozen=True, slots=True)
class Exchange:
    prompt: str
    """Empty for an answer that is recorded as a turn of its own."""
    turn: Turn
    date: str


def sittings(turns: Iterable[Mapping[str, Any]], *, by_utterance: bool) -> Iterator[tuple[int, list[Exchange]]]:
    """Group the utterances by sitting. A prompt and its answer are a turn; people who chat have a turn each."""
    grouped: dict[int, list[Exchange]] = defaultdict(list)
    for turn in turns:
        is_chat = turn["who"] not in ("user", "assistant")
        said = f"{turn['who']}: {turn['text']}" if is_chat else turn["text"]
        role: Role = "user" if is_chat else turn["who"]
        message = Message(role, (Text(said),))
        own = grouped[turn["session"]]
        if role == "assistant" and own and not by_utterance:
            own[-1] = Exchange(own[-1].prompt, Turn((*own[-1].turn.messages, message)), own[-1].date)
        else:
            own.append(Exchange(said if role == "user" else "", Turn((message,)), turn["date"]))
    yield from grouped.items()


def questions_due(
    conversation: Mapping[str, Any], asking: Asking
) -> dict[int, list[tuple[Mapping[str, Any], tuple[Age, ...]]]]:
    """List the questions to ask after each sitting, with the ages that this moment is for them."""
    order = list(dict.fromkeys(turn["session"] for turn in conversation["turns"]))
    place = {turn["id"]: order.index(turn["session"]) for turn in conversation["turns"]}
    due: dict[int, list[tuple[Mapping[str, Any], tuple[Age, ...]]]] = defaultdict(list)
    for question in conversation["questions"][: asking.questions]:
        fresh = max(place[turn] for turn in question["evidence"])
        moments: dict[int, tuple[Age, ...]] = defaultdict(tuple)
        for age, sitting in zip(AGES, (fresh, fresh + LATER_SITTINGS, len(order) - 1), strict=True):
            if age in asking.ages and sitting < len(order):
                moments[sitting] += (age,)
        for sitting, ages in moments.items():
            due[order[sitting]].append((question, ages))
    return due


def play_work(name: str, turns: Sequence[Turn], budget_tokens: int, settings: Settings, *, by_step: bool) -> Played:
    """Play an agent's work, with one context before every turn, or before every message of the assistant.

    Turns count for the working set after the first twelve, steps once the transcript before them exceeds the budget.
    """
    tail = shared_module("working_set").tail
    count = functools.cache(count_tokens)
    said, texts, past_tokens = Transcript(), list[str](), 0
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "live.db", settings=settings) as fov:
        player = Player(fov, name, budget_tokens)
        for number, turn in enumerate(turns):
            for part in parts_of(turn, by_step=by_step):
                if part.is_call:
                    context = player.call(part.prompt[:PROMPT_CHARS], number)
                    used = part.references & said.references
                    if used and (past_tokens > budget_tokens if by_step else number >= SKIPPED_TURNS):
                        newest, half = (tail(texts, room, count) for room in (budget_tokens, budget_tokens // 2))
                        use = measure_use(said, used, ours=context.text, newest=newest, half=half)
                        player.played.uses.append(use)
                player.record(part.messages)
                said.add(part.text)
                texts.append(part.text)
                past_tokens += count(part.text)
        return player.finish()


@dataclass(frozen=True, slots=True)
class Part:
    """What is recorded at once: a turn or a step."""

    messages: tuple[Message, ...]
    text: str
    is_call: bool
    """Whether a model is called before it."""
    prompt: str
    """The prompt of that call; empty where the prompt is recorded already."""
    references: set[str]
    """What it uses."""


def parts_of(turn: Turn, *, by_step: bool) -> Iterator[Part]:
    references = shared_module("working_set").references
    if by_step:
        for is_call, group in itertools.groupby(turn.messages, _is_call):
            for messages in ([one] for one in group) if is_call else [[*group]]:
                text = "".join(map(message_text, messages))
                yield Part(tuple(messages), text, is_call, "", references(text) if is_call else set())
        return
    text = turn_text(turn.messages)
    user = next((message for message in turn.messages if message.role == "user"), None)
    prompt = "".join(getattr(part, "text", "") for part in user.parts) if user else ""
    used = references(text.replace(prompt, "", 1)) - references(prompt)
    yield Part(tuple(turn.messages), text, bool(prompt), prompt, used)


def _is_call(message: Message) -> bool:
    return message.role == "assistant" and message.kind == "message"
