"""The example of each adapter's page runs as it is, against a scripted provider."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.docs_examples import python_examples
from support.paths import ROOT
from support.provider_process import provider
from support.upstream import Upstream, say

PAGES = {
    "clients": "openai",
    "langchain": "langchain_openai",
    "litellm": "litellm",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
}
"""Pages, and the package that each needs."""
ANSWERS = ("Aye, noted.", "Port 8443, matey.")


@pytest.mark.parametrize(("page", "package"), PAGES.items())
def test_the_pages_example_runs(page: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; `make adapters` runs this")
    for example in python_examples(ROOT / "docs" / "adapters" / f"{page}.md"):
        upstream = Upstream(lambda _: say(ANSWERS[len(upstream.bodies) - 1]))  # noqa: B023 - called within this round
        with provider(upstream) as variables:
            environment = {**os.environ, **variables}
            command = [sys.executable, "-c", example]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        assert (ran.returncode, ran.stdout) == (0, "\n".join((*ANSWERS, "2 turns\n"))), ran.stderr
        assert "The dev server is on port 8443." in str(upstream.bodies[1]), "the model sees the first turn"


def test_every_adapter_has_a_page() -> None:
    shared = {"__init__", "bridge", "pydantic_ai_store", "wrap"}
    adapters = {path.stem for path in (ROOT / "src" / "foveate" / "adapters").glob("*.py")} - shared
    pages = {path.stem.replace("-", "_") for path in (ROOT / "docs" / "adapters").glob("*.md")}
    assert pages == adapters | {"clients"}
