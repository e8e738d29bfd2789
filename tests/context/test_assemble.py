"""A context fits its budget, counts exactly, keeps its prefix, and shows what the plan says."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foveate.context import invariants
from foveate.context.assemble import MESSAGE_TOKENS, REPLY_TOKENS, ContextParts, assemble
from foveate.context.pairs import loose_ends
from foveate.context.render import FORMATS
from foveate.context.tags import TagBlock, TagEntry, parse_blocks
from foveate.errors import BudgetExceeded, InvariantBroken, PinsExceedBudget
from foveate.formats import ProviderFormat, parse_messages
from foveate.strategy.gradient import Gradient
from foveate.text import turn_text
from foveate.tokens import O200K
from foveate.turn import Kind, Message, Text, ToolCall, ToolResult
from support import contexts
from support.contexts import flattened, history_block, native_block, native_turns, sample_parts

GOLDEN = Path(__file__).parent / "golden"
EXPLANATION = Gradient().explanation


def rows(parts: ContextParts) -> list[Any]:
    return [block.row for block in parts.history]


# Golden contexts


def test_the_text_of_a_small_context_reads_as_agreed() -> None:
    assert assemble(sample_parts()).text == (GOLDEN / "context.txt").read_text("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_the_messages_of_a_small_context_are_as_agreed(name: ProviderFormat) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    assert json.loads(json.dumps(assemble(sample_parts()).messages(name))) == expected


def test_the_segments_of_a_small_context_are_as_agreed() -> None:
    segments = assemble(sample_parts()).segments
    found = [(segment.name, segment.first, segment.last, segment.level, segment.is_stable) for segment in segments]
    assert found == [
        ("system", None, None, None, True),
        ("explanation", None, None, None, True),
        ("pins", None, None, None, True),
        ("history", 1, 9, "E", True),
        ("history", 10, 11, "T", True),
        ("history", 12, 12, "C", True),
        ("history", 13, 13, "S", True),
        ("history", 14, 14, "R", True),
        ("history", 15, 15, "R", True),
        ("board", None, None, None, False),
        ("prompt", None, None, None, False),
        ("tools", None, None, None, True),
        ("framing", None, None, None, False),
    ]
    assert [segment.first for segment in segments if segment.is_native] == [14, 15]


# Promises


@given(contexts.parts())
def test_a_recount_of_the_whole_gives_the_tokens_it_says(parts: ContextParts) -> None:
    context = assemble(parts)
    prompt = parts.prompt if isinstance(parts.prompt, str) else turn_text(tuple(parts.prompt))
    prompt = prompt if prompt.strip() else ""
    base = parts.counter.base
    framing = sum(segment.tokens for segment in context.segments if segment.name == "framing")
    recounted = base(context.text) + base(prompt) + parts.tools_tokens
    if parts.calibration == 1.0:
        assert recounted + framing == context.tokens
    framed = MESSAGE_TOKENS * max(len(context.messages(name)) for name in ("openai", "anthropic", "gemini"))
    total = parts.counter.scale(recounted + framed + REPLY_TOKENS, parts.calibration)
    assert total <= context.tokens <= context.budget_tokens


@given(contexts.parts())
def test_every_invariant_holds_in_every_format(parts: ContextParts) -> None:
    invariants.check(assemble(parts), pins=parts.pins, rows=rows(parts))


@given(contexts.parts())
def test_the_same_parts_give_the_same_bytes(parts: ContextParts) -> None:
    one, two = assemble(parts), assemble(parts)
    assert one == two
    for name in FORMATS:
        assert json.dumps(one.messages(name)) == json.dumps(two.messages(name))


@given(contexts.parts())
def test_no_content_forges_a_turn(parts: ContextParts) -> None:
    context = assemble(parts)
    found = [(block.first, block.last, block.level) for block in parse_blocks(context.history)]
    assert found == [(block.row.first, block.row.last, block.row.level) for block in parts.history]


@given(contexts.parts(), st.integers(0, 3_000))
def test_whatever_the_budget_a_context_fits_it_or_says_why_not(parts: ContextParts, budget: int) -> None:
    fixed = replace(parts, budget_tokens=budget, history=(), board="", memory="")
    with suppress(BudgetExceeded, PinsExceedBudget):
        assert assemble(fixed).tokens <= budget


@given(contexts.parts(), st.data())
def test_a_later_turn_leaves_the_earlier_text_as_it_is(parts: ContextParts, data: st.DataObject) -> None:
    before = replace(parts, order="cache-first", at_work=0)
    last = parts.history[-1].row.last if parts.history else 0
    added = data.draw(native_turns(last + 1, parts.counter))
    after = replace(before, history=[*before.history, added], board="", prompt="something else")
    one, two = assemble(before), assemble(after)
    assert two.text.startswith(one.system + one.history)


@given(contexts.parts(), st.data())
def test_a_further_step_of_the_turn_at_work_leaves_all_before_it_as_it_is(
    parts: ContextParts, data: st.DataObject
) -> None:
    assume(parts.at_work)
    before = replace(parts, order="cache-first", board="")
    added = data.draw(native_turns(parts.history[-1].row.last + 1, parts.counter))
    after = replace(before, history=[*before.history, added], at_work=before.at_work + 1)
    assert assemble(after).text.startswith(assemble(before).text)


@pytest.mark.parametrize("kind", ["display", "message"])
def test_what_stands_before_a_turn_at_work_is_framed_with_it_or_by_itself(kind: Kind) -> None:
    said = [Message("user", (Text("(shown only)"),), kind=kind), Message("assistant", (Text("Yes."),))]
    history = [native_block(1, [Message("user", (Text("Hi."),))]), native_block(2, said)]
    parts = ContextParts(
        explanation=EXPLANATION,
        budget_tokens=2_000,
        counter=O200K,
        history=history,
        memory="<memory>\nm\n</memory>\n",
        at_work=1,
    )
    context = assemble(parts)
    framing = next(segment.tokens for segment in context.segments if segment.name == "framing")
    for name in FORMATS:
        assert framing >= MESSAGE_TOKENS * len(context.messages(name)) + REPLY_TOKENS


@given(st.integers(1, 5), st.booleans(), st.data())
def test_consecutive_contexts_extend_the_same_messages(turns: int, with_older: bool, data: st.DataObject) -> None:
    older = [history_block(TagBlock(1, 9, "E", (TagEntry(1, "Began."),)))] if with_older else []
    history = [*older, *(data.draw(native_turns(10 + index)) for index in range(turns + 1))]
    whole = [block for block in history if not loose_ends(block.messages or ())]
    parts = ContextParts(
        explanation=EXPLANATION,
        budget_tokens=100_000,
        counter=O200K,
        system="s",
        prompt="next?",
        board="<board>\nx\n</board>\n",
    )
    one = assemble(replace(parts, history=whole[:-1], board="<board>\ny\n</board>\n"))
    two = assemble(replace(parts, history=whole))
    for name in FORMATS:
        prefix = flattened(one.messages(name))[:-2]
        assert flattened(two.messages(name))[: len(prefix)] == prefix


# Order


def test_cache_first_puts_what_changes_last() -> None:
    text = assemble(replace(sample_parts(), memory="<memory>\nm\n</memory>\n")).text
    places = [
        text.index(part) for part in ("You help", "Earlier turns", "<P-1>\nNever", "<T-1-", "<memory>", "<board>")
    ]
    assert places == sorted(places)


def test_the_documented_order_puts_memory_and_board_before_the_history() -> None:
    parts = replace(sample_parts(), memory="<memory>\nm\n</memory>\n", order="documented")
    context = assemble(parts)
    places = [context.text.index(part) for part in ("<P-1>\nNever", "<memory>", "<board>", "<T-1-", "<T-15-R>")]
    assert places == sorted(places)
    assert context.tokens == assemble(replace(parts, order="cache-first")).tokens
    assert not any(segment.is_stable for segment in context.segments if segment.name == "history")
    assert "<board>" in json.dumps(context.messages("openai")[1])
    assert context.messages("openai")[-1] == {"role": "user", "content": "Now tag a release."}


# Budgets


def test_a_budget_below_the_fixed_part_is_an_error_that_says_what_takes_how_much() -> None:
    with pytest.raises(BudgetExceeded) as caught:
        assemble(replace(sample_parts(), budget_tokens=200))
    assert str(caught.value).startswith("the budget is 200 tokens, but the parts that are never compressed take 6")
    assert str(caught.value).endswith("raise the budget, or shorten the largest of these")
    assert list(caught.value.parts) == [
        *("system", "explanation", "pins", "prompt", "tool definitions", "framing of messages")
    ]
    assert caught.value.parts["tool definitions"] == 312


def test_pins_alone_above_the_budget_are_named() -> None:
    with pytest.raises(PinsExceedBudget, match=r"P-1 \d+, P-4 \d+"):
        assemble(replace(sample_parts(), budget_tokens=20))


def test_a_plan_that_does_not_fit_is_never_given_out() -> None:
    with pytest.raises(InvariantBroken, match="fits_budget"):
        assemble(replace(sample_parts(), budget_tokens=820))


def test_turns_that_fit_only_as_text_go_out_as_text() -> None:
    roomy = assemble(sample_parts())
    tight = assemble(replace(sample_parts(), budget_tokens=roomy.tokens - 1))
    assert [segment.first for segment in tight.segments if segment.is_native] == [15]
    assert tight.text == roomy.text
    assert "<T-14-R>" in json.dumps(tight.messages("openai")[1])


def test_scaled_counts_add_up_to_the_total() -> None:
    context = assemble(replace(sample_parts(), calibration=1.37))
    assert context.tokens == sum(segment.tokens for segment in context.segments)
    assert context.tokens == O200K.scale(assemble(sample_parts()).tokens, 1.37)


# Odd input


def test_nothing_at_all_is_an_empty_context() -> None:
    context = assemble(ContextParts(budget_tokens=100, counter=O200K))
    assert (context.text, context.tokens) == ("", REPLY_TOKENS)
    assert all(context.messages(name) == [] for name in FORMATS)


def test_a_first_conversation_has_only_its_prompt() -> None:
    context = assemble(ContextParts(budget_tokens=100, counter=O200K, prompt="Hi."))
    assert context.messages("openai") == [{"role": "user", "content": "Hi."}]
    assert context.tokens == O200K.base("Hi.") + MESSAGE_TOKENS + REPLY_TOKENS


def test_a_turn_whose_calls_were_never_answered_goes_out_as_text() -> None:
    hanging = [Message("user", (Text("go"),)), Message("assistant", (ToolCall("exec", {}, id="a"),))]
    parts = ContextParts(
        explanation=EXPLANATION, budget_tokens=2_000, counter=O200K, history=[native_block(1, hanging)], prompt="Well?"
    )
    assert [message["role"] for message in assemble(parts).messages("openai")] == ["system", "user", "user"]


def test_a_prompt_of_results_stands_right_behind_its_calls() -> None:
    running = [Message("user", (Text("go"),)), Message("assistant", (ToolCall("exec", {}, id="a"),))]
    prompt = [Message("tool", (ToolResult("a", (Text("done"),)),))]
    parts = ContextParts(
        explanation=EXPLANATION,
        budget_tokens=2_000,
        counter=O200K,
        history=[native_block(1, running)],
        board="<board>\nx\n</board>\n",
        prompt=prompt,
    )
    messages: Any = assemble(parts).messages("openai")
    assert [message["role"] for message in messages] == ["system", "user", "user", "assistant", "tool"]
    assert messages[1]["content"] == "<board>\nx\n</board>\n"
    anthropic: Any = assemble(parts).messages("anthropic")
    assert [block["type"] for block in anthropic[-1]["content"]] == ["tool_result"]


def test_results_whose_calls_were_compressed_go_out_as_text() -> None:
    prompt = [Message("tool", (ToolResult("a", (Text("done"),)),))]
    older = history_block(TagBlock(1, 1, "C", (TagEntry(1, "Ran it."),)))
    parts = ContextParts(explanation=EXPLANATION, budget_tokens=2_000, counter=O200K, history=[older], prompt=prompt)
    assert assemble(parts).messages("openai")[-1] == {"role": "user", "content": "[result] done\n"}


def test_a_conversation_that_begins_with_the_assistant_begins_with_text() -> None:
    greeting = [Message("assistant", (Text("Hello!"),))]
    parts = ContextParts(
        explanation=EXPLANATION, budget_tokens=2_000, counter=O200K, history=[native_block(1, greeting)], prompt="Hi."
    )
    messages: Any = assemble(parts).messages("anthropic")
    assert messages[0]["role"] == "user"
    assert len(messages) == 1


def test_steps_of_a_running_turn_follow_its_prompt() -> None:
    prompt = TagBlock(3, 3, "R", (TagEntry(1, "[user] Fix it.\n"),), 1, 1)
    steps = TagBlock(3, 3, "C", (TagEntry(2, "Ran tests."), TagEntry(3, "Edited a.py.")), 2, 3, is_range=True)
    step = parse_messages(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "a.py"},
        ],
        "openai",
    )
    newest = history_block(TagBlock(3, 3, "R", (TagEntry(4, turn_text(tuple(step))),), 4, 4), step)
    parts = ContextParts(
        explanation=EXPLANATION,
        budget_tokens=2_000,
        counter=O200K,
        history=[history_block(prompt), history_block(steps), newest],
    )
    messages: Any = assemble(parts).messages("openai")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert [block["text"] for block in messages[1]["content"]] == [
        (
            "<T-3-step-1-R>\n[user] Fix it.\n</T-3-step-1-R>\n<T-3-steps-2-through-3-C>\n"
            "Step 2: Ran tests.\nStep 3: Edited a.py.\n</T-3-steps-2-through-3-C>\n"
        ),
        "The next messages are turn T-3, from step 4 on; each message of the user begins the next turn.\n",
    ]


def test_a_line_before_the_native_turns_says_which_turn_the_first_is() -> None:
    parts = sample_parts()
    said = "The next messages are turn T-14; each message of the user begins the next turn.\n"
    later = replace(parts, history=[*parts.history, native_block(16, [Message("user", (Text("On."),))])])
    for shown in (parts, later):
        lead: Any = assemble(shown).messages("openai")[1]
        assert lead["content"][-1] == {"type": "text", "text": said}
    whole = replace(parts, history=parts.history[4:])
    assert "The next messages" not in json.dumps(assemble(whole).messages("openai"))
