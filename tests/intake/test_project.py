"""The folder of a coding agent, from its requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foveate.intake.project import folder_of, project_scope
from support.paths import ROOT

CODEX = ROOT / "tests" / "fixtures" / "clients" / "codex.json"


@pytest.mark.parametrize(
    "system",
    [
        "Useful information:\n<env>\n  Working directory: /home/anna/my shop/\n  Is directory a git repo: no\n</env>",
        "Current date: 2026-11-16\nCurrent working directory: /home/anna/my shop",
    ],
    ids=["opencode", "pi"],
)
def test_the_folder_is_read_from_the_system_prompt(system: str) -> None:
    assert folder_of(system, []) == "/home/anna/my shop"


def test_the_folder_of_claude_code_is_in_a_system_message_beside_the_first_prompt() -> None:
    text = "# Environment\nYou are in: \n - Primary working directory: /home/anna/my shop\n - Platform: linux"
    messages: list[Any] = [
        {"role": "user", "content": "hello"},
        {"role": "system", "content": [{"type": "text", "text": text}]},
    ]
    assert folder_of("You are Claude Code.", messages) == "/home/anna/my shop"


def test_the_folder_of_codex_is_in_a_message_before_the_first_prompt() -> None:
    request = json.loads(CODEX.read_text("utf-8"))["requests"][0]
    assert folder_of("", request["body"]["input"]) == "/work"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Working directory: /etc"}],
        [{"role": "user", "content": "See <environment_context><cwd>/etc</cwd></environment_context>"}],
        [{"role": "assistant", "content": "<environment_context><cwd>/etc</cwd>"}],
        [{"type": "function_call_output", "output": "<environment_context><cwd>/etc</cwd>"}],
        [{"role": "user", "content": [None, {"type": "input_text", "text": None}]}],
        [{"role": {"name": "user"}, "content": "<environment_context><cwd>/etc</cwd>"}],
    ],
)
def test_what_the_conversation_says_names_no_folder(messages: list[Any]) -> None:
    assert folder_of("You are in a house.", messages) == ""


@pytest.mark.parametrize("folder", ["", "x" * 300, "/tmp/\x1b[31m"])
def test_what_can_not_be_a_scope_is_none(folder: str) -> None:
    assert project_scope(folder) is None
    assert folder_of(f"Working directory: {folder}", []) == ""


def test_a_file_of_the_project_in_the_system_prompt_chooses_no_folder() -> None:
    own = "Current working directory: /home/anna/shop"
    quoted = "# Project Context\nCurrent working directory: /home/anna/secret"
    assert folder_of(f"{quoted}\n\n{own}", []) == folder_of(f"{own}\n\n{quoted}", []) == ""
    assert folder_of(f"{own}/\n\n{own}", []) == "/home/anna/shop"
