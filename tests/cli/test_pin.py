"""`foveate pin`, `unpin` and `board`: what stands in every context, and what stands there for some turns."""

from __future__ import annotations

from pathlib import Path

from foveate import sync
from support.command_line import Shell, shell_with


def test_a_pin_is_made_listed_and_removed(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "No pins." in shell("pin", "s")
    assert shell("pin", "s", "Never deploy on a Friday.") == "Pinned as P-1; included in every context of s.\n"
    assert "Never deploy on a Friday." in shell("pin", "s")
    assert "<P-1>\nNever deploy on a Friday.\n</P-1>" in shell("context", "s", "--text")
    assert shell("unpin", "s", "P-1") == "Removed P-1; 0 pins left.\n"
    assert shell.json("pin", "s") == []


def test_a_locked_pin_is_not_removed_by_mistake(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell.json("pin", "s", "Be brief.", "--locked")["locked"]
    assert "locked" in shell.error("unpin", "s", "P-1")
    assert shell.json("unpin", "s", "P-1", "--even-if-locked") == []


def test_a_pin_that_can_not_be_is_refused(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "has no text" in shell.error("pin", "s", "  ")
    assert "ids look like P-1" in shell.error("unpin", "s", "one")
    assert "P-7" in shell.error("unpin", "s", "P-7")


def retrieved(folder: Path) -> Shell:
    shell = shell_with(folder)
    with sync.open(shell.db) as fov:
        fov.open_session("s").call_tool("get_turn", {"turn_id": "T-1"})
    return shell


def test_what_was_retrieved_is_on_the_board_until_it_is_dismissed(tmp_path: Path) -> None:
    shell = retrieved(tmp_path)
    assert "T-1-R" in shell("board", "s")
    assert "5 more turns" in shell("board", "s")
    assert "saved" in shell("board", "s", "save", "T-1-R")
    assert shell.json("board", "s")["retrieved"][0]["is_saved"]
    assert "The board is empty." in shell("board", "s", "dismiss", "T-1-R")


def test_what_is_not_on_the_board_is_named(tmp_path: Path) -> None:
    shell = retrieved(tmp_path)
    assert "T-9-R is not on the board of s; available: T-1-R" in shell.error("board", "s", "save", "T-9-R")
    assert "name what to dismiss" in shell.error("board", "s", "dismiss", code=2)


def test_a_locked_pin_is_removed_by_force_and_the_error_names_the_option(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    for _ in range(2):
        shell("pin", "s", "Never on a Friday.", "--locked")
    said = shell.error("unpin", "s", "P-1")
    assert "pin P-1 is locked; --force removes it" in said
    assert "even_if_locked" not in said
    assert shell("unpin", "s", "P-1", "--force") == "Removed P-1; 0 pins left.\n"
    made = shell.json("pin", "s", "Never on a Friday.", "--locked")["id"]
    shell("unpin", "s", made, "--even-if-locked")
