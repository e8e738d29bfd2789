"""The programs in `examples` run as they are, against a scripted provider."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import foveate.sync
from support.command_line import Shell
from support.faulty_server import FaultyServer, Said, environment, faulty_server, plain
from support.paths import ROOT
from support.served import served

EXAMPLES = ROOT / "examples"


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        yield server


def run(shell: Shell, server: FaultyServer, *words: str, given: str = "", **variables: str) -> str:
    """What a program prints in the folder of the store."""
    surroundings = shell.environment(**environment(server, "sk-test"), **variables)
    program = [sys.executable, str(EXAMPLES / words[0]), *words[1:]]
    done = subprocess.run(
        program, cwd=shell.db.parent, env=surroundings, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_in_the_table_and_under_test() -> None:
    table = (EXAMPLES / "README.md").read_text("utf-8")
    tests = Path(__file__).read_text("utf-8")
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".ipynb"):
            assert f"[{path.name}]({path.name})" in table
            assert f'"{path.name}"' in tests


def test_the_coding_agent_reads_and_writes_within_its_folder_and_resumes(tmp_path: Path, server: FaultyServer) -> None:
    shell = Shell(tmp_path / "chat.db")
    project = tmp_path / "tides"
    project.mkdir()
    (project / "tide.py").write_text("LEVEL = 1.2\n")
    server.will(
        plain("openai", Said("", tool=("read_file", {"path": "tide.py"}))),
        plain("openai", Said("", tool=("read_file", {"path": "../chat.db"}))),
        plain("openai", Said("", tool=("write_file", {"path": "tide.py", "content": "LEVEL = 1.4\n"}))),
        plain("openai", Said("Raised the level to 1.4.")),
        plain("openai", Said("", tool=("get_turn", {"turn_id": "T-1"}))),
        plain("openai", Said("It was 1.2.")),
    )
    assert run(shell, server, "coding_agent.py", "tides", "Raise the level.") == "Raised the level to 1.4.\n"
    assert (project / "tide.py").read_text() == "LEVEL = 1.4\n"
    assert run(shell, server, "coding_agent.py", "tides", "What was it before?") == "It was 1.2.\n"
    results = [m["content"] for m in server.requests[3].body["messages"] if m["role"] == "tool"]
    assert results[0] == "LEVEL = 1.2\n"
    assert results[1] == "Error: ../chat.db is outside of the project"
    assert "LEVEL = 1.2" in json.dumps(server.requests[-1].body["messages"][-1])


def test_the_support_bot_recalls_other_tickets_of_the_same_customer_alone(tmp_path: Path, server: FaultyServer) -> None:
    shell = Shell(tmp_path / "chat.db")
    server.will(*(plain("openai", Said(f"Answer {number}.")) for number in range(3)))
    run(shell, server, "support_bot.py", "anna", "My Skua 7 router drops the connection when it rains.")
    run(shell, server, "support_bot.py", "bert", "Which router drops the connection when it rains?")
    run(shell, server, "support_bot.py", "anna", "Which router drops the connection when it rains?")
    first, other, again = (json.dumps(asked.body) for asked in server.requests)
    assert "Sign every answer with" in first
    assert "Skua 7" not in other
    assert "Skua 7" in again


def test_the_bot_in_channels_keeps_them_apart_and_survives_a_restart(tmp_path: Path, server: FaultyServer) -> None:
    shell = Shell(tmp_path / "chat.db")
    server.will(*(plain("openai", Said("Noted.")) for _ in range(3)))
    updates = [{"chat": 7, "text": "The potatoes are Annabelle."}, {"chat": 8, "text": "The oven shows E04."}]
    lines = "".join(json.dumps(update) + "\n" for update in updates)
    answers = [json.loads(line) for line in run(shell, server, "channel_bot.py", given=lines).splitlines()]
    assert sorted(answer["chat"] for answer in answers) == [7, 8]
    more = [{"chat": 7, "text": "/new"}, {"chat": 7, "text": "Which potatoes did I name?"}]
    run(shell, server, "channel_bot.py", given="".join(json.dumps(update) + "\n" for update in more))
    asked = json.dumps(server.requests[-1].body)
    assert "Annabelle" in asked
    assert "E04" not in asked
    with foveate.sync.open(tmp_path / "channels.db") as fov:
        assert len(fov.conversation("telegram", "7").topics.get_history().topics) == 1


def test_an_app_that_knows_nothing_has_an_endless_conversation_behind_the_gateway(
    tmp_path: Path, server: FaultyServer
) -> None:
    shell = Shell(tmp_path / "chat.db")
    prompts = [f"Turn {number}: " + "the pump of the shed runs. " * 60 for number in range(16)]
    server.will(*(plain("openai", Said(f"Answer {number}.")) for number in range(16)))
    budget = {"FOVEATE_SESSION__BUDGET_TOKENS": "2000"}
    with served(shell, "--upstream", server.url, **budget) as (_, ready):
        url = {"OPENAI_BASE_URL": f"{ready['url']}/v1"}
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "existing_app.py")],
            env=shell.environment(OPENAI_API_KEY="sk-test", **url),
            input="\n".join(prompts),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout.splitlines() == [f"Answer {number}." for number in range(16)], done.stderr
    sizes = [len(json.dumps(asked.body["messages"])) for asked in server.requests]
    assert max(sizes) < 0.6 * sum(map(len, prompts))
    assert "Turn 15: " in json.dumps(server.requests[-1].body)


def test_the_notebook_runs_cell_by_cell(tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    names: dict[str, object] = {}
    printed = StringIO()
    with chdir(tmp_path), redirect_stdout(printed):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), "tour.ipynb", "exec"), names)
    shown = printed.getvalue()
    assert "of 3000\nTrue\n" in shown
    assert "[user] The spare key of the boat shed hangs on hook KH-731." in shown
