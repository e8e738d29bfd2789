"""Models that sort out what was found: small ones over parts of the candidates, side by side, then one over the rest.

Each has its time. What a model leaves out is dropped, all of it if nothing helps. What no model got round to stays.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from foveate.errors import FoveateError
from foveate.models import Ask
from foveate.models.caller import Caller
from foveate.models.prompts import prompt_text
from foveate.recall.search import Deadline, give_up
from foveate.recall.settings import RecallSettings
from foveate.tokens import count_tokens
from foveate.turn import Json, Message, Text

PART = 10
"""Candidates that a model is asked about together."""
MAX_REQUEST_CHARS = 2_000
MAX_PASSAGE_CHARS = 600
MAX_OUTPUT_TOKENS = 200
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
    "required": ["numbers"],
    "additionalProperties": False,
}

T = TypeVar("T")
Stage = Callable[[], Awaitable[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRequest:
    """The request that candidates are judged by."""

    text: str
    session_id: str
    recent: str = ""
    """The newest turns, for the last model."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The places of the candidates that stay, the most helpful first."""

    places: Sequence[int]
    is_asked: bool
    """False if no model answered: all candidates are there, in their order."""


@dataclass(frozen=True, slots=True)
class _Asked:
    model: str
    head: str
    session_id: str


class Judge:
    """Asks the models that the settings name; without any it changes nothing."""

    def __init__(self, caller: Caller | None, settings: RecallSettings) -> None:
        self._caller = caller
        self._settings = settings

    @property
    def is_asked(self) -> bool:
        return self._caller is not None and bool(self._settings.filter_model or self._settings.judge_model)

    async def choose(self, request: JudgedRequest, texts: Sequence[str], deadline: Deadline) -> Judgement:
        """Which of the texts help, the most helpful first; none if none does."""
        taken = list(range(len(texts)))
        said = f"Request: {' '.join(request.text.split())[-MAX_REQUEST_CHARS:]}"
        recent = f"Newest turns:\n{request.recent}\n\n" if request.recent else ""
        is_answered = False
        settings = self._settings
        for model, seconds, part, head in (
            (settings.filter_model, settings.filter_seconds, PART, said),
            (settings.judge_model, settings.judge_seconds, len(texts), f"{recent}{said}"),
        ):
            if model and taken:
                asked = _Asked(model, head, request.session_id)
                parts = [taken[start : start + part] for start in range(0, len(taken), part)]
                taken, answers = await self._sort(asked, texts, parts, deadline.left_seconds(seconds))
                is_answered = is_answered or answers > 0
        return Judgement(taken, is_answered)

    async def _sort(
        self, asked: _Asked, texts: Sequence[str], parts: Sequence[Sequence[int]], seconds: float | None
    ) -> tuple[list[int], int]:
        """Those places that the model takes, part by part, and how many parts it answered; another stays as it is."""
        stages = {
            str(index): partial(self._ask, asked, [texts[place] for place in own]) for index, own in enumerate(parts)
        }
        done = await run_stages(stages, seconds)
        kept: list[int] = []
        answers = 0
        for index, own in enumerate(parts):
            chosen = done.results.get(str(index))
            kept += own if chosen is None else [own[number] for number in chosen]
            answers += chosen is not None
        return kept, answers

    async def _ask(self, asked: _Asked, texts: Sequence[str]) -> list[int] | None:
        """The places that the model takes, as it orders them; None if its answer can't be read."""
        assert self._caller is not None
        lines = [f"{number}. {' '.join(text.split())[:MAX_PASSAGE_CHARS]}" for number, text in enumerate(texts, 1)]
        told = f"{asked.head}\n\n" + "\n".join(lines)
        ask = Ask(
            purpose="recall",
            messages=(Message("system", (Text(_rules()),)), Message("user", (Text(told),))),
            schema=SCHEMA,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            input_tokens=count_tokens(_rules()) + count_tokens(told),
        )
        answered = await self._caller.ask(ask, [asked.model], session_id=asked.session_id, max_calls=1)
        chosen = read_numbers(answered.answer.text, len(texts))
        if chosen is None:
            await self._caller.mark_unfit(answered)
        return chosen


@dataclass(frozen=True, slots=True)
class StageResults(Generic[T]):
    """What stages brought, by their names."""

    results: Mapping[str, T] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    failed: Mapping[str, FoveateError] = field(default_factory=dict)


async def run_stages(stages: Mapping[str, Stage[T]], seconds: float | None) -> StageResults[T]:
    """Run stages concurrently up to the deadline. A failed stage is logged; the others go on."""
    if seconds is not None and seconds <= 0:
        return StageResults(late=tuple(stages))
    tasks = {name: asyncio.ensure_future(stage()) for name, stage in stages.items()}
    try:
        await asyncio.wait(tasks.values(), timeout=seconds)
    finally:
        give_up(*tasks.values())
    results: dict[str, T] = {}
    failed: dict[str, FoveateError] = {}
    late = [name for name, task in tasks.items() if not task.done() or task.cancelled()]
    for name, task in tasks.items():
        if name in late:
            continue
        error = task.exception()
        if error is None:
            results[name] = task.result()
        elif isinstance(error, FoveateError):
            failed[name] = error
        else:
            raise error
    return StageResults(results, tuple(late), failed)


def read_numbers(answer: str, count: int) -> list[int] | None:
    """The places, from 0, that an answer names, each once; None if it is not what was asked for."""
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    numbers = told.get("numbers") if isinstance(told, dict) else None
    if not isinstance(numbers, list):
        return None
    named = (number for number in numbers if isinstance(number, int) and not isinstance(number, bool))
    return list(dict.fromkeys(number - 1 for number in named if 1 <= number <= count))


def _rules() -> str:
    return prompt_text("recall/choose").strip()
