"""The history uses what board and recall leave, and gives it back at a rebuild when they need it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate import Foveate
from foveate.context.context import Context
from support.engine import assistant, settings, talk, user, verified, with_store

BUDGET = 4_000
FACT = "The spare key of the boat shed hangs on hook KH-731, behind the blue barrel."
KEYS = " ".join(f"The key of locker {number} hangs on hook KH-{number}, left of door {number}." for number in range(40))
"""More than an era can say of one turn, so that the fact is not in it."""
SAID = (
    "The tide table of the harbour lists berth {0} with a depth of {0} metres. We decided that crane {0} serves it "
    "until the evening, unless the wind from the north is stronger than {0} knots. The harbour master asked for a "
    "report, and I would like to have it before the end of the week, with the names of the ships that were "
    "moved to another berth. "
)
QUESTION = "On which hook hangs the spare key of the boat shed?"


def part(context: Context, name: str) -> int:
    return sum(segment.tokens for segment in context.segments if segment.name == name)


def test_the_history_takes_what_recall_leaves_until_recall_needs_it(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=BUDGET)
        await session.record([user(f"{KEYS} {FACT}"), assistant("I will remember it.")])
        for first in range(2, 200, 3):
            await talk(session, 3, first=first)
            await fov.settle()
            context = await session.context("Go on.")
            if part(context, "history") > 0.8 * BUDGET and "KH-731" not in context.text:
                break
        assert part(context, "history") > 0.8 * BUDGET
        asked = await verified(session, QUESTION)
        assert "KH-731" in asked.text
        assert part(asked, "memory") > 0
        assert asked.planned.is_new
        assert asked.planned.cause == "full"
        # Asked again nothing changes, and the next turn goes on from there.
        assert (await session.context(QUESTION)).text == asked.text

    given = settings(recall={"deadline_seconds": None}, gradient={"low_water": 0.5, "bands": "documented"})
    asyncio.run(with_store(tmp_path / "chat.db", job, given))


def test_a_rebuild_keeps_its_oldest_blocks_byte_for_byte(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=8_000)
        kept: list[int] = []
        before: list[str] = []
        for first in range(1, 150, 9):
            said = [
                (user(f"Ship{7 * number} has captain{13 * number}. {3 * SAID.format(number)}"), assistant("I see."))
                for number in range(first, first + 9)
            ]
            await session.record([message for pair in said for message in pair])
            await fov.settle()
            context = await session.context("Go on.")
            history = [segment.text for segment in context.segments if segment.level]
            if context.planned.is_new and before:
                same = (old == new for old, new in zip(before, history, strict=False))
                kept.append(next((index for index, alike in enumerate(same) if not alike), len(history)))
            before = history
        assert sum(count > 0 for count in kept) > 1, kept

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(recall={"enabled": False})))


def test_a_session_is_shown_by_the_profile_of_its_scope(tmp_path: Path) -> None:
    own = {"project:shop": {"gradient": {"short_turn_tokens": 0}}}
    given = settings(gradient={"bands": "documented"}, profiles=own)

    async def job(fov: Foveate) -> list[str]:
        texts = []
        for scope in ("project:shop", "project:mill"):
            session = await fov.session(scope.partition(":")[2], scope=scope, budget_tokens=2_000)
            for number in range(3):
                await session.record([user(f"Question {number}"), assistant(f"Answer {number}")])
            texts.append(str([(one.first, one.last) for one in (await session.context("Next?")).segments if one.level]))
        return texts

    shown = asyncio.run(with_store(tmp_path / "chat.db", job, given))
    assert shown == ["[(1, 1), (2, 2), (3, 3)]", "[(1, 2), (3, 3)]"]
