"""`foveate doctor` says what is wrong with a store, and exits with 1 if anything is."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foveate import sync
from foveate.errors import Damaged
from foveate.settings import load_settings
from foveate.store.copy import StoreCopy
from foveate.tools.sandbox import layers
from support.command_line import Shell, shell_with
from support.embedding_server import embedding_server
from support.refining import said

Damage = Callable[[sqlite3.Connection], object]


def damage(shell: Shell, *statements: str) -> None:
    with closing(sqlite3.connect(shell.db)) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount
        connection.commit()


def test_a_sound_store_is_said_to_be_one(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "1 session, 6 messages, all intact" in " ".join(shell("doctor").split())
    answer = shell.json("doctor")
    assert set(answer.pop("index")) == {"turns", "passages", "missing", "makers", "model", "problem"}
    assert set(answer.pop("sandbox")) == {"summary", "missing"}
    assert answer.pop("queue")["parked_turns"] == []
    assert answer.pop("database") == {}
    assert {**answer, "pending_turns": 0} == {
        "ok": True,
        "messages_checked": 6,
        "sessions": 1,
        "problems": [],
        "pending_turns": 0,
        "fallback_turns": 0,
    }


def test_it_says_whether_commands_can_be_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "detect", lambda: layers.Layers(linux=True, machine=True, seccomp=True))
    told = " ".join(shell_with(tmp_path)("doctor").split())
    assert "exec would refuse: file confinement: Landlock is missing or off" in told


def test_what_is_still_to_be_compressed_is_no_fault(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db, settings=load_settings(overrides={"compress": {"enabled": False}})) as fov:
        fov.open_session("s").record([{"role": "user", "content": "One more"}])
    assert shell.json("doctor")["pending_turns"] >= 1
    told = " ".join(shell("doctor").split())
    assert re.search(r"\d turns? not compressed yet; run 'foveate store compress --all'", told)


def test_a_turn_with_a_stand_in_is_told_of_with_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, script = Shell(tmp_path / "chat.db"), tmp_path / "script.json"
    with sync.open(shell.db) as fov:
        fov.session("s").record([*said(1), *said(2)])
        fov.settle()
    script.write_text('{"reply": [{"fails": "server"}]}')
    monkeypatch.setenv("FOVEATE_MODELS__BACKOFF_SECONDS", "0")
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"scripted:{script}")
    shell("compress", "s", "--again")
    told = " ".join(shell("doctor").split())
    assert "fallbacks: 1 turn (a short version lost too much, or a model failed; " in told
    assert "nothing is lost); 'foveate store compress --all --again' retries" in told
    monkeypatch.delenv("FOVEATE_MODELS__DEFAULT")
    assert "set models.default, then 'foveate store compress --all --again'" in " ".join(shell("doctor").split())


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE bodies SET data = x'00010203' WHERE message = 3", "message 1 of T-2 in session 's' "),
        (
            "UPDATE bodies SET data = (SELECT data FROM bodies WHERE message = 2) WHERE message = 3",
            "message 1 of T-2 in session 's' ",
        ),
        ("DELETE FROM bodies WHERE message = 4", "message 2 of T-2 in session 's' is missing"),
    ],
    ids=["damaged", "another's", "missing"],
)
def test_a_body_that_is_not_what_was_stored_is_found(statement: str, problem: str, tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    damage(shell, statement)
    shown = shell("doctor", code=1)
    assert f"✗ {problem}" in shown
    assert "restore the file from a backup" in shown
    answer = shell.json("doctor", code=1)
    assert answer["ok"] is False
    (found,) = answer["problems"]
    assert found["problem"].startswith(problem)
    assert found["advice"]
    assert answer["messages_checked"] == 6


def test_a_gap_in_a_turn_is_found(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    damage(shell, "DELETE FROM bodies WHERE message = 3", "DELETE FROM messages WHERE id = 3")
    assert "T-2 of session 's' has 1 of its 2 messages" in shell("doctor", code=1)


def test_a_turn_that_is_gone_is_found(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    damage(shell, "DELETE FROM bodies WHERE message IN (3, 4)", "DELETE FROM messages WHERE id IN (3, 4)")
    assert "session 's' has 2 of its 3 turns" in shell("doctor", code=1)


def test_a_file_that_others_may_read_is_a_problem(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell.db.chmod(0o644)
    assert "others on this machine may read the file (mode 644)" in shell("doctor", code=1)


def test_many_problems_are_cut_short_on_the_screen_and_all_there_in_json(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": str(number)} for number in range(80)], turns=1)
    damage(shell, "UPDATE bodies SET data = x'00'")
    shown = shell("doctor", code=1)
    assert shown.count("✗ ") == 50
    assert "… and 30 more (--json lists all)" in shown
    assert len(shell.json("doctor", code=1)["problems"]) == 80


def test_a_file_with_a_page_of_garbage_is_reported_without_a_traceback(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": "word " * 50}] * 200, turns=3)
    content = bytearray(shell.db.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    shell.db.write_bytes(content)
    shown = shell("doctor", code=1)
    assert "✗ " in shown
    assert re.search(r"\d problems?; ", " ".join(shown.split()))


def test_the_code_is_that_of_the_real_command_too(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell.really("doctor").returncode == 0
    damage(shell, "UPDATE bodies SET data = x'00' WHERE message = 3")
    run = shell.really("doctor")
    assert (run.returncode, run.stderr) == (1, b"")


def test_the_state_of_the_index_is_told(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("compress", "--all")
    told = " ".join(shell("doctor").split())
    assert "search index: 6 passages of 3 turns, vectors by static-minilm-256" in told
    damage(shell, "UPDATE passages SET digest = NULL, maker = '1 another' WHERE turn = 2")
    told = " ".join(shell("doctor").split())
    assert "vectors by another, static-minilm-256" in told
    assert "1 turn not indexed yet; " in told
    assert "vectors are made by static-minilm-256" in told


def test_an_endpoint_that_makes_vectors_is_named_and_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = shell_with(tmp_path)
    monkeypatch.setenv("FOVEATE_RECALL__EMBEDDINGS_MODEL", "tiny")
    with embedding_server() as server:
        monkeypatch.setenv("FOVEATE_RECALL__EMBEDDINGS", server.url)
        shell("compress", "--all")
        told = " ".join(shell("doctor").split())
        assert f"vectors are made by tiny@{server.url[7:-3]} 300" in told
        assert "can't be asked" not in told
        server.answer = 503, "starting"
        told = " ".join(shell("doctor").split())
        assert "it can't be reached now" in told
        assert "answers 503: starting" in told


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE passage_words_data SET block = x'00' WHERE id > 10",
        "DELETE FROM passage_words_data",
        "DROP TABLE passage_words_data",
        "DROP TABLE passage_words_idx",
    ],
)
def test_a_damaged_index_is_told_and_rebuilt_and_nothing_else_suffers(statement: str, tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("compress", "--all")
    with closing(sqlite3.connect(shell.db)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement)
        connection.commit()
    assert "'foveate doctor --rebuild-index' rebuilds it" in " ".join(shell.error("search", "s", "hello").split())
    assert "--rebuild-index" in shell("doctor", code=1)
    with sync.open(shell.db) as fov:
        fov.open_session("s").record([{"role": "user", "content": "Recorded meanwhile"}])
        fov.settle()
    assert "all intact" in " ".join(shell("doctor", "--rebuild-index").split())
    assert [found["turn_id"] for found in shell.json("search", "s", "meanwhile")["found"]] == ["T-4"]
    assert len(shell.json("search", "s", "hello")["found"]) == 3


def test_a_session_whose_strategy_is_gone_is_listed_and_shown_by_the_default(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sqlite3.connect(shell.db) as connection:
        connection.execute("UPDATE sessions SET strategy = 'vanished'")
    connection.close()
    assert [info["strategy"] for info in shell.json("sessions")] == ["vanished"]
    result = shell.run("context", "s")
    assert "no strategy 'vanished'" in result.stderr
    assert "shown by gradient instead" in result.stderr
    assert "no strategy 'vanished'" in " ".join(shell("doctor", code=1).split())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store of some hundred pages, as bytes."""
    shell = shell_with(
        tmp_path_factory.mktemp("sound"), messages=[{"role": "user", "content": "word " * 50}] * 200, turns=3
    )
    return shell.db.read_bytes()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "header": lambda data: bytes(100) + data[100:],
    "schema": lambda data: data[:100] + b"\xff" * 3_996 + data[4_096:],
    "pages": lambda data: data[:4_096] + b"\xff" * 4_096 * 19 + data[4_096 * 20 :],
    "half": lambda data: data[: len(data) // 2],
}


