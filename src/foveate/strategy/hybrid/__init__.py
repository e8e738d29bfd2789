"""Hybrid: messages are shortened one by one, oldest first: tool results by their kind, words by a summary.

    [system messages] [eras and tiny turns, if that is not enough] [turns with short messages] [turns in full]

Nothing changes until the history fills its share of the window. Then messages are shortened, oldest first, until the
target is reached, and stay the same, byte for byte, until the next time. The newest messages are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from foveate.models.prompts import prompt_text
from foveate.plan import Ledger, Plan, Snapshot, State
from foveate.strategy import Strategy
from foveate.strategy.build import ArtefactKind
from foveate.strategy.hybrid.planner import HybridPlanner


class Hybrid(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shortens single messages; each can be read in full again."""

    builds: ClassVar[bool] = True
    holds_back: ClassVar[bool] = False
    agent: ClassVar[str] = "foveate.agents.shrink:shrink_session"
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {
        "short": ArtefactKind(
            f"{__name__}.build:make_short", reads_units=False, wording=f"{__name__}.model_summary:WORDING"
        ),
    }

    window_tokens: Annotated[int, Meta(ge=256, le=100_000_000)] = 80_000
    """Limit of the history; a smaller share of the budget counts instead."""
    trigger: Annotated[float, Meta(gt=0, le=1)] = 0.70
    """Share of the window above which messages are shortened."""
    target: Annotated[float, Meta(gt=0, le=1)] = 0.40
    """Share of the window that shortening aims at."""
    protected_messages: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """Number of newest user and assistant messages that are never changed."""
    kept_injections: Annotated[int, Meta(ge=0, le=1_000)] = 1
    """Number of newest injected messages that are not shortened."""
    user_tokens: Annotated[int, Meta(ge=16, le=10_000)] = 50
    """Limit of a user's short message, including its mark."""
    assistant_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 200
    """Limit of an assistant's short message, including its tool calls."""
    injection_tokens: Annotated[int, Meta(ge=16, le=10_000)] = 50
    """Limit of a short injected message."""
    read_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 150
    """Limit of the result of reading a file."""
    write_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 50
    """Limit of the result of writing a file."""
    edit_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 40
    """Limit of the result of changing lines of a file."""
    other_tokens: Annotated[int, Meta(ge=24, le=10_000)] = 60
    """Limit of the result of any other tool."""
    tracked_turns: Annotated[int, Meta(ge=0, le=200)] = 16
    """Number of earlier turns that a short message may refer to, for files and open todos."""
    rolled_share: Annotated[float, Meta(gt=0, le=0.5)] = 0.15
    """If short messages do not reach the target, the oldest turns become one sentence each, then eras, within this
    share of the window."""
    agent_iterations: Annotated[int, Meta(ge=1, le=1_000)] = 24
    """Maximum number of model answers in agent mode."""
    agent_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 120.0
    """Time limit of agent mode."""
    agent_tokens: Annotated[int, Meta(ge=1_000, le=100_000_000)] = 200_000
    """Maximum number of input and output tokens in agent mode."""

    def __post_init__(self) -> None:
        if self.target >= self.trigger:
            raise ValueError(f"target must be below trigger; got {self.target} and {self.trigger}")

    @property
    def explanation(self) -> str:
        return prompt_text("explain/hybrid")

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        return HybridPlanner(self, snapshot, state, ledger).plan()
