"""Diffs keep what changed, and count it."""

from __future__ import annotations

from support.exchanges import lines, smoothed, summary

DIFF = """diff --git a/src/a.py b/src/a.py
index 15fe0a1..22bb001 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,7 +1,8 @@
 one
 two
 three
-four
+vier
+def five():
 six
 seven
 eight
"""


def test_a_diff_is_its_files_and_its_size() -> None:
    said = summary("bash", {"command": "git diff"}, DIFF)
    assert said == "{bash git diff: 1 file, -1 +2 lines (five): src/a.py}"


def test_changed_lines_are_the_key_lines() -> None:
    assert lines("bash", {"command": "git diff"}, DIFF)[:4] == ["src/a.py", "-four", "+vier", "+def five():"]


def test_a_smoothed_diff_keeps_one_line_around_a_change() -> None:
    shown = smoothed("bash", {"command": "git diff"}, DIFF)
    assert shown[-5:] == [" three", "-four", "+vier", "+def five():", " six"]
    assert not any(line.startswith("index") for line in shown)
