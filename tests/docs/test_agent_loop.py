"""The programs on the page of the agent's loop run, with the providers' own packages, against a server on 127.0.0.1."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import foveate.sync
from support.docs_examples import python_examples, run_example
from support.faulty_server import FaultyServer, Said, environment, faulty_server, plain
from support.paths import ROOT

PAGE = ROOT / "docs" / "guides" / "agent-loop.md"
(OPENAI,), (ANTHROPIC,) = (python_examples(PAGE, section) for section in ("OpenAI", "Anthropic"))


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        yield server


def run(program: str, server: FaultyServer, folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore", category=ResourceWarning):
        for name, value in environment(server, "sk-test").items():
            patch.setenv(name, value)
        shown = run_example(program, folder)
        gc.collect()  # a program closes its connections by ending
    return shown


def test_the_loop_with_openai_calls_history_tools_and_its_own(server: FaultyServer, tmp_path: Path) -> None:
    server.will(
        plain("openai", Said("", tool=("get_turn", {"turn_id": "T-1"}))),
        plain("openai", Said("", tool=("read_tide", {"place": "Skarvik"}))),
        plain("openai", Said("The Skua can leave.")),
    )
    assert run(OPENAI, server, tmp_path) == "The Skua can leave.\n"
    first, second, third = (asked.body for asked in server.requests)
    assert [tool["function"]["name"] for tool in first["tools"]][-2:] == ["context_remaining", "read_tide"]
    assert first["messages"][0]["content"].startswith("You work for the harbour office.\n")
    (retrieved,) = (message for message in second["messages"] if message["role"] == "tool")
    assert "The pilot boat is the Skua." in retrieved["content"]
    again, own = (message["content"] for message in third["messages"] if message["role"] == "tool")
    assert (again, own) == (retrieved["content"], "Skarvik: 1.2 m, rising")


def test_the_loop_with_anthropic_sends_back_only_what_it_takes(server: FaultyServer, tmp_path: Path) -> None:
    server.will(
        plain("anthropic", Said("I look.", tool=("get_turn", {"turn_id": "T-1"}), thinking="Which boat?")),
        plain("anthropic", Said("The Skua.")),
    )
    assert run(ANTHROPIC, server, tmp_path) == "The Skua.\n"
    first, second = (asked.body for asked in server.requests)
    assert first["system"].startswith("You work for the harbour office.\n")
    assert [tool["name"] for tool in first["tools"]] == [
        "get_turn",
        "get_turns",
        "search_history",
        "get_turns_by_topic",
        "context_remaining",
    ]
    assert {key for message in second["messages"] for key in message} == {"role", "content"}
    assert [block["type"] for block in second["messages"][-2]["content"]] == ["thinking", "text", "tool_use"]
    assert "The pilot boat is the Skua." in json.dumps(second["messages"][-1])


@pytest.mark.thorough  # the two loops above run in every test; this takes ten seconds
def test_run_again_a_program_goes_on_in_a_session_of_its_own(server: FaultyServer, tmp_path: Path) -> None:
    for _ in range(2):
        server.will(plain("openai", Said("The Skua can leave.")))
        assert run(OPENAI, server, tmp_path) == "The Skua can leave.\n"
    server.will(plain("anthropic", Said("The Skua.")))
    assert run(ANTHROPIC, server, tmp_path) == "The Skua.\n"
    with foveate.sync.open(tmp_path / "agent.db") as fov:
        assert {info.id: info.turns for info in fov.sessions()} == {"harbour-openai": 3, "harbour-anthropic": 2}
