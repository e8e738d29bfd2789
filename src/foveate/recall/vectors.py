"""Vectors of passages as they are stored and held: whole numbers with a scale each, and signatures of one bit a number.

A search compares a question with every passage. Of a long history that is dear, so all passages are first compared by
their signatures, and the nearest of those by their vectors: measured on 67,000 passages, the best 50 are the same to
96 in 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXACT_PASSAGES = 8_192
"""Up to this number, every vector is compared."""
NEAREST_SIGNATURES = 2_048
"""Beyond that, those of the nearest signatures are."""
SAMPLE = 512
"""Passages that the mean is taken from, then."""
CHUNK = 512
"""Vectors compared at a time, so that they stay in the processor's cache."""
MAX_HELD_BYTES = 300_000_000
"""Of vectors in memory for one session, a million of 256 numbers; beyond that, old passages are found by their words
only."""
BITS = 64
MAX_SIGNATURE_BITS = 512
"""Of a longer vector the signature has fewer bits than the vector has numbers."""

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


def pack(vectors: Floats, numbers: Sequence[int]) -> bytes:
    """The vectors of the passages of these numbers, as bytes to store."""
    packed = np.zeros(len(numbers), _stored(vectors.shape[1]))
    scales = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-9) / 127
    packed["number"], packed["scale"] = numbers, scales
    packed["row"] = np.round(vectors / scales[:, None])
    return packed.tobytes()


def is_packed(data: bytes, dimensions: int) -> bool:
    """Whether the bytes are stored vectors of this size; none are if the size is not known."""
    return dimensions > 0 and len(data) % _stored(dimensions).itemsize == 0


def unpack(data: bytes, dimensions: int) -> NDArray[Any]:
    """Stored vectors with their `number`, `scale` and `row`; none if they are of another size."""
    return np.frombuffer(data if is_packed(data, dimensions) else b"", _stored(dimensions))


@cache
def _stored(dimensions: int) -> np.dtype[Any]:
    return np.dtype([("number", "<u2"), ("scale", "<f4"), ("row", "i1", (dimensions,))])


@dataclass(frozen=True, slots=True)
class Alike:
    """How much like a question passages are, from -1 to 1, with the mean and the deviation over all of them."""

    places: Places
    """Of those that were compared; they grow."""
    found: Floats
    count: int
    mean: float
    deviation: float
    is_exact: bool
    """Every vector was compared; else those of the nearest signatures, and mean and deviation are of a sample."""

    def at(self, places: Places | Sequence[int]) -> Floats:
        """For the passages at these places."""
        if not len(self.places):
            return np.full(len(places), self.mean, np.float32)
        near = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        found: Floats = np.where(self.places[near] == places, self.found[near], np.float32(self.mean))
        return found

    def compared(self, places: Places) -> list[float | None]:
        """For the passages at these places; None for one that was not compared."""
        if not len(self.places):
            return [None] * len(places)
        near = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        is_found = (self.places[near] == places).tolist()
        return [value if known else None for value, known in zip(self.found[near].tolist(), is_found, strict=True)]

    def joined(self, places: Places, found: Sequence[float]) -> Alike:
        """With passages that were compared elsewhere; those compared here stay as they are."""
        is_new = ~np.isin(places, self.places)
        every = np.concatenate([self.places, places[is_new]])
        order = np.argsort(every, kind="stable")
        values = np.concatenate([self.found, np.array(found, np.float32)[is_new]])
        return replace(self, places=every[order], found=values[order])

    def values(self) -> Floats:
        """For every passage; one that was not compared, or has no vector, gets the mean."""
        values = np.full(self.count, self.mean, np.float32)
        values[self.places] = self.found
        return values


