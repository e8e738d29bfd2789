"""The `recall` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class RecallSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How what was blurred is found again."""

    enabled: bool = True
    """Off: nothing is recalled before a turn; searching still works."""
    deadline_seconds: Annotated[float, Meta(ge=0, le=60)] | None = 1.0
    """What is found by then is used. None: all is waited for, and the same store gives the same bytes."""
    search_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """For words and vectors, side by side, where models are asked about what they find."""
    filter_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """For models that sort out candidates, side by side."""
    judge_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """For the one that judges what they left."""
    filter_model: str | None = None
    """A small model that sorts out candidates, part by part; None: ranking alone decides."""
    judge_model: str | None = None
    """A model that judges what is left."""
    candidates: Annotated[int, Meta(ge=1, le=200)] = 30
    """Passages that models are asked about."""
    gate: bool = True
    """Recall only for prompts that seem to need it, so that others leave the prompt cached to its end."""
    gate_score: Annotated[float, Meta(ge=0, le=100)] = 6.0
    """How far above the ordinary the best passage must stand, by words and vectors together, in standard deviations,"""
    gate_doubt_score: Annotated[float, Meta(ge=0, le=100)] = 9.0
    """and for a prompt that may or may not ask for the past. Tuned on LoCoMo-dev: its questions, its turns."""
    passages: Annotated[int, Meta(ge=1, le=2_000)] = 12
    """Recalled at most at the session's own budget, where what is recalled is not cached; a one-off fills its room."""
    user_weight: Annotated[float, Meta(ge=0, le=100)] = 4.0
    """What a passage gains by being the user's own words, in standard deviations; tuned on BEAM-100k-dev."""
    near_weight: Annotated[float, Meta(ge=0, le=2)] = 0.3
    """How much of the best of the turns next to its own a passage gets; tuned on LoCoMo-dev and BEAM-100k-dev."""
    far_weight: Annotated[float, Meta(ge=0, le=2)] = 0.15
    """The same of those one further."""
    date_weight: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """What a passage gains by being of a time that the prompt names."""
    sitting_hours: Annotated[float, Meta(gt=0, le=10_000)] = 12.0
    """Turns further apart than this don't count as neighbours."""
    ticklers: Annotated[int, Meta(ge=0, le=50)] = 3
    """Turns for which there is no room that are named with one sentence."""
    prefetch_turns: Annotated[int, Meta(ge=0, le=8)] = 2
    """Of so many of the best turns, those shown in part are put on the board whole, for this prompt; 0: none."""
    embeddings: str = "static"
    """What makes vectors: `static` is in the package; `minilm` needs foveate[minilm] and `model_path`; an address such
    as https://host/v1 needs `embeddings_model`, and has its key where other endpoints do."""
    model_path: str | None = None
    """The .onnx file of all-MiniLM-L6-v2."""
    embeddings_model: str | None = None
    """What the endpoint calls the model."""
    embeddings_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """For the endpoint to answer a batch."""
    embeddings_batch: Annotated[int, Meta(ge=1, le=2_048)] = 64
    """Texts that are sent to the endpoint together."""

    @property
    def has_endpoint(self) -> bool:
        """Whether vectors are made behind an address."""
        return self.embeddings.startswith(("http://", "https://"))

    def __post_init__(self) -> None:
        if not self.has_endpoint and self.embeddings not in ("static", "minilm"):
            raise ValueError(f"embeddings takes static, minilm or an address; got {self.embeddings!r}")
        if self.has_endpoint and not self.embeddings_model:
            raise ValueError("embeddings_model is missing: say what the endpoint calls the model")
