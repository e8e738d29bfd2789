"""How many of 70 kinds of secrets, and of 50 secrets in people's own words, are found; and how many innocent texts are
taken for one.

Run from the project's root: python bench/find_secrets.py [--misses]

`data/secrets.toml` and `data/innocent.txt` were written before the detector was tuned, but the last ten kinds and
twelve innocent texts after it missed some. Every other line is in the half to tune on, the rest is only measured. Each
kind is drawn `DRAWS` times; it is found if no part of it is left in any draw. `data/stated_secrets.txt` and the last 51
innocent texts were written before the rules for sentences.
`--misses` prints what was missed or taken for a secret, of the half to tune on alone.
"""

from __future__ import annotations

import random
import re
import string
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foveate.secrets import redact

HERE = Path(__file__).parent / "data"
DRAWS = 10
LEFT_CHARS = 6
"""So many characters of a secret in a row must not be left."""
Half = Literal["tuned", "apart"]
HALVES: tuple[Half, ...] = ("tuned", "apart")

_PART = re.compile(r"\{(\w+):(\d+)\}|\{\}")
_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)
_CLASSES = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase,
    "u": string.ascii_uppercase + string.digits,
}
_WORDS = ("cabin", "dance", "eager", "fabric", "galaxy", "habit", "jacket", "kitten", "label", "machine", "noble")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that was drawn, and the secrets in it."""

    kind: str
    text: str
    secrets: tuple[str, ...]

    @property
    def is_found(self) -> bool:
        """Whether no part of the secrets is left in the redacted text."""
        shown = redact(self.text)
        return not any(piece in shown for secret in self.secrets for piece in _pieces(secret))


def secret_samples(half: Half, draws: int = DRAWS) -> list[Sample]:
    """Draw the kinds of secrets of this half."""
    kinds = list(tomllib.loads((HERE / "secrets.toml").read_text("utf-8"))["kinds"].items())
    found = []
    for kind, template in kinds[HALVES.index(half) :: 2]:
        for draw in range(draws):
            text = fill(template, random.Random(f"{kind} {draw}"))
            secrets = tuple(_MARKED.findall(text))
            found.append(Sample(kind, _MARKED.sub(lambda match: match[1], text), secrets))
    return found


def stated_samples(half: Half) -> list[Sample]:
    """Return the sentences of this half that state a secret."""
    lines = _lines("stated_secrets.txt")[HALVES.index(half) :: 2]
    return [Sample(line, _MARKED.sub(r"\1", line), tuple(_MARKED.findall(line))) for line in lines]


def innocent_texts(half: Half) -> list[str]:
    """Draw the texts without secrets of this half."""
    return [fill(line, random.Random(line)) for line in _lines("innocent.txt")[HALVES.index(half) :: 2]]


def _lines(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text("utf-8").splitlines() if not line.startswith("# ")]


def fill(template: str, draw: random.Random) -> str:
    """Replace the parts in braces by drawn characters."""
    return _PART.sub(lambda part: _drawn(part[1], int(part[2]), draw) if part[1] else "", template)


def _drawn(kind: str, length: int, draw: random.Random) -> str:
    if kind in _CLASSES:
        return "".join(draw.choices(_CLASSES[kind], k=length))
    if kind == "w":
        return " ".join(draw.choices(_WORDS, k=length))
    if kind == "ssn":
        return f"{draw.randint(1, 665):03}-{draw.randint(1, 99):02}-{draw.randint(1, 9999):04}"
    if kind == "uuid":
        return re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", _drawn("h", 32, draw))
    if kind.startswith("luhn"):
        return _card(kind.removeprefix("luhn"), length, draw)
    if kind == "iban" or kind.startswith("card"):
        issuer = f"{kind.removeprefix('card')}{draw.randint(1, 5)}"
        number = _iban(length, draw) if kind == "iban" else _card(issuer, length, draw)
        return " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    raise ValueError(f"unknown class of characters: {kind}")


def _iban(length: int, draw: random.Random) -> str:
    body = _drawn("d", length, draw)
    return f"DE{98 - int(f'{body}131400') % 97:02}{body}"


def _card(prefix: str, length: int, draw: random.Random) -> str:
    digits = prefix + _drawn("d", length - len(prefix) - 1, draw)
    doubled = [int(digit) * 2 if place % 2 == 0 else int(digit) for place, digit in enumerate(reversed(digits))]
    return digits + str(-sum(value - 9 if value > 9 else value for value in doubled) % 10)


def _pieces(secret: str) -> list[str]:
    body = "".join(line for line in secret.splitlines() if not line.startswith("-----"))
    size = min(LEFT_CHARS, len(body))
    return [body[place : place + size] for place in range(len(body) - size + 1)]


def main() -> None:
    """Print the figures of both halves."""
    for half in HALVES:
        samples = secret_samples(half)
        lost = [sample for sample in samples if not sample.is_found]
        missed = dict.fromkeys(sample.kind for sample in lost)
        kinds = len(dict.fromkeys(sample.kind for sample in samples))
        innocent = innocent_texts(half)
        wrong = [text for text in innocent if redact(text) != text]
        sentences = stated_samples(half)
        unseen = [sample for sample in sentences if not sample.is_found]
        print(f"{half}: {kinds - len(missed)} of {kinds} kinds found", end="; ")
        print(f"{len(sentences) - len(unseen)} of {len(sentences)} sentences", end="; ")
        print(f"{len(wrong)} of {len(innocent)} innocent texts masked")
        if "--misses" in sys.argv and half == "tuned":
            print("missed:", *(f"{sample.text}  ->  {redact(sample.text)}" for sample in [*lost, *unseen]), sep="\n  ")
            print("taken for secrets:", *(f"{text}  ->  {redact(text)}" for text in wrong), sep="\n  ")


if __name__ == "__main__":
    main()
