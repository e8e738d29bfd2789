"""What the docs show works: examples run, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readmes_lines_run_as_they_stand(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "README.md")
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("T-1 ")
    assert "8443, behind the proxy." in ran.stdout
    assert len([line for line in example.splitlines() if line.strip()]) <= 12


def test_the_quickstarts_blocking_example_runs(tmp_path: Path) -> None:
    example = python_examples(ROOT / "docs" / "quickstart.md")[0]
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("T-1\n[user] Which port")


def test_the_chats_example_runs(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "docs" / "chat.md")
    (tmp_path / "answers.toml").write_text('[[reply]]\nsays = "8443."\n')
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"8443\.\n\d+ of 8000 tokens\n", ran.stdout)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []
