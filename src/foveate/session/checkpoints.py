"""Checkpoints of a session: their texts, the turns they replace, and how much of the budget is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foveate.context.context import Context
from foveate.errors import InputError
from foveate.session.engine import SessionEngine
from foveate.session.values import SessionInfo
from foveate.store.rows import ArtefactRow
from foveate.strategy.checkpoint import Checkpoint
from foveate.strategy.checkpoint.planner import TIER_NAMES
from foveate.strategy.checkpoint.reliability import ADVICE, ReliabilityLevel
from foveate.worker.artefacts import unpack_made

STRATEGY = "checkpoint"


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint as the session's contexts currently show it."""

    id: str
    level: int
    """Level of detail: 3 detailed, 2 moderate, 1 compact."""
    first: str
    """First turn of the checkpoint, e.g. `T-1`."""
    last: str
    """Last turn of the checkpoint."""
    first_message: int
    """First message of the checkpoint, counted from the beginning of the session."""
    last_message: int
    """Last message of the checkpoint, counted from the beginning of the session."""
    summary: str
    key_decisions: tuple[str, ...]
    architecture_decisions: tuple[str, ...]
    files_modified: tuple[str, ...]
    next_steps: tuple[str, ...]
    original_tokens: int
    """Tokens of the assistant's messages and tool output that the checkpoint replaces."""
    current_tokens: int
    compression_count: int
    text: str
    """The complete checkpoint as a model reads it."""
    contracts: tuple[str, ...] = ()
    """The architecture decisions that are API contracts or schemas."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """From tier 5 on: the first digits of the SHA-256 of files whose whole content was written, by path."""
    tests: Mapping[str, str] = field(default_factory=dict)
    """From tier 5 on: the last outcome of the newest test commands."""
    owners: tuple[str, ...] = ()
    """From tier 5 on: clauses that name who is responsible for something."""


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """Usage of a session's budget."""

    used_tokens: int
    available_tokens: int
    tier: int
    tier_name: str
    compressions: int
    reliability: float
    reliability_level: str
    mode: str = ""
    """Name of the session's mode; empty: none."""
    advice: str = ""
    """What to do at a low or critical reliability, with the commands; empty at a higher one."""

    @property
    def line(self) -> str:
        """The status in one line."""
        mode = f"mode {self.mode} · " if self.mode else ""
        return (
            f"{self.used_tokens:,} of {self.available_tokens:,} tokens · tier {self.tier} {self.tier_name} · {mode}"
            f"reliability {self.reliability:.1%} {self.reliability_level}"
        )


class Checkpoints:
    """The checkpoints of one session, which must use the `checkpoint` strategy."""

    def __init__(self, engine: SessionEngine, refresh: Callable[[], Awaitable[SessionInfo]]) -> None:
        self._engine = engine
        self._refresh = refresh

    async def list(self) -> tuple[CheckpointInfo, ...]:
        """List the checkpoints that contexts currently show, oldest first."""
        await self._check()
        notes: Any = (await self._engine.look()).planned.notes
        rows = await self._engine.store.artefacts.made(self._engine.stored_id, STRATEGY)
        made = {row.name: row for row in rows}
        return tuple(_value(noted, made.get(noted["artefact"])) for noted in notes.get("checkpoints", ()))

    async def status(self) -> CheckpointStatus:
        """Return tokens used and available, tier and reliability, as of the newest turn."""
        info = await self._check()
        context = await self._engine.look()
        notes: Any = context.planned.notes
        if "tier" not in notes:
            notes = self._unplanned(context)
        return CheckpointStatus(
            notes["used_tokens"],
            notes["available_tokens"],
            notes["tier"],
            notes["tier_name"],
            notes["compressions"],
            notes["reliability"],
            notes["reliability_level"],
            info.mode,
            advice(notes["reliability_level"], info),
        )

    def _unplanned(self, context: Context) -> dict[str, Any]:
        """Return the status of a context by another strategy, shown while a long history is being processed."""
        settings = self._engine.strategy.strategy
        settings = settings if isinstance(settings, Checkpoint) else Checkpoint()
        trust, tier = settings.reliability(self._engine.row.model, {}), settings.tier(context.budget_tokens)
        return {
            "used_tokens": sum(segment.tokens for segment in context.segments if segment.first is not None),
            "available_tokens": int(context.budget_tokens * settings.usable),
            "tier": tier,
            "tier_name": TIER_NAMES[tier - 1],
            "compressions": 0,
            "reliability": round(trust.score, 4),
            "reliability_level": trust.level,
        }

    async def _check(self) -> SessionInfo:
        info = await self._refresh()
        if info.strategy != STRATEGY:
            raise InputError(
                f"session {info.id!r} uses the strategy {info.strategy!r}, which has no checkpoints; "
                f"change it with: foveate sessions strategy {info.id} {STRATEGY}"
            )
        return info


def advice(level: ReliabilityLevel, info: SessionInfo) -> str:
    """Return what to do at this reliability, with the commands; empty if it is high or medium."""
    if level not in ("low", "critical"):
        return ""
    budget = f"foveate chat {info.id} --budget {2 * info.budget_tokens}"
    return f"{ADVICE[level]}. New conversation: foveate chat --new. Larger context: {budget}"


def _value(noted: Any, row: ArtefactRow | None) -> CheckpointInfo:
    made = unpack_made(row) if row else None
    data = made.data if made else {}
    first_message, _, last_message = noted["messages"].partition("-")
    return CheckpointInfo(
        noted["id"],
        noted["level"],
        noted["first"],
        noted["last"],
        int(first_message),
        int(last_message),
        str(data.get("summary", "")),
        _texts(data.get("decisions")),
        _texts(data.get("architecture")),
        _texts(data.get("files")),
        _texts(data.get("next_steps")),
        noted["original_tokens"],
        noted["current_tokens"],
        noted["compression_count"],
        made.text if made else "",
        _texts(data.get("contracts")),
        _named(data.get("digests")),
        _named(data.get("tests")),
        _texts(data.get("owners")),
    )


def _named(found: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def _texts(listed: Any) -> tuple[str, ...]:
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()
