"""Which model makes vectors: the one in the package, MiniLM by onnxruntime, or one behind an address.

What a store holds says which model made it; vectors of another are left out of a search until they are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from foveate.recall.settings import RecallSettings

if TYPE_CHECKING:
    from foveate.models.caller import Caller
    from foveate.recall.table import Floats

PASSAGES_VERSION = 1
"""Raised when passages are cut another way, so that all are made again."""
STATIC = "static"
STATIC_NAME = "static-minilm-256"
"""As `foveate.recall.embed.static` has it; known here without loading it."""


def index_maker(model: str) -> str:
    """What stored passages are marked with."""
    return f"{PASSAGES_VERSION} {model}"


class Embedder(Protocol):
    """Makes vectors; a `ModelError` says that it can't now."""

    is_local: bool
    """Quickly and in this process, by a plain function of the texts. By another, turns that are not indexed yet are
    found by their words only."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int:
        """0 while it is not known."""
        ...

    def knows(self, text: str) -> bool:
        """Whether most words of a text are in the model's vocabulary; the vector of others says nothing."""
        ...

    async def learn(self) -> None:
        """Find out name and dimensions, where they are not known from the start."""

    async def embed(self, texts: Sequence[str]) -> Floats:
        """A row of length 1 for each text."""
        ...


class Recent:
    """Vectors of texts that are asked for again and again: those of the last time are kept."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Floats] = {}

    async def embed(self, texts: Sequence[str]) -> Floats:
        """A row for each of the texts, of which there is one at least."""
        import numpy as np  # noqa: PLC0415

        known = self._known
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        made = dict(zip(fresh, await self._embedder.embed(fresh), strict=True)) if fresh else {}
        self._known = {text: known[text] if text in known else made[text] for text in texts}
        return np.stack([self._known[text] for text in texts])


def load_embedder(settings: RecallSettings, caller: Caller) -> Embedder:
    """The model that the settings name; one elsewhere is asked through the caller."""
    match settings.embeddings:
        case "static":
            from foveate.recall.embed.static import StaticEmbedder  # noqa: PLC0415 - loads when something is searched

            return StaticEmbedder()
        case "minilm":
            from foveate.recall.embed.minilm import MinilmEmbedder  # noqa: PLC0415

            return MinilmEmbedder(Path(settings.model_path or "").expanduser())
    from foveate.recall.embed.endpoint import EndpointEmbedder  # noqa: PLC0415 - the network's modules, for those who use it

    return EndpointEmbedder(settings, caller)
