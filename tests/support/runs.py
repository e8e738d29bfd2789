"""What the tests of runs share: a model that answers by the number of the iteration, and runs of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

from foveate import Foveate, Session
from foveate.agents.run import Caps, RunEnd, RunEvent, run
from foveate.models import Ask
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel
from foveate.text import turn_text
from support.chats import scripted_store

EPIC = "Build a house on the hill."
TASKS = "# The house\n- [ ] dig\n- [ ] build\n"
MODEL = "scripted:test"
BUDGET_TOKENS = 8_000
DONE = CallsTool("finish", {"summary": "It stands."}, id="f")
_ITERATION = re.compile(r"Iteration (\d+):")


def iteration_asked(ask: Ask) -> int:
    """The number of the newest iteration in a request."""
    return int(_ITERATION.findall("\n".join(message.text for message in ask.messages if message.role == "user"))[-1])


def by_iteration(replies: Mapping[int, Behaviour]) -> ScriptedModel:
    """A model that says these things in these iterations, and in the others that it worked."""

    def reply(ask: Ask) -> Behaviour:
        number = iteration_asked(ask)
        return replies.get(number, Says(f"Worked on step {number}."))

    return ScriptedModel(reply, name=MODEL)


async def events_of_run(
    fov: Foveate,
    session: Session,
    *,
    epic: str | None = EPIC,
    tasks: str | None = TASKS,
    answer: str | None = None,
    caps: Caps | None = None,
    has_tools: bool = True,
) -> list[RunEvent]:
    events = run(
        session,
        fov.caller,
        [MODEL],
        costs=fov.costs,
        epic=epic,
        tasks=tasks,
        answer=answer,
        caps=caps,
        has_tools=has_tools,
    )
    async with aclosing(events):
        return [event async for event in events]


def ended(events: list[RunEvent]) -> RunEnd:
    """The end of a run that must come to one."""
    last = events[-1]
    assert isinstance(last, RunEnd)
    return last


async def run_once(
    path: Path, model: ScriptedModel, *, answer: str | None = None, caps: Caps | None = None, has_tools: bool = True
) -> list[RunEvent]:
    """Begin or go on with the run at a path, in a store that is opened for it."""
    async with scripted_store(path, model) as fov:
        session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
        return await events_of_run(fov, session, answer=answer, caps=caps, has_tools=has_tools)


async def log_of(session: Session) -> list[str]:
    """The raw text of every turn."""
    return [turn_text(turn.messages) for turn in await session.load_turns()]
