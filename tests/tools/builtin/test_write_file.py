"""`write_file` and `edit_file`: whole or not at all, within the roots."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import foveate
from foveate.tools import Toolbox, Workspace, registry
from foveate.tools.settings import ToolsSettings
from support.tooling import answer, refusal


def test_a_file_is_created_with_its_folders_and_replaced_with_its_mode(tmp_path: Path) -> None:
    assert answer(tmp_path, "write_file", path="a/b/run.sh", content="one\n") == "Created a/b/run.sh (4 bytes).\n"
    (tmp_path / "a/b/run.sh").chmod(0o751)
    assert answer(tmp_path, "write_file", path="a/b/run.sh", content="zwölf") == "Replaced a/b/run.sh (6 bytes).\n"
    assert (tmp_path / "a/b/run.sh").stat().st_mode & 0o777 == 0o751
    assert list((tmp_path / "a/b").iterdir()) == [tmp_path / "a/b/run.sh"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "a.txt: no space left on device" in refusal(tmp_path, "write_file", path="a.txt", content="new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


@pytest.mark.parametrize("name", ["x" * 300, "d/" * 3_000, f"{'é' * 200}/a"])
def test_a_path_that_is_too_long_is_an_answer_of_every_file_tool(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    patch = "*** Begin Patch\n*** {}\n*** End Patch"
    calls: list[tuple[str, dict[str, str]]] = [
        *(("apply_patch", {"patch": patch.format(f"{what} File: {name}")}) for what in ("Delete", "Add")),
        ("write_file", {"path": name, "content": "x"}),
        ("edit_file", {"path": name, "old_string": "a", "new_string": "b"}),
        *(("grep", {"path": name, "pattern": "x"}), ("file_search", {"path": name, "query": "x"})),
        *((tool, {"path": name}) for tool in ("read_file", "list_dir", "view_image")),
    ]
    for tool, arguments in calls:
        assert "too long" in refusal(tmp_path, tool, **arguments), tool
    assert not caplog.records


def test_what_is_outside_the_folders_is_not_told_by_a_patch(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to("/tmp")
    for name in ("../link", "../nothing"):
        patch = f"*** Begin Patch\n*** Delete File: {name}\n*** End Patch"
        assert "outside the folders" in refusal(tmp_path / "root", "apply_patch", patch=patch)


def test_what_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/tmp")
    os.mkfifo(tmp_path / "pipe")
    small = Workspace.at([tmp_path], settings=ToolsSettings(max_file_bytes=3))
    assert "is a folder" in refusal(tmp_path, "write_file", path=".", content="x")
    assert "journal of patches" in refusal(tmp_path, "write_file", path=".foveate-patch", content="{}")
    assert "journal of patches" in refusal(
        tmp_path, "edit_file", path="./.foveate-patch", old_string="a", new_string="b"
    )
    assert "not a regular file" in refusal(tmp_path, "write_file", path="pipe", content="x")
    assert "outside the folders" in refusal(tmp_path, "write_file", path="out/x", content="x")
    assert "outside the folders" in refusal(tmp_path, "write_file", path="../x", content="x")
    assert "lone surrogate at character 1" in refusal(tmp_path, "write_file", path="x", content="a\ud800")
    assert "tools.max_file_bytes (3)" in refusal(small, "write_file", path="x", content="long")
    assert "missing required field 'content'" in refusal(tmp_path, "write_file", path="x")


def test_a_read_only_folder_is_named() -> None:
    """Not even root can create a file below /sys."""
    assert refusal(Path("/sys/kernel"), "write_file", path="x", content="x").startswith("Error: x: ")


def test_a_passage_is_replaced_where_it_is_unique(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"a = 1\r\nb = 2\r\na = 1\r\n")
    answer(tmp_path, "edit_file", path="a.py", old_string="1\nb = 2\n", new_string="1\nb = 3\n")
    assert file.read_bytes() == b"a = 1\r\nb = 3\r\na = 1\r\n"
    said = refusal(tmp_path, "edit_file", path="a.py", old_string="a = 1", new_string="a = 2")
    assert "occurs 2 times in a.py (at lines 1, 3)" in said
    assert answer(tmp_path, "edit_file", path="a.py", old_string="a = 1", new_string="", replace_all=True) == (
        "Replaced 2 occurrences in a.py.\n"
    )


def test_a_passage_that_is_not_there_is_answered_with_the_nearest_place(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return  2\n")
    said = refusal(tmp_path, "edit_file", path="a.py", old_string="def g():\n  return 2\n", new_string="")
    assert "Nearest place:\n     4\tdef g():\n     5\t    return  2\n" in said
    assert "nothing to change" in refusal(tmp_path, "edit_file", path="a.py", old_string="f", new_string="f")


def test_an_edit_keeps_the_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1", "utf-8-sig"):
        (tmp_path / "a.txt").write_bytes("grün\n".encode(encoding))
        answer(tmp_path, "edit_file", path="a.txt", old_string="grün", new_string="blau ü")
        assert (tmp_path / "a.txt").read_bytes() == "blau ü\n".encode(encoding)
    (tmp_path / "a.txt").write_bytes(b"gr\xfcn")
    said = refusal(tmp_path, "edit_file", path="a.txt", old_string="grün", new_string="5 €")
    assert "encoded in latin-1, which has no '€'" in said


RESERVED = (".foveate-patch", ".foveate-patch.tmp", ".Foveate-Patch", ".foveate-0123456789abcdef.old")
STORE = ("store.db", "store.db-wal", "store.db-journal")


@pytest.mark.parametrize("name", ["write_file", "write_from_cabinet", "apply_patch", "a rename"])
def test_no_file_tool_makes_a_file_or_folder_of_a_reserved_name(tmp_path: Path, name: str) -> None:
    """Afterwards patches are applied as before."""

    async def test() -> None:
        (tmp_path / "work").mkdir()
        async with foveate.open(tmp_path / "work" / "store.db") as fov:
            box = Toolbox.of_pack("all", Workspace.at([tmp_path / "work"], fov=fov), approve=_yes)
            entry = await fov.cabinet.file(b"x\n", name="x")
            await box.call("write_file", {"path": "a.txt", "content": "x\n"})
            before = sorted((tmp_path / "work").iterdir())
            for reserved in (*RESERVED, *STORE):
                for path in (reserved, f"{reserved}/x", f"./{reserved}/deep/x"):
                    change = (
                        f"Update File: a.txt\n*** Move to: {path}\n@@\n-x"
                        if name == "a rename"
                        else f"Add File: {path}"
                    )
                    patch = f"*** Begin Patch\n*** {change}\n+y\n*** End Patch"
                    arguments = {"path": path, "content": "x\n", "key": entry.key, "patch": patch}
                    called = "apply_patch" if name == "a rename" else name
                    takes = registry.find(called).argument_names
                    output = await box.call(called, {key: arguments[key] for key in takes})
                    assert output.is_error, path
                    assert "tools can't" in output.text, output.text
            assert sorted((tmp_path / "work").iterdir()) == before
            patch = "*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch"
            assert not (await box.call("apply_patch", {"patch": patch})).is_error

    asyncio.run(test())


def test_something_else_with_the_name_of_the_journal_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / ".foveate-patch").mkdir()
    box = Toolbox.of_pack("file-ops", Workspace.at([tmp_path]), approve=_yes)
    patch = "*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch"
    text = asyncio.run(box.call("apply_patch", {"patch": patch})).text
    assert f"rm -r {tmp_path / '.foveate-patch'}" in text


async def _yes(*_: object) -> bool:
    return True
