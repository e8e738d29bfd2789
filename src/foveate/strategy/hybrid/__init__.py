"""Hybrid: message by message, the oldest made short first; tool results by what is known of them, words by a summary.

    [system messages] [eras and tiny turns, where that is not enough] [turns with short messages] [turns as they were]

Nothing changes until the history fills its share of the window. Then messages are made short, oldest first, until the
target is reached, and stay so, byte for byte, until the next time. The newest messages are never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from foveate.plan import Overheads, Plan, Story
from foveate.strategy import Strategy, text_file
from foveate.strategy.build import ArtefactKind
from foveate.strategy.hybrid.planner import HybridPlanner


class Hybrid(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Makes single messages short; any of them can be read in full again."""

    keeps_story: ClassVar[bool] = True
    builds: ClassVar[bool] = True
    holds_back: ClassVar[bool] = False
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {
        "short": ArtefactKind(f"{__name__}.build:make_short", reads_units=False),
    }

    window_tokens: Annotated[int, Meta(ge=256, le=100_000_000)] = 80_000
    """What the history may take; a budget that leaves it less room counts instead."""
    trigger: Annotated[float, Meta(gt=0, le=1)] = 0.70
    """Messages are made short when the history takes more than this share of the window,"""
    target: Annotated[float, Meta(gt=0, le=1)] = 0.40
    """until it takes no more than this one."""
    protected_messages: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """So many of the newest user and assistant messages are never touched."""
    kept_injections: Annotated[int, Meta(ge=0, le=1_000)] = 1
    """So many of the newest injected messages stay as they are; older ones are made short."""
    user_tokens: Annotated[int, Meta(ge=16, le=10_000)] = 50
    """What a short message takes at most, its mark included: the user's,"""
    assistant_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 200
    """the assistant's, its tool calls included,"""
    injection_tokens: Annotated[int, Meta(ge=16, le=10_000)] = 50
    """an injected one,"""
    read_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 150
    """the result of reading a file,"""
    write_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 50
    """of writing one,"""
    edit_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 40
    """of changing some lines of one,"""
    other_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 60
    """and of any other tool."""
    tracked_turns: Annotated[int, Meta(ge=0, le=200)] = 16
    """How many turns before its own a short message may refer to, for files seen before and open todos."""
    rolled_share: Annotated[float, Meta(gt=0, le=0.5)] = 0.15
    """Where short messages alone don't reach the target, the oldest turns become one sentence each, then eras, within
    this share of the window."""
    agent_iterations: Annotated[int, Meta(ge=1, le=1_000)] = 24
    """The agent mode ends after so many answers of its model,"""
    agent_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 120.0
    """so long,"""
    agent_tokens: Annotated[int, Meta(ge=1_000, le=100_000_000)] = 200_000
    """or so many tokens that its model has read and written."""

    def __post_init__(self) -> None:
        if self.target >= self.trigger:
            raise ValueError(f"target is below trigger; got {self.target} and {self.trigger}")

    @property
    def explanation(self) -> str:
        return text_file(__name__, "explanation.md")

    def plan(self, story: Story, budget_tokens: int, overheads: Overheads) -> Plan:
        return HybridPlanner(self, story, budget_tokens, overheads).plan()
