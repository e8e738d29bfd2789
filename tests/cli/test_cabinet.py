"""`foveate cabinet`: list, show, save, prune."""

from __future__ import annotations

from pathlib import Path

import pytest

import foveate.sync as foveate
from support.command_line import Shell

PAGE = b"".join(b"line %d\n" % number for number in range(1, 1_001))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "chat.db", width=120)
    with foveate.open(shell.db) as fov:
        session = fov.session("s")
        session.record([{"role": "user", "content": "Hello"}])
        session.cabinet.file(PAGE, name="handbook", source="https://example.org/")
        session.cabinet.file(b"\x00\x01", name="plot", media_type="image/png")
    return shell


def test_a_content_is_listed_shown_and_saved(shell: Shell, tmp_path: Path) -> None:
    entries = {entry["name"]: entry["key"] for entry in shell.json("cabinet", "list")}
    key = entries["handbook"]
    assert key in shell("cabinet", "list")
    assert shell("cabinet", "show", key, "--from", "500", "--lines", "2") == "line 500\nline 501\n"
    shown = shell.json("cabinet", "show", key, "--from", "1000")
    assert shown["excerpt"] == {"text": "line 1000\n", "first_line": 1000, "last_line": 1000, "total_lines": 1000}
    target = tmp_path / "page.txt"
    assert shell("cabinet", "save", key, str(target)).startswith("Wrote ")
    assert target.read_bytes() == PAGE
    assert "--force replaces it" in shell.error("cabinet", "save", key, str(target))
    (tmp_path / "loop").symlink_to("loop")
    assert "loop" in shell.error("cabinet", "save", key, str(tmp_path / "loop"))
    assert "is binary: image/png" in shell.error("cabinet", "show", entries["plot"])
    assert "there is no 'f-0' in the file cabinet" in shell.error("cabinet", "show", "f-0")


def test_expired_keys_are_pruned(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("cabinet", "prune") == "No key is expired.\n"
    key = shell.json("cabinet", "list")[0]["key"]
    monkeypatch.setattr("foveate.session.cabinet.now_us", lambda: 4_000_000_000_000_000)
    assert shell("cabinet", "prune", "--dry-run") == "2 expired keys would be removed.\n"
    assert len(shell.json("cabinet", "prune")["removed"]) == 2
    assert "T-1 of session 's'" in shell.error("cabinet", "show", key)
