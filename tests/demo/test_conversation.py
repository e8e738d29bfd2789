"""The demo conversation is repeatable, varied and of the promised size, and holds each planted fact once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from conversation import MAX_TURNS, make_conversation
from foveate import demo
from foveate.demo import DemoConversation
from foveate.turn import Attachment, Reasoning, Text, ToolCall, ToolResult, Turn


@pytest.fixture(scope="module")
def conversation() -> DemoConversation:
    return make_conversation()


def everything(turn: Turn) -> str:
    """All a reader of the turn could find a word in."""
    found: list[str] = []
    for part in (part for message in turn.messages for part in message.parts):
        match part:
            case Text() | Reasoning():
                found.append(part.text)
            case ToolCall():
                found.append(json.dumps(part.arguments, ensure_ascii=False))
            case ToolResult():
                found.extend(inner.text for inner in part.content if isinstance(inner, Text))
            case Attachment():
                found.append(part.uri or "")
    return "\n".join(found)


def digest(conversation: DemoConversation) -> str:
    """A mark of every word, call id and time, whatever else the turn model may come to hold."""
    marks = [f"{turn.at} {everything(turn)}" for turn in conversation.turns]
    marks += [f"{message.at}" for turn in conversation.turns for message in turn.messages]
    marks += [f"{fact.id} {fact.turn} {fact.needle} {fact.question} {fact.answer}" for fact in conversation.facts]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()


GOLDEN = "5e50117cd9a035e90f5136ca807f49799aaaddd2f58c485cca00a05dc52d585b"
"""Of `make_conversation(60, 42)`, on every platform and Python; changes only when the content does."""


def test_same_turns_and_seed_give_the_same_conversation(conversation: DemoConversation) -> None:
    assert digest(make_conversation(300, 42)) == digest(conversation)


def test_conversation_is_the_same_on_every_machine() -> None:
    assert digest(make_conversation(60, 42)) == GOLDEN


def test_another_seed_tells_another_conversation(conversation: DemoConversation) -> None:
    other = make_conversation(seed=43)
    prompts = {turn.messages[0].text for turn in conversation.turns}
    assert sum(turn.messages[0].text in prompts for turn in other.turns) < 180
    assert digest(other) != digest(conversation)


@pytest.mark.parametrize("turns", [1, 2, 3, 7, 30, 59, 64, 300, 1_000])
def test_any_length_has_its_turns_and_its_facts_in_order(turns: int) -> None:
    made = make_conversation(turns)
    places = [fact.turn for fact in made.facts]
    assert len(made.turns) == turns
    assert made.facts
    assert places == sorted(set(places))
    assert places[0] == 1
    assert places[-1] <= turns


@pytest.mark.thorough
def test_longest_conversation_is_made() -> None:
    assert len(make_conversation(MAX_TURNS, seed=1).turns) == MAX_TURNS


@pytest.mark.parametrize("turns", [0, -1, MAX_TURNS + 1])
def test_impossible_length_is_refused_with_its_limits(turns: int) -> None:
    with pytest.raises(ValueError, match="it can be 1 to"):
        make_conversation(turns)


@pytest.mark.parametrize(("turns", "seed"), [(300, 42), (300, 1), (60, 42), (20, 7), (1_000, 3)])
def test_each_needle_stands_in_its_turn_once_and_nowhere_else(turns: int, seed: int) -> None:
    made = make_conversation(turns, seed)
    texts = [everything(turn) for turn in made.turns]
    for fact in made.facts:
        counts = {number: text.count(fact.needle) for number, text in enumerate(texts, start=1) if fact.needle in text}
        assert counts == {fact.turn: 1}, fact


def test_facts_are_many_of_many_kinds_and_reach_from_first_to_late(conversation: DemoConversation) -> None:
    facts = conversation.facts
    assert len(facts) >= 40
    assert len({fact.id for fact in facts}) == len(facts)
    assert len({fact.kind for fact in facts}) >= 10
    assert facts[-1].turn > 280
    assert max(later.turn - earlier.turn for earlier, later in pairwise(facts)) <= 12


def test_question_does_not_give_the_answer_away(conversation: DemoConversation) -> None:
    for fact in conversation.facts:
        assert fact.needle in fact.answer
        assert fact.needle.lower() not in fact.question.lower()


def test_each_turn_opens_with_its_only_prompt(conversation: DemoConversation) -> None:
    for turn in conversation.turns:
        assert [message.opens_turn for message in turn.messages].index(True) == 0
        assert sum(message.opens_turn for message in turn.messages) == 1
        assert len(turn.messages) > 1
        assert all(message.original is None and message.parts for message in turn.messages)


def test_each_tool_call_has_its_result_in_the_same_turn(conversation: DemoConversation) -> None:
    seen: set[str | None] = set()
    for turn in conversation.turns:
        waiting: dict[str | None, str] = {}
        for message in turn.messages:
            if message.role == "assistant":
                assert not waiting, "the assistant went on before all results were there"
            waiting |= {call.id: call.name for call in message.tool_calls}
            seen |= {call.id for call in message.tool_calls}
            for result in message.tool_results:
                assert message.role == "tool"
                assert waiting.pop(result.call_id) == result.name
        assert not waiting
    assert seen == {f"call_{number:04d}" for number in range(1, len(seen) + 1)}


def test_assistant_messages_name_their_model_and_usage(conversation: DemoConversation) -> None:
    for message in (message for turn in conversation.turns for message in turn.messages):
        if message.role == "assistant":
            assert message.model == "demo-model"
            assert message.usage is not None
            assert message.usage.output_tokens > 0
            assert message.usage.cache_read_tokens <= message.usage.input_tokens


def test_all_kinds_of_turns_occur(conversation: DemoConversation) -> None:
    parts = [part for turn in conversation.turns for message in turn.messages for part in message.parts]
    tools = Counter(part.name for part in parts if isinstance(part, ToolCall))
    results = [part for part in parts if isinstance(part, ToolResult)]
    calls = [sum(len(message.tool_calls) for message in turn.messages) for turn in conversation.turns]
    assert {"exec", "read_file", "write_file", "apply_patch", "grep", "list_dir", "sql", "web_fetch"} <= set(tools)
    assert sum(isinstance(part, Reasoning) for part in parts) >= 30
    assert any(isinstance(part, Attachment) and part.media == "image" for part in parts)
    assert sum(result.exit_code == 1 and result.is_error for result in results) >= 5
    assert any(result.exit_code == 130 for result in results)
    assert any(turn.messages[-1].role == "tool" for turn in conversation.turns), "no turn was interrupted"
    assert any(len(message.tool_calls) > 1 for turn in conversation.turns for message in turn.messages)
    assert max(calls) >= 8
    assert max(calls) <= 12
    assert calls.count(0) >= 60
    assert sum("```" in everything(turn) for turn in conversation.turns) >= 30
    assert sum("Traceback (most recent call last)" in everything(turn) for turn in conversation.turns) >= 1


@pytest.mark.parametrize("seed", [42, 1, 2])
def test_hardly_anything_is_said_twice(seed: int) -> None:
    made = make_conversation(seed=seed)
    prompts = [turn.messages[0].text for turn in made.turns]
    answers = [turn.messages[-1].text for turn in made.turns if turn.messages[-1].role == "assistant"]
    assert len(set(prompts)) >= 0.95 * len(prompts)
    assert len(set(answers)) == len(answers)


@pytest.mark.parametrize("seed", [42, 1, 2])
def test_sizes_spread_from_a_few_words_to_long_outputs(seed: int) -> None:
    sizes = sorted(len(everything(turn)) // 4 for turn in make_conversation(seed=seed).turns)
    assert 600 <= sum(sizes) / len(sizes) <= 1_000
    assert 10 <= sizes[0] <= 40
    assert 4_000 <= sizes[-1] <= 6_500
    assert sizes[len(sizes) // 4] < 120
    assert sizes[len(sizes) * 9 // 10] > 1_500


def test_counts_in_a_test_run_match_what_it_lists(conversation: DemoConversation) -> None:
    runs = 0
    for turn in conversation.turns:
        for result in (result for message in turn.messages for result in message.tool_results):
            text = "\n".join(part.text for part in result.content if isinstance(part, Text))
            if "test session starts" not in text:
                continue
            runs += 1
            failed, passed = text.count(" FAILED ["), text.count(" PASSED [")
            summary = text.splitlines()[-1]
            assert (f" {failed} failed, {passed} passed " if failed else f" {passed} passed ") in summary
            assert result.exit_code == (1 if failed else 0)
    assert runs >= 20


def test_no_placeholder_is_left_unfilled(conversation: DemoConversation) -> None:
    for turn in conversation.turns:
        for message in turn.messages:
            assert not any(word.startswith("$") and word[1:2].isalpha() for word in message.text.split())


def test_time_runs_through_working_days_only(conversation: DemoConversation) -> None:
    moments = [message.at for turn in conversation.turns for message in turn.messages]
    times = [moment for moment in moments if moment is not None]
    assert len(times) == len(moments)
    assert times[0] == datetime(2026, 3, 2, 8, 40, tzinfo=UTC)
    assert times == sorted(times)
    assert all(turn.at is not None and turn.at.weekday() < 5 and 8 <= turn.at.hour < 20 for turn in conversation.turns)
    assert (times[-1] - times[0]).days > 21


def test_the_shipped_conversation_is_the_generated_one(conversation: DemoConversation) -> None:
    shipped = demo.load_conversation()
    assert digest(shipped) == digest(conversation), "run `python bench/make_demo.py`"
    assert shipped == conversation


def test_a_part_of_the_shipped_conversation_has_the_facts_of_its_turns() -> None:
    part = demo.load_conversation(60)
    assert len(part.turns) == 60
    assert part.facts == tuple(fact for fact in demo.load_conversation().facts if fact.turn <= 60)


@pytest.mark.parametrize("turns", [0, demo.MAX_TURNS + 1])
def test_a_part_that_is_no_part_is_an_error(turns: int) -> None:
    with pytest.raises(ValueError, match="it can be 1 to 300"):
        demo.load_conversation(turns)
