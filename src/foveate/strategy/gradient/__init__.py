"""The gradient: the newest turns raw, older ones smoothed, compressed and tiny, the oldest rolled up into eras."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from foveate.plan import Ledger, Plan, ShownLevel, Sizes, Snapshot, State
from foveate.strategy import Strategy
from foveate.strategy.gradient.planner import GradientPlanner
from foveate.strategy.gradient.rebuild import Rebuild

_ROUNDING = 1e-6
_RANGES = {"recent": (0.30, 0.50), "working": (0.10, 0.20), "background": (0.25, 0.35), "deep": (0.10, 0.20)}


class Gradient(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Newest turns raw, older ones increasingly compressed. Tokens that a band does not use go to the next."""

    keeps_plan: ClassVar[bool] = True
    recalls_first: ClassVar[bool] = True

    bands: Literal["optimised", "documented"] = "optimised"
    """How levels are chosen. `optimised`: each turn at the level with the most information per token, whatever its age.
    `documented`: by age, each level with its share below."""
    answer_weight: Annotated[float, Meta(ge=0, le=1)] = 0.3
    """`optimised`: weight of a word not said by the user, relative to one that the user said."""
    age_weight: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """`optimised`: additional weight of the newest turns, e.g. 1: twice as much as the oldest. It halves with each half
    of the budget."""
    retrieved_weight: Annotated[float, Meta(ge=1, le=10)] = 2.0
    """`optimised`: weight of a turn that the model retrieved, relative to the others, from the next rebuild on."""
    raw_share: Annotated[float, Meta(ge=0, le=0.9)] = 0.10
    """`optimised`: share for the newest turns of a chat, verbatim. Turns with tools raise it, up to `recent`."""
    recent: Annotated[float, Meta(ge=0.30, le=0.50)] = 0.40
    """Share of the history's tokens for raw turns. The four shares add up to 1."""
    working: Annotated[float, Meta(ge=0.10, le=0.20)] = 0.16
    """For smoothed turns."""
    background: Annotated[float, Meta(ge=0.25, le=0.35)] = 0.30
    """For compressed turns."""
    deep: Annotated[float, Meta(ge=0.10, le=0.20)] = 0.14
    """For tiny turns, and eras beyond them."""
    background_minimum: Annotated[float, Meta(ge=0, le=0.35)] = 0.05
    """Minimum share of Background when Deep needs more for one Tiny per turn."""
    working_minimum: Annotated[float, Meta(ge=0, le=0.20)] = 0.0
    """Minimum share of Working in that case; Deep takes from it after Background."""
    tolerance: Annotated[float, Meta(ge=0, le=0.5)] = 0.05
    """A turn at the edge of its band changes level only if it exceeds the band's share by more than this."""
    newest_share: Annotated[float, Meta(ge=0.2, le=0.9)] = 0.60
    """Maximum share of the newest turn. A larger one is smoothed, then cut."""
    short_turn_tokens: Annotated[int, Meta(ge=0, le=10_000)] = 120
    """Consecutive raw or smoothed turns shorter than this share a block. 0: one tag per turn."""
    schedule: Literal["watermark", "interval", "adaptive"] = "watermark"
    """When levels are chosen again. `watermark`: when the history is full. `interval`: every `interval_turns`.
    `adaptive`: the more the last rebuild changed, the sooner."""
    low_water: Annotated[float, Meta(ge=0.1, le=1)] | None = None
    """Share of its room that the history fills after a rebuild. None: 0.85 by `watermark`, at least half for the other
    schedules."""
    interval_turns: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """Turns between two rebuilds of `interval`; the minimum of `adaptive`. A rebuild leaves room for this many average
    turns, if `low_water` allows it."""
    interval_limit_turns: Annotated[int, Meta(ge=1, le=100_000)] = 80
    """Maximum number of turns between two rebuilds of `adaptive`. The more the last rebuild changed, the sooner the
    next one."""

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} takes {least} to {most}; got {getattr(self, name)}")
        total = self.recent + self.working + self.background + self.deep
        if abs(total - 1) > _ROUNDING:
            raise ValueError(f"recent, working, background and deep must add up to 1; got {total:.3f}")
        if self.background_minimum > self.background or self.working_minimum > self.working:
            raise ValueError("background_minimum and working_minimum must not exceed background and working")
        if self.interval_limit_turns < self.interval_turns:
            raise ValueError("interval_limit_turns must be at least interval_turns")

    @property
    def fills(self) -> bool:
        """Whether a rebuild moves the oldest verbatim steps into the plan, instead of planning all turns."""
        return self.bands == "optimised" and self.schedule == "watermark"

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        return Rebuild(self, snapshot, state, ledger).plan()

    def levels(
        self,
        sizes: Sizes,
        room_tokens: int,
        shown: Mapping[int, ShownLevel] = MappingProxyType({}),
    ) -> Plan:
        """Choose a level for each turn; few of the turns in `shown` change their level."""
        if self.bands == "documented" or self.schedule == "interval":
            return GradientPlanner(self, sizes, room_tokens, shown).plan()
        from foveate.strategy.gradient.knapsack import KnapsackPlanner  # noqa: PLC0415 - numpy loads with the first plan

        return KnapsackPlanner(self, sizes, room_tokens).plan()
