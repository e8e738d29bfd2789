"""A run with the real local model: how it is asked, never what it says."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import foveate
from foveate.agents.run import Caps, IterationEnd, RunEnd, RunEvent, run
from support.engine import settings
from support.local_model import WINDOW_TOKENS

ITERATIONS = 3


def test_a_run_works_with_a_real_server_and_goes_on_where_it_was(local_url: str, tmp_path: Path) -> None:
    model = f"smollm2@{local_url}"

    async def go(iterations: int) -> list[RunEvent]:
        async with foveate.open(tmp_path / "run.db", settings=settings()) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=1_500, model=model)
            events = run(
                session,
                fov.caller,
                [model],
                costs=fov.costs,
                epic="Name three things in a harbour.",
                tasks="- [ ] name one\n- [ ] name another\n",
                caps=Caps(max_iterations=iterations),
                max_output_tokens=12,
                window_tokens=WINDOW_TOKENS,
                temperature=0.0,
            )
            async with aclosing(events):
                return [event async for event in events]

    first = asyncio.run(go(1))
    rest = asyncio.run(go(ITERATIONS))
    answers = [event.answer for event in (*first, *rest) if isinstance(event, IterationEnd)]
    end = rest[-1]
    assert isinstance(end, RunEnd)
    assert end.iterations == len(answers) <= ITERATIONS
    assert all(answer.input_tokens > 0 and 0 < answer.output_tokens <= 12 for answer in answers)
    assert all(answer.tokens <= answer.budget_tokens for answer in answers)
    assert end.tokens == sum(answer.input_tokens + answer.output_tokens for answer in answers)
