"""What the docs show works: examples run, links lead somewhere."""

import gc
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from foveate import sync
from support.docs_examples import python_examples, run_example
from support.faulty_server import Said, environment, faulty_server, plain
from support.first_minutes_page import PAGE, generate
from support.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_readmes_lines_run_as_they_stand_and_again(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "README.md")
    for turn in ("T-1", "T-2"):
        ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith(f"{turn} ")
        assert "['messages', 'tools']" in ran.stdout
        assert "8443, behind the proxy." in ran.stdout
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    with sync.open(tmp_path / "chat.db") as fov:
        assert [pin.id for pin in fov.open_session("support-42").pins()] == ["P-1"]


def test_the_quickstarts_examples_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_server() as server:
        server.will(plain("openai", Said("8443, behind Caddy.")))
        for name, value in environment(server, "sk-test").items():
            monkeypatch.setenv(name, value)
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            printed = [run_example(example, tmp_path) for example in python_examples(PAGE)]
            gc.collect()  # a program closes its connections by ending
        (asked,) = (request.body for request in server.requests)
    assert printed[0].startswith("T-1\n[user] Which port")
    assert int(printed[1]) > 50
    assert printed[2] == "8443, behind Caddy.\n"
    assert "behind the proxy" in str(asked["messages"])
    assert "Caddy" in str(asked["messages"])
    assert {tool["function"]["name"] for tool in asked["tools"]} >= {"get_turn", "search_history"}


def test_the_first_ten_minutes_are_as_the_page_shows_them() -> None:
    assert PAGE.read_text("utf-8") == generate(), "run `python tests/support/first_minutes_page.py`"


def test_the_chats_example_runs(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "docs" / "guides" / "chat.md")
    assert re.fullmatch(r"8443\.\n\d+ of 8000 tokens\n", run_example(example, tmp_path))


def test_the_architecture_page_names_every_package_and_every_module_of_a_strategy() -> None:
    source = ROOT / "src" / "foveate"
    page = (ROOT / "docs" / "lab" / "architecture.md").read_text("utf-8")
    tree = set(re.findall(r"\w+", page.partition("## Where everything is")[2].partition("```")[2].partition("```")[0]))
    entries = [*source.iterdir(), *(source / "strategy").rglob("*.py")]
    names = {path.stem for path in entries if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")}
    assert names - {"__init__", "__main__"} <= tree
    for path in re.findall(r"`([a-z_]+/\w+\.py)`", page):
        assert (source / path).is_file(), path


CABINET = """f-bd3f000ecc16 65939
[(3, 'oak: 22 euros'), (7, 'oak: 26 euros')]
oak: 22 euros
pine: 23 euros
1 in the cabinet
"""
PROMPTS = """Review this Python code. Be polite and brief.
[1]
Mode: developer.
"""


EXAMPLES = {
    ("concepts/context.md", "Images and files"): "image/png\n",
    ("guides/tools.md", "Large results"): CABINET,
    ("guides/models.md", "Prompts"): PROMPTS,
    ("guides/agents.md", "Background agents"): "queued 1\ndone There are 12 sheep.\nTrue\n",
}


@pytest.mark.parametrize(("place", "printed"), EXAMPLES.items())
def test_the_examples_of_a_section_run(place: tuple[str, str], printed: str, tmp_path: Path) -> None:
    page, section = place
    (example,) = python_examples(ROOT / "docs" / page, section)
    assert run_example(example, tmp_path) == printed


@pytest.mark.parametrize(("section", "printed"), [("Streaming", ""), ("Concurrency", "20\n")])
def test_the_short_examples_of_the_agent_loop_run(section: str, printed: str, tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "docs" / "guides" / "agent-loop.md", section)
    assert run_example(example, tmp_path) == printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []
