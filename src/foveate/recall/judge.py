"""Models that sort out what was found: small ones over parts of the candidates, side by side, then one over the rest.

Each has its time. What no model got round to keeps its rank, and what a model leaves out comes behind what it takes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from foveate.models import Ask
from foveate.models.caller import Caller
from foveate.models.prompts import prompt_text
from foveate.recall.deadline import Deadline, run_stages
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


@dataclass(frozen=True, slots=True)
class _Asked:
    model: str
    request: str
    session_id: str


class Judge:
    """Asks the models that the settings name; without any it changes nothing."""

    def __init__(self, caller: Caller | None, settings: RecallSettings) -> None:
        self._caller = caller
        self._settings = settings

    @property
    def is_asked(self) -> bool:
        return self._caller is not None and bool(self._settings.filter_model or self._settings.judge_model)

    async def order(self, request: str, texts: Sequence[str], deadline: Deadline, session_id: str) -> list[int]:
        """The places of all texts, the most helpful first."""
        taken = list(range(len(texts)))
        for model, seconds, part in (
            (self._settings.filter_model, self._settings.filter_seconds, PART),
            (self._settings.judge_model, self._settings.judge_seconds, len(texts)),
        ):
            if model and taken:
                asked = _Asked(model, request, session_id)
                parts = [taken[start : start + part] for start in range(0, len(taken), part)]
                taken = await self._sort(asked, texts, parts, deadline.left_seconds(seconds))
        return [*taken, *(place for place in range(len(texts)) if place not in set(taken))]

    async def _sort(
        self, asked: _Asked, texts: Sequence[str], parts: Sequence[Sequence[int]], seconds: float | None
    ) -> list[int]:
        """Those places that the model takes, part by part; a part that it did not get round to stays as it is."""
        stages = {
            str(index): partial(self._ask, asked, [texts[place] for place in own]) for index, own in enumerate(parts)
        }
        done = await run_stages(stages, seconds)
        kept: list[int] = []
        for index, own in enumerate(parts):
            chosen = done.results.get(str(index))
            kept += own if chosen is None else [own[number] for number in chosen]
        return kept

    async def _ask(self, asked: _Asked, texts: Sequence[str]) -> list[int] | None:
        """The places that the model takes, as it orders them; None if its answer can't be read."""
        assert self._caller is not None
        lines = [f"{number}. {' '.join(text.split())[:MAX_PASSAGE_CHARS]}" for number, text in enumerate(texts, 1)]
        told = f"Request: {' '.join(asked.request.split())[-MAX_REQUEST_CHARS:]}\n\n" + "\n".join(lines)
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
