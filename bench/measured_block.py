"""Puts measured tables into a page, between two marks."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "lab" / "benchmarks.md"


def write_block(bench: str, table: str) -> None:
    """Replace what docs/lab/benchmarks.md has between the marks of a bench, e.g. `bench/live.py`."""
    begin, end = f"<!-- {bench} -->\n", f"<!-- end of {bench} -->\n"
    before, found, rest = PAGE.read_text().partition(begin)
    if not found:
        sys.exit(f"{PAGE.name} has no line {begin!r}")
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}`python {bench} --write`, {machine}\n\n{table}\n{end}{after}")
