"""Messages are valid for each provider: roles, pairs, breakpoints, and originals to the letter."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from foveate.context.assemble import ContextParts, assemble
from foveate.context.pairs import TurnMessages
from foveate.context.render import FORMATS, MAX_BREAKPOINTS
from foveate.context.tags import TagBlock, TagEntry
from foveate.errors import UnknownFormat
from foveate.formats import ProviderFormat, parse_messages
from foveate.formats.acceptance import Acceptance
from foveate.tokens import O200K
from foveate.turn import Attachment, Message, Text, ToolCall, ToolResult
from support import contexts
from support.contexts import RECORDS, history_block, native_block, sample_parts
from support.validators import faults


def messages(parts: ContextParts, name: ProviderFormat, *, cache: bool = True) -> Any:
    return assemble(parts).messages(name, cache=cache)


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownFormat, match="available: openai, openai-responses, anthropic, gemini"):
        assemble(sample_parts()).messages("cohere")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["openai", "openai-responses"])
def test_openai_has_the_system_prompt_as_its_first_message(name: ProviderFormat) -> None:
    context = assemble(sample_parts())
    assert context.messages(name)[0] == {"role": "system", "content": context.system}


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_other_providers_take_the_system_prompt_apart(name: ProviderFormat) -> None:
    context = assemble(sample_parts())
    assert "You help with the harbour project." not in json.dumps(context.messages(name))
    assert context.text.startswith(context.system)


def test_what_came_in_a_format_goes_out_in_it_to_the_letter() -> None:
    assert messages(sample_parts(), "openai")[2:6] == RECORDS["openai"]
    thinking, *rest = RECORDS["anthropic"][1]["content"]
    assert thinking["type"] == "thinking", "left out: what it was made under is not known"
    assert {**RECORDS["anthropic"][1], "content": rest} in messages(sample_parts(), "anthropic")


@given(contexts.parts())
def test_sides_alternate_and_a_user_begins(parts: ContextParts) -> None:
    for name in ("anthropic", "gemini"):
        roles = [message["role"] for message in messages(parts, name)]
        assert all(one != two for one, two in itertools.pairwise(roles))
        assert roles[:1] in ([], ["user"])


@given(contexts.parts())
def test_the_prompt_comes_last(parts: ContextParts) -> None:
    if not isinstance(parts.prompt, str) or not parts.prompt.strip():
        return
    for name in FORMATS:
        last = messages(parts, name)[-1]["parts" if name == "gemini" else "content"]
        prompt = parts.prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert last == prompt if isinstance(last, str) else last[-1]["text"] == prompt


@given(contexts.parts())
def test_breakpoints_are_few_and_never_on_thinking(parts: ContextParts) -> None:
    blocks = [
        block
        for message in messages(parts, "anthropic")
        for block in (message["content"] if isinstance(message["content"], list) else [])
    ]
    marked = [block for block in blocks if "cache_control" in block]
    assert len(marked) <= MAX_BREAKPOINTS
    assert all(block["type"] not in ("thinking", "redacted_thinking") for block in marked)
    assert "cache_control" not in json.dumps(messages(parts, "anthropic", cache=False))


def test_breakpoints_stand_at_the_stable_edges() -> None:
    sent = messages(sample_parts(), "anthropic")
    marked = [
        block.get("text", "")[:20]
        for message in sent
        for block in message["content"]
        if isinstance(block, dict) and "cache_control" in block
    ]
    assert marked == ["<T-1-through-9-E>\nSe", "zlib is missing: ins", "Installed; the build"]


def test_no_breakpoint_stands_behind_what_changes() -> None:
    history = list(sample_parts().history)
    unstable = [*history[:3], replace(history[3], is_stable=False), *history[4:]]
    sent = messages(replace(sample_parts(), history=unstable), "anthropic")
    marked = [block for message in sent for block in message["content"] if "cache_control" in block]
    assert [block["text"][-9:] for block in marked] == ["/T-12-C>\n"]
    documented = messages(replace(sample_parts(), order="documented"), "anthropic")
    assert "cache_control" not in json.dumps(documented)


def test_a_breakpoint_passes_over_thinking_at_the_end() -> None:
    record: Any = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Hm."}, {"type": "thinking", "thinking": "…", "signature": "s"}],
    }
    turn = parse_messages([{"role": "user", "content": "a"}, record], "anthropic")
    parts = ContextParts(
        explanation="Tags.\n", budget_tokens=2_000, counter=O200K, history=[native_block(1, turn)], prompt="b"
    )
    assistant = messages(parts, "anthropic")[1]
    assert ["cache_control" in block for block in assistant["content"]] == [True]


def test_cache_hints_of_earlier_requests_are_not_sent_again() -> None:
    assert "cache_control" in json.dumps(RECORDS["anthropic"])
    assert "cache_control" not in json.dumps(messages(sample_parts(), "anthropic", cache=False))


def test_recorded_pairs_that_a_provider_would_refuse_are_put_right() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    }
    torn: Any = [
        {"role": "user", "content": "a"},
        call,
        {"role": "assistant", "content": "waiting"},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    parts = ContextParts(
        explanation="Tags.\n",
        budget_tokens=2_000,
        counter=O200K,
        history=[native_block(1, parse_messages(torn, "openai"))],
        prompt="b",
    )
    roles = [message["role"] for message in messages(parts, "openai")]
    assert roles == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("recorded", ["canonical", "openai-responses"])
def test_an_answer_that_was_interrupted_while_thinking_can_be_sent(recorded: str, name: ProviderFormat) -> None:
    items: list[Any] = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "y"},
    ]
    said = parse_messages(items, "openai-responses")
    if recorded == "canonical":
        said = [message.without_original() for message in said]
    parts = ContextParts(budget_tokens=4_000, counter=O200K, history=[native_block(1, said)], prompt="next")
    assert faults(name, assemble(parts).request(name)) == []
    if name == recorded:
        assert items[:4] == [item for item in messages(parts, name) if item in items]


def test_thinking_is_left_out_where_only_an_instruction_follows_it() -> None:
    items: list[Any] = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"role": "developer", "content": "Be brief."},
    ]
    said = parse_messages(items, "openai-responses")
    parts = ContextParts(budget_tokens=4_000, counter=O200K, history=[native_block(1, said)], prompt="next")
    assert [item for item in messages(parts, "openai-responses") if item in items] == [items[0], items[2]]


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_text_beside_the_image_of_a_result_is_left_out(name: ProviderFormat) -> None:
    image = Attachment("image", data="iVBORw0KGgo=", media_type="image/png")
    said = [
        Message("user", (Text("go"),)),
        Message("assistant", (ToolCall("look", {}, id="c"),)),
        Message("tool", (ToolResult("c", (Text(""), image)),)),
    ]
    parts = ContextParts(budget_tokens=4_000, counter=O200K, history=[native_block(1, said)], prompt="next")
    assert faults(name, assemble(parts).request(name)) == []


def test_display_only_messages_are_not_sent() -> None:
    turn = [Message("user", (Text("a"),)), Message("assistant", (Text("shown to people"),), kind="display")]
    parts = ContextParts(
        explanation="Tags.\n", budget_tokens=2_000, counter=O200K, history=[native_block(1, turn)], prompt="b"
    )
    assert "shown to people" not in json.dumps(messages(parts, "openai"))


def test_several_prompt_messages_follow_the_board_in_one_user_message() -> None:
    prompt = [Message("user", (Text("one"),)), Message("user", (Text("two"),))]
    parts = ContextParts(
        explanation="Tags.\n",
        budget_tokens=2_000,
        counter=O200K,
        history=[history_block(TagBlock(1, 1, "T", (TagEntry(1, "Hi."),)))],
        board="<board>\nx\n</board>\n",
        prompt=prompt,
    )
    sent = messages(parts, "openai")[2:]
    assert [block["text"] for block in sent[0]["content"]] == ["<board>\nx\n</board>\n", "one"]
    assert sent[1] == {"role": "user", "content": "two"}


def kept(parts: ContextParts) -> ContextParts:
    """The same parts, their turns as a session keeps them between two contexts."""
    history = [replace(block, messages=block.messages and TurnMessages(block.messages)) for block in parts.history]
    return replace(parts, history=history)


@given(contexts.parts())
def test_turns_that_are_kept_are_rendered_like_others_each_time(parts: ContextParts) -> None:
    parts_kept = kept(parts)
    for name in FORMATS:
        expected = messages(parts, name)
        assert messages(parts_kept, name) == expected
        assert messages(parts_kept, name) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_id_that_two_kept_turns_have_is_sent_once(name: ProviderFormat) -> None:
    turn = parse_messages(RECORDS["openai"], "openai")
    parts = replace(sample_parts(), history=[native_block(1, turn), native_block(2, turn)])
    assert messages(kept(parts), name) == messages(parts, name)


def test_a_kept_turn_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = kept(replace(sample_parts(), prompt=""))
    prepared: list[int] = []
    prepare = Acceptance.prepare

    def counted(self: Acceptance, found: Any) -> list[Message]:
        shown = list(found)
        prepared.append(len(shown))
        return prepare(self, shown)

    monkeypatch.setattr(Acceptance, "prepare", counted)
    messages(parts, "anthropic")
    assert sum(prepared) > 0
    prepared.clear()
    messages(parts, "anthropic")
    assert sum(prepared) == 0


def test_a_message_that_the_caller_changes_is_whole_in_the_next_context() -> None:
    parts = kept(sample_parts())
    first = messages(parts, "anthropic")
    expected = json.dumps(first)
    for message in first:
        if isinstance(message["content"], list):
            message["content"][0].clear()
        message.clear()
    assert json.dumps(messages(parts, "anthropic")) == expected
