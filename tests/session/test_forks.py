"""CORE-10, checked against a model: sessions as plain lists that forks copy."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foveate
from foveate.errors import InputError, SessionExists
from support.examples import times

STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "fork"]), st.integers(0, 7), st.integers(1, 12)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=times(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_session_is_its_ancestors_turns_up_to_the_fork_then_its_own(
    tmp_path: Path, steps: list[tuple[str, int, int]]
) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            names = [f"root-{len(await fov.sessions())}"]
            expected: dict[str, list[list[str]]] = {names[0]: []}
            closed: set[str] = set(names)
            await fov.session(names[0])
            for count, (step, which, turn) in enumerate(steps):
                name = names[which % len(names)]
                session = await fov.session(name)
                text = f"{count}"
                if step == "ask":
                    await session.record({"role": "user", "content": text})
                    expected[name].append([text])
                    closed.discard(name)
                elif step == "answer":
                    await session.record({"role": "assistant", "content": text})
                    if name in closed:
                        expected[name].append([text])
                        closed.discard(name)
                    else:
                        expected[name][-1].append(text)
                elif turn <= len(expected[name]):
                    fork = f"{names[0]}/{count}"
                    await session.fork(fork, turn)
                    names.append(fork)
                    expected[fork] = [list(messages) for messages in expected[name][:turn]]
                    closed.add(fork)
            for name in names:
                assert await _texts(await fov.session(name)) == expected[name]
            problems = [finding.problem async for finding in fov.check() if finding.problem]
            assert problems == []

    asyncio.run(run())


async def _texts(session: foveate.Session) -> list[Any]:
    turns = await session.load_turns()
    assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
    return [[message.text for message in turn.messages] for turn in turns]


def test_a_fork_can_be_asked_for_twice_if_it_is_the_same_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            for text in ("one", "two"):
                await session.record({"role": "user", "content": text})
            await session.fork("f", 1)
            assert (await session.fork("f", 1, exist_ok=True)).id == "f"
            assert (await session.fork("f", exist_ok=True)).info.fork_turn_id == "T-1"
            with pytest.raises(SessionExists) as raised:
                await session.fork("f", 1)
            assert raised.value.__cause__ is None
            with pytest.raises(SessionExists):
                await session.fork("f", 2, exist_ok=True)
            with pytest.raises(SessionExists):
                await (await fov.session("f")).fork("s", 1, exist_ok=True)

    asyncio.run(run())


def test_opening_nothing_is_an_input_error() -> None:
    with pytest.raises(InputError, match="path of its file"):
        foveate.open(None)  # type: ignore[arg-type]
