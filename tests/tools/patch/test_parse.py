"""Patches are read in both formats, and what can't be read is named by its line."""

from __future__ import annotations

import pytest

from foveate.tools.patch.changes import PatchError
from foveate.tools.patch.plan import parse_patch

CODEX = """\
*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@ class A:
@@     def f(self):
-        return 1
+        return 2
*** End of File
*** Add File: c.txt
+one
+
*** Delete File: d.txt
*** End Patch
"""


def test_codex_patches_list_files_anchors_and_lines() -> None:
    update, add, delete = parse_patch(f"apply_patch <<'EOF'\n{CODEX}EOF\n")
    assert (update.path, update.target) == ("a.py", "b.py")
    (hunk,) = update.hunks
    assert (hunk.anchors, hunk.old, hunk.new, hunk.at_end) == (
        ("class A:", "    def f(self):"), ["        return 1"], ["        return 2"], True
    )  # fmt: skip
    assert (add.kind, add.hunks[0].new) == ("add", ["one", ""])
    assert (delete.kind, delete.path) == ("delete", "d.txt")


GIT = """\
From 1234 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Ports

diff --git a/old name.py b/new.py
similarity index 90%
rename from old name.py
rename to new.py
--- a/old name.py
+++ b/new.py
@@ -1,2 +1,2 @@ def main():
 x
---- y
+++ y
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git "a/gr\\303\\274n" "b/gr\\303\\274n"
deleted file mode 100644
--- "a/gr\\303\\274n"
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
--
2.40
"""


def test_git_diffs_rename_change_modes_and_quote_paths() -> None:
    renamed, mode, deleted = parse_patch(GIT.replace("\n--\n", "\n-- \n"))
    assert (renamed.path, renamed.target) == ("old name.py", "new.py")
    assert [tuple(line) for line in renamed.hunks[0].lines] == [(" ", "x"), ("-", "--- y"), ("+", "++ y")]
    assert (mode.path, mode.mode, mode.hunks) == ("run.sh", 0o755, ())
    assert (deleted.kind, deleted.path) == ("delete", "grün")


def test_plain_diffs_have_no_prefixes_and_may_announce_too_few_lines() -> None:
    (change,) = parse_patch("--- src/a.py\t2026-01-01\n+++ src/a.py\t2026-01-02\n@@ -5,1 +5,1 @@\n a\n-b\n+c\n d\n")
    assert change.path == "src/a.py"
    assert (change.hunks[0].place, change.hunks[0].old) == (4, ["a", "b", "d"])


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("hello", "there is no patch"),
        (CODEX.replace("*** End Patch\n", ""), "cut off"),
        (CODEX.replace("+one", "one"), "line 10 of the patch: each line of the new file c.txt starts with"),
        (CODEX.replace("-    ", "x    "), "line 6 of the patch, 'x        return 1', starts with neither"),
        (CODEX.replace("Add File: c.txt", "Add File: "), "line 9 of the patch names no file"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the update of a has no changes"),
        ("*** Begin Patch\nUpdate a\n*** End Patch", "line 2 of the patch, 'Update a', is no header"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n", "line 3 of the patch: the hunk '@@ -1,3 +1,3 @@' is cut off"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk without '--- PATH' and '+++ PATH' above it"),
        ("diff --git a/x b/x\nGIT binary patch\n", "binary patches can't be applied"),
        ("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n", "symbolic links"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "/dev/null on both sides"),
    ],
)
def test_a_patch_that_can_not_be_read_is_refused_by_its_line(patch: str, problem: str) -> None:
    with pytest.raises(PatchError) as got:
        parse_patch(patch)
    assert problem in str(got.value)


def test_a_number_of_thousands_of_digits_is_no_line_number() -> None:
    (found,) = parse_patch(f"--- a/x\n+++ b/x\n@@ -{'9' * 5_000},2 +1,1 @@\n a\n-b\n")
    assert [line.text for line in found.hunks[0].lines] == ["a", "b"]
