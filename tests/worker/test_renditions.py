"""What one turn may cost: beyond a size it is compressed from its beginnings and ends, and marked."""

from __future__ import annotations

import json

import pytest

from foveate.compress.local import LocalCompressor
from foveate.store import MessageRow
from foveate.store.codec import weigh
from foveate.tokens import exact_counter
from foveate.turn import Json, Message, Reasoning, Text, ToolCall, ToolResult
from foveate.worker.renditions import bound_messages, compress_safely, make_coarse

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
