"""Checkpoints: the user's words verbatim, and the assistant's work as summaries that shrink as they age.

    [checkpoints, oldest first] [the user's words of their turns] [recent turns in full]

The context size decides the tier, and the tier how many checkpoints there are. When the messages fill their share of
what is available, all but the newest become a checkpoint; the ones before it age, and past the tier's count the two
oldest merge. Every text is made from the original turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from foveate.context.tags import Section
from foveate.models.prompts import prompt_text
from foveate.plan import Ledger, Plan, Snapshot, State
from foveate.strategy import Strategy
from foveate.strategy.build import ArtefactKind
from foveate.strategy.checkpoint.planner import CheckpointPlanner
from foveate.strategy.checkpoint.reliability import Reliability, reliability
from foveate.strategy.checkpoint.state import CheckpointState
from foveate.turn import Json

_BUILD = f"{__name__}.build"
_WORDING = f"{_BUILD}:WORDING"


class Checkpoint(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Compresses the assistant's messages, never the user's. K is 1,000 tokens."""

    builds: ClassVar[bool] = True
    holds_back: ClassVar[bool] = False
    documents: ClassVar[tuple[Section, ...]] = ("goals",)
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {
        "checkpoint": ArtefactKind(f"{_BUILD}:make_checkpoint", wording=_WORDING),
        "architecture": ArtefactKind(f"{_BUILD}:make_architecture", reads_units=False),
        "checkpoints": ArtefactKind(f"{_BUILD}:make_merged", reads_messages=False, wording=_WORDING),
    }

    enabled: bool = True
    """false: no checkpoints; what does not fit rolls over to a snapshot."""
    tier_tokens: tuple[int, int, int, int] = (8_000, 16_000, 32_000, 64_000)
    """Budgets at which tiers 2 to 5 begin; a budget between two of them gets the lower tier."""
    tier_checkpoints: tuple[int, int, int, int, int] = (0, 1, 3, 10, 15)
    """Number of checkpoints of each tier; with 0 the session rolls over to a snapshot instead."""
    usable: Annotated[float, Meta(gt=0, le=1)] = 0.85
    """Share of the budget that is used."""
    trigger: Annotated[float, Meta(gt=0, le=1)] = 0.80
    """Share of the available tokens at which messages are compressed."""
    preserve_recent_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 2_048
    """Newest messages that are not compressed."""
    summary_max_tokens: Annotated[int, Meta(ge=16, le=1_000_000)] = 1_024
    """Limit of a checkpoint's summary, not counting its decisions, files and next steps."""
    detailed_tokens: Annotated[int, Meta(ge=64, le=1_000_000)] = 1_200
    """Limit of a new checkpoint."""
    moderate_tokens: Annotated[int, Meta(ge=64, le=1_000_000)] = 600
    """Limit of a checkpoint that was compressed once more."""
    compact_tokens: Annotated[int, Meta(ge=64, le=1_000_000)] = 300
    """Limit of any older checkpoint."""
    architecture_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 400
    """Minimum limit of the preserved list of architecture decisions; the limit is a fifth of the room if that is more.
    """
    snapshot: Annotated[float, Meta(gt=0, le=0.9)] = 0.50
    """Share of the room that is filled after a rollover, without the newest messages."""
    unknown_model_factor: Annotated[float, Meta(ge=0, le=1)] = 0.70
    """Reliability of a model of unknown size."""
    penalty: Annotated[float, Meta(ge=0, le=1)] = 0.15
    """Reduction of the reliability per compression."""
    penalty_floor: Annotated[float, Meta(ge=0, le=1)] = 0.30
    """Lower limit of the reliability, as a share of the model's."""

    def __post_init__(self) -> None:
        if list(self.tier_tokens) != sorted(set(self.tier_tokens)) or self.tier_tokens[0] < 1:
            raise ValueError(f"tier_tokens takes four increasing sizes; got {list(self.tier_tokens)}")
        if min(self.tier_checkpoints) < 0:
            raise ValueError(f"tier_checkpoints takes five counts; got {list(self.tier_checkpoints)}")
        if not self.compact_tokens <= self.moderate_tokens <= self.detailed_tokens:
            raise ValueError("compact_tokens, moderate_tokens and detailed_tokens must grow in this order")

    @property
    def explanation(self) -> str:
        return prompt_text("explain/checkpoint")

    def tier(self, nominal_tokens: int) -> int:
        """Return the tier of a context size, 1 to 5."""
        return 1 + sum(nominal_tokens >= least for least in self.tier_tokens)

    def checkpoint_limit(self, tier: int) -> int:
        """Return the maximum number of checkpoints."""
        return self.tier_checkpoints[tier - 1] if self.enabled else 0

    def level_tokens(self, level: int) -> int:
        """Return the maximum tokens of a checkpoint at a level, tags included."""
        return (self.compact_tokens, self.moderate_tokens, self.detailed_tokens)[level - 1]

    def reliability(self, model: str | None, state: Mapping[str, Json]) -> Reliability:
        """Return the reliability of the shown conversation, by the share of facts kept."""
        compressions = CheckpointState.from_json(state).compressions if state else 0
        return reliability(
            model,
            compressions,
            unknown_factor=self.unknown_model_factor,
            penalty_each=self.penalty,
            penalty_floor=self.penalty_floor,
        )

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        return CheckpointPlanner(self, snapshot, state, ledger).plan()
