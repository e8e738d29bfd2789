"""Checkpoints of a session: their texts, the turns they replace, and how much of the budget is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from foveate.context.context import Context
from foveate.errors import InputError
from foveate.history.driver import HistoryDriver
from foveate.plan import Artefact
from foveate.session.values import SessionInfo
from foveate.store import Store
from foveate.strategy.checkpoint.state import CheckpointEntry, CheckpointState
from foveate.turn import turn_id
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

    def __init__(
        self,
        refresh: Callable[[], Awaitable[SessionInfo]],
        context: Callable[[], Awaitable[Context]],
        store: Store,
        driver: HistoryDriver,
        key: str,
    ) -> None:
        """`key` is the session's id in the store."""
        self._refresh = refresh
        self._context = context
        self._store = store
        self._driver = driver
        self._key = key

    async def list(self) -> tuple[CheckpointInfo, ...]:
        """List the checkpoints that contexts currently show, oldest first."""
        await self._check()
        await self._context()
        kept = await self._driver.state(STRATEGY)
        if not kept:
            return ()
        rows = await self._store.artefacts.made(self._key, STRATEGY)
        made = {row.name: row for row in rows}
        found = []
        for entry in CheckpointState.from_json(kept).checkpoints:
            names = [name for name in made if name.startswith(f"{entry.name}-")]
            found.append(_value(entry, unpack_made(made[names[-1]]) if names else None))
        return tuple(found)

    async def status(self) -> CheckpointStatus:
        """Return tokens used and available, tier and reliability, as of the newest turn."""
        info = await self._check()
        notes: Any = (await self._context()).planned.notes
        return CheckpointStatus(
            notes.get("used_tokens", 0),
            notes.get("available_tokens", 0),
            notes.get("tier", 0),
            notes.get("tier_name", ""),
            notes.get("compressions", 0),
            notes.get("reliability", 0.0),
            notes.get("reliability_level", ""),
            info.mode,
        )

    async def _check(self) -> SessionInfo:
        info = await self._refresh()
        if info.strategy != STRATEGY:
            raise InputError(
                f"session {info.id!r} uses the strategy {info.strategy!r}, which has no checkpoints; "
                f"change it with: foveate sessions strategy {info.id} {STRATEGY}"
            )
        return info


def _value(entry: CheckpointEntry, made: Artefact | None) -> CheckpointInfo:
    data = made.data if made else {}
    return CheckpointInfo(
        entry.id,
        entry.level,
        turn_id(entry.first),
        turn_id(entry.last),
        entry.first_message,
        entry.last_message,
        str(data.get("summary", "")),
        _texts(data.get("decisions")),
        _texts(data.get("architecture")),
        _texts(data.get("files")),
        _texts(data.get("next_steps")),
        entry.original_tokens,
        entry.tokens,
        entry.count,
        made.text if made else "",
    )


def _texts(listed: Any) -> tuple[str, ...]:
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()
