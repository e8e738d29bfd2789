"""Check the labels in `bench/data/labels`: which words of a message or turn a careful reader keeps, at three lengths.

    python bench/labels.py

Prints how many there are by language and kind, and the mean share of words that each length keeps.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

FOLDER = Path(__file__).parent / "data" / "labels"
TRAINING, SET_APART = FOLDER / "kept_words.jsonl", FOLDER / "set_apart.jsonl"
LENGTHS = ("text", "s", "c", "t")
"""A label's texts, each with words of the one before it only, in their order."""

_WORD = re.compile(r"\S+")
_MARKS = ".,;:!?\u2026()[]{}\"'\u201c\u201d\u201e\u00ab\u00bb*_`|-\u2013\u2014>#"


@dataclass(frozen=True, slots=True)
class Label:
    """A message or turn, and what is kept of it: about .70 (`s`) and .38 (`c`) of its words, and one sentence (`t`)."""

    id: str
    lang: str
    kind: str
    text: str
    s: str
    c: str
    t: str


def read_labels(path: Path) -> Iterator[Label]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield Label(**json.loads(line))


def words_of(text: str) -> list[str]:
    """Return the words without punctuation around them."""
    return [word for found in _WORD.findall(text) if (word := found.strip(_MARKS))]


def is_within(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether the words of one text stand in the other, in their order."""
    rest = iter(long)
    return all(word in rest for word in short)


def faults(label: Label) -> list[str]:
    """Return what is wrong with a label."""
    texts = [words_of(getattr(label, name)) for name in LENGTHS]
    pairs = zip(LENGTHS, LENGTHS[1:], texts, texts[1:], strict=False)
    return [
        f"{short} has words that {long} has not, or in another order"
        for long, short, whole, kept in pairs
        if not is_within(kept, whole)
    ]


def main() -> None:
    for path in (TRAINING, SET_APART):
        labels = list(read_labels(path))
        print(f"{path.name}: {len(labels)} labels")
        for (lang, kind), count in sorted(Counter((label.lang, label.kind) for label in labels).items()):
            print(f"  {count:4} {lang} {kind}")
        for name in ("s", "c", "t"):
            shares = [len(words_of(getattr(label, name))) / len(words_of(label.text)) for label in labels]
            print(f"  {name}: {fmean(shares):.2f} of the words")
        for label in labels:
            for fault in faults(label):
                print(f"  {label.id}: {fault}")


if __name__ == "__main__":
    main()
