"""`foveate show` reads a turn, a range, or an outline; for people, for models, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import HELLO, Shell, shell_with
from support.transcripts import FIXTURES

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
TOOLS: list[dict[str, Any]] = [
    {"role": "user", "content": "What is here?"},
    {"role": "assistant", "content": "Let me look", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "\n".join(f"file-{number}" for number in range(100))},
    {"role": "assistant", "content": "A hundred files"},
]


def test_the_outline_has_a_line_for_each_turn(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=TOOLS)
    title, _, _, *rows = shell("show", "s").splitlines()
    assert title == "A talk  3 turns, counted by o200k_base"
    assert [row.split()[0] for row in rows] == ["T-1", "T-2", "T-3"]
    assert all("What is here?" in row and row.split()[1] == f"2026-01-0{day}" for day, row in enumerate(rows, 1))
    answer = shell.json("show", "s")
    assert answer["session"]["id"] == "s"
    assert [(turn["messages"], turn["tool_calls"]) for turn in answer["turns"]] == [(4, 1)] * 3


def test_the_outline_of_a_long_session_shows_the_newest(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=HELLO * 40, turns=1)
    shown = shell("show", "s")
    assert "T-11 " in shown
    assert "T-10 " not in shown
    assert "the newest 30 of 40; 'foveate show s T-1 T-20' reads others" in shown
    assert len(shell.json("show", "s")["turns"]) == 40


def test_a_turn_is_shown_with_its_calls_and_results(tmp_path: Path) -> None:
    shown = shell_with(tmp_path, messages=TOOLS)("show", "s", "T-2")
    assert shown.startswith("T-2  2026-01-02 10:00  ")
    assert '→ bash {"command": "ls"}' in shown
    assert "  file-0 " in shown
    assert "A hundred files" in shown


def test_long_output_is_cut_unless_it_is_asked_for(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=TOOLS)
    assert "… 60 more lines (--full shows them) …" in shell("show", "s", "T-1")
    assert "file-50" not in shell("show", "s", "T-1")
    assert "file-50" in shell("show", "s", "T-1", "--full")


def test_one_long_line_is_cut_too(tmp_path: Path) -> None:
    call = {**CALL, "function": {"name": "write", "arguments": json.dumps({"text": "x" * 100_000})}}
    shell = shell_with(tmp_path, messages=[HELLO[0], {"role": "assistant", "tool_calls": [call]}], turns=1)
    assert "more characters (--full shows them)" in shell("show", "s", "T-1").replace("\n", " ")
    assert shell("show", "s", "T-1").count("x") < 10_000
    assert shell("show", "s", "T-1", "--full").count("x") >= 100_000


def test_an_image_in_a_result_is_named(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "Look"}, {"type": "image", "source": {"type": "url", "url": "http://x/a.png"}}]
    use = {"type": "tool_use", "id": "c1", "name": "see", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    messages: list[dict[str, Any]] = [
        HELLO[0],
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    assert "[image: http://x/a.png]" in shell_with(tmp_path, messages=messages, turns=1)("show", "s", "T-1")


def test_plain_text_is_what_a_model_would_get(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("show", "s", "T-1", "--plain") == "[user] Hello\n[assistant] Good day\n"
    assert shell("show", "s", "--plain") == "[user] Hello\n[assistant] Good day\n" * 3


def test_plain_text_for_a_program_is_exact(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": "\x1b[31mé\r\n\x00"}], turns=1)
    assert shell.really("show", "s", "--plain", LC_ALL="C").stdout == "[user] \x1b[31mé\r\n\x00\n".encode()


def test_a_range_is_shown_in_order(tmp_path: Path) -> None:
    shown = shell_with(tmp_path)("show", "s", "T-2", "T-3")
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("T-")] == ["T-2", "T-3"]


def test_messages_are_ready_to_send(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert json.loads(shell("show", "s", "T-1", "--messages", "openai")) == HELLO
    assert len(json.loads(shell("show", "s", "--messages", "anthropic"))) == 6
    assert "nonsense" in shell.error("show", "s", "--messages", "nonsense")


def test_a_turn_in_json_has_its_messages(tmp_path: Path) -> None:
    (turn,) = shell_with(tmp_path).json("show", "s", "T-2")
    assert [message["role"] for message in turn["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("turns", [["T-9"], ["T-0"], ["seven"], ["T-7", "T-9"], ["T-1", "x"]])
def test_turns_that_are_not_there_are_a_mistake_that_says_which_are(turns: list[str], tmp_path: Path) -> None:
    said = shell_with(tmp_path).error("show", "s", *turns)
    assert "no turn " in said
    assert "it has T-1 to T-3" in said


def test_a_range_in_the_wrong_order_says_so(tmp_path: Path) -> None:
    assert "first is T-3, which comes after last, T-1; exchange them" in shell_with(tmp_path).error(
        "show", "s", "T-3", "T-1"
    )


def test_an_empty_session_has_an_outline_too(tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path, turns=0).db)
    assert shell("show", "s") == "A talk  0 turns, counted by o200k_base\n"


def test_one_message_is_shown_exactly_as_it_was_recorded(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=TOOLS)
    assert shell("show", "s", "T-2", "--message", "3", "--plain") == "[assistant] A hundred files\n"
    (found,) = json.loads(shell("show", "s", "T-2", "--message", "2", "--messages", "openai"))
    assert found == TOOLS[2]
    assert "messages 0 to 3; there is no 9" in shell.error("show", "s", "T-2", "--message", "9", code=2)
    assert "applies to a single turn" in shell.error("show", "s", "T-1", "T-2", "--message", "0", code=2)


@pytest.fixture
def imported(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "chat.db", 120)
    shell("import", str(FIXTURES / "claude_code"))
    return shell


def test_commands_are_shown_as_they_were_typed(imported: Shell) -> None:
    assert imported("show", "3f1c").splitlines()[-1].split(maxsplit=5)[-1].rstrip() == "/ship to the beta channel"
    shown = imported("show", "3f1c", "T-4")
    assert "user\n/ship to the beta channel\n" in shown
    assert "<command-" not in shown
    assert "<command-name>/ship</command-name>" in imported("show", "3f1c", "T-4", "--plain")
    assert " ! ls dist " in imported("show", "8a60")


def test_records_have_the_names_of_their_program_and_those_without_words_are_only_counted(imported: Shell) -> None:
    shown = " ".join(imported("show", "8a60", "T-1").split())
    assert "(summary) Tide chart in the browser (custom-title) browser chart (agent-name) browser chart user" in shown
    assert "(5 records without text not shown: mode, atis-latch, worktree-state, attachment; " in shown
    assert "(away_summary) The chart has a local axis." in imported("show", "8a60", "T-4")


def test_a_block_without_words_of_its_own_is_named_with_what_it_holds(imported: Shell) -> None:
    shown = " ".join(imported("show", "8a60", "T-4").split())
    assert "[server_tool_use] {" in shown
    assert '"query": "axis labels local time"' in shown
    assert "[anthropic]" not in shown


def test_thinking_that_nobody_can_read_leaves_no_empty_message(imported: Shell) -> None:
    shown = imported("show", "3f1c", "T-2")
    assert "assistant\n\n" not in shown
    assert "reasoning of the assistant" in shown


def test_a_turn_begins_when_its_outline_says(imported: Shell) -> None:
    assert imported("show", "8a60").splitlines()[3].startswith("T-1   2026-11-02 09:10 ")
    assert imported("show", "8a60", "T-1").startswith("T-1  2026-11-02 09:10  ")


def test_one_turn_is_no_turns(tmp_path: Path) -> None:
    assert shell_with(tmp_path, turns=1)("show", "s").startswith("A talk  1 turn, counted by ")


@pytest.mark.parametrize("turn", ["T-2", "t-2", "2"])
def test_a_turn_is_named_in_any_of_three_ways(turn: str, tmp_path: Path) -> None:
    assert shell_with(tmp_path).json("show", "s", turn)[0]["number"] == 2


def test_plain_text_comes_as_json_too(tmp_path: Path) -> None:
    (answer,) = shell_with(tmp_path).json("show", "s", "T-1", "--plain")
    assert answer["turn_id"] == "T-1"
    assert "Good day" in answer["text"]
