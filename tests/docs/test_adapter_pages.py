"""The example of each adapter runs as it is, against a scripted provider."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.docs_examples import python_examples
from support.paths import ROOT
from support.provider_process import provider
from support.upstream import Upstream, say

PAGE = ROOT / "docs" / "guides" / "frameworks.md"
SECTIONS = {
    "Claude Agent SDK": "claude_agent_sdk",
    "The packages openai and anthropic": "openai",
    "LangChain and LangGraph": "langchain_openai",
    "LiteLLM": "litellm",
    "OpenAI Agents SDK": "agents",
    "Pydantic AI": "pydantic_ai",
}
"""Sections of the page, and the package that each needs."""
ANSWERS = ("Aye, noted.", "Port 8443, matey.")
CLAUDE_CODE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
"""The Claude Agent SDK runs Claude Code, which needs the second to run as root."""


@pytest.mark.parametrize(("section", "package"), SECTIONS.items())
def test_the_examples_of_an_adapter_run(section: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; `make adapters` runs this")
    examples = python_examples(PAGE, section)
    upstream = Upstream(lambda body: say(ANSWERS["Which port" in str((body.get("messages") or body["input"])[-1])]))
    with provider(upstream) as variables:
        environment = {**os.environ, **variables, **CLAUDE_CODE, "HOME": str(tmp_path)}
        command = [sys.executable, "-c", "\n".join(examples)]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    printed = "\n".join((*ANSWERS, "2 turns\n")) * len(examples)
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
    asked = [str(body) for body in upstream.bodies if "Which port" in str(body)]
    assert len(asked) == len(examples)
    assert all("The dev server is on port 8443." in body for body in asked), "the model sees the first turn"


def test_every_adapter_has_an_example() -> None:
    shared = {"__init__", "bridge", "pydantic_ai_store", "wrap"}
    adapters = {path.stem for path in (ROOT / "src" / "foveate" / "adapters").glob("*.py")} - shared
    imported = set(re.findall(r"^from foveate\.adapters\.(\w+) import", PAGE.read_text("utf-8"), re.MULTILINE))
    assert imported - shared == adapters
