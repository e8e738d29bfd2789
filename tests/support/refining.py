"""Stores with a scripted model behind the background worker, and turns that are worth its time."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from foveate import Foveate, Message, Session
from foveate.models import Ask
from foveate.settings import Settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, Says, Script, ScriptedModel
from support.engine import assistant, settings, user
from support.faithful import faithful_answer
from support.patience import until

MODEL = "scripted:test"


def honest(ask: Ask) -> Behaviour:
    """What a model that does its work would say."""
    return Says(faithful_answer(ask))


def with_model(*, processes: int = 0, lease_seconds: float = 60.0, enabled: bool = True, **models: object) -> Settings:
    """A model for C and T that is asked again at once when it failed, and never left alone."""
    chosen = {"default": MODEL, "backoff_seconds": 0.0, "breaker_failures": 1_000, "timeout_seconds": 60.0, **models}
    return settings(
        models=chosen, compress={"processes": processes, "lease_seconds": lease_seconds, "enabled": enabled}
    )


@asynccontextmanager
async def scripted_store(
    path: Path, script: Script | ScriptedModel, given: Settings | None = None
) -> AsyncIterator[tuple[Foveate, ScriptedModel]]:
    """An open store whose every model is this one."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script, name=MODEL)
    given = given or with_model()
    fov = Foveate(await open_store(str(path), given.store), given, load=lambda name, settings: model)
    try:
        yield fov, model
    finally:
        await fov.close()


def said(number: int) -> list[Message]:
    """A turn that is worth asking about, and says something of its own."""
    return [
        user(
            f"Please move the backup of db-{number} from 02:30 to 04:{number % 50 + 10}, because the nightly import "
            f"of {number + 12} GB runs until 03:50. Do not touch the weekly job of db-{number}, and tell Katarina when "
            "it is done, since she has to change the alert that watches it."
        ),
        assistant(
            f"I moved the backup of db-{number} to 04:{number % 50 + 10} in ops/cron/db-{number}.toml. The weekly job "
            f"is not touched. I told Katarina; she changed the alert to {number + 7} minutes of grace."
        ),
    ]


async def talk(session: Session, turns: int, *, first: int = 1) -> None:
    """So many turns that are worth asking about, and a short one that keeps them closed."""
    messages = [message for number in range(first, first + turns) for message in said(number)]
    await session.record([*messages, user("Thanks.")])


async def until_asked(model: ScriptedModel, times: int = 1) -> None:
    async def is_so() -> bool:
        return len(model.asks) >= times

    await until(is_so)


def kept(path: Path, columns: str, rest: str = "") -> list[tuple[Any, ...]]:
    """Columns of the renditions in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {columns} FROM renditions {rest}").fetchall()
