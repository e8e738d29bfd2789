"""A model's answer in time, or a failure: nobody waits for ever, nor reads for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from foveate.errors import ModelFailed
from foveate.models import Answer, Ask, Model
from foveate.settings import ModelsSettings

PIECES_PER_TOKEN = 8
SPARE_PIECES = 1_000
"""A stream of more pieces than its tokens allow, and these, does not stop by itself."""
SECONDS_PER_TOKEN = 1.0
"""Nor does one that takes longer than this for all the tokens it may write, and `timeout_seconds`, however alive."""


async def pieces_in_time(
    model: Model, ask: Ask, settings: ModelsSettings, *, is_stream: bool
) -> AsyncGenerator[str | Answer]:
    """The pieces of a stream as they come, each in time, and so are all together; or the whole answer as one."""
    if is_stream:
        async with aclosing(_streamed(model, ask, settings)) as pieces:
            async for piece in pieces:
                yield piece
        return
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            answer = await model.ask(ask)
    except TimeoutError as error:
        raise _too_late(model, settings.timeout_seconds) from error
    yield answer


async def _streamed(model: Model, ask: Ask, settings: ModelsSettings) -> AsyncGenerator[str | Answer]:
    pieces = model.stream(ask)
    clock = asyncio.get_running_loop()
    most_seconds = settings.timeout_seconds + SECONDS_PER_TOKEN * ask.max_output_tokens
    end = clock.time() + most_seconds
    try:
        for number in range(PIECES_PER_TOKEN * ask.max_output_tokens + SPARE_PIECES):
            patience_seconds = settings.stall_seconds if number else settings.timeout_seconds
            try:
                async with asyncio.timeout_at(min(end, clock.time() + patience_seconds)):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if not number:
                    raise _too_late(model, settings.timeout_seconds) from error
                if clock.time() < end:
                    raise _stalled(model, settings.stall_seconds) from error
                raise ModelFailed(model.name, f"its stream went on for {most_seconds:g} s", reason="timeout") from error
            yield piece
        raise ModelFailed(model.name, "its stream does not end", reason="malformed")
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _too_late(model: Model, seconds: float) -> ModelFailed:
    return ModelFailed(model.name, f"no answer in {seconds:g} s (models.timeout_seconds)", reason="timeout")


def _stalled(model: Model, seconds: float) -> ModelFailed:
    problem = f"the stream was silent for {seconds:g} s (models.stall_seconds)"
    return ModelFailed(model.name, problem, reason="stalled")
