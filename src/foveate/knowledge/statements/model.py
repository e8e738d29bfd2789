"""The model of statements: whether a sentence states something that holds, and what.

`statements.npz` has a row of 8-bit weights for each feature, trained on labels by hand (`bench/train_statements.py`,
`bench/data/knowledge/labels_*.txt`). A score is a sum of integers divided by the root of a count, so that the same
sentence has the same score on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.knowledge.statements.phrases import KINDS

HEADS = ("stated", *KINDS, "change")
"""What the model says of a sentence: that it states something, of which kind, and that it was different before."""


@dataclass(frozen=True, slots=True)
class StatementModel:
    """Weights, as integers."""

    weights: NDArray[np.int8]
    """A row for each feature, a column for each head."""
    biases: NDArray[np.int32]

    def score(self, rows: Sequence[int]) -> Mapping[str, float]:
        """Return the score of each head for a sentence with these features."""
        sums = self.weights[list(rows)].sum(axis=0, dtype=np.int32).tolist()
        root = math.sqrt(max(1, len(rows)))
        return {name: total / root + bias for name, total, bias in zip(HEADS, sums, self.biases.tolist(), strict=True)}


@cache
def load_model() -> StatementModel:
    """Return the model in the package."""
    with files("foveate.knowledge.statements").joinpath("statements.npz").open("rb") as file:
        stored: Any = np.load(file)
        return StatementModel(stored["weights"], stored["biases"])