class Vectors:
    """The vectors of one session's passages; they are added as passages come, and never changed."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.count = 0
        self._rows = np.empty((0, dimensions), np.int8)
        self._scales = np.empty(0, np.float32)
        self._places = np.empty(0, np.int64)
        self._most = MAX_HELD_BYTES // (dimensions + dimensions // 8 + 12)
        self._signatures = np.empty((signature_bits(dimensions) // BITS, 0), np.uint64)
        self._signed = 0
        self._floats = np.empty((0, dimensions), np.float32)
        self._sample: Floats | None = None
        self._centre: Floats | None = None

    @property
    def is_exact(self) -> bool:
        return self.count <= EXACT_PASSAGES

    @property
    def places(self) -> Places:
        """Which passage each vector is of; they grow."""
        return self._places[: self.count]

    def add(self, places: Places, stored: NDArray[Any]) -> None:
        """Vectors of the passages at these places, which lie beyond all that were added before."""
        end = self.count + len(places)
        if end > len(self._places):
            self._grow(max(end, 2 * self.count))
        self._rows[self.count : end] = stored["row"]
        self._scales[self.count : end] = stored["scale"]
        self._places[self.count : end] = places
        self.count = end
        if self.count > self._most:
            self._forget(self.count // 2)

    def compare(self, question: Floats, count: int, allowed: Mask | None = None) -> Alike:
        """How much like the question `count` passages are.

        Only passages that are allowed count, which is said by place; None: all do.
        """
        own = None if allowed is None else allowed[self.places]
        if self.is_exact:
            alike, places = self._alike_all(question), self.places
            if own is not None:
                alike, places = alike[own], places[own]
            return Alike(places, alike, count, _mean(alike), _deviation(alike), is_exact=True)
        self._floats = self._floats[:0]
        chosen = self._nearest_signatures(question, own)
        assert self._sample is not None
        sample = self._sample @ question
        alike = self._alike(question, chosen)
        return Alike(self._places[chosen], alike, count, _mean(sample), _deviation(sample), is_exact=False)

    def prepare(self) -> None:
        """Make in advance what the first comparison would make."""
        if not self.is_exact:
            self._sign()

    def _alike_all(self, question: Floats) -> Floats:
        """All of few vectors, which are held as they are compared."""
        known = len(self._floats)
        if known != self.count:
            fresh = self._rows[known : self.count] * self._scales[known : self.count, None]
            self._floats = np.concatenate([self._floats[: self.count], fresh])
        found: Floats = self._floats @ question
        return found

    def _alike(self, question: Floats, chosen: Places) -> Floats:
        found = np.empty(len(chosen), np.float32)
        for start in range(0, len(chosen), CHUNK):
            some = chosen[start : start + CHUNK]
            found[start : start + CHUNK] = self._rows.take(some, axis=0).astype(np.float32) @ question
        found *= self._scales[chosen]
        return found

    def _nearest_signatures(self, question: Floats, own: Mask | None) -> Places:
        self._sign()
        assert self._centre is not None
        signature = _sign(question[None] - self._centre)
        distances = np.zeros(self.count, np.uint16)
        bits_of_all = signature_bits(self.dimensions)
        for bits, asked in zip(self._signatures, signature, strict=True):
            distances += np.bitwise_count(bits[: self.count] ^ asked[0])
        if own is not None:
            distances[~own] = bits_of_all + 1
        counts = np.cumsum(np.bincount(distances, minlength=bits_of_all + 2))
        reach = int(np.searchsorted(counts, NEAREST_SIGNATURES))
        return np.flatnonzero(distances <= min(reach, bits_of_all))

    def _sign(self) -> None:
        """Make the signatures that are lacking. What all passages have in common tells nothing, and is left out."""
        if self._sample is None or self._centre is None:
            every = slice(None, self.count, self.count // SAMPLE)
            self._sample = self._rows[every] * self._scales[every, None]
            self._centre = self._sample.mean(axis=0)
        for start in range(self._signed, self.count, CHUNK):
            end = min(start + CHUNK, self.count)
            rows = self._rows[start:end].astype(np.float32) * self._scales[start:end, None]
            self._signatures[:, start:end] = _sign(rows - self._centre)
        self._signed = self.count

    def _grow(self, size: int) -> None:
        self._rows = _longer(self._rows, size)
        self._scales = _longer(self._scales, size)
        self._places = _longer(self._places, size)
        self._signatures = _longer(self._signatures.T, size).T.copy()

    def _forget(self, oldest: int) -> None:
        keep = slice(oldest, self.count)
        self._rows, self._scales, self._places = self._rows[keep], self._scales[keep], self._places[keep]
        self._signatures = np.zeros((len(self._signatures), self.count - oldest), np.uint64)
        self.count -= oldest
        self._signed = 0


def signature_bits(dimensions: int) -> int:
    return max(BITS, min(MAX_SIGNATURE_BITS, dimensions // BITS * BITS))


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _mean(values: Floats) -> float:
    """Added up exactly enough that the order of the passages does not matter."""
    return float(values.mean(dtype=np.float64)) if len(values) else 0.0


def _deviation(values: Floats) -> float:
    return float(values.std(dtype=np.float64)) if len(values) else 0.0


def _sign(rows: Floats) -> NDArray[np.uint64]:
    """On which side of random planes each row lies, a bit for each; one column a row."""
    bits = np.packbits(rows @ _planes(rows.shape[1]) > 0, axis=1)
    return np.ascontiguousarray(bits.view(np.uint64).T)


@cache
def _planes(dimensions: int) -> Floats:
    random = np.random.default_rng(0).standard_normal((dimensions, signature_bits(dimensions)))
    # A short vector has fewer numbers than its signature bits: its planes can't all be orthogonal.
    return (random if dimensions < BITS else np.linalg.qr(random)[0]).astype(np.float32)
