"""Train the model of statements: whether a sentence of a prompt states something that holds, and what.

    python bench/train_statements.py            # trains on the labels, prints figures of the other parts, writes
    python bench/train_statements.py --check    # the same, and writes nothing
    python bench/train_statements.py --wrong    # also lists the sentences of the other parts
    python bench/train_statements.py --authors  # judges each author's sentences by a model of the others'

The labels are in data/knowledge/labels_*.txt. labels_validation.txt, labels_check.txt and labels_check2.txt are not
trained on; `LEAST_SCORE` is chosen by the figures of `--authors`. Logistic regression in NumPy, without a random
number: the same labels give the same weights. A row of the model is the hash of a feature
(`foveate.knowledge.statements.features`); weights are rounded to 8 bits.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foveate.knowledge.statements import LEAST_SCORE
from foveate.knowledge.statements.features import ROWS, rows_of
from foveate.knowledge.statements.model import HEADS, StatementModel
from foveate.knowledge.statements.phrases import KINDS
from foveate.knowledge.statements.reading import read_phrases

HERE = Path(__file__).resolve()
LABELS = HERE.parent / "data" / "knowledge"
TARGET = HERE.parents[1] / "src" / "foveate" / "knowledge" / "statements" / "statements.npz"
AUTHORS = (
    ("en", "de", "fr", "es"),
    ("mixed",),
    ("people",),
    ("everyday",),
    ("work",),
    ("life",),
    ("facts",),
    ("world",),
    ("plain",),
)
"""The labels to train on, by author."""
CHECKED_ON = ("check", "check2")
MARKS = {"-": None, "r": "rule", "p": "preference", "c": "convention", "d": "decision", "f": "fact"}
EPOCHS, RATE, DECAY = 60, 0.05, 1e-5
MOST_WEIGHT = 127
CLIPPED = 0.9995
"""Share of weights that fit in 8 bits; the others are cut."""
PRECISIONS = (0.98, 0.95, 0.93, 0.9)
_LINE = re.compile(r"(?P<more>& )?(?P<mark>[-rpcdf])(?P<change>\+?)(?P<back>\^?) (?P<text>\S.*)")

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Label:
    """A sentence of a prompt, with what it states."""

    text: str
    kind: str | None
    is_change: bool
    rows: list[int] = field(default_factory=list)

    def value(self, head: str) -> float | None:
        """Return whether a head is right for this sentence, 1 or 0; None if it does not concern it."""
        if head == "stated":
            return float(self.kind is not None)
        if self.kind is None:
            return None
        return float(self.is_change if head == "change" else self.kind == head)


def read_labels(path: Path) -> list[Label]:
    """Read labels, and compute the rows of each."""
    found: list[Label] = []
    for prompt in _prompts(path):
        texts = [label.text for label in prompt]
        for at, label in enumerate(prompt):
            label.rows = rows_of(texts, at, read_phrases(label.text).signals)
        found += prompt
    return found


def _prompts(path: Path) -> Iterator[list[Label]]:
    prompt: list[Label] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"{path.name}:{number}: expected a mark and a sentence: {line}")
        if not match["more"] and prompt:
            yield prompt
            prompt = []
        prompt.append(Label(match["text"], MARKS[match["mark"]], bool(match["change"])))
    if prompt:
        yield prompt


def fit(labels: Sequence[Label], head: str) -> tuple[Floats, float]:
    """Return the weights of a head, a row for each feature, and its bias."""
    known = [(label.rows, value) for label in labels if (value := label.value(head)) is not None]
    sizes = np.array([len(rows) for rows, _ in known])
    wanted = np.array([value for _, value in known])
    used, places = np.unique(np.concatenate([rows for rows, _ in known]), return_inverse=True)
    sentence = np.repeat(np.arange(len(known)), sizes)
    scale = (1 / np.sqrt(sizes))[sentence]
    values = np.zeros(len(used) + 1)  # the bias is the last
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(1, EPOCHS + 1):
        scores = np.bincount(sentence, values[places] * scale, len(known)) + values[-1]
        errors = (1 / (1 + np.exp(-scores)) - wanted) / len(known)
        slope = np.append(np.bincount(places, errors[sentence] * scale, len(used)) + DECAY * values[:-1], errors.sum())
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        values -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-9)
    weights = np.zeros(ROWS)
    weights[used] = values[:-1]
    return weights, float(values[-1])


def train(labels: Sequence[Label]) -> StatementModel:
    """Return the model of some labels, rounded to integers."""
    weights, biases = np.zeros((ROWS, len(HEADS)), np.int8), np.zeros(len(HEADS), np.int32)
    for column, head in enumerate(HEADS):
        found, bias = fit(labels, head)
        unit = MOST_WEIGHT / np.quantile(np.abs(found[found != 0]), CLIPPED)
        weights[:, column] = np.clip(np.rint(found * unit), -MOST_WEIGHT, MOST_WEIGHT)
        biases[column] = round(bias * unit)
    return StatementModel(weights, biases)


def report(model: StatementModel, labels: Sequence[Label], *, is_long: bool = False) -> None:
    """Print how well a model knows what sentences state."""
    scores = [model.score(label.rows) for label in labels]
    ranked = sorted(zip([each["stated"] for each in scores], labels, strict=True), key=lambda each: -each[0])
    stated = np.array([label.kind is not None for _, label in ranked])
    right = np.cumsum(stated)
    precision, recall = right / np.arange(1, len(stated) + 1), right / stated.sum()
    for least in PRECISIONS:
        enough = np.flatnonzero(precision >= least)
        at = enough[-1] if len(enough) else 0
        print(f"precision {least:.2f}: recall {recall[at]:.3f} with a score of {ranked[at][0]:.0f}")
    taken = [label.kind is not None for score, label in ranked if score >= LEAST_SCORE]
    shares = f"precision {sum(taken) / len(taken):.3f}, recall {sum(taken) / stated.sum():.3f}"
    print(f"with a least score of {LEAST_SCORE}: {shares}")
    known = [(each, label) for each, label in zip(scores, labels, strict=True) if label.kind]
    kinds = sum(max(KINDS, key=lambda kind, each=each: each[kind]) == label.kind for each, label in known)  # type: ignore[misc]
    changes = sum((each["change"] > 0) == label.is_change for each, label in known)
    print(f"of {len(known)} statements, the kind of {kinds} and whether it is a change of {changes} are right")
    by_phrases = [label for label in labels if read_phrases(label.text).kind]
    hits = sum(label.kind is not None for label in by_phrases)
    print(f"phrases alone: precision {hits / len(by_phrases):.3f}, recall {hits / len(known):.3f}")
    if is_long:
        for score, label in ranked:
            print(f"{score:7.0f} {label.kind or '-'} {label.text}")


def compare_authors(written: Sequence[Sequence[Label]]) -> None:
    """Print how well the sentences of each author are judged by a model of the others' sentences."""
    judged: list[tuple[float, bool]] = []
    for author, names in zip(written, AUTHORS, strict=True):
        if len(names) > 1:  # the first author: half of all labels in some languages
            continue
        model = train([label for other in written if other is not author for label in other])
        own = [(model.score(label.rows)["stated"], label.kind is not None) for label in author]
        print(f"{names[0]}: {_shares(own, LEAST_SCORE)}")
        judged += own
    for least in range(0, 140, 20):
        print(f"all, with a least score of {least}: {_shares(judged, least)}")


def _shares(judged: Sequence[tuple[float, bool]], least: float) -> str:
    taken = [is_stated for score, is_stated in judged if score >= least]
    stated = sum(is_stated for _, is_stated in judged)
    return f"precision {sum(taken) / max(1, len(taken)):.3f}, recall {sum(taken) / stated:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--wrong", action="store_true", help="list the validation part by score")
    parser.add_argument("--authors", action="store_true", help="leave one author out at a time; write nothing")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    written = [[label for name in names for label in read_labels(LABELS / f"labels_{name}.txt")] for names in AUTHORS]
    if options.authors:
        compare_authors(written)
        return
    labels = [label for author in written for label in author]
    print(f"{len(labels)} sentences, {sum(label.kind is not None for label in labels)} of them statements")
    model = train(labels)
    for name in ("validation", *CHECKED_ON):
        print(f"\n{name}")
        report(model, read_labels(LABELS / f"labels_{name}.txt"), is_long=options.wrong)
    if not options.check:
        np.savez_compressed(options.out, weights=model.weights, biases=model.biases)
        print(f"{options.out.name}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
