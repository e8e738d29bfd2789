"""The same recorded history gives the same context in SQLite and in PostgreSQL, byte for byte."""

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import foveate
from foveate import Message
from foveate import strategy as strategies
from support.engine import assistant, settings, user
from support.strategies import conversations

_numbers = count()


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory, _shared_database: str) -> tuple[str, str]:
    return str(tmp_path_factory.mktemp("databases") / "chat.db"), _shared_database


async def told(location: str, session_id: str, messages: Sequence[Message], prompt: str) -> list[str]:
    """A context of each strategy, the answers of the tools and a search."""
    async with foveate.open(location, settings=settings()) as fov:
        session = await fov.session(session_id, budget_tokens=2_000)
        await session.record([user("Which port has the server?"), *messages], at=1_700_000_000)
        fork = await session.fork(f"{session_id}-fork", (await session.refresh()).turns // 2)
        await fork.record([user("A fork goes on."), assistant("It does.")], at=1_700_000_100)
        for name in (session_id, f"{session_id}-fork"):  # the database has sessions of other tests, too
            await fov.settle(session_id=name)
        found = [repr(await session.search(prompt, 5))]
        for each in (session, fork):
            for name in strategies.names():
                context = await each.context(prompt, strategy=name, budget_tokens=900)
                found.append(repr((context.messages, context.tokens)))
        return found


@examples(max_examples=3)
@given(messages=conversations(), prompt=st.sampled_from(["What was said?", "the port of the server"]))
def test_both_databases_give_the_same_contexts(
    locations: tuple[str, str], messages: list[Message], prompt: str
) -> None:
    session_id = f"s{next(_numbers)}"
    first, second = (asyncio.run(told(location, session_id, messages, prompt)) for location in locations)
    assert first == second
