"""The steps of a run that ask a model: which turns it reads, and how much that may cost.

A model reads each turn once: what earlier runs read is not sent again. A run that reaches a limit keeps what it has,
and the next one goes on behind it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from foveate.client import Foveate
from foveate.knowledge.gather import Chunk, Gathered, LearnedTurn, chunks
from foveate.knowledge.model import Proposed
from foveate.knowledge.model_steps import STEP_PREFIX, ModelPlan
from foveate.knowledge.report import ModelUsage, RunSummary
from foveate.store.knowledge_rows import KnowledgeSource, NewKnowledge
from foveate.store.rows import DAY_US, NANO

SETTLED_US = 3_600_000_000
"""The newest turn of a session may still grow; until it is this old, the next run reads it again."""
PURPOSE = "learn"


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What the steps of a model gave."""

    items: tuple[NewKnowledge, ...] = ()
    usage: ModelUsage | None = None
    """None if no model is configured."""
    read: Mapping[str, int] | None = None
    """By session the turn up to which a model has read all."""
    blocked_at: KnowledgeSource | None = None


def with_unread(plan: ModelPlan, gathered: Gathered, last: RunSummary | None) -> ModelPlan:
    """The plan with the turns alone that no earlier run has read."""
    read = last.read if last and last.read else {}
    turns = tuple(turn for turn in gathered.turns if turn.source.turn > read.get(turn.source.session_id, 0))
    if len(turns) == len(gathered.turns):
        return plan
    max_tokens = plan.settings.max_context_tokens
    unread = chunks(replace(gathered, turns=turns), plan.room.chunk_tokens, max_tokens=max_tokens)
    return replace(plan, chunks=tuple(unread))


def chunk_of(plan: ModelPlan, step: str) -> Chunk | None:
    """The chunk that a step reads; None for one that reads none, such as the names of topics."""
    number = step.removeprefix(STEP_PREFIX)
    return plan.chunks[int(number) - 1] if number.isdecimal() else None


def read_marks(gathered: Gathered, unread: Collection[KnowledgeSource]) -> dict[str, int]:
    """By session the last turn before the first one that is unread or may still grow."""
    newest: dict[str, LearnedTurn] = {}
    for turn in gathered.turns:
        known = newest.get(turn.source.session_id)
        if known is None or known.source.turn < turn.source.turn:
            newest[turn.source.session_id] = turn
    marks = {name: turn.source.turn for name, turn in newest.items()}
    settled_us = time.time_ns() // 1_000 - SETTLED_US
    open_turns = [turn.source for turn in newest.values() if turn.at_us > settled_us]
    for source in (*unread, *open_turns):
        marks[source.session_id] = min(marks[source.session_id], source.turn - 1)
    return marks


async def over_limit(fov: Foveate, spent_nano: int, next_nano: int) -> str:
    """Which limit the next step would exceed; empty if none."""
    settings = fov.settings.knowledge
    if spent_nano + next_nano > settings.run_usd * NANO:
        return _limit("knowledge.run_usd", settings.run_usd, next_nano)
    now_us = time.time_ns() // 1_000
    costs = await fov.store.calls.costs(since_us=now_us - now_us % DAY_US)
    today = sum(row.nano_usd for row in costs if row.purpose == PURPOSE)
    if today + next_nano > settings.daily_usd * NANO:
        return _limit("knowledge.daily_usd", settings.daily_usd, next_nano)
    return ""


def _limit(key: str, usd: float, next_nano: int) -> str:
    return f"the next request may cost ${next_nano / NANO:.2f}, and {key} is {usd:g}"


def previewed(plan: ModelPlan) -> ModelUsage:
    """What the plan would take."""
    estimate = plan.estimate
    return ModelUsage(
        model=estimate.model,
        calls=estimate.calls,
        input_tokens=estimate.input_tokens,
        usd=estimate.usd,
        most_usd=estimate.most_usd,
    )


def counted(usage: ModelUsage, made: Proposed) -> ModelUsage:
    """The usage with that of a step."""
    return replace(
        usage,
        calls=usage.calls + made.calls,
        usd=usage.usd + made.nano_usd / NANO,
        refused=usage.refused + len(made.refused),
        nothing=usage.nothing + made.nothing,
    )
