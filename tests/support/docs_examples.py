"""What tests take from the docs."""

from __future__ import annotations

import re
from pathlib import Path


def python_examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
