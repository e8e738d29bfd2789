"""Topics: the current one message by message, past ones as summaries, three old ones together as a bulk.

    [bulks, oldest first] [past topics, oldest first] [the current topic's messages]

A topic ends with a phrase, a silence, another subject, by hand, or when it takes too much of its share; then it is
summarised. When the summaries exceed their share, the three oldest topics become one bulk, and when the bulks exceed
theirs, the oldest is left out. What is left out stays in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from foveate.models.prompts import prompt_text
from foveate.plan import Ledger, Plan, Snapshot, State
from foveate.strategy import Strategy
from foveate.strategy.build import ArtefactKind
from foveate.strategy.standard import Standard
from foveate.strategy.topics.planner import TopicsPlanner

Language = Literal["ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "zh"]
"""Languages with a list of phrases."""
_ROUNDING = 1e-6
_BUILD = f"{__name__}.build"
_WORDING = f"{_BUILD}:WORDING"


class Topics(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Current topic in full, past topics as summaries, old ones merged into bulks."""

    builds: ClassVar[bool] = True
    holds_back: ClassVar[bool] = False
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {
        "topic": ArtefactKind(f"{_BUILD}:make_topic", wording=_WORDING),
        "bulk": ArtefactKind(f"{_BUILD}:make_bulk", reads_messages=False, wording=_WORDING),
        "boundary": ArtefactKind(f"{_BUILD}:make_boundary", reads_units=False),
        "truncated": ArtefactKind(f"{_BUILD}:make_truncated", reads_units=False),
    }

    enabled: bool = True
    """false: no topics; the newest turns that fit, as with `standard`."""
    current: Annotated[float, Meta(gt=0, le=1)] = 0.50
    """Share of the budget, without the system prompt, for the current topic. The three shares add up to at most 1."""
    past: Annotated[float, Meta(ge=0, le=1)] = 0.30
    """For summaries of past topics."""
    bulk: Annotated[float, Meta(ge=0, le=1)] = 0.20
    """For bulks."""
    max_message_chars: Annotated[int, Meta(ge=100, le=1_000_000)] = 2_000
    """When the current topic exceeds its share, messages longer than this are truncated to it, in the context only."""
    topic_tokens: Annotated[int, Meta(ge=24, le=100_000)] = 200
    """Limit of a past topic's summary."""
    bulk_tokens: Annotated[int, Meta(ge=24, le=100_000)] = 300
    """Limit of a bulk's summary."""
    bulk_topics: Annotated[int, Meta(ge=2, le=100)] = 3
    """Number of topics in a bulk."""
    silence_minutes: Annotated[float, Meta(gt=0, le=5_256_000)] | None = 30
    """A longer silence ends the topic. None: silence ends no topic."""
    seal_share: Annotated[float, Meta(gt=0, le=1)] = 0.60
    """A topic that takes more than this part of its share is sealed, except its newest turn."""
    phrase_languages: tuple[Language, ...] | None = None
    """Languages whose phrases end a topic, e.g. ["en", "de"]. None: all. []: none."""
    phrases: tuple[str, ...] = ()
    """Additional phrases."""
    subject_distance: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Minimum distance of another subject: from 0, as far as usual, to 1, nothing in common. None: not detected."""
    keep_full: bool = False
    """Show the newest past topics in full while there is room. A preview always does."""

    def __post_init__(self) -> None:
        total = self.current + self.past + self.bulk
        if total > 1 + _ROUNDING:
            raise ValueError(f"current, past and bulk must add up to at most 1; got {total:.3f}")

    @property
    def explanation(self) -> str:
        return prompt_text("explain/topics")

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        if not self.enabled:
            return Standard().plan(snapshot, state, ledger)
        return TopicsPlanner(self, snapshot, state, ledger).plan()
