"""`apply_patch`: applied to all files or to none, within the roots, with a warning for broken syntax."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from foveate.tools.patch import syntax
from support.tooling import answer, refusal

UPDATE = "*** Begin Patch\n*** Update File: {}\n-{}\n+{}\n*** End Patch\n"


def test_a_patch_answers_with_the_files_it_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "run.sh").write_text("echo\n")
    diff = (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/a.txt b/copy.txt\ncopy from a.txt\ncopy to copy.txt\n"
    )
    assert answer(tmp_path, "apply_patch", patch=diff) == (
        "Applied to 3 files:\nM a.txt +1 -1\nM run.sh\nM a.txt -> copy.txt\n"
    )
    assert (tmp_path / "copy.txt").read_text() == "one\n2\n"
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755


def test_all_that_is_wrong_is_listed_and_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Update File: b.txt\n-three\n+3\n"
        "*** Delete File: c.txt\n*** Add File: a.txt\n+x\n*** End Patch\n"
    )
    said = refusal(tmp_path, "apply_patch", patch=patch)
    assert "the patch does not apply; nothing was changed.\nb.txt: hunk 1 of 1: these lines were expected" in said
    assert "c.txt does not exist; did you mean" in said
    assert "a.txt exists already" in said
    assert (tmp_path / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../x", "outside the folders"),
        ("/etc/hosts", "outside the folders"),
        ("link/x", "outside the folders"),
        ("loop", "too many symbolic links"),
        ("sub", "is a folder"),
        ("pipe", "not a regular file"),
        ("a.bin", "is a binary file"),
        ("big.txt", "more than tools.max_file_bytes"),
        (".foveate-patch", "journal"),
    ],
)
def test_a_path_that_can_not_be_patched_is_refused(tmp_path: Path, path: str, problem: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    (root / "a.bin").write_bytes(b"\0")
    (root / "big.txt").touch()
    os.truncate(root / "big.txt", 1 << 30)
    (root / "a.txt").write_text("old\n")
    assert problem in refusal(root, "apply_patch", patch=UPDATE.format(path, "old", "new"))
    moved = UPDATE.format(f"a.txt\n*** Move to: {path}", "old", "new")
    said = refusal(root, "apply_patch", patch=moved)
    assert problem in said or "exists already" in said
    assert (root / "a.txt").read_text() == "old\n"


def test_links_are_followed_for_updates_and_never_deleted_or_renamed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old\n")
    (tmp_path / "link.txt").symlink_to("real.txt")
    answer(tmp_path, "apply_patch", patch=UPDATE.format("link.txt", "old", "new"))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new\n"
    delete = "*** Begin Patch\n*** Delete File: link.txt\n*** End Patch\n"
    assert "is a symbolic link" in refusal(tmp_path, "apply_patch", patch=delete)
    moved = UPDATE.format("link.txt\n*** Move to: b.txt", "new", "x")
    assert "is a symbolic link" in refusal(tmp_path, "apply_patch", patch=moved)


def test_a_file_in_place_of_a_folder_and_a_read_only_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    add = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"
    assert "a.txt/b.txt: not a directory" in refusal(tmp_path, "apply_patch", patch=add.format("a.txt/b.txt"))
    assert "nothing was changed" in refusal(Path("/sys/kernel"), "apply_patch", patch=add.format("x"))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("a.py", "x = 1", "x = (1"),
        ("a.ts", "let x: number = 1;", "let x: number = ;"),
        ("a.json", "{}", "{"),
        ("a.go", "package a", "package ("),
        ("a.rs", "fn f() {}", "fn f( {}"),
        ("a.java", "class A {}", "class A {"),
        ("a.sh", "echo $x", "echo $("),
        ("a.js", "f(1)", "f(1"),
    ],
)
def test_a_patch_that_breaks_the_syntax_is_applied_with_a_warning(
    tmp_path: Path, name: str, good: str, bad: str
) -> None:
    (tmp_path / name).write_text(f"{good}\n")
    said = answer(tmp_path, "apply_patch", patch=UPDATE.format(name, good, bad))
    assert f"Warning: {name} has a syntax error that was not there before, at line 1: {bad}" in said
    assert "Warning" not in answer(tmp_path, "apply_patch", patch=UPDATE.format(name, bad, bad + " "))
    assert "Warning" not in answer(tmp_path, "apply_patch", patch=UPDATE.format(name, bad, good))


def test_without_tree_sitter_there_are_no_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    syntax._parser.cache_clear()
    (tmp_path / "a.py").write_text("x\n")
    assert "Warning" not in answer(tmp_path, "apply_patch", patch=UPDATE.format("a.py", "x", "x("))
    monkeypatch.undo()
    syntax._parser.cache_clear()
