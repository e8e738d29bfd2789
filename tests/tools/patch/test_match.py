"""Hunks find their place: exactly, then apart from white space; what is not found is explained."""

from __future__ import annotations

import pytest

from foveate.tools.patch.changes import Hunk, PatchError, PatchLine
from foveate.tools.patch.match import apply_hunks
from foveate.tools.patch.plan import parse_patch

CODE = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


def codex(body: str) -> tuple[Hunk, ...]:
    return parse_patch(f"*** Begin Patch\n*** Update File: a\n{body}*** End Patch\n")[0].hunks


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("-        return 1\n+        return 2\n", [3]),
        ("@@ class B:\n-        return 1\n+        return 2\n", [7]),
        ("@@ class B:\n class B:\n     def f(self):\n-        return 1\n+        return 2\n", [7]),
        ("     def f(self):  \n-        return 1   \n+        return 2\n", [3]),
        ("   def f( self ):\n-return 1\n+        return 2\n".replace("( self )", "(self)"), [3]),
        ("-        return 1\n+        return 2\n*** End of File\n", [7]),
        ("-        return 1\n+        return 2\n@@\n-        return 1\n+        return 2\n", [3, 7]),
        ("@@ class B\n     def f(self):\n-        return 1\n+        return 2\n \n", [7]),
    ],
)
def test_a_hunk_is_found_by_context_anchor_and_fuzz(body: str, changed: list[int]) -> None:
    new = apply_hunks(CODE, codex(body), "\n").splitlines()
    assert [number for number, line in enumerate(new, 1) if line == "        return 2"] == changed
    assert [line for line in new if "2" not in line] == [
        line for number, line in enumerate(CODE.splitlines(), 1) if number not in changed
    ], "kept lines are as the file has them"


def test_line_numbers_decide_between_places_that_are_alike() -> None:
    lines = (PatchLine("-", "x"), PatchLine("+", "y"))
    assert apply_hunks("x\na\nx\nb\nx\n", [Hunk(lines, place=3)], "\n") == "x\na\ny\nb\nx\n"


def test_lines_without_context_go_behind_the_anchor_or_to_the_end() -> None:
    assert apply_hunks("a\nb\n", codex("@@ a\n+new\n"), "\n") == "a\nnew\nb\n"
    assert apply_hunks("a\nb", codex("+new\n"), "\n") == "a\nb\nnew\n"


def test_line_ends_are_kept() -> None:
    assert apply_hunks("a\r\nb\r\n", codex(" a\n-b\n+c\n"), "\r\n") == "a\r\nc\r\n"
    (bare,) = parse_patch("--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n")
    assert apply_hunks("x\n", bare.hunks, "\n") == "y"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("@@ class C:\n-x\n+y\n", "hunk 1 of 1: no line 'class C:' after line 0"),
        (
            "-        return  3\n+        return 4\n",
            "these lines were expected and not found:\n      \t        return  3\n",
        ),
        (
            " class A:\n     def f(self):\n-        return 9\n+x\n",
            "the nearest place is (the first difference is in line 3):\n     1\tclass A:\n",
        ),
        ("-    def h(self):\n+    def f(self):\n", "the new lines are already there, at line 2"),
        ("-class B:\n+class C:\n@@\n-class A:\n+class D:\n", "hunk 2 of 2: its lines are at line 1, before line 6"),
    ],
)
def test_a_hunk_that_does_not_apply_is_explained(body: str, problem: str) -> None:
    with pytest.raises(PatchError) as got:
        apply_hunks(CODE, codex(body), "\n")
    assert problem in str(got.value)
