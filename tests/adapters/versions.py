"""Runs the tests of each adapter with the oldest and with the newest version of its framework: `make adapters`.

Each version is installed with what it needs into a folder of its own, which comes first on the path; so frameworks that
are too large for the development install are tested too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "test_adapter_pages.py"
VERSIONS: Final = {
    "openai_agents": ("openai-agents==0.24.0", "openai-agents"),
    "pydantic_ai": ("pydantic-ai-slim[openai]==2.66.0", "pydantic-ai-slim[openai]"),
    "langchain": ("langchain==1.4.0 langchain-openai", "langchain langchain-openai"),
    "claude_agent_sdk": ("claude-agent-sdk==0.2.180", "claude-agent-sdk"),
    "litellm": ("litellm==1.100.0", "litellm"),
    "wrap": ("openai==3.0.0 anthropic==2.0.0", "openai anthropic"),
}
"""By adapter. The oldest version is the floor of the adapter's extra."""


def run(adapter: str, requirements: str) -> bool:
    """Whether the tests of an adapter and the example of its page pass with these versions."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *requirements.split()]
        if subprocess.run(install, check=False).returncode:
            return False
        names = [re.split(r"[\[=]", requirement)[0] for requirement in requirements.split()]
        installed = {found.name: found.version for found in distributions(path=[folder])}
        print(f"{adapter}: {', '.join(f'{name} {installed[name]}' for name in names)}", flush=True)
        paths = [folder, str(HERE.parents[1] / "src")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        # Warnings of other versions are theirs.
        command = [sys.executable, "-c", "import sys, pytest; sys.exit(pytest.main())"]
        tests = [*map(str, sorted(HERE.glob(f"test_{adapter}*.py"))), str(PAGES)]
        page = "clients" if adapter == "wrap" else adapter.replace("_", "-")
        chosen = ["-m", "thorough or not thorough", "-k", f"test_{adapter} or ({PAGES.stem} and {page}-)"]
        options = ["-W", "ignore", "-q", "-rs", "-p", "no:cacheprovider"]
        return subprocess.run([*command, *tests, *chosen, *options], env=environment, check=False).returncode == 0


def main() -> None:
    wanted = sys.argv[1:] or list(VERSIONS)
    failed = [
        f"{adapter}: {requirements}"
        for adapter in wanted
        for requirements in VERSIONS[adapter]
        if not run(adapter, requirements)
    ]
    sys.exit("\n".join(["failed:", *failed]) if failed else 0)


if __name__ == "__main__":
    main()
