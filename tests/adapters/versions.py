"""Runs the tests of each adapter with the oldest and with the newest version of its framework: `make adapters`.

Each version is installed with what it needs into a folder of its own, which comes first on the path; so frameworks that
are too large for the development install are tested too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE = Path(__file__).parent
VERSIONS: Final = {
    "test_openai_agents.py": ("openai-agents==0.24.0", "openai-agents"),
    "test_pydantic_ai": ("pydantic-ai-slim==2.66.0", "pydantic-ai-slim"),
    "test_langchain.py": ("langchain==1.4.0", "langchain"),
    "test_claude_agent_sdk.py": ("claude-agent-sdk==0.2.180", "claude-agent-sdk"),
    "test_litellm.py": ("litellm==1.100.0", "litellm"),
    "test_wrap.py": ("openai==3.0.0 anthropic==2.0.0", "openai anthropic"),
}
"""The oldest version is the floor of the adapter's extra."""


def run(test: str, requirements: str) -> bool:
    """Whether the tests pass with these versions."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *requirements.split()]
        if subprocess.run(install, check=False).returncode:
            return False
        paths = [folder, str(HERE.parents[1] / "src")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        # Warnings of other versions are theirs.
        command = [sys.executable, "-c", "import sys, pytest; sys.exit(pytest.main())", str(HERE / test)]
        options = ["-m", "thorough or not thorough", "-W", "ignore", "-q", "-p", "no:cacheprovider"]
        return subprocess.run([*command, *options], env=environment, check=False).returncode == 0


def main() -> None:
    wanted = sys.argv[1:]
    failed = []
    for test, versions in VERSIONS.items():
        for requirements in versions:
            if any(word in test for word in wanted) or not wanted:
                print(f"{test}: {requirements}", flush=True)
                if not run(test, requirements):
                    failed.append(f"{test}: {requirements}")
    sys.exit("\n".join(["failed:", *failed]) if failed else 0)


if __name__ == "__main__":
    main()
