"""The newest tool calls and their results wait for the answer: they go out as they came, if the budget allows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate.tokens import exact_counter
from support.engine import opened, settings, talk, tool_step, user


def test_a_large_result_that_fits_the_budget_goes_out_raw_as_a_result(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db", settings(recall={"enabled": False})) as fov:
            session = await fov.session("s", budget_tokens=60_000)
            await talk(session, 100, words=60)
            output = " ".join(f"line{number}" for number in range(8_000))
            await session.record([user("Read it."), *tool_step(1, "short"), *tool_step(2, output)])
            assert exact_counter("o200k_base").base(output) > 20_000
            for _ in range(2):
                context = await session.context()
                last = context.messages("openai")[-1]
                assert (last["role"], last["content"]) == ("tool", output)
                assert context.tokens <= 60_000

    asyncio.run(job())


def test_a_result_that_does_not_fit_the_budget_is_cut_and_says_so(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db", settings(recall={"enabled": False})) as fov:
            session = await fov.session("s", budget_tokens=8_000)
            await talk(session, 20)
            await session.record([user("Read it."), *tool_step(1, "short"), *tool_step(2, "word " * 20_000)])
            context = await session.context()
            assert context.tokens <= 8_000
            assert "omitted" in context.text or "cut:" in context.text or "…" in context.text

    asyncio.run(job())
