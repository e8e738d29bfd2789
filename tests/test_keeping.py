"""A kept plan tells what it changed, and what of it stays."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from engine import opened
from foveate.context.assembled import Context
from foveate.testing.conversation import make_conversation

BUDGET = 6_000


def levels(context: Context) -> dict[int, set[str]]:
    """Each turn's level; a turn that is shown in steps has several."""
    found: dict[int, set[str]] = {}
    for segment in context.segments:
        if segment.level and segment.first and segment.last:
            for turn in range(segment.first, segment.last + 1):
                found.setdefault(turn, set()).add(segment.level)
    return found


def contexts(path: Path, turns: int) -> list[Context]:
    async def play() -> list[Context]:
        async with opened(path) as fov:
            session = await fov.session("s", budget_tokens=BUDGET)
            found = []
            for turn in make_conversation(turns, 7).turns:
                await session.record(turn)
                await fov.settle()
                found.append(await session.context())
            return found

    return asyncio.run(play())


def test_a_rebuild_tells_which_turns_changed_their_level(tmp_path: Path) -> None:
    found = contexts(tmp_path / "chat.db", 40)
    rebuilt = [
        (before, after) for before, after in itertools.pairwise(found) if after.planned.is_new and after.planned.changes
    ]
    assert len(rebuilt) > 3
    for before, after in rebuilt:
        was, now = levels(before), levels(after)
        told = {
            turn: (change.before, change.after)
            for change in after.planned.changes
            for turn in range(change.first, change.last + 1)
        }
        assert sum(change.last - change.first + 1 for change in after.planned.changes) == len(told)
        for turn, (old, new) in told.items():
            assert old != new
            assert new in now[turn]
            assert old in was.get(turn, {"R"})


def test_what_is_said_to_stay_is_what_the_next_context_begins_with(tmp_path: Path) -> None:
    found = contexts(tmp_path / "chat.db", 25)
    stood = [(before, after) for before, after in itertools.pairwise(found) if not after.planned.is_new]
    assert stood
    for before, after in stood:
        stable = ""
        for segment in before.segments:
            if not segment.is_stable:
                break
            stable += segment.text
        assert after.text.startswith(stable)
        assert 0 < before.stable_tokens <= before.tokens


def test_the_texts_of_the_segments_are_the_text_of_the_context(tmp_path: Path) -> None:
    context = contexts(tmp_path / "chat.db", 12)[-1]
    assert "".join(segment.text for segment in context.segments if segment.name != "prompt") == context.text
