"""A cross-encoder reads a question together with each candidate, and orders them by how well they answer.

The model is an .onnx file of the user's, of the family that has BERT's word pieces (ms-marco-MiniLM and its like).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foveate.errors import SettingsError
from foveate.recall.embed.onnx import load_session

if TYPE_CHECKING:
    from foveate.recall.vectors import Floats

KEY = "recall.reranker_path"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
BATCH = 8
"""Candidates that are read between two looks at the clock."""


class Reranker:
    """Loads its model when it is made; `SettingsError` says what is missing, or wrong with the file."""

    def __init__(self, path: Path) -> None:
        self._session = load_session(path, key=KEY, otherwise="leave it unset")
        self._names = {each.name for each in self._session.get_inputs()}
        if strange := self._names.difference(INPUTS):
            raise SettingsError(KEY, f"the file is no cross-encoder: it also takes {', '.join(sorted(strange))}")
        self._run("a question", ["an answer"])

    async def order(self, query: str, texts: Sequence[str]) -> list[int]:
        """The places of all texts, the best answer first; of equals the earlier one. Cancelled between batches."""
        scores: list[float] = []
        for start in range(0, len(texts), BATCH):
            scores += await asyncio.to_thread(self._run, query, texts[start : start + BATCH])
        return sorted(range(len(texts)), key=lambda place: -scores[place])

    def _run(self, query: str, texts: Sequence[str]) -> list[float]:
        import numpy as np  # noqa: PLC0415

        from foveate.recall.embed.static import pair_pieces  # noqa: PLC0415

        pairs = [pair_pieces(query, text) for text in texts]
        ids = np.zeros((len(pairs), max(len(one) + len(two) for one, two in pairs)), np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, (one, two) in enumerate(pairs):
            end = len(one) + len(two)
            ids[row, :end], mask[row, :end], kinds[row, len(one) : end] = [*one, *two], 1, 1
        given = dict(zip(INPUTS, (ids, mask, kinds), strict=True))
        try:
            answer: Floats = self._session.run(None, {name: given[name] for name in self._names})[0]
        except Exception as error:  # the package's errors have no root of their own
            raise SettingsError(KEY, f"the file is no cross-encoder: {error}") from error
        # One number for each pair says how well it answers; of two classes, the second does.
        if answer.size not in (len(texts), 2 * len(texts)) or not np.isfinite(answer).all():
            raise SettingsError(KEY, f"the file is no cross-encoder: {answer.shape} is no score for {len(texts)} pairs")
        scores: list[float] = answer.reshape(len(texts), -1)[:, -1].astype(float).tolist()
        return scores
