"""The examples of the docs, for tests: found on their pages, and run."""

from __future__ import annotations

import re
import runpy
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path


def examples(page: Path, language: str, section: str = "") -> list[str]:
    """The blocks in a language on a page, or in one of its sections."""
    text = page.read_text("utf-8")
    if section:
        (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def python_examples(page: Path, section: str = "") -> list[str]:
    """The programs of a page, or of one of its sections."""
    return examples(page, "python", section)


def run_example(example: str, folder: Path) -> str:
    """What an example prints when it runs in this folder; in this process, which has imported everything already."""
    path, printed = folder / "example.py", StringIO()
    path.write_text(example, "utf-8")
    with chdir(folder), redirect_stdout(printed):
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()
