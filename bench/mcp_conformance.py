"""Sums up the results of MCP's conformance suite: what passed, what needs a feature that is not offered, what failed.

python bench/mcp_conformance.py FOLDER      # with one folder for each revision, as mcp_conformance.sh makes it

A check needs a feature that is not offered if the suite says that it could not test it, or if the server rightly
answered that there is no such method or tool (the suite calls test tools of its own, prompts and resources).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

NOT_OFFERED = (
    "Not testable",
    "Method not found",
    "there is no tool",
    "not found. Available tools",
    "Expected InputRequiredResult",
    "could not get initial InputRequiredResult",
)


def judge(check: dict[str, object]) -> str:
    """What became of one check: `passed`, `not offered`, `failed`, or the suite's own word for the rest."""
    status = str(check["status"])
    if status != "FAILURE":
        return {"SUCCESS": "passed", "WARNING": "warnings"}.get(status, "skipped")
    message = str(check.get("errorMessage") or check.get("details"))
    return "not offered" if any(words in message for words in NOT_OFFERED) else "failed"


def main(folder: Path) -> int:
    failures: list[str] = []
    kinds = ("passed", "failed", "not offered", "warnings")
    print(f"{'revision':12}" + "".join(f"{kind:>13}" for kind in kinds))
    for revision in sorted(path for path in folder.iterdir() if path.is_dir()):
        counts: Counter[str] = Counter()
        for path in sorted(revision.glob("*/checks.json")):
            for check in json.loads(path.read_text("utf-8")):
                verdict = judge(check)
                counts[verdict] += 1
                if verdict == "failed":
                    failures.append(f"{revision.name} {check['id']}: {check.get('errorMessage')}")
        print(f"{revision.name:12}" + "".join(f"{counts[kind]:13}" for kind in kinds))
        if not counts["passed"]:
            failures.append(f"{revision.name}: nothing was tested")
    print("\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
