"""The values that the library returns: plain data for programs and terminals.

Values made by deeper layers are re-exported here, so that surfaces import from one place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from foveate.context.board import Board
from foveate.context.context import Context, PlanReport, Segment
from foveate.context.tags import escape_tags
from foveate.models.limits import ProviderState
from foveate.models.settings import ModelsSettings
from foveate.models.status import ModelReport, ModelStatus, ModelTarget, ModelUse
from foveate.plugins import renamed
from foveate.recall.search import Hit
from foveate.renditions import Level
from foveate.session.tenant import public_id
from foveate.store import Finding, PruneReport, SessionRow, StoredSizes
from foveate.store.calls import GATEWAY, SPEND_DIMENSIONS, SpendDimension, SpendRow
from foveate.store.clients import PROGRAM_STATE, KnownPlace, LocatedHistory, ResponseRow, Standing
from foveate.store.copy import CopyReport
from foveate.store.operations import Clients
from foveate.store.rows import Backlog, CostRow, Draft, IndexState, ParkedTurn, PinRow, QueueState, RunningWorker
from foveate.strategy.checkpoint.reliability import Reliability
from foveate.tokens import EncodingName, session_counter
from foveate.turn import Json, from_us, turn_id

__all__ = [
    "GATEWAY",
    "PROGRAM_STATE",
    "SPEND_DIMENSIONS",
    "Board",
    "Clients",
    "Context",
    "CopyReport",
    "CostRow",
    "Draft",
    "Finding",
    "Hit",
    "IndexState",
    "KnownPlace",
    "LevelDetails",
    "LocatedHistory",
    "ModelReport",
    "ModelStatus",
    "ModelTarget",
    "ModelUse",
    "ModelsSettings",
    "ParkedTurn",
    "Pin",
    "PlanReport",
    "ProviderState",
    "PruneReport",
    "QueueState",
    "RecordedTurn",
    "Reliability",
    "ResponseRow",
    "RunningWorker",
    "Segment",
    "SessionInfo",
    "SessionStats",
    "SpendDimension",
    "SpendRow",
    "Standing",
    "TextPage",
    "TurnContent",
    "TurnDetails",
    "TurnOutline",
    "copied",
    "describe_session",
    "describe_stats",
    "escape_tags",
]

T = TypeVar("T")


def copied(kind: type[T], source: object, **others: Any) -> T:
    """Make a value of a type from the fields of `source` with the same names, and from `others`."""
    shared = {name: getattr(source, name) for name in kind.__annotations__ if name not in others}
    return kind(**shared, **others)


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The data of a session, without its turns."""

    id: str
    title: str
    platform: str | None
    channel: str | None
    strategy: str
    strategy_settings: Mapping[str, Json]
    """Settings of this session's strategy that override the global ones."""
    budget_tokens: int
    model: str | None
    counter: str
    calibration: float
    parent_id: str | None
    fork_turn_id: str | None
    turns: int
    created_at: datetime
    updated_at: datetime
    """Time of the newest message, or of creation if there is none."""
    budget_chosen: bool = True
    """Whether the budget was set for this session; otherwise it is `session.budget_tokens`, limited to the model's
    window."""
    mode: str = ""
    """The name of the mode whose prompt is part of every system prompt; empty: none."""
    scope: str = ""
    """The scope whose knowledge and past sessions the session may recall; empty: none."""

    @property
    def project(self) -> str:
        """The channel; if that is a path, its last folder."""
        channel = (self.channel or "").rstrip("/\\")
        return channel.replace("\\", "/").rpartition("/")[2] if channel.startswith(("/", "~", "C:")) else channel

    def is_of_project(self, name: str) -> bool:
        """Return whether the session belongs to a project, named by its channel or the last folder of its path."""
        return name.casefold() in (self.project.casefold(), (self.channel or "").casefold())


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn that a call created or extended, with the number and tokens of the added messages."""

    session_id: str
    number: int
    messages: int
    tokens: int

    @property
    def id(self) -> str:
        """The turn's id: `T-1`, `T-2`, …"""
        return turn_id(self.number)


@dataclass(frozen=True, slots=True)
class TurnContent:
    """The text of a turn at one level. `tokens` does not include the tags."""

    turn_id: str
    level: str
    content: str
    tokens: int
    available_levels: tuple[Level, ...]


