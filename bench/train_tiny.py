"""Train the weights of `foveate.compress.tiny`: which words of a prompt and of an answer one line keeps.

    python bench/train_tiny.py              # prints the weights and figures by cross-validation

The labels are those that the model of worth was not trained on (`bench/data/labels/README.md`), since its scores of
the others are better than those of new text. Logistic regression, with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from foveate.compress.reader import Candidate, read_turn
from foveate.compress.tiny import UNIT, line_features, sides_of
from labels import TRAINING, as_messages, read_labels, words_of

NEW = ("u1-", "u2-")
"""How the ids begin of labels that the model of worth has not seen."""
FOLDS, STEPS = 5, 30
NAMES = ("model of worth", "parts before", "first that says something", "last", "constant")
Numbers = NDArray[np.float64]


def examples() -> Iterator[tuple[Numbers, Numbers]]:
    """Yield for each side of each label the features of its words, and whether the shortest length has them."""
    for label in read_labels(TRAINING):
        if label.id.startswith(NEW):
            candidates = read_turn(as_messages(label.text, label.kind)).without_output().candidates
            kept = _kept(label.t, candidates)
            for side in sides_of(candidates):
                rows = line_features([candidates[place] for place in side])
                yield np.vstack(rows).astype(float), np.concatenate([kept[place] for place in side])


def _kept(tiny: str, candidates: Sequence[Candidate]) -> list[Numbers]:
    """Return for each clause which of its words the line has, each word of the line once and in order."""
    own = [[(words_of(word) or [word])[0].lower() for word in one.text.split(" ")] for one in candidates]
    words = [word for clause in own for word in clause]
    found = np.zeros(len(words))
    line = [word.lower() for word in words_of(tiny)]
    for start, _, size in SequenceMatcher(None, words, line, autojunk=False).get_matching_blocks():
        found[start : start + size] = 1
    return np.split(found, np.cumsum([len(clause) for clause in own])[:-1])


def fitted(features: Numbers, kept: Numbers) -> Numbers:
    """Return the weights with the highest likelihood, by Newton's method with a small penalty."""
    weights = np.zeros(features.shape[1])
    penalty = np.diag([*np.ones(len(weights) - 1), 0.0])
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (chances - kept) + penalty @ weights
        curve = (features.T * (chances * (1 - chances))) @ features + penalty
        weights -= np.linalg.solve(curve, slope)
    return weights


def area(scores: Numbers, kept: Numbers) -> float:
    """Return the area under the ROC curve."""
    ranks = scores.argsort().argsort() + 1
    positives = kept.sum()
    return float((ranks[kept > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(kept) - positives)))


def main() -> None:
    found = [*examples()]
    found = [one for fold in range(FOLDS) for one in found[fold::FOLDS]]
    features, kept = (np.concatenate(column) for column in zip(*found, strict=True))
    fold_of = np.repeat(np.arange(len(found)) * FOLDS // len(found), [len(rows) for rows, _ in found])
    scores = np.zeros(len(kept))
    for fold in range(FOLDS):
        left = fold_of == fold
        scores[left] = features[left] @ fitted(features[~left], kept[~left])
    print(f"{len(found)} prompts and answers, {len(kept):,} words, {kept.mean():.2f} of them kept")
    print(f"AUC {area(scores, kept):.3f}; model of worth alone {area(features[:, 0], kept):.3f}")
    for name, weight in zip(NAMES, fitted(features, kept), strict=True):
        print(f"{name}: {weight:.2f}, {round(weight * UNIT)} / {UNIT}")


if __name__ == "__main__":
    main()
