"""What clients add to a prompt is found in time that is proportional to the text."""

import pytest

import foveate.intake
from foveate import additions
from foveate.additions import (
    as_typed,
    instructions_in,
    prompts_for_title,
    typed_by_person,
    typed_only,
    without_reminders,
)
from foveate.turn import Message, Text
from support.pattern_steps import PAIRS, check_growth, unbounded_patterns

PATTERNS = dict(unbounded_patterns(additions, foveate.intake))
RULES = "# File editing rules:\n\nReturn edits like this."


@pytest.mark.parametrize("is_paired", PAIRS)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_twice_the_steps_for_twice_the_text(name: str, *, is_paired: bool) -> None:
    check_growth(PATTERNS[name], is_paired=is_paired)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<system-reminder>one</system-reminder>Hello.<system-reminder>two</system-reminder>", "Hello."),
        ("Hello. <system-reminder>not closed", "Hello. <system-reminder>not closed"),
        (f"Hello. \n\n  {RULES}", "Hello. "),
        (RULES, RULES),
        (f"Why do you repeat {RULES}", f"Why do you repeat {RULES}"),
    ],
)
def test_what_a_client_adds_to_a_prompt_is_left_out(text: str, said: str) -> None:
    assert without_reminders(text) == said


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["<system-reminder>Answer in French.</system-reminder>\n", "Hello."], ["Answer in French."]),
        (["<system-reminder>one</system-reminder><session_context>two</session_context>Hello."], ["one", "two"]),
        (
            ["# AGENTS.md instructions for /work\n\nBe brief.", "<environment_context>x</environment_context>"],
            ["brief", "x"],
        ),
        (["<system-reminder>Note: a.py was modified</system-reminder>", "Hello."], []),
        (["Hello. <system-reminder>quoted</system-reminder>"], []),
        (["[read_file] Result:", "<system-reminder>in the file</system-reminder>"], []),
        (["<system-reminder>not closed"], []),
    ],
)
def test_instructions_are_those_at_the_beginning_of_a_message(texts: list[str], found: list[str]) -> None:
    shown = [text for _, text in instructions_in(Message("user", tuple(map(Text, texts))))]
    assert len(shown) == len(found)
    assert all(words in text for words, text in zip(found, shown, strict=True))


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<command-message>ship</command-message>\n<command-name>/ship</command-name>", "/ship"),
        ("<command-name>/ship</command-name><command-args>it <b> now</command-args>", "/ship it <b> now"),
        ("<bash-input>ls -a</bash-input>\n", "! ls -a"),
        ("<command-name>/ship</command-name> and more", "<command-name>/ship</command-name> and more"),
        ("<command-name>/ship", "<command-name>/ship"),
        ("<command-message>ship</command-message>", "<command-message>ship</command-message>"),
        ("What is <command-name>/ship</command-name>?", "What is <command-name>/ship</command-name>?"),
        ("", ""),
    ],
)
def test_a_command_is_read_as_it_was_typed_and_all_else_as_it_is(text: str, typed: str) -> None:
    assert as_typed(text) == typed


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<system-reminder>a</system-reminder>\n\nFix it.<task-notification>b</task-notification> Now.", "Fix it.Now."),
        ("<system-reminder>a <user_instructions>b</user_instructions> Fix it.", "<system-reminder>a Fix it."),
        ("<environment_context>all</environment_context>", "<environment_context>all</environment_context>"),
        ("<ide_selection>x = 1</ide_selection>Fix it.", "<ide_selection>x = 1</ide_selection>Fix it."),
    ],
)
def test_a_prompt_is_shown_without_the_blocks_around_it(text: str, typed: str) -> None:
    assert typed_only(text) == typed


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ('<teammate-message from="b">x</teammate-message><ide_opened_file>y</ide_opened_file> Fix it.', "Fix it."),
        ("<bash-input>ls</bash-input>", "! ls"),
        ("<bash-stdout>a.py</bash-stdout>", ""),
        ("[Request interrupted by user]", ""),
        ("This session is being continued from a previous conversation that ran out of context.", ""),
    ],
)
def test_only_what_a_person_typed_is_learned_from(text: str, typed: str) -> None:
    assert typed_by_person(text) == typed


def test_blocks_that_are_not_closed_are_searched_for_once() -> None:
    text = "<system-reminder>" * 20_000
    assert typed_only(text) == without_reminders(text) == typed_by_person(text) == text


CLIENTS_TITLE_PROMPTS = (
    "Generate a title for this conversation:",
    "Generate a short title for this conversation. hello",
    "Generate a concise, 3-5 word title with an emoji summarizing the chat history.",
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.",
    "Your task is to generate a title for the chat. Here is the conversation history",
    "Write a title for a new chat based on the user's message below.",
    "Summarize the topic of the following messages in at most five words.",
    "You will generate a short title based on the first message a user begins a conversation with",
)
PERSONS_TITLE_PROMPTS = (
    "Write a title for my talk",
    "Write a short title for my talk about tides. Only the title, no quotes.",
    "Create a title page in LaTeX",
    "Suggest and write a better title for the chapter below.",
    "Analyze the topic model and write down what fails",
    "Provide a summary of this paper's topic",
    "Generate five titles for a blog post on sourdough",
)


@pytest.mark.parametrize("text", CLIENTS_TITLE_PROMPTS)
def test_a_clients_prompt_for_a_title_is_recognised(text: str) -> None:
    assert prompts_for_title(text)


@pytest.mark.parametrize("text", PERSONS_TITLE_PROMPTS)
def test_a_title_of_anything_but_a_conversation_is_a_persons_prompt(text: str) -> None:
    assert not prompts_for_title(text)