class TopicTurns(list[TurnContent]):
    """The turns on a topic, oldest first."""

    def __init__(self, topics: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.topics = topics
        """Titles of the learned topics; empty if the turns were found by a search."""

    @property
    def is_exact(self) -> bool:
        """Whether the turns belong to learned topics; otherwise a search found them."""
        return bool(self.topics)


@dataclass(frozen=True, slots=True)
class TextPage:
    """A page of turns at one level, in tags."""

    text: str
    page: int
    pages: int
    missing: tuple[str, ...]
    """Ids of turns without a text at this level, because it is not made yet or the turn was pruned."""
    days: str = ""
    """A line with the dates of its turns, in UTC."""
    parts: str = ""
    """On the first of several pages of one turn, verbatim: a line with its parts and their pages. Not escaped."""


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """A turn without its content."""

    id: str
    number: int
    messages: int
    tokens: int
    tool_calls: int
    started_at: datetime
    ended_at: datetime
    raw_bytes: int
    is_pruned: bool
    """Its messages were removed, by a prune command or an erasure."""
    erased_at: datetime | None = None
    """When the turn, or a text in it, was erased."""


@dataclass(frozen=True, slots=True)
class LevelDetails:
    """Size and maker of a turn's text at one level."""

    level: str
    tokens: int
    maker: str
    """Maker of the text: `recorded`, `local` for rules, or the name of a model."""
    version: int | None
    """Version of the rules or of the prompt; None for the raw level."""
    made_at: datetime | None


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """Details of a turn and its renditions."""

    id: str
    messages: int
    tokens: int
    tool_calls: int
    prompt_tokens: int
    """Tokens of the user's messages."""
    answer_tokens: int
    """Tokens of the assistant's messages, including tool calls."""
    topics: tuple[str, ...]
    """Titles of its learned topics; without any, keywords of its prompts and its shortest rendition."""
    is_complete: bool
    """Whether every level is made and none is a fallback."""
    levels: tuple[LevelDetails, ...]


@dataclass(frozen=True, slots=True)
class Pin:
    """A rule or fact that is included verbatim in every context."""

    id: str
    text: str
    locked: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counts and sizes of a session, and the state of its background work."""

    turns: int
    messages: int
    tool_calls: int
    tokens: int
    raw_bytes: int
    stored_bytes: int
    pins: int
    counter: str
    calibration: float
    first_at: datetime | None
    last_at: datetime | None
    rendered: int
    """Turns with all renditions."""
    fallbacks: int
    """Turns with a fallback for a level that could not be made."""
    pending: int
    """Turns that are not compressed yet."""
    refusals: int
    """Renditions that the guard rejected."""
    waiting: int
    """Turns queued for a model."""
    waiting_until: datetime | None
    """When the first turn in the queue for a model is due."""
    by_model: int
    """Turns that a model compressed."""

    @property
    def compression_ratio(self) -> float:
        """Ratio of the size of the messages to their stored size."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0


NO_SETTINGS = "{}"
BUDGET_LOWERED = 2
"""`budget_chosen` of a default budget that was lowered because of a provider's limit."""


def with_budget(row: SessionRow, default_tokens: int) -> SessionRow:
    """Return the row with the budget that applies: a budget that was not set follows the settings unless lowered."""
    return row if row.budget_chosen == 1 else replace(row, budget_tokens=_budget_tokens(row, default_tokens))


def _budget_tokens(row: SessionRow, default_tokens: int) -> int:
    if row.budget_chosen == 1:
        return row.budget_tokens
    return min(row.budget_tokens, default_tokens) if row.budget_chosen == BUDGET_LOWERED else default_tokens


def describe_pin(row: PinRow) -> Pin:
    return Pin(f"P-{row.number}", row.text, row.locked, from_us(row.created_us))


def restored_budget(before: SessionInfo, default_tokens: int) -> dict[str, int]:
    """Return the changes that restore a session's earlier budget."""
    is_lowered = before.budget_tokens < default_tokens
    chosen = 1 if before.budget_chosen else BUDGET_LOWERED if is_lowered else 0
    return {"budget_tokens": before.budget_tokens, "budget_chosen": chosen}


def lowered_budget(row: SessionRow, tokens: int) -> dict[str, int]:
    """Return the changes that lower a session's budget; a smaller budget is not changed."""
    lowered = {"budget_tokens": max(1, min(tokens, row.budget_tokens))}
    return lowered if row.budget_chosen == 1 else {**lowered, "budget_chosen": BUDGET_LOWERED}


def describe_session(row: SessionRow, tenant: str = "", *, default_tokens: int | None = None) -> SessionInfo:
    """Describe a session, with ids as the tenant uses them; with `default_tokens`, with the budget that applies.

    Called for thousands of sessions in lists, so it must be fast.
    """
    return SessionInfo(
        id=public_id(tenant, row.id),
        title=row.title,
        platform=row.platform,
        channel=row.channel,
        strategy=row.strategy,
        strategy_settings=json.loads(row.settings) if row.settings != NO_SETTINGS else {},
        budget_tokens=row.budget_tokens if default_tokens is None else _budget_tokens(row, default_tokens),
        model=row.model,
        counter=_counter_name(row.model, row.encoding),
        calibration=row.calibration,
        parent_id=row.parent_id and public_id(tenant, row.parent_id),
        fork_turn_id=turn_id(row.fork_turn) if row.parent_id else None,
        turns=row.last_turn,
        created_at=from_us(row.created_us),
        updated_at=from_us(row.updated_us),
        budget_chosen=row.budget_chosen == 1,
        mode=row.mode,
        scope=row.scope,
    )


@lru_cache(maxsize=1_000)
def _counter_name(model: str | None, encoding: EncodingName) -> str:
    return session_counter(model, encoding).name


def describe_stats(row: SessionRow, sizes: StoredSizes, backlog: Backlog, *, pins: int) -> SessionStats:
    counter = session_counter(row.model, row.encoding)
    return SessionStats(
        turns=row.last_turn,
        messages=sizes.messages,
        tool_calls=sizes.tool_calls,
        tokens=counter.scale(sizes.tokens, row.calibration),
        raw_bytes=sizes.raw_bytes,
        stored_bytes=sizes.stored_bytes,
        pins=pins,
        counter=counter.name,
        calibration=row.calibration,
        first_at=None if sizes.first_at_us is None else from_us(sizes.first_at_us),
        last_at=None if sizes.last_at_us is None else from_us(sizes.last_at_us),
        rendered=backlog.complete,
        fallbacks=backlog.incomplete,
        pending=backlog.pending,
        refusals=backlog.refusals,
        waiting=backlog.waiting,
        waiting_until=None if backlog.due_us is None else from_us(backlog.due_us),
        by_model=backlog.by_model,
    )


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"TurnPage": f"{__name__}:TextPage"})
