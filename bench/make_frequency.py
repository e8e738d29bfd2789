"""Makes `src/foveate/compress/words/frequency.txt`: how common words are in seven languages.

Run from the project's root: python bench/make_frequency.py FOLDER

FOLDER is the `data` folder of the package wordfreq 3.1: its `small_*.msgpack.gz` list words in groups of one centibel.
Line n of the result has the words whose frequency is 10 ** (-n / 8). Rarer words are left out, and so are English
names: words that the vocabulary o200k_base has earlier with a capital.
"""

from __future__ import annotations

import argparse
import gzip
from base64 import b64decode
from pathlib import Path

import msgspec

KEPT = {"en": 22_000, "de": 4_000, "fr": 2_500, "es": 2_500, "it": 1_500, "nl": 1_500, "pt": 1_500}
"""Words of each language."""
LINES_PER_POWER = 8
LEAST_LETTERS = 2
UNKNOWN = 10**9
TARGET = Path(__file__).resolve().parents[1] / "src/foveate/compress/words/frequency.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    lines: dict[str, int] = {}
    names: set[str] = set()
    packed = (TARGET.parents[2] / "vocabularies" / "o200k_base.tiktoken.gz").read_bytes()
    tokens = (line.split()[0] for line in gzip.decompress(packed).splitlines())
    ranks = {b64decode(token).decode("utf-8", "replace"): rank for rank, token in enumerate(tokens)}
    for language, kept in KEPT.items():
        _, *groups = msgspec.msgpack.decode(gzip.decompress((folder / f"small_{language}.msgpack.gz").read_bytes()))
        ranked = ((word, place) for place, group in enumerate(groups) for word in group)
        words = [
            (word, place) for word, place in ranked if len(word) >= LEAST_LETTERS and word.replace("'", "").isalpha()
        ]
        for word, centibels in words[:kept]:
            if language == "en" and ranks.get(f" {word.capitalize()}", UNKNOWN) < ranks.get(f" {word}", UNKNOWN):
                names.add(word)
            if word in names:
                continue
            line = round(centibels * LINES_PER_POWER / 100)
            lines[word] = min(line, lines.get(word, line)) if language == "en" else lines.get(word, line)
    rows = [sorted(word for word, own in lines.items() if own == line) for line in range(max(lines.values()) + 1)]
    TARGET.write_text("\n".join(" ".join(row) for row in rows) + "\n", "utf-8")
    print(f"{len(lines)} words, {len(rows)} lines, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
