"""The worth of each word of a turn: how much a careful reader would keep it, at three lengths.

`worth.npz` is a small network, trained on labels by hand (`bench/train_worth.py`, `bench/data/labels`): vectors of
words, a convolution over five words, the mean and the maximum of each clause, of its neighbours and of the turn, a
convolution over three. It has 8-bit weights and computes with integers that 32-bit floats hold exactly, so that the
same text has the same worth on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from foveate.compress.worth.features import TABLES, Passage, rows_of
from foveate.errors import SettingsError

Floats = NDArray[np.float32]


KEY = "compress.worth_model"
WIDTH, UNITS = 48, 64
HEADS: Final = ("S", "C", "T", "cut")
"""What the model says of a word: kept at each length, and whether C begins or ends a gap before it."""
ALL, TINY = slice(0, 3), slice(2, 3)
"""The heads of the three lengths, and that of the shortest."""
LAYERS: Final = {
    "near": (5 * WIDTH, UNITS),
    "context": (7 * UNITS, UNITS),
    "far": (3 * UNITS, UNITS),
    "out": (UNITS, len(HEADS)),
}
"""Inputs and outputs of each layer."""
STEPS, MOST_STEP = 64, 1024
"""Steps of a unit of log-odds, and the last step, in the table of chances."""
WEIGHT_UNIT, UNIT, MOST = 64, 16, 127
"""A weight of 1 and an activation of 1 as integers, and the maximum of both."""


MAX_PRODUCT = 250_000
"""Multiplications of a matrix product; OpenBLAS uses threads from 262,144."""


@dataclass(frozen=True, slots=True)
class WorthModel:
    """The tables and layers, as integers in floats."""

    tables: tuple[Floats, ...]
    layers: dict[str, tuple[Floats, Floats]]

    def score(self, passages: Sequence[Passage]) -> Floats:
        """Return the log-odds of each head (`HEADS`), a row for each word of the passages."""
        rows, clauses = rows_of(passages)
        words = _scaled(sum(table[rows[:, at]] for at, table in enumerate(self.tables)), WEIGHT_UNIT // UNIT)
        near = _scaled(np.maximum(self._around("near", words), 0), WEIGHT_UNIT)
        told = self._around("far", near) + self._context(near, clauses)
        told = _scaled(np.maximum(told, 0), WEIGHT_UNIT)
        weights, biases = self.layers["out"]
        scores: Floats = (told @ weights + biases) / np.float32(WEIGHT_UNIT * UNIT)
        return scores

    def _around(self, name: str, values: Floats) -> Floats:
        """Convolve over neighbouring words."""
        weights, biases = self.layers[name]
        size = values.shape[1]
        width = len(weights) // size
        more = np.pad(values, ((width // 2, width // 2), (0, 0)))
        total = np.tile(biases, (len(values), 1))
        for at in range(width):
            total += _product(more[at : at + len(values)], weights[at * size : (at + 1) * size])
        return total

    def _context(self, values: Floats, clauses: NDArray[np.int32]) -> Floats:
        """Return what each word's clause, its neighbours and its turn add."""
        starts = np.flatnonzero(np.diff(clauses, prepend=-1))
        sizes = np.diff(starts, append=len(clauses)).astype(np.float32)[:, None]
        means = np.rint(np.add.reduceat(values, starts, axis=0) / sizes)
        own = np.hstack((means, np.maximum.reduceat(values, starts, axis=0)))
        more = np.pad(own, ((1, 1), (0, 0)))
        turn = np.rint(values.sum(axis=0) / np.float32(len(values)))
        weights, biases = self.layers["context"]
        joined = np.hstack((more[:-2], own, more[2:], np.tile(turn, (len(own), 1))))
        told = _product(joined, weights) + biases
        return told[np.repeat(np.arange(len(starts)), sizes[:, 0].astype(int))]


def _product(values: Floats, weights: Floats) -> Floats:
    """Multiply matrices in pieces so small that the library starts no threads, which take longer than the product."""
    rows = max(1, MAX_PRODUCT // weights.size)
    pieces = [values[start : start + rows] @ weights for start in range(0, len(values), rows)]
    return np.concatenate(pieces)


def _scaled(values: Any, divisor: int) -> Floats:
    """Divide, round to whole numbers and limit them."""
    scaled: Floats = np.clip(np.rint(values / np.float32(divisor)), -MOST, MOST)
    return scaled


@cache
def load_worth(path: str = "") -> WorthModel:
    """Return the model in the package, or the one that a file has."""
    source = Path(path).expanduser() if path else files("foveate.compress.worth").joinpath("worth.npz")
    try:
        with source.open("rb") as file:
            stored: Any = np.load(file)
            arrays = {name: stored[name].astype(np.float32) for name in stored.files}
        tables = tuple(_shaped(arrays[f"table_{name}"], (rows, WIDTH)) for name, rows in TABLES.items())
        layers = {
            name: (_shaped(arrays[f"{name}_weights"], shape), _shaped(arrays[f"{name}_biases"], shape[1:]))
            for name, shape in LAYERS.items()
        }
    except (OSError, ValueError, KeyError, BadZipFile, AttributeError) as error:
        problem = f"{path} is not a model of worth ({error}); make one with bench/train_worth.py, or remove the setting"
        raise SettingsError(KEY, problem) from error
    return WorthModel(tables, layers)


def _shaped(array: Floats, shape: tuple[int, ...]) -> Floats:
    if array.shape != shape:
        raise ValueError(f"a table or layer has the shape {array.shape}, not {shape}")
    return array


def chances(scores: Floats, lengths: slice = ALL) -> Floats:
    """Return for each word the mean chance that a reader keeps it at these lengths, in whole 65,536ths for each."""
    found: Floats = chance_of(scores[:, lengths]).mean(axis=1)
    return found


def chance_of(scores: Floats) -> Floats:
    """Return the chances of log-odds, in whole 65,536ths."""
    places = np.clip(np.rint(scores * STEPS), -MOST_STEP, MOST_STEP).astype(np.int32) + MOST_STEP
    found: Floats = _chance_table()[places]
    return found


@cache
def _chance_table() -> Floats:
    """Return the logistic function in steps: a processor's own exponential differs in its last bits."""
    steps = range(-MOST_STEP, MOST_STEP + 1)
    return np.array([round(65536 / (1 + math.exp(-step / STEPS))) / 65536 for step in steps], np.float32)
