"""Do renditions made without a model change what was said? 200 probes of each of three kinds.

Run from the project's root: python bench/probes.py [--show N]

`data/probes.toml` has sentences whose claim changes if words are lost: their meaning is reversed, their certainty is
changed, or a fact is given to another. Each is put into turns, as the user's and as the assistant's words, and S, C, T,
the brief form and the units of the turn are searched for the wrong claim.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Literal, get_args

from foveate.compress.local import LocalCompressor
from foveate.tokens import count_tokens
from foveate.turn import Message, Text

DATA = Path(__file__).parent / "data" / "probes.toml"
Kind = Literal["reversed", "certainty", "another"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PER_KIND = 200
_PARTS = re.compile(r"(?<=[.!?])\s+|\n|;\s|\[assistant\] ")
_NAMES = "abcd"


@dataclass(frozen=True, slots=True)
class Probe:
    """A sentence in a turn, and the claim that no rendition may make."""

    kind: Kind
    sentence: str
    messages: tuple[Message, ...]
    claim: re.Pattern[str]
    keep: re.Pattern[str] | None

    def is_wrong(self, text: str) -> bool:
        """Return whether a sentence or line of a rendition makes the claim without what makes it right."""
        words = set(re.findall(r"\w+", self.sentence))
        for part in _PARTS.split(text):
            own = words & set(re.findall(r"\w+", part))
            if self.claim.search(part) and len(own) > 1 and not (self.keep and self.keep.search(part)):
                return True
        return False


def load_probes(per_kind: int = PER_KIND) -> Iterator[Probe]:
    """Yield as many probes of each kind: every template in as many turns as it takes."""
    data = tomllib.loads(DATA.read_text("utf-8"))
    places = list(product(range(len(data["turns"])), ("user", "assistant")))
    for kind in KINDS:
        filled = [_filled(one, values) for row in _rows(data[kind]) for one, values in row]
        rounds = (
            _probe(kind, filled[(number + turn) % len(filled)], data["turns"][place[0]], place[1])
            for turn, place in enumerate(places)
            for number in range(len(filled))
        )
        yield from islice(rounds, per_kind)


def _rows(templates: list[dict[str, object]]) -> Iterator[list[tuple[dict[str, object], list[str]]]]:
    """Yield the first values of every template, then the second ones."""
    longest = max(len(one["fill"]) for one in templates)  # type: ignore[arg-type]
    for row in range(longest):
        yield [(one, one["fill"][row]) for one in templates if row < len(one["fill"])]  # type: ignore[arg-type,index]


def _filled(template: dict[str, object], values: list[str]) -> tuple[str, str, str]:
    said, claim, keep = (str(template.get(name, "")) for name in ("say", "claim", "keep"))
    for name, value in zip(_NAMES, values, strict=False):
        said = said.replace(f"{{{name}}}", value)
        claim, keep = (text.replace(f"{{{name}}}", re.escape(value)) for text in (claim, keep))
    return said, claim, keep


def _probe(kind: Kind, found: tuple[str, str, str], turn: list[str], role: str) -> Probe:
    said, claim, keep = found
    text = " ".join(part.replace("{}", said) for part in turn if part)
    own, other = (text, "Noted, I will see to it.") if role == "user" else ("How does it look?", text)
    messages = (Message("user", (Text(own),)), Message("assistant", (Text(other),)))
    return Probe(kind, said, messages, re.compile(claim), re.compile(keep) if keep else None)


def wrong_levels(probe: Probe) -> dict[str, str]:
    """Return the renditions of a probe's turn that make its claim."""
    made = LocalCompressor().compress(1, probe.messages, count_tokens)
    units = "\n".join(unit.text for unit in made.units)
    texts = {"S": made.smoothed, "C": made.compressed, "T": made.tiny, "brief": made.brief, "units": units}
    return {level: text for level, text in texts.items() if probe.is_wrong(text)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N wrong renditions of each kind")
    arguments = parser.parse_args()
    counts: Counter[tuple[Kind, str]] = Counter()
    shown: Counter[Kind] = Counter()
    for probe in load_probes():
        found = wrong_levels(probe)
        counts[probe.kind, "probes"] += 1
        counts[probe.kind, "any of S, C, T, units"] += bool(found.keys() - {"brief"})
        counts.update((probe.kind, level) for level in found)
        if found and shown[probe.kind] < arguments.show:
            shown[probe.kind] += 1
            print(f"{probe.kind}: {probe.sentence}", *(f"  {level}: {text}" for level, text in found.items()), sep="\n")
    columns = ["probes", "any of S, C, T, units", "S", "C", "T", "units", "brief"]
    print("| kind | " + " | ".join(columns) + " |\n|" + " --- |" * (len(columns) + 1))
    for kind in KINDS:
        print(f"| {kind} | " + " | ".join(str(counts[kind, column]) for column in columns) + " |")


if __name__ == "__main__":
    main()
