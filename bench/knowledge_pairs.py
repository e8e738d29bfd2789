"""How often a later statement replaces the earlier one that it should, in 480 pairs by 40 invented persons.

    python bench/knowledge_pairs.py

`data/knowledge/pairs.txt` was written after the rules of `foveate.knowledge.truth`, and nothing is tuned to it. It is
harder than conversations are: most pairs that both hold share a frame, and a third of the replacements share no word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from foveate.knowledge.statements import says_change
from foveate.knowledge.truth import read_claim

PAIRS = Path(__file__).resolve().parent / "data" / "knowledge" / "pairs.txt"
RELATIONS = ("replaces", "both", "none")


class Pair(NamedTuple):
    """Two statements of a person."""

    earlier: str
    later: str
    relation: str

    @property
    def is_replaced(self) -> bool:
        """Whether the later statement replaces the earlier one, as the product decides it."""
        return read_claim(self.later, is_change=says_change(self.later)).replaces(read_claim(self.earlier))


def read_pairs(path: Path = PAIRS) -> Iterator[Pair]:
    """Read the pairs of a file."""
    marked: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        mark, _, text = line.partition(" ")
        marked[mark] = text.strip()
        if mark == "=":
            yield Pair(marked["E:"], marked["L:"], marked["="])


def main() -> None:
    """Print the figures."""
    pairs = list(read_pairs())
    found = Counter(pair.relation for pair in pairs if pair.is_replaced)
    for relation in RELATIONS:
        print(f"{relation}: {found[relation]} of {sum(pair.relation == relation for pair in pairs)} replaced")
    print(f"precision {found['replaces'] / max(1, found.total()):.3f}")


if __name__ == "__main__":
    main()
