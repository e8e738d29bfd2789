"""Every strategy on conversations that really took place: within its budget, pairs whole, each as its design says."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import foveate
from engine import settings
from foveate import Foveate, Session
from foveate import strategy as strategies
from foveate.context.assembled import Context
from foveate.context.tags import Block, parse_blocks
from foveate.testing.strategies import looked_at
from foveate.text import message_text, turn_text
from foveate.writing import user_text

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "transcripts"
BUDGETS_TOKENS = (4_000, 16_000, 64_000)
TAU_RUNS = 20
AIDER_TURNS = 400
"""About a month."""

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the shared test data is not there: {FOLDER}")


class Kept(NamedTuple):
    """The store with all of them, compressed, and the sessions to look at."""

    path: Path
    sessions: list[str]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    path = tmp_path_factory.mktemp("real") / "chat.db"

    async def fill(fov: Foveate) -> list[str]:
        pi = await fov.import_file(FOLDER / "pi-large-session.jsonl", session_id="pi")
        assert pi.added
        await fov.import_file(FOLDER / "aider-chat-history.md", session_id="aider")
        await (await fov.open_session("aider")).fork("aider-month", AIDER_TURNS)
        await fov.import_file(FOLDER / "tau-airline.json", session_id="tau")
        runs = sorted(info.id for info in await fov.sessions() if info.id.startswith("tau"))[:TAU_RUNS]
        names = ["pi", "aider-month", *runs]
        for name in names:
            await fov.settle(session_id=name)
        return names

    return Kept(path, asyncio.run(_with(path, fill)))


async def _with(path: Path, job: Callable[[Foveate], Awaitable[list[str]]]) -> list[str]:
    async with foveate.open(path, settings=settings(compress={"processes": 2})) as fov:
        return await job(fov)


@pytest.mark.parametrize("name", strategies.names())
def test_no_context_of_a_real_conversation_exceeds_its_budget_or_breaks_a_pair(name: str, kept: Kept) -> None:
    async def job(fov: Foveate) -> list[str]:
        for session_id in kept.sessions:
            session = await fov.open_session(session_id)
            for budget in BUDGETS_TOKENS[:1] if session_id.startswith("tau") else BUDGETS_TOKENS:
                await looked_at(session, budget_tokens=budget, strategy=name)
        return []

    asyncio.run(_with(kept.path, job))


def _shown(kept: Kept, name: str, check: Callable[[Session, Context, list[Block]], Awaitable[None]]) -> None:
    if name not in strategies.names():
        pytest.skip(f"{name} is not installed")

    async def job(fov: Foveate) -> list[str]:
        session = await fov.open_session("pi")
        context = await looked_at(session, budget_tokens=16_000, strategy=name)
        await check(session, context, parse_blocks(context.history))
        return []

    asyncio.run(_with(kept.path, job))


def test_standard_shows_whole_turns_and_nothing_else(kept: Kept) -> None:
    async def check(session: Session, context: Context, blocks: list[Block]) -> None:
        assert {block.level for block in blocks} <= {"R", "S", "C", "T", "E"}
        raw = [block for block in blocks if block.level == "R" and not block.first_step]
        for block in raw:
            assert block.entries[0].text == turn_text((await session.load_turn(block.first)).messages)
        assert [block.first for block in blocks if block.level == "E"] in ([], [1])
        assert blocks[-1].last == session.info.turns

    _shown(kept, "standard", check)


def test_checkpoint_shows_every_word_of_the_user_or_says_that_it_rolled_over(kept: Kept) -> None:
    async def check(session: Session, context: Context, blocks: list[Block]) -> None:
        said: dict[int, str] = {}
        for block in blocks:
            for entry in block.entries if block.level in ("U", "R", "M") else ():
                number = block.first if block.first_step else entry.number
                said[number] = said.get(number, "") + entry.text
        turns = await session.load_turns()
        lost = [turn.number for turn in turns if user_text(turn.messages) not in said.get(turn.number, "")]
        assert not lost or "snapshot" in str(context.planned.notes) or "rolled" in str(context.planned.notes)
        assert any(block.level == "A" for block in blocks)

    _shown(kept, "checkpoint", check)


def test_hybrid_leaves_the_last_five_messages_as_they_are(kept: Kept) -> None:
    async def check(session: Session, context: Context, blocks: list[Block]) -> None:
        messages = [message for turn in (await session.load_turns())[-6:] for message in turn.messages]
        spoken = [
            message for message in messages if message.role in ("user", "assistant") and message.kind == "message"
        ]
        shown = "".join(entry.text for block in blocks for entry in block.entries)
        for message in spoken[-5:]:
            assert message_text(message) in shown
        assert any(block.level == "M" for block in blocks)

    _shown(kept, "hybrid", check)


def test_topics_show_the_topic_at_hand_and_summaries_of_those_before(kept: Kept) -> None:
    async def check(session: Session, context: Context, blocks: list[Block]) -> None:
        assert any(block.level == "A" for block in blocks)
        assert blocks[-1].level in ("R", "M", "S", "C", "T", "U")
        assert blocks[-1].last == session.info.turns

    _shown(kept, "topics", check)


def test_oneshot_shows_epic_tasks_and_log(kept: Kept) -> None:
    async def check(session: Session, context: Context, blocks: list[Block]) -> None:
        await session._store.artefacts.keep_document(session.id, "epic", "Build the harbour.")
        await session._store.artefacts.keep_document(session.id, "tasks", "- [ ] dig")
        again = await looked_at(session, budget_tokens=16_000, strategy="oneshot")
        assert "<epic>\nBuild the harbour.\n</epic>\n" in again.system
        assert "<tasks>\n- [ ] dig\n</tasks>\n" in again.text.removeprefix(again.system)
        assert [block.last for block in blocks][-1] == session.info.turns

    _shown(kept, "oneshot", check)
