"""Commands on a store in PostgreSQL."""

from pathlib import Path
from typing import cast

from support.command_line import Shell


def test_commands_take_the_url_of_a_database(postgres_url: str) -> None:
    shell = Shell(cast("Path", postgres_url))
    shell("demo", "--turns", "3", "--session", "d")
    assert [row["id"] for row in shell.json("sessions")] == ["d"]
    checked = shell.json("doctor")
    assert checked["ok"]
    assert checked["sessions"] == 1


def test_an_error_shows_the_url_without_its_password() -> None:
    shell = Shell(cast("Path", "postgresql://anna:secret@127.0.0.1:1/chats"))
    said = shell.error("sessions")
    assert "postgresql://anna@127.0.0.1:1/chats: can't connect" in said
    assert "secret" not in said
