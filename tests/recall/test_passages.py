"""A turn is cut at the borders of what is said, each passage of one speaker, and nothing is left out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.passages import (
    MAX_PASSAGES,
    MAX_TURN_CHARS,
    PASSAGE_CHARS,
    TOOL_PASSAGE_CHARS,
    cut_turn,
)
from foveate.turn import Attachment, Message, Reasoning, Text, ToolCall, ToolResult

WORDS = re.compile(r"\w+")


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def texts(*messages: Message) -> list[str]:
    return [passage.text for passage in cut_turn(messages)]


def test_a_short_message_is_one_passage() -> None:
    assert texts(user("Which port? The usual one is taken.")) == ["Which port? The usual one is taken."]


def test_a_long_message_is_cut_between_sentences() -> None:
    sentences = [f"Sentence number {number} says that all is well here." for number in range(30)]
    found = texts(user(" ".join(sentences)))
    assert len(found) > 3
    assert all(len(text) <= PASSAGE_CHARS for text in found)
    assert all(text.startswith("Sentence") and text.endswith("here.") for text in found)
    assert " ".join(found) == " ".join(sentences)


def test_a_sentence_too_long_for_a_passage_is_cut_between_words() -> None:
    found = texts(user("word " * 400))
    assert all(set(text.split()) == {"word"} for text in found)


@pytest.mark.parametrize("text", ["x" * 5_000, "字" * 5_000, "\n" * 5_000, "a.b" * 2_000])
def test_text_without_borders_is_cut_all_the_same(text: str) -> None:
    found = texts(user(text))
    assert all(len(each) <= PASSAGE_CHARS + 80 for each in found)
    assert "".join(found) == text.strip()


def test_who_speaks_is_known() -> None:
    call, result = ToolCall("grep", {"for": "x"}, id="1"), ToolResult("1", (Text("3 hits"),))
    messages = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("Look it up."),), name="Ada"),
        Message("assistant", (Reasoning("Where?"), Text("I look."), call)),
        Message("tool", (result,)),
        Message("user", (Text("Be careful."),), kind="injection"),
        Message("assistant", (Text("Shown only."),), kind="display"),
        Message("user", (Attachment("image", name="plan.png"),)),
    ]
    found = [(passage.speaker, passage.tool, passage.text) for passage in cut_turn(messages)]
    assert found == [
        ("system", None, "Be brief."),
        ("user", None, "Ada: Look it up."),
        ("assistant", None, "[reasoning] Where?"),
        ("assistant", None, "I look."),
        ("tool", "grep", '[call grep] {"for": "x"}\n[result] 3 hits'),
        ("system", None, "Be careful."),
        ("user", None, "[image] plan.png"),
    ]


def test_calls_made_together_keep_their_own_results() -> None:
    calls = (ToolCall("a", {}, id="1"), ToolCall("b", {}, id="2"))
    results = [Message("tool", (ToolResult(call_id, (Text(f"of {call_id}"),)),)) for call_id in ("1", "2")]
    found = [(passage.tool, passage.text) for passage in cut_turn([Message("assistant", calls), *results])]
    assert found == [("a", "[call a] {}"), ("b", "[call b] {}"), ("a", "[result] of 1"), ("b", "[result] of 2")]


def test_what_tools_say_is_cut_into_larger_passages() -> None:
    output = "\n".join(f"line {number} of the log" for number in range(200))
    found = texts(Message("tool", (ToolResult("1", (Text(output),), name="cat"),)))
    assert PASSAGE_CHARS < max(map(len, found)) <= TOOL_PASSAGE_CHARS


def test_of_a_huge_turn_the_ends_of_its_longest_parts_are_kept_and_what_was_said_first() -> None:
    logs = [Message("tool", (ToolResult(str(n), (Text(f"first{n} {'log ' * 50_000} last{n}"),)),)) for n in range(5)]
    found = " ".join(texts(user("Said by the user."), *logs, user("And at the end.")))
    assert len(found) <= MAX_TURN_CHARS + 1_000
    assert "Said by the user." in found
    assert "And at the end." in found
    assert all(f"first{n}" in found and f"last{n}" in found for n in range(5))


def test_there_is_a_limit_to_passages() -> None:
    assert len(cut_turn([user(f"{number}") for number in range(2 * MAX_PASSAGES)])) == MAX_PASSAGES


@given(st.lists(st.text(max_size=2_000), max_size=4))
def test_every_word_of_a_turn_is_in_a_passage(said: list[str]) -> None:
    found = texts(*map(user, said))
    assert all(text == text.strip() and text for text in found)
    assert "".join("".join(found).split()) == "".join("".join(said).split())
