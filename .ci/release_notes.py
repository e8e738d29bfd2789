"""Print the section of CHANGELOG.md for a version: `python .ci/release_notes.py v1.2.3`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def release_notes(changelog: str, version: str) -> str:
    """Return the text below the heading of a version, e.g. `## 1.2.3 (2026-12-01)`."""
    wanted = version.removeprefix("v")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.split()[:1] == [wanted]:
            return text.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md has no section for {wanted}")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004
        raise SystemExit(__doc__)
    sys.stdout.write(release_notes(CHANGELOG.read_text("utf-8"), sys.argv[1]))
