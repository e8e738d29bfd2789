"""A call without its result, a result without its call, and anything between them are noticed in every format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from foveate.context.assemble import ContextParts, assemble
from foveate.context.invariants.tool_pairs_whole import problem
from foveate.context.render import FORMATS
from foveate.formats import ProviderFormat
from support import contexts
from support.contexts import sample_parts


@given(contexts.parts())
def test_pairs_are_whole_in_every_context(parts: ContextParts) -> None:
    context = assemble(parts)
    for name in FORMATS:
        assert problem(name, context.messages(name)) is None


def is_result(record: Any) -> bool:
    found = record.get("role") == "tool" or str(record.get("type")).endswith("_output")
    blocks = record.get("content", record.get("parts")) or []
    return found or any(
        block.get("type") == "tool_result" or "functionResponse" in block for block in blocks if isinstance(block, dict)
    )


def is_call(record: Any) -> bool:
    blocks = record.get("content", record.get("parts")) or []
    return (
        "tool_calls" in record
        or str(record.get("type")).endswith("_call")
        or any(
            block.get("type") == "tool_use" or "functionCall" in block for block in blocks if isinstance(block, dict)
        )
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_pair_that_lost_one_side_is_noticed(name: ProviderFormat) -> None:
    sent: Any = assemble(sample_parts()).messages(name)
    for belongs in (is_result, is_call):
        place = next(index for index, record in enumerate(sent) if belongs(record))
        assert problem(name, [*sent[:place], *sent[place + 1 :]]) is not None


@pytest.mark.parametrize("name", FORMATS)
def test_a_word_between_call_and_result_is_noticed(name: ProviderFormat) -> None:
    sent: Any = assemble(sample_parts()).messages(name)
    place = next(index for index, record in enumerate(sent) if is_result(record))
    word: Any = {"role": "user", "parts": [{"text": "x"}]} if name == "gemini" else {"role": "user", "content": "x"}
    assert problem(name, [*sent[:place], word, *sent[place:]]) is not None


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_at_the_end_is_noticed(name: ProviderFormat) -> None:
    sent: Any = assemble(sample_parts()).messages(name)
    place = next(index for index, record in enumerate(sent) if is_call(record))
    assert problem(name, sent[: place + 1]) is not None


def test_results_behind_other_content_of_their_message_are_noticed() -> None:
    call: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]}
    late: Any = {
        "role": "user",
        "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "a", "content": "y"}],
    }
    assert problem("anthropic", [call, late]) == "results do not come first in their message"


def test_a_legacy_function_call_is_answered_by_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}
    assert problem("openai", [call, {"role": "function", "name": "ls", "content": "x"}]) is None
    assert problem("openai", [call, {"role": "function", "name": "cat", "content": "x"}]) is not None
