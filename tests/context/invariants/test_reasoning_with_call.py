"""Thinking that a provider wants back with its call is noticed when it is gone."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given

from foveate.context.assemble import ContextParts, assemble
from foveate.context.invariants.reasoning_with_call import problem
from foveate.context.render import FORMATS, render_layout
from foveate.formats import parse_messages
from foveate.tokens import O200K
from support import contexts
from support.contexts import native_block, sample_parts


@given(contexts.parts())
def test_reasoning_stays_with_its_call_in_every_context(parts: ContextParts) -> None:
    context = assemble(parts)
    for name in FORMATS:
        assert problem(name, context.messages(name), context.native_messages) is None


def assembled(name: str, records: list[Any]) -> Any:
    history = [native_block(1, parse_messages(records, name))]
    return assemble(ContextParts(budget_tokens=4_000, counter=O200K, history=history, prompt="next"))


def test_thinking_that_left_its_call_is_noticed_for_anthropic() -> None:
    context = assemble(sample_parts())
    sent: Any = copy.deepcopy(render_layout(context.layout, context.system, "anthropic", cache=True))
    assert problem("anthropic", sent, context.native_messages) is None
    assistant = next(record for record in sent if "Needs root." in str(record))
    assistant["content"].pop(0)
    assert problem("anthropic", sent, context.native_messages) == (
        "the call 'toolu_1' is sent without the thinking that led to it"
    )


def test_a_reasoning_item_without_what_it_led_to_is_noticed_for_responses() -> None:
    records = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a"},
    ]
    context = assembled("openai-responses", records)
    sent = context.messages("openai-responses")
    assert sent[:4] == records
    assert problem("openai-responses", [*sent[:2], *sent[3:]], context.native_messages) == (
        "the reasoning 'rs_1' is sent without the call it led to"
    )


def test_a_call_that_lost_its_signature_is_noticed_for_gemini() -> None:
    call = {"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "sig"}
    records = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]},
    ]
    context = assembled("gemini", records)
    sent = context.messages("gemini")
    assert call in sent[1]["parts"]
    sent[1] = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}
    assert problem("gemini", sent, context.native_messages) == "the call of ls has lost its signature"


def test_other_providers_thinking_is_not_asked_back() -> None:
    context = assemble(sample_parts())
    assert problem("openai", context.messages("openai"), context.native_messages) is None
