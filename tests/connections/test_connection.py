"""Connecting a client changes only its own settings, and disconnecting leaves no trace and loses no edit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from foveate.connections.changes import SYNTAXES
from foveate.connections.clients import CLIENTS, Mode
from foveate.connections.connection import Connections
from foveate.errors import InputError, Refused
from support.homes import CLAUDE, FILES, MODES, connect, disconnect, files_of, make_home, request_for


@pytest.mark.parametrize(("client", "mode"), MODES)
def test_disconnecting_restores_every_byte(tmp_path: Path, client: str, mode: Mode) -> None:
    home = make_home(tmp_path, client)
    before = files_of(home)
    connect(home, client, mode)
    assert files_of(home) != before
    assert disconnect(home, client) == []
    assert files_of(home) == before


@pytest.mark.parametrize(
    ("client", "mode"), [(name, mode) for name, mode in MODES if name not in ("cline", "continue")]
)
def test_files_that_connecting_made_are_removed(tmp_path: Path, client: str, mode: Mode) -> None:
    connect(tmp_path, client, mode)
    assert files_of(tmp_path)
    disconnect(tmp_path, client)
    assert files_of(tmp_path) == {}


@pytest.mark.parametrize(("client", "mode"), MODES)
def test_edits_made_in_between_are_kept(tmp_path: Path, client: str, mode: Mode) -> None:
    home = make_home(tmp_path, client)
    before = files_of(home)
    connect(home, client, mode)
    for name, text in files_of(home).items():
        (home / name).write_bytes(edited(name, text))
    assert disconnect(home, client) == []
    known = {name: edited(name, text) for name, text in before.items()}
    assert {name: text for name, text in files_of(home).items() if name in known} == known


def edited(name: str, text: bytes) -> bytes:
    """A comment at the beginning, where the file may have one, and another value at the end of the main table."""
    if name.endswith((".yml", ".yaml")):
        return b"# edited\n" + text + b"added: 1\n"
    if name.endswith(".toml"):
        return b"# edited\n" + text + b"\n[added]\nvalue = 1\n"
    comment = b"// edited\n" if name.endswith(".jsonc") else b""
    return comment + text.replace(b"{", b'{"added": 1, ', 1)


@pytest.mark.parametrize(("client", "mode"), MODES)
def test_a_file_that_its_client_wrote_anew_keeps_all_but_our_values(tmp_path: Path, client: str, mode: Mode) -> None:
    home = make_home(tmp_path, client)
    before = {name: SYNTAXES[Path(name).suffix].parse(text.decode()) for name, text in files_of(home).items()}
    connect(home, client, mode)
    for name, text in files_of(home).items():
        if name.endswith(".json"):
            data = SYNTAXES[".json"].parse(text.decode())
            (home / name).write_text(json.dumps(data, indent=4))
    disconnect(home, client)
    after = {name: SYNTAXES[Path(name).suffix].parse(text.decode()) for name, text in files_of(home).items()}
    assert after == before


def test_a_value_that_was_changed_since_is_kept_and_named(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    connect(home, "claude", "gateway")
    path = home / ".claude/settings.json"
    path.write_text(path.read_text().replace("http://127.0.0.1:8484", "http://elsewhere"))
    assert disconnect(home, "claude") == [f"{path}: env.ANTHROPIC_BASE_URL"]
    assert "http://elsewhere" in path.read_text()


def test_a_value_that_was_there_before_comes_back(tmp_path: Path) -> None:
    home = make_home(tmp_path, "continue")
    connect(home, "continue", "gateway")
    path = home / ".continue/config.yaml"
    path.write_text("# edited\n" + path.read_text())
    disconnect(home, "continue")
    assert "apiBase: https://proxy.example/v1" in path.read_text()


def test_hooks_of_others_stay_in_their_place(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    connect(home, "claude", "hooks")
    data = SYNTAXES[".json"].parse((home / ".claude/settings.json").read_text())
    assert isinstance(data, dict)
    stop = data["hooks"]["Stop"]
    assert [group["hooks"][0]["command"] for group in stop] == ["notify-send done", "/opt/foveate hook claude"]
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["foveate"]
    assert server == {"type": "stdio", "command": "/opt/foveate", "args": ["mcp"], "alwaysLoad": True}


def test_connecting_twice_changes_nothing_and_another_url_replaces_the_first(tmp_path: Path) -> None:
    home = make_home(tmp_path, "codex")
    before = files_of(home)
    connections = connect(home, "codex", "gateway")
    assert not connections.plan_connect(CLIENTS["codex"], request_for(home, "gateway")).is_changed
    connect(home, "codex", "gateway", "http://127.0.0.1:9999")
    text = (home / ".codex/config.toml").read_text()
    assert "9999" in text
    assert "8484" not in text
    disconnect(home, "codex")
    assert files_of(home) == before


def test_the_other_mode_takes_the_place_of_the_first(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    before = files_of(home)
    connect(home, "claude", "gateway")
    connect(home, "claude", "hooks")
    assert "ANTHROPIC_BASE_URL" not in (home / ".claude/settings.json").read_text()
    disconnect(home, "claude")
    assert files_of(home) == before


def test_the_bytes_from_before_are_kept_as_a_backup(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    connect(home, "claude", "gateway")
    (backup,) = (home / ".foveate/connections/backups").iterdir()
    assert backup.read_text() == CLAUDE
    assert backup.stat().st_mode & 0o777 == 0o600


def test_modes_and_links_of_files_stay(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "claude")
    path, real = home / ".claude/settings.json", tmp_path / "real.json"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    connect(home, "claude", "gateway")
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "ANTHROPIC_BASE_URL" in real.read_text()


def test_files_of_a_repository_are_never_changed(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    subprocess.run(["git", "init", "--quiet", str(home)], check=True)
    with pytest.raises(Refused, match=r"would be committed(.|\n)*ANTHROPIC_BASE_URL"):
        connect(home, "claude", "gateway")
    assert files_of(home)[".claude/settings.json"] == CLAUDE.encode()
    (home / ".gitignore").write_text(".claude/\n.foveate/\n")
    connect(home, "claude", "gateway")


def test_a_file_that_changes_between_diff_and_writing_is_not_overwritten(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    connections = Connections(home)
    plan = connections.plan_connect(CLIENTS["claude"], request_for(home, "gateway"))
    (home / ".claude/settings.json").write_text("{}")
    with pytest.raises(Refused, match="meantime"):
        connections.write(plan)
    assert (home / ".claude/settings.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("claude", ".claude/settings.json", '{"env": '),
        ("claude", ".claude/settings.json", '{"env": ["A"]}'),
        ("claude", ".claude/settings.json", '{"env": {}} // Claude Code ignores a file with comments'),
        ("codex", ".codex/config.toml", "model = "),
        ("aider", ".aider.conf.yml", "a: [1"),
        ("continue", ".continue/config.yaml", "models: []\n"),
        ("opencode", ".config/opencode/opencode.json", '{"model": "zen/big"}'),
        ("cline", ".cline/data/settings/providers.json", '{"providers": {}}'),
    ],
)
def test_a_file_that_does_not_fit_is_left_as_it_is(tmp_path: Path, client: str, name: str, text: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(InputError, match=f"{re.escape(str(path))}|Cline has no provider|does not serve"):
        connect(tmp_path, client, "gateway")
    assert path.read_text() == text


@pytest.mark.parametrize("client", sorted(FILES))
def test_a_file_that_is_no_text_is_named_and_left_as_it_is(tmp_path: Path, client: str) -> None:
    home = make_home(tmp_path, client)
    for name in files_of(home):
        (home / name).write_bytes(b"\xff\xfe{")
    before = files_of(home)
    with pytest.raises(InputError, match="can't be read: is not UTF-8"):
        connect(home, client, "gateway")
    assert files_of(home) == before


@pytest.mark.parametrize("client", sorted(FILES))
def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path, client: str) -> None:
    home = make_home(tmp_path, client)
    for name in files_of(home):
        (home / name).unlink()
        os.mkfifo(home / name)
    with pytest.raises(InputError, match="is not a regular file"):
        connect(home, client, "gateway")


@pytest.mark.parametrize("client", sorted(FILES))
def test_a_file_that_is_nested_too_deeply_is_named_and_left_as_it_is(tmp_path: Path, client: str) -> None:
    home = make_home(tmp_path, client)
    for name in files_of(home):
        deep = "[" * 5_000 + "]" * 5_000
        (home / name).write_text(f"a = {deep}" if name.endswith(".toml") else f'{{"a": {deep}}}')
    before = files_of(home)
    with pytest.raises(InputError, match=r"settings\.json|\.toml|\.jsonc?|\.ya?ml") as raised:
        connect(home, client, "gateway")
    assert "deep" in str(raised.value)
    assert files_of(home) == before


def test_a_read_only_file_is_left_as_it_is(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    path = home / ".claude/settings.json"
    path.chmod(0o444)
    with pytest.raises(Refused, match="read-only"):
        connect(home, "claude", "gateway")
    assert path.read_text() == CLAUDE
    path.chmod(0o644)
    connect(home, "claude", "gateway")
    path.chmod(0o444)
    with pytest.raises(Refused, match="read-only"):
        disconnect(home, "claude")
    assert Connections(home).record(CLIENTS["claude"]), "it is still connected"


def test_a_second_file_that_can_not_be_written_undoes_the_first(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude")
    state = home / ".claude.json"
    state.unlink(missing_ok=True)
    state.symlink_to("/proc/none/state.json")
    with pytest.raises(InputError, match=r"\.claude\.json can't be written"):
        connect(home, "claude", "hooks")
    assert (home / ".claude/settings.json").read_text() == CLAUDE
    assert Connections(home).record(CLIENTS["claude"]) is None


def test_what_a_killed_process_wrote_can_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path, "claude")
    before = files_of(home)
    replace, done = os.replace, []

    def killed(source: str, target: Path) -> None:
        if target.name == ".claude.json":
            raise KeyboardInterrupt
        done.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        connect(home, "claude", "hooks")
    assert "settings.json" in done
    monkeypatch.undo()
    disconnect(home, "claude")
    assert files_of(home) == before


def test_every_client_has_a_home_here() -> None:
    assert set(FILES) == set(CLIENTS)
