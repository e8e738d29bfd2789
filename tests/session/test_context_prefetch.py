"""What a prompt is likely to need is put on the board ahead: for that prompt, in the room that the board has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foveate
from foveate import Foveate
from foveate.context.board import Board
from foveate.context.context import Context
from foveate.session import Session
from foveate.settings import Settings, load_settings
from support.command_line import Shell

FACT = "The spare key of the boat shed hangs on hook KH-731, behind the blue barrel."
MORE = " ".join(
    f"Shelf {number} of the storehouse holds ropes, sails and paint of colour {number}." for number in range(16)
)
QUESTION = "On which hook hangs the spare key of the boat shed?"
TALK = "We talked about the weather and the sea, nothing of note, number {0}. " * 6


def with_settings(**recall: object) -> Settings:
    given = {"recall": {"deadline_seconds": None, **recall}, "compress": {"processes": 0}}
    return load_settings(environment={}, overrides=given)


def run(
    path: Path, job: Callable[[Session, Foveate], Awaitable[None]], chosen: Settings | None = None, budget: int = 6_000
) -> None:
    """With a long turn that has a fact in it, and talk behind it."""

    async def told() -> None:
        async with foveate.open(path / "chat.db", settings=chosen or with_settings()) as fov:
            session = await fov.session("s", budget_tokens=budget)
            await session.record([{"role": "user", "content": FACT}, {"role": "assistant", "content": MORE}])
            for number in range(200):
                said = [{"role": "user", "content": TALK.format(number)}, {"role": "assistant", "content": "I see."}]
                await session.record(said)
            await fov.settle()
            await job(session, fov)

    asyncio.run(told())


def on_board(context: Context) -> str:
    return "".join(segment.text for segment in context.segments if segment.name == "board")


def names(board: Board) -> list[str]:
    return [entry.name for entry in board.prefetched]


def test_a_turn_that_stands_out_and_is_shown_in_part_is_put_on_the_board_whole(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context(QUESTION)
        assert names(context.board) == ["T-1-R"]
        assert "Prefetched for this prompt:\n<T-1-R>" in on_board(context)
        assert "colour 15" in on_board(context)
        assert context.tokens <= context.budget_tokens
        plain = await session.context(QUESTION, recall=False)
        assert context.history == plain.history
        assert context.text.startswith(plain.text)

    run(tmp_path, job)


def test_it_is_there_for_one_prompt_and_is_neither_kept_nor_recorded(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        turns = (await session.refresh()).turns
        assert names((await session.context(QUESTION)).board)
        assert await session.board() == Board()
        assert (await session.refresh()).turns == turns
        assert on_board(await session.context("Thanks, go on!")) == ""
        assert (await session.context(QUESTION)).text == (await session.context(QUESTION)).text

    run(tmp_path, job)


@pytest.mark.parametrize("recall", [{"prefetch_turns": 0}, {"enabled": False}, {"gate_doubt_score": 99.0}])
def test_it_is_not_done_where_it_or_recall_is_off_or_nothing_stands_out(
    tmp_path: Path, recall: dict[str, object]
) -> None:
    async def job(session: Session, _: Foveate) -> None:
        assert on_board(await session.context(QUESTION)) == ""

    run(tmp_path, job, with_settings(**recall))


def test_a_one_off_has_nothing_put_ahead(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        assert names((await session.context(QUESTION, budget_tokens=3_000)).board) == []

    run(tmp_path, job)


def test_with_less_room_a_lower_level_comes_ahead_and_with_none_nothing(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        assert names((await session.context(QUESTION)).board) == ["T-1-C"]

    async def none(session: Session, _: Foveate) -> None:
        assert names((await session.context(QUESTION)).board) == []

    run(tmp_path, job, budget=2_700)
    (tmp_path / "small").mkdir()
    run(tmp_path / "small", none, budget=1_200)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 61), st.booleans()), max_size=4), st.integers(1_500, 8_000))
def test_what_is_on_the_board_stays_and_the_budget_holds(
    tmp_path_factory: pytest.TempPathFactory, retrieved: list[tuple[int, bool]], budget: int
) -> None:
    async def job(session: Session, _: Foveate) -> None:
        for turn, is_saved in retrieved:
            await session.call_tool("get_turn", {"turn_id": f"T-{turn}"})
            if is_saved:
                await session.save(f"T-{turn}-R")
        kept = await session.board()
        before = on_board(await session.context(QUESTION, recall=False))
        context = await session.context(QUESTION)
        assert on_board(context).startswith(before.removesuffix("</board>\n"))
        assert context.tokens <= context.budget_tokens
        assert await session.board() == kept
        held = {entry.first for entry in kept.retrieved}
        assert not held.intersection(entry.first for entry in context.board.prefetched)

    run(tmp_path_factory.mktemp("prefetch"), job, budget=budget)


def test_commands_show_what_a_prompt_puts_there(tmp_path: Path) -> None:
    async def job(_: Session, __: Foveate) -> None:
        """The store is all that is needed."""

    run(tmp_path, job)
    shell = Shell(tmp_path / "chat.db")
    assert "The board is empty" in shell("board", "s")
    assert "T-1-R  this prompt" in shell("board", "s", "--prompt", QUESTION)
    assert "Prefetched for this prompt: T-1-R." in shell("context", "s", "--prompt", QUESTION)
    assert shell.json("context", "s", "--prompt", QUESTION)["prefetched"] == ["T-1-R"]


def test_a_board_that_is_shown_names_the_bands_and_one_is_not_shown_for_them_alone(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        asked = await session.context(QUESTION, tools=True)
        shown = next(segment.text for segment in asked.segments if segment.name == "board")
        assert "Shown now: T-1 " in shown
        assert "Remember: get_turn" in shown
        assert asked.messages("openai")[-1]["content"][-1]["text"] == QUESTION
        talk = await session.context("Thank you.", tools=True)
        assert not [segment for segment in talk.segments if segment.name == "board"]

    run(tmp_path, job)
