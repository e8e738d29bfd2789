"""`foveate tools`: tools listed, shown, and called by hand."""

from __future__ import annotations

from pathlib import Path

from support.command_line import Shell, shell_with


def test_tools_are_listed_and_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=120)
    assert "search_history" in shell("tools", "list")
    assert "list_dir" in {tool["name"] for tool in shell.json("tools", "list")["tools"]}
    assert "list_dir([path], [depth])" in shell("tools", "show", "list_dir")
    assert shell.json("tools", "show", "list_dir")["read_only"]
    assert "; limits: 60 s, " in shell("tools", "show", "read_cabinet")
    assert "all, anthropic-standard, core-codex" in shell.error("tools", "list", "--pack", "mine")
    assert "there is no tool 'nothing'" in shell.error("tools", "show", "nothing")
    assert not shell.db.exists()


def test_a_call_works_in_the_given_folders_only(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    (tmp_path / "root" / "sub").mkdir(parents=True)
    root = str(tmp_path / "root")
    assert shell("tools", "call", "list_dir", "--root", root) == "sub/\n"
    assert shell("tools", "call", "list_dir", "-", "--root", root, given='{"path": "sub"}') == "(empty)\n"
    assert "is outside the folders" in shell.error("tools", "call", "list_dir", '{"path": ".."}', "--root", root)
    assert "unknown field 'where'" in shell.error("tools", "call", "list_dir", '{"where": "."}')
    assert "is not a folder" in shell.error("tools", "call", "list_dir", "--root", str(tmp_path / "absent"))
    (tmp_path / "loop").symlink_to("loop")
    assert "loop" in shell.error("tools", "call", "list_dir", "--root", str(tmp_path / "loop"))
    assert "the arguments are not JSON" in shell.error("tools", "call", "list_dir", '{"path": "\udcff"}')
    failed = shell.json("tools", "call", "list_dir", '{"path": ".."}', "--root", root, code=1)
    assert failed["is_error"]


def test_history_tools_answer_from_the_session(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "Good day" in shell("tools", "call", "get_turn", '{"turn_id": "T-1"}', "--session", "s")
    assert "no session was given" in shell.error("tools", "call", "get_turn", '{"turn_id": "T-1"}')
    assert "no session was given" in shell.error("tools", "call", "get_turn", '{"name": "a", "workspace": "b"}')
    assert "no session" in shell.error("tools", "call", "get_turn", "{}", "--session", "other")


def test_a_call_without_a_session_uses_the_cabinet_of_the_store(tmp_path: Path) -> None:
    assert "no file cabinet" in Shell(tmp_path / "absent.db").error("tools", "call", "read_cabinet", '{"key": "f-1"}')
    assert "no file cabinet" not in shell_with(tmp_path).error("tools", "call", "read_cabinet", '{"key": "f-1"}')