@pytest.mark.parametrize("kind", list(DAMAGES))
def test_heavy_damage_gets_the_steps_that_restore_the_store(kind: str, tmp_path: Path, sound: bytes) -> None:
    shell = Shell(tmp_path / "chat.db", width=400)
    shell.db.write_bytes(DAMAGES[kind](sound))
    shell.db.chmod(0o600)
    shell.db.with_name("chat.db-wal").write_bytes(b"")
    shown = shell("doctor", code=1)
    assert "run 'foveate doctor'" not in shown
    assert f"mv {shell.db} {shell.db}.damaged" in shown
    answer = shell.json("doctor", code=1)
    assert (answer["ok"], len(answer["problems"]), len(answer["restore"])) == (False, 1, 5)


def test_the_steps_restore_a_store_from_its_backup(tmp_path: Path, sound: bytes) -> None:
    shell = Shell(tmp_path / "my chat.db", width=400)
    (tmp_path / "backup.db").write_bytes(sound)
    shell.db.write_bytes(DAMAGES["pages"](sound))
    steps = shell.json("doctor", code=1)["restore"]
    assert "stop all programs" in steps[0], "which removes the logs of the database"
    for suffix in ("-wal", "-shm"):
        shell.db.with_name(f"{shell.db.name}{suffix}").unlink(missing_ok=True)
    owner = shell.db.stat()
    commands = [step.partition(": ")[2].replace("BACKUP", str(tmp_path / "backup.db")) for step in steps[1:3]]
    for each in commands:
        subprocess.run(each, shell=True, check=True)
    assert "all intact" in " ".join(shell("doctor").split())
    assert (tmp_path / "my chat.db.damaged").exists()
    restored = shell.db.stat()
    assert (restored.st_uid, restored.st_gid) == (owner.st_uid, owner.st_gid)
    assert f"install -m 600 -o {owner.st_uid} -g {owner.st_gid} BACKUP " in steps[2]


