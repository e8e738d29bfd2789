"""Listings name what is there, without modes and dates."""

from __future__ import annotations

from support.exchanges import smoothed, summary

LONG = """total 12
drwxr-xr-x 2 root root 4096 Nov 15 03:27 .
drwxr-xr-x 8 root root 4096 Nov 15 03:40 ..
drwxr-xr-x 2 root root 4096 Nov 15 03:40 docs
-rw-r--r-- 1 root root 1930 Nov 15 03:33 test_tags.py
"""


def test_a_listing_is_its_place_and_its_entries() -> None:
    assert summary("list_dir", {"path": "src"}, "a\nb\nc\nd\ne") == "{list_dir src: 5 entries: a, b, c, d, …}"
    assert summary("bash", {"command": "ls -la"}, LONG) == "{bash ls -la: 2 entries: docs/, test_tags.py 1930}"


def test_modes_owners_and_dates_go() -> None:
    assert smoothed("bash", {"command": "ls -la"}, LONG) == ["docs/", "test_tags.py 1930"]
