"""The `recall` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class RecallSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recall of older turns, and the search index."""

    enabled: bool = True
    """false: no recall; search still works."""
    deadline_seconds: Annotated[float, Meta(ge=0, le=60)] | None = 1.0
    """Deadline of recall; results that are ready by then are used. None: no deadline, so results are deterministic."""
    keyword_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.1
    """Time limit of keyword search if models check the results; without them only the deadline counts."""
    vector_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """The same for vector search."""
    search_seconds: Annotated[float, Meta(ge=0, le=60)] | None = None
    """Old setting for both; if given, it takes their place."""
    filter_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """Time limit of `filter_model`."""
    judge_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """Time limit of `judge_model`."""
    filter_model: str | None = None
    """A small model that drops candidates that do not help, all of them if none does. None: ranking only."""
    judge_model: str | None = None
    """A model that chooses among the remaining candidates and orders them; it also sees the newest turns. None: not
    used."""
    candidates: Annotated[int, Meta(ge=1, le=200)] = 25
    """Number of passages given to these models: this many by keywords and this many by vectors."""
    gate: bool = True
    """Recall only for prompts that seem to need it, so that others keep the cached prefix."""
    gate_doubt_score: Annotated[float, Meta(ge=0, le=100)] = 9.0
    """For a prompt that may or may not ask for the past: minimum score of the best passage, in standard deviations
    above the mean. Tuned on LoCoMo-dev."""
    least_score: Annotated[float, Meta(ge=0, le=100)] = 8.0
    """Minimum ranking score of a recalled passage; if none has it, the 9 best are recalled. Does not apply to a prompt
    that asks for a summary, a comparison, an order of events or all mentions. Tuned on LoCoMo-dev and BEAM-100k-dev."""
    user_weight: Annotated[float, Meta(ge=0, le=100)] = 4.0
    """Bonus for the user's own words, in standard deviations. Tuned on BEAM-100k-dev."""
    speaker_weight: Annotated[float, Meta(ge=0, le=100)] = 4.0
    """The same for the words of a speaker whom the prompt names, if messages begin with names (`Anna: …`)."""
    order_weight: Annotated[float, Meta(ge=0, le=100)] = 4.0
    """The same, once more, for standing orders of the user (`Always use SI units`): they hold whatever the prompt is
    about."""
    near_weight: Annotated[float, Meta(ge=0, le=2)] = 0.3
    """Share of the best score of each adjacent turn that a passage gets. Tuned on LoCoMo-dev and BEAM-100k-dev."""
    far_weight: Annotated[float, Meta(ge=0, le=2)] = 0.15
    """The same for the turns one further."""
    date_weight: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Bonus for a passage of a date that the prompt names."""
    length_weight: Annotated[float, Meta(ge=0, le=100)] = 0.5
    """Weight of the logarithm of a short passage's share of 40 words: short turns are often greetings, thanks or
    questions. Tuned on LoCoMo-dev and BEAM-100k-dev."""
    broad_user_weight: Annotated[float, Meta(ge=0, le=100)] = 6.0
    """`user_weight` for a prompt that asks for an order of events or all mentions. Tuned on BEAM-100k-dev."""
    broad_spread: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """For a broad prompt, what each further passage of a turn loses, so that more turns are shown."""
    sitting_hours: Annotated[float, Meta(gt=0, le=10_000)] = 12.0
    """Maximum time between neighbouring turns."""
    knowledge_items: Annotated[int, Meta(ge=0, le=50)] = 3
    """Maximum number of lessons and references in the memory layer; together they take at most 30 % of it. 0: none."""
    knowledge_score: Annotated[float, Meta(ge=0, le=2)] = 0.8
    """Minimum score of a lesson or reference: the share of common words plus the similarity of meaning."""
    knowledge_alone_score: Annotated[float, Meta(ge=0, le=2)] = 1.2
    """The same where no passage passes the gate, so that a lesson alone would cost cached tokens. Does not apply before
    the first turn and in previews, where nothing is cached. 2: practically never."""
    knowledge_confidence: Annotated[float, Meta(ge=0, le=1)] = 0.6
    """Minimum confidence of a proposed lesson or reference. Approved and pinned ones are always considered, retired
    ones never."""
    ticklers: Annotated[int, Meta(ge=0, le=50)] = 3
    """Number of turns without room that are listed with one sentence each."""
    prefetch_turns: Annotated[int, Meta(ge=0, le=8)] = 2
    """Number of best turns that are put on the board in full for this prompt if only a part was recalled. 0: none."""
    embeddings: str = "static"
    """Embedding model: `static` (built in), `minilm` (needs foveate[minilm] and `model_path`), or an endpoint such
    as https://host/v1 (needs `embeddings_model`; its key is configured like that of other endpoints)."""
    model_path: str | None = None
    """The .onnx file of all-MiniLM-L6-v2."""
    embeddings_model: str | None = None
    """Name of the endpoint's model."""
    embeddings_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """Timeout of a request to the endpoint."""
    embeddings_batch: Annotated[int, Meta(ge=1, le=2_048)] = 64
    """Number of texts per request to the endpoint."""

    @property
    def has_endpoint(self) -> bool:
        """Whether vectors are made behind an address."""
        return self.embeddings.startswith(("http://", "https://"))

    def __post_init__(self) -> None:
        if not self.has_endpoint and self.embeddings not in ("static", "minilm"):
            raise ValueError(f"embeddings takes static, minilm or an address; got {self.embeddings!r}")
        if self.has_endpoint and not self.embeddings_model:
            raise ValueError("embeddings_model is missing: say what the endpoint calls the model")