def test_a_file_of_zero_bytes_is_damage_and_stays_as_it_is(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    shell.db.touch(0o600)
    os.utime(shell.db, (0, 0))
    assert "has zero bytes" in shell("doctor", code=1)
    assert "has zero bytes" in shell.error("sessions")
    assert shell.db.stat().st_size == 0
    shell("keys", "create")
    assert "all intact" in shell("doctor")


def test_a_store_that_another_process_creates_just_now_is_waited_for(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    made = Shell(tmp_path / "made.db")
    with sync.open(made.db) as fov:
        fov.session("s")
    shell.db.touch(0o600)
    later = threading.Timer(0.3, made.db.rename, (shell.db,))
    later.start()
    assert [row["id"] for row in shell.json("sessions")] == ["s"]
    later.join()


def test_a_summary_comes_first_each_advice_once_and_commands_name_the_store(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        fov.session("whole").record([{"role": "user", "content": "Hello"}])
    damage(shell, "UPDATE bodies SET data = x'00' WHERE message < 5")
    first, *rest = shell("doctor", "--db", f"{shell.db}", code=1).splitlines()
    assert f"{shell.db}: 4 problems; 7 messages checked; damaged: 1 of 2 sessions (s); whole: 1" in first
    shown = "\n".join(rest)
    assert shown.count("restore the file from a backup") == 1
    assert f"'foveate --db {shell.db} export SESSION'" in shown
    assert f"foveate --db {shell.db}.damaged export SESSION" in shown


def test_a_store_of_root_in_the_folder_of_another_user_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = shell_with(tmp_path)
    monkeypatch.setattr("foveate.store.sqlite._owner_of_folder", lambda _: "12345:12345")
    shown = shell("doctor", code=1)
    assert "the file belongs to root and its folder to another user" in " ".join(shown.split())
    assert f"chown 12345:12345 {shell.db}" in shown


def test_a_copy_of_a_damaged_file_says_how_far_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        fov.session("second").record([{"role": "user", "content": "Hello"}])
    copy_session = StoreCopy._copy_session

    def stopping(self: StoreCopy, row: dict[str, Any]) -> None:
        if row["id"] == "second":
            raise Damaged(str(shell.db), "the file is damaged")
        copy_session(self, row)

    monkeypatch.setattr(StoreCopy, "_copy_session", stopping)
    target = tmp_path / "new.db"
    shown = shell.error("store", "copy", f"{shell.db}", f"{target}")
    assert f"the copy stopped: {target} has 1 of 2 sessions; the same command continues it" in " ".join(shown.split())


def test_a_damaged_log_of_the_database_loses_nothing_that_is_in_the_file(tmp_path: Path, sound: bytes) -> None:
    shell = Shell(tmp_path / "chat.db")
    shell.db.write_bytes(sound)
    shell.db.chmod(0o600)
    shell.db.with_name("chat.db-wal").write_bytes(b"\xff" * 100_000)
    assert "all intact" in " ".join(shell("doctor").split())
