"""Files read and changed: path, size, and the names in them."""

from __future__ import annotations

from foveate.turn import Json
from support.exchanges import lines, smoothed, summary

MODULE = "\n".join(["import os", "", *(f"def step_{n}():\n    return os.{'abc'[n % 3]}\n" for n in range(60))])


def test_a_read_is_its_path_and_its_lines() -> None:
    assert summary("read_file", {"path": "src/auth/jwt.py"}, "x\n" * 212) == "{read_file src/auth/jwt.py: 212 lines}"
    assert summary("Read", {"file_path": "a.py", "offset": 40}, "x\ny") == "{Read a.py: 2 lines from 40}"


def test_a_read_that_failed_says_why() -> None:
    said = summary("read", {"path": "a.py"}, "Error: no such file a.py", is_error=True)
    assert said == "{read a.py: error, Error: no such file a.py}"


def test_a_write_is_its_path_and_its_lines() -> None:
    assert summary("write_file", {"path": "x.py", "content": "a = 1\n" * 40}, "ok") == "{write_file x.py: 40 lines}"


def test_an_edit_counts_lines_out_and_in_and_names_what_it_defines() -> None:
    edit = {"path": "x.py", "oldText": "a\nb", "newText": "def load_rows():\n    pass\n    return 1"}
    assert summary("edit", edit, "ok") == "{edit x.py: -2 +3 lines (load_rows)}"
    several: Json = {
        "file_path": "x.py",
        "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}],
    }
    assert summary("MultiEdit", several, "ok") == "{MultiEdit x.py: -2 +1 lines}"
    assert "-a" in lines("edit", {"path": "x", "old_string": "a", "new_string": "b"}, "ok")


def test_a_patch_names_its_files() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n+z\n*** Add File: b.py\n+q\n*** End Patch"
    assert summary("apply_patch", patch, "Done") == "{apply_patch src/a.py and 1 more: -1 +3 lines}"
    assert {"src/a.py", "-x", "+y"} <= set(lines("apply_patch", {"input": patch}, "Done"))


def test_an_editor_with_a_command_reads_or_writes() -> None:
    view = {"command": "view", "path": "a.py"}
    assert summary("str_replace_editor", view, "a\nb") == "{str_replace_editor a.py: 2 lines}"
    create = {"command": "create", "path": "a.py", "file_text": "a\nb\nc"}
    assert summary("str_replace_editor", create, "created") == "{str_replace_editor a.py: 3 lines}"


def test_the_middle_of_a_long_file_is_told_by_its_names() -> None:
    shown = smoothed("read", {"path": "a.py"}, MODULE)
    note = next(line for line in shown if line.startswith("(…"))
    assert "step_20" in note
    assert "def step_30():" in lines("read", {"path": "a.py"}, MODULE)
