"""A command returns an answer: the store is opened for it, and the answer is printed as text or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

from foveate.cli.ui.answers import Answer, Cells, each, listing, store_command, store_group
from foveate.cli.ui.terminal import Column, line
from foveate.errors import StoreError
from support.command_line import shell_with

if TYPE_CHECKING:
    from foveate import client, sync

CELLS: Cells[str] = {Column("word"): lambda word: word, Column("length", "number"): lambda word: str(len(word))}


def run(command: click.Command, *arguments: str, db: Path | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(command, arguments, env={"FOVEATE_DB": str(db)} if db else {})
    assert result.exit_code == code, result.output
    return result


def answering(found: list[str]) -> click.Command:
    @store_command("words", "Words.")
    def command() -> Answer:
        return listing(found, CELLS, empty="No words.")

    return command


def test_a_list_is_a_table_for_people_and_json_for_programs() -> None:
    command = answering(["a", "four"])
    rows = run(command).stdout.splitlines()
    assert (rows[0].split(), rows[2].split(), rows[3].split()) == (["word", "length"], ["a", "1"], ["four", "4"])
    assert json.loads(run(command, "--json").stdout) == ["a", "four"]


def test_an_empty_list_is_a_sentence_for_people_and_an_empty_list_for_programs() -> None:
    assert run(answering([])).stdout == "No words.\n"
    assert json.loads(run(answering([]), "--json").stdout) == []


def test_a_command_that_uses_no_store_has_no_option_for_one() -> None:
    assert [param.name for param in answering([]).params] == ["as_json"]


def test_session_comes_first_and_the_shared_options_last(tmp_path: Path) -> None:
    @store_command("turns", "Turns.")
    @click.argument("word")
    def command(session: sync.Session, *, session_id: str, word: str) -> Answer:
        return Answer([session.id, session_id, word], f"{word}: {session.info.turns}")

    assert [param.name for param in command.params] == ["session_id", "word", "store_path", "as_json"]
    db = shell_with(tmp_path).db
    assert run(command, "s", "turns", db=db).stdout == "turns: 3\n"
    assert json.loads(run(command, "s", "turns", "--json", db=db).stdout) == ["s", "s", "turns"]


def test_an_async_function_gets_the_async_store(tmp_path: Path) -> None:
    @store_command("pins", "Pins.")
    async def command(fov: client.Foveate, session: Any) -> Answer:
        return Answer(await session.pins(), f"{len(await fov.sessions())} session")

    db = shell_with(tmp_path).db
    assert run(command, "s", db=db).stdout == "1 session\n"
    assert json.loads(run(command, "s", "--json", db=db).stdout) == []


@pytest.mark.parametrize("is_created", [True, False])
def test_only_a_command_that_records_makes_a_store(tmp_path: Path, is_created: bool) -> None:
    @store_command("count", "Count.", create=is_created)
    def command(fov: sync.Foveate) -> Answer:
        return Answer(len(fov.sessions()), "counted")

    db = tmp_path / "new.db"
    result = CliRunner().invoke(command, [], env={"FOVEATE_DB": str(db)})
    assert isinstance(result.exception, StoreError) == (not is_created)
    assert db.exists() == is_created


def test_an_answer_sets_the_exit_code_in_both_forms() -> None:
    @store_command("fail", "Fail.")
    def command() -> Answer:
        return Answer({"ok": False}, each(["a", "b"], lambda out, text: out.print(line(text))), 3)

    assert run(command, code=3).stdout == "a\nb\n"
    assert json.loads(run(command, "--json", code=3).stdout) == {"ok": False}


def test_a_function_that_printed_everything_returns_none() -> None:
    @store_command("say", "Say.")
    def command(as_json: bool) -> None:
        click.echo(f"said, {as_json}")

    assert run(command, "--json").stdout == "said, True\n"


def test_a_group_can_be_a_command_itself() -> None:
    @store_group("words", "Words.", invoke_without_command=True)
    def command() -> Answer:
        return Answer("all", "all words")

    @command.command()
    def one() -> Answer:
        return Answer("one", "one word")

    assert (run(command).stdout, run(command, "one").stdout) == ("all words\n", "one word\n")
    assert "put --json after 'one'" in run(command, "--json", "one", code=2).stderr
