"""Run every install line of the README and the docs in an empty environment: `python .ci/install_lines.py [EXTRAS …]`.

Without arguments all of them, e.g. `server` and `models,server`; each must leave a `foveate` that starts.
"""

# ruff: noqa: S603 - the commands are ours
from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINE = re.compile(r"pip install '?\.(?:\[([\w,-]+)\]|(?=[`\s]))")


def install_lines() -> list[str]:
    """Return the extras of all install lines of the pages, each once; "" is the package alone."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return sorted({found or "" for page in pages for found in _LINE.findall(page.read_text("utf-8"))})


def run(extras: str, folder: Path) -> None:
    """Install these extras in an empty environment, and start the command."""
    environment = folder / (extras.replace(",", "_") or "alone")
    wanted = f"{ROOT}[{extras}]" if extras else str(ROOT)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", wanted], check=True)
    shown = subprocess.run(
        [str(environment / "bin" / "foveate"), "--version"], check=True, capture_output=True, text=True
    )
    sys.stdout.write(f"pip install '.{f'[{extras}]' if extras else ''}': {shown.stdout}")
    shutil.rmtree(environment)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for line in sys.argv[1:] or install_lines():
            run(line, Path(name))
