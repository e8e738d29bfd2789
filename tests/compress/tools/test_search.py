"""Searches count hits and files, and show a path once."""

from __future__ import annotations

from support.exchanges import smoothed, summary

HITS = "\n".join(["a.py:1:load_rows()", "a.py:9:  load_rows(x)", "b/c.py:3:def load_rows():"])


def test_a_search_is_its_pattern_and_its_hits() -> None:
    said = summary("grep", {"pattern": "load_rows"}, HITS)
    assert said == '{grep "load_rows": 3 hits in 2 files, first a.py}'
    assert summary("Grep", {"pattern": "x", "path": "src"}, "No matches found") == '{Grep "x" in src: no hits}'
    assert summary("Glob", {"pattern": "**/*.py"}, "a.py\nb.py\nc.py") == '{Glob "**/*.py": 3 files: a.py, b.py, …}'


def test_hits_stand_under_their_file() -> None:
    assert smoothed("grep", {"pattern": "load_rows"}, HITS) == [
        "a.py:",
        "1: load_rows()",
        "9: load_rows(x)",
        "b/c.py:",
        "3: def load_rows():",
    ]


def test_output_of_an_unknown_tool_is_known_for_hits() -> None:
    assert "3 hits in 2 files" in summary("look_around", {"what": "load_rows"}, HITS)
