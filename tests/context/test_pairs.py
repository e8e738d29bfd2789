"""Calls and results are matched as providers match them, and messages are counted as the widest format has them."""

from __future__ import annotations

from hypothesis import given

from foveate.context.pairs import loose_ends, provider_message_count
from foveate.context.render import FORMATS
from foveate.formats import render_messages
from foveate.turn import Attachment, Message, Text, ToolCall, ToolResult
from support.strategies import conversations

CALL = ToolCall("exec", {}, id="a")


def said(*parts: ToolCall) -> Message:
    return Message("assistant", parts)


def answered(*results: ToolResult) -> Message:
    return Message("tool", results)


def test_a_call_and_its_result_leave_nothing_open() -> None:
    assert not loose_ends([said(CALL), answered(ToolResult("a", ()))])


def test_a_call_without_a_result_and_a_result_without_a_call_are_loose() -> None:
    result = ToolResult("b", ())
    ends = loose_ends([said(CALL), answered(result)])
    assert (ends.calls, ends.results) == ((CALL,), (result,))


def test_a_result_before_its_call_is_loose() -> None:
    assert loose_ends([answered(ToolResult("a", ())), said(CALL)])


def test_without_ids_names_and_order_match() -> None:
    one, two = ToolCall("read", {"n": 1}), ToolCall("write", {})
    assert not loose_ends([said(one, two), answered(ToolResult(None, (), name="write"), ToolResult(None, ()))])


@given(conversations())
def test_no_format_of_messages_has_more_than_were_counted(messages: list[Message]) -> None:
    if not loose_ends(messages):
        for name in set(FORMATS) - {"openai-responses"}:
            assert len(render_messages(name, messages)) <= provider_message_count(messages)


def test_a_picture_in_a_result_counts_for_the_message_that_carries_it() -> None:
    result = ToolResult("a", (Attachment("image", uri="https://example.org/x.png"),))
    messages = [said(CALL), answered(result), Message("user", (Text("display"),), kind="display")]
    assert provider_message_count(messages) == 3
    assert len(render_messages("openai", messages)) == 3
