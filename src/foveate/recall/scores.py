"""How well every passage of a session answers, by columns, and which are the best of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveate.recall.rank import MeasureScores, Passages, PassageScores
from foveate.recall.vectors import Alike, Floats, Mask
from foveate.store.rows import SPEAKERS

LEAST_DEVIATION = 1e-6
"""Below it all passages answer alike."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Every passage of a session, by columns, with how well it answers. What is not `allowed` does not count."""

    turn: NDArray[np.int64]
    at_us: NDArray[np.int64]
    speaker: NDArray[np.uint8]
    """As `SPEAKERS` numbers them."""
    keyword: Floats
    vector: Alike | None
    """None if the question has no vector."""
    allowed: Mask
    key: NDArray[np.int64]
    """They grow; those of passages that are not indexed yet begin at `index.LOOSE_KEY`."""

    def __len__(self) -> int:
        return len(self.turn)

    def by_words(self) -> PassageScores:
        """How well passages answer by their words, those that do not count left out."""
        return PassageScores(self._passages(), MeasureScores.of(self.keyword[self.allowed]))

    def by_vectors(self) -> PassageScores | None:
        """The same by their vectors; None if the question has none."""
        if self.vector is None:
            return None
        values = self.vector.values()[self.allowed]
        return PassageScores(self._passages(), MeasureScores(values, self.vector.mean, self.vector.deviation))

    def _passages(self) -> Passages:
        kept = self.allowed
        is_user = self.speaker[kept] == SPEAKERS.index("user")
        return Passages(self.key[kept], self.turn[kept], self.at_us[kept], is_user)


def fused(scores: Scores, depth: int, least_alike: float) -> list[int]:
    """The places of the best by each measure, by how far they stand out by both; the newer of equals first."""
    having = np.flatnonzero(scores.keyword > 0)
    measures = [(having, scores.keyword[having])]
    if scores.vector is not None:
        alike = scores.vector
        is_near = (alike.found >= least_alike) | (scores.keyword[alike.places] > 0)
        counts = (alike.found > alike.mean) & is_near & scores.allowed[alike.places]
        measures.append((alike.places[counts], alike.found[counts]))
    chosen: list[NDArray[np.int64]] = []
    for places, values in measures:
        bar = np.partition(values, len(values) - depth)[len(values) - depth] if len(values) > depth else -np.inf
        chosen.append(places[values >= bar])
    best = np.unique(np.concatenate(chosen))
    worth = scores.keyword[best] / max(float(scores.keyword.std()), LEAST_DEVIATION) if len(best) else np.empty(0)
    if scores.vector is not None and len(best):
        alike_by = (scores.vector.at(best.tolist()) - scores.vector.mean) / max(
            scores.vector.deviation, LEAST_DEVIATION
        )
        worth = worth + alike_by
    found: list[int] = best[np.lexsort((best, -scores.turn[best], -worth))].tolist()
    return found
