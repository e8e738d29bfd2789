"""Prepare renditions for readers: each level of two versions side by side as A and B, and the sentences of C.

    python bench/blind_renditions.py make old.jsonl                              # in the project's root of each version
    python bench/blind_renditions.py pair old.jsonl new.jsonl --out FOLDER --key key.json
    python bench/blind_renditions.py score FOLDER key.json

`make` writes S, C and T of 60 turns: those of `data/turns_held_out.toml` and a sample of the labels set apart with a
fixed seed. `pair` writes a page for each level and `verdicts.csv`, where a reader enters `A`, `B` or `=` for each
pair, and `sentences.md` with `broken.csv`, where a reader enters `x` for each sentence of the new C that is broken or
says something else than the turn. The key says which of A and B is new, and is kept away from the readers. `score`
counts.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from annotations import load_dense
from foveate.compress.local import LocalCompressor
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message
from labels import as_messages

LABELS = Path(__file__).parent / "data" / "labels" / "set_apart.jsonl"
TURNS, SEED = 60, 30
LEVELS = ("S", "C", "T")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


def turns() -> Iterator[tuple[str, Sequence[Message]]]:
    dense = [(turn.id, turn.messages) for turn in load_dense("held_out")]
    labels = [json.loads(line) for line in LABELS.read_text("utf-8").splitlines()]
    long = [label for label in labels if count_tokens(label["text"]) >= 80]
    chosen = random.Random(SEED).sample(long, TURNS - len(dense))
    yield from dense
    yield from ((label["id"], as_messages(label["text"], label["kind"])) for label in chosen)


def make(out: Path) -> None:
    with out.open("w", encoding="utf-8") as file:
        for name, messages in turns():
            made = LocalCompressor().compress(1, messages, count_tokens)
            row = {
                "id": name,
                "R": turn_text(tuple(messages)),
                "S": made.smoothed,
                "C": made.compressed,
                "T": made.tiny,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def pair(old: Path, new: Path, out: Path, key: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(SEED)
    rows = [[json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in (old, new)]
    sides: dict[str, str] = {}
    for level in LEVELS:
        parts = [f"# {level}: which of the two would you sign as a shorter version of the turn?\n"]
        for before, after in zip(*rows, strict=True):
            name = f"{level}/{after['id']}"
            sides[name] = chance.choice("AB")
            first, second = (after, before) if sides[name] == "A" else (before, after)
            texts = {"turn": after["R"], "A": first[level], "B": second[level]}
            parts += [
                f"## {name}\n",
                *(f"**{side}**\n\n```text\n{text.strip()}\n```\n" for side, text in texts.items()),
            ]
        (out / f"{level}.md").write_text("\n".join(parts), "utf-8")
    _table(out / "verdicts.csv", ["pair", "A, B or ="], list(sides))
    shown, names = ["# Sentences of C: which are broken, or say something else than the turn?\n"], []
    for row in rows[1]:
        shown.append(f"## {row['id']}\n\n```text\n{row['R'].strip()}\n```\n")
        for number, sentence in enumerate(filter(str.strip, _SENTENCE.split(row["C"])), 1):
            names.append(f"{row['id']}/{number}")
            shown.append(f"- **{number}** {sentence}")
        shown.append("")
    (out / "sentences.md").write_text("\n".join(shown), "utf-8")
    _table(out / "broken.csv", ["sentence", "x if broken"], names)
    key.write_text(json.dumps(sides, indent=1), "utf-8")


def _table(path: Path, head: Sequence[str], names: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *([name, ""] for name in names)])


def score(folder: Path, key: Path) -> None:
    sides: dict[str, Any] = json.loads(key.read_text("utf-8"))
    counts: Counter[tuple[str, str]] = Counter()
    for name, verdict in _read(folder / "verdicts.csv"):
        side = verdict.strip().upper()
        if side:
            kind = "equal" if side == "=" else "new" if side == sides[name] else "old"
            counts[name.partition("/")[0], kind] += 1
    for level in LEVELS:
        print(level, {kind: counts[level, kind] for kind in ("new", "old", "equal")})
    broken = [bool(mark.strip()) for _, mark in _read(folder / "broken.csv")]
    print(f"broken sentences of C: {sum(broken)} of {len(broken)}")


def _read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["make", "pair", "score"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--key", type=Path)
    arguments = parser.parse_args()
    match arguments.command, arguments.paths:
        case "make", [out]:
            make(out)
        case "pair", [old, new] if arguments.out and arguments.key:
            pair(old, new, arguments.out, arguments.key)
        case "score", [folder, key]:
            score(folder, key)
        case _:
            sys.exit("see --help")


if __name__ == "__main__":
    main()
