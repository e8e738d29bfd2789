"""`foveate chat` in a terminal: what a person sees, and what Ctrl-C, Ctrl-D and Tab do."""

import re
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell
from support.patience import wait_until
from support.terminals import CTRL_C, CTRL_D, Terminal

SCRIPT = """
[[reply]]
contains = "stall"
stalls = 3
[[reply]]
contains = "nothing"
stalls = 0
[[reply]]
contains = "half"
breaks_off = 2
[[reply]]
says = "Answer {n}. The port is 8443."
"""


def test_a_person_resumes_talks_stops_an_answer_and_leaves(shell: Shell, model: str) -> None:
    with Terminal(shell, "chat", "s", "--model", model) as terminal:
        shown = terminal.wait_for("T-3 > Hello")
        assert "A talk (s)" in shown
        assert "script.toml, 100,000 tokens" in shown
        assert "/help lists the commands, Ctrl-D quits" in shown
        assert "3 turns so far:" in shown
        assert "T-1 > Hello" in shown
        terminal.wait_for("Good day")
        terminal.wait_for("> ")

        terminal.type("Which port?\n")
        terminal.wait_for("Answer 1. The port is 8443.")
        assert "T-4 ░░░░░░░░" in terminal.wait_for("% predicted)")

        terminal.type("Now stall.\n")
        terminal.wait_for("This was")
        terminal.type(CTRL_C)
        terminal.wait_for("Stopped; the answer so far is saved.")
        terminal.wait_for("> ")

        terminal.type("not this")
        terminal.wait_for("not this")
        terminal.press(CTRL_C, "/quit or Ctrl-D ends the chat.")
        terminal.wait_for("> ")

        terminal.type("Only half.\n")
        assert "Error: model" in terminal.wait_for("the answer broke off")
        terminal.wait_for("/retry asks again.")
        terminal.wait_for("> ")
        terminal.type(CTRL_D)
        terminal.wait_for("To resume: foveate chat s")
        assert terminal.wait_for_end() == 0
    stopped, half = shell.json("show", "s", "T-5", "T-6")
    assert [message["parts"][0]["text"] for message in stopped["messages"]] == [
        "Now stall.",
        "This was going",
        "(interrupted)",
    ]
    assert [message["parts"][0]["text"] for message in half["messages"]] == ["Only half."]

    with Terminal(shell, "chat", "s") as terminal:
        terminal.wait_for("T-6 has no answer yet: /retry requests it, or just continue.")
        terminal.type("/quit\n")
        assert terminal.wait_for_end() == 0


def test_turns_are_compressed_while_the_chat_waits_for_a_prompt(shell: Shell, model: str) -> None:
    with Terminal(shell, "chat", "fresh", "--new", "--model", model) as terminal:
        for number in (1, 2):
            terminal.wait_for("> ")
            terminal.type(f"Is the port {number}?\n")
            terminal.wait_for("% predicted)")
        with sync.open(shell.db) as fov:
            session = fov.open_session("fresh")
            wait_until(lambda: session.stats().rendered)
        terminal.type("/quit\n")
        assert terminal.wait_for_end() == 0


def test_without_a_model_the_local_one_is_offered_and_can_be_declined(shell: Shell) -> None:
    with Terminal(shell, "chat", "s") as terminal:
        shown = terminal.wait_for("Use it? [y/N] ")
        assert "No model is configured." in shown
        assert "135 million parameters" in shown
        terminal.type("n\n")
        assert terminal.wait_for_end() == 1
        assert "configured" not in terminal.rest()


def test_a_model_that_is_not_installed_is_not_offered(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['xllamacpp'] = None")
    with Terminal(shell, "chat", "s", PYTHONPATH=str(tmp_path)) as terminal:
        shown = terminal.wait_for("pip install 'foveate[local]'")
        assert "Use it?" not in shown
        assert terminal.wait_for_end() == 1


@pytest.mark.parametrize(
    ("term", "keys"),
    [("xterm", "\x1b[200~def f():\r  return 1\r\r/end\r\x1b[201~\r"), ("dumb", "def f():\n  return 1\n\n/end\n")],
)
def test_a_text_that_is_pasted_is_one_prompt(shell: Shell, model: str, term: str, keys: str) -> None:
    with Terminal(shell, "chat", "fresh", "--new", "--model", model, TERM=term) as terminal:
        terminal.wait_for("Ctrl-D quits")
        terminal.wait_for("> ")
        terminal.type(keys)
        terminal.wait_for("The port is 8443.")
        terminal.wait_for("% predicted)")
        terminal.wait_for("> ")
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
    (turn,) = shell.json("show", "fresh", "T-1")
    assert turn["messages"][0]["parts"] == [{"text": "def f():\n  return 1\n\n/end"}]
    assert shell.json("show", "fresh")["session"]["turns"] == 1


def test_while_a_model_reads_its_seconds_are_counted_and_then_taken_away(shell: Shell, model: str) -> None:
    with Terminal(shell, "chat", "fresh", "--new", "--model", model, TERM="xterm") as terminal:
        terminal.wait_for("Ctrl-D quits")
        terminal.wait_for("> ")
        terminal.type("Say nothing.\r")
        assert re.search(r"reading [\d,]+ tokens … \d+ s\x1b.*\r\x1b\[2K", terminal.wait_for(" 1 s"), re.DOTALL)
        terminal.type(CTRL_C)
        assert "\r\x1b[2K" in terminal.wait_for("Stopped; the answer so far is saved.")
