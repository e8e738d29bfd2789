"""The embedding model all-MiniLM-L6-v2, from the user's .onnx file, run by onnxruntime (an optional dependency)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from foveate.errors import SettingsError
from foveate.recall.embed.static import knows, minilm_pieces
from foveate.recall.table import Floats

KEY = "recall.model_path"
DIMENSIONS = 384
BATCH = 32
"""Texts per run of the model."""


class MinilmEmbedder:
    """Loads the user's .onnx file when it is constructed; the word pieces are those of the bundled model."""

    is_local = False

    def __init__(self, path: Path) -> None:
        self.name = f"minilm {path.name}"
        self.dimensions = DIMENSIONS
        self.knows = knows
        self._session = _load_session(path)

    async def learn(self) -> None:
        pass

    async def embed(self, texts: Sequence[str]) -> Floats:
        return await asyncio.to_thread(self._run, texts)

    def _run(self, texts: Sequence[str]) -> Floats:
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for start in range(0, len(texts), BATCH):
            batch = [minilm_pieces(text) for text in texts[start : start + BATCH]]
            ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
            mask = np.zeros_like(ids)
            for row, pieces in enumerate(batch):
                ids[row, : len(pieces)], mask[row, : len(pieces)] = pieces, 1
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            names = {each.name for each in self._session.get_inputs()}
            states = self._session.run(None, {name: value for name, value in given.items() if name in names})[0]
            means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            found[start : start + len(batch)] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return found


def _load_session(path: Path) -> Any:
    """The file as an onnxruntime session on one thread; a `SettingsError` says what is missing."""
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError as error:
        problem = "needs onnxruntime; install foveate[minilm], or set recall.embeddings to static"
        raise SettingsError(KEY, problem) from error
    if not path.is_file():
        raise SettingsError(KEY, f"there is no file {path}; name the .onnx file of the model")
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options)
    except Exception as error:  # onnxruntime's errors have no common base class
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SettingsError(KEY, f"{path.name} can't be read as an ONNX model: {problem}") from error
