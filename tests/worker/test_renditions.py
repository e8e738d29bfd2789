"""What one turn may cost: beyond a size it is compressed from its beginnings and ends, and marked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from foveate.compress.local import LocalCompressor
from foveate.renditions import TINY_TOKENS
from foveate.store import MessageRow
from foveate.store.codec import weigh
from foveate.tokens import COUNTERS, Counter, exact_counter
from foveate.turn import Json, Message, Reasoning, Text, ToolCall, ToolResult
from foveate.worker.renditions import bound_messages, compress_safely, make_coarse
from support.engine import assistant, opened, user

COUNTER = exact_counter("o200k_base")


def long_turn(chars: int) -> list[Message]:
    words = "alpha beta gamma " * (chars // 17)
    return [
        Message("user", (Text(f"Begin here. {words} Which port is it?"),)),
        Message("assistant", (Reasoning(words), ToolCall("write", {"path": "a.py", "lines": [words] * 3}, "1"))),
        Message("tool", (ToolResult("1", (Text(words),)),)),
        Message("assistant", (Text("The port is 8443."),)),
    ]


def test_a_small_turn_is_left_as_it_is() -> None:
    messages = long_turn(1_000)
    assert bound_messages(messages, 10_000) is messages


@pytest.mark.parametrize("most", [2_000, 20_000, 200_000])
def test_a_large_turn_is_shortened_where_it_is_long(most: int) -> None:
    messages = long_turn(100_000)
    bounded = bound_messages(messages, most)
    assert sum(map(weigh, bounded)) <= most + 60 * 7
    assert bounded[0].text.startswith("Begin here.")
    assert bounded[0].text.endswith("Which port is it?")
    assert bounded[-1].parts == messages[-1].parts
    assert [len(message.parts) for message in bounded] == [1, 2, 1, 1]


def test_arguments_of_many_items_are_shortened() -> None:
    arguments: dict[str, Json] = {"rows": [{"n": number} for number in range(50_000)]}
    (bounded,) = bound_messages([Message("assistant", (ToolCall("load", arguments),))], 5_000)
    assert len(json.dumps(bounded.tool_calls[0].arguments)) < 20_000


def test_a_large_turn_gets_a_marked_rendition() -> None:
    made = compress_safely(LocalCompressor(), 1, long_turn(20_000), COUNTER, max_chars=5_000)
    assert not made.is_complete
    assert "8443" in made.compressed
    assert "characters left out" in made.smoothed
    assert len(made.smoothed) < 10_000


def test_a_coarse_rendition_reads_the_ends_only() -> None:
    text = f"The first words. {'filler ' * 100_000} The last words."
    body = json.dumps({"format": "openai", "data": {"role": "user", "content": text}}).encode()
    made = make_coarse(3, [MessageRow(3, 1, "user", "message", 9, 0, 0, body)], "o200k_base")
    assert (made.turn, made.messages, made.is_complete) == (3, 1, False)
    assert made.smoothed_tokens < 10_000
    assert made.tiny.startswith("[user] The first words.")


FACTS = [
    "Move the invoice run from the harbour server to the deploy box at 14:30 on Monday, keep port 8443 and the key.",
    "Never let Anna Berg delete the 412 rows of table orders_2026 before the backup in /srv/backup/2026-11 is checked.",
    "Why does `python -m build --wheel` fail with ModuleNotFoundError: hatchling 1.27.0 on host build-07, not here?",
    "日本語のテキストを圧縮してください。" * 6,
    "x = {'a': 1}; " * 40,
]


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "claude-opus-5", "gemini-2.5-pro", "llama-3.1-8b"])
def test_a_tiny_rendition_keeps_its_limit_in_the_tokens_of_the_session(model: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", model=model, budget_tokens=20_000)
            for asked in FACTS:
                await session.record([user(asked), assistant(f"Done: {asked} {asked}")])
            await session.record([user("And now?"), assistant("Nothing.")])
            await fov.settle()
            for turn in await session.get_turns(1, len(FACTS), "T", format="plain"):
                assert turn.tokens <= TINY_TOKENS
                assert session.counter.scale(session.counter.base(f" {turn.content}\n")) <= TINY_TOKENS

    asyncio.run(job())


@pytest.mark.parametrize("counter", COUNTERS)
def test_the_base_tokens_of_a_limit_are_the_most_that_keep_it(counter: Counter) -> None:
    for limit in (16, 27, 50, 1_000):
        base = counter.base_within(limit)
        assert counter.scale(base) <= limit < counter.scale(base + 1)
