"""What a provider reports is believed within reason, before it is billed, shown and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.models.accounts import MAX_TOKENS, believed
from foveate.models.settings import ModelsSettings, Price
from foveate.testing.scripted import Says, ScriptedModel
from foveate.turn import Usage
from support.calling import ask, stage

ANY = st.one_of(st.integers(-5, 10**7), st.integers(-(10**40), 10**40))


@given(st.builds(Usage, ANY, ANY, ANY, ANY, ANY))
def test_a_believed_usage_is_consistent_and_stays_what_it_is(usage: Usage) -> None:
    made = believed(usage)
    assert 0 <= made.cache_read_tokens + made.cache_write_tokens <= made.input_tokens <= MAX_TOKENS
    assert 0 <= made.output_tokens <= MAX_TOKENS
    assert believed(made) == made


@given(st.integers(0, MAX_TOKENS), st.integers(0, MAX_TOKENS))
def test_a_plausible_usage_is_believed_as_it_is(input_tokens: int, output_tokens: int) -> None:
    usage = Usage(input_tokens, output_tokens, cache_read_tokens=input_tokens // 2)
    assert believed(usage) == usage


@pytest.mark.parametrize(
    "usage", [Usage(10**30, 10**30), Usage(50, 5, cache_read_tokens=5_000), Usage(-50, 9, -3), Usage(10**9, 5)]
)
def test_an_odd_usage_is_believed_within_reason_by_all(usage: Usage, tmp_path: Path) -> None:
    async def run() -> None:
        dear = ScriptedModel(Says("Yes.", usage=usage), name="a", price=Price(input=100_000, output=100_000))
        async with stage(tmp_path, dear, settings=ModelsSettings(daily_usd=None)) as on:
            answered = await on.caller.ask(ask(), ["a"])
            made = believed(usage)
            (row,) = on.rows
            assert answered.answer.message.usage == made
            assert (row.input_tokens, row.output_tokens, row.cached_tokens) == (
                made.input_tokens,
                made.output_tokens,
                made.cache_read_tokens,
            )

    asyncio.run(run())
