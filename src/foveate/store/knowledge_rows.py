"""The values of knowledge that go into a store and come out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KnowledgeKind = Literal["topic", "profile", "lesson", "reference", "recommendation"]
KNOWLEDGE_KINDS: tuple[KnowledgeKind, ...] = ("topic", "profile", "lesson", "reference", "recommendation")
KnowledgeState = Literal["proposed", "approved", "pinned", "retired"]
"""`pinned`: approved, and no run changes it."""
KNOWLEDGE_STATES: tuple[KnowledgeState, ...] = ("proposed", "approved", "pinned", "retired")
PERSON = "person"
"""The maker of versions that a person wrote or decided on."""
RunState = Literal["running", "done", "failed", "replaced"]
"""`replaced`: its input changed before it ended, and a later run began anew."""


@dataclass(frozen=True, slots=True, order=True)
class KnowledgeSource:
    """A turn that an item was learned from."""

    session_id: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKnowledge:
    """A version of an item to add. If the item exists, this becomes its newest version."""

    id: str
    """Stays the same from version to version."""
    scope: str
    kind: KnowledgeKind
    state: KnowledgeState
    title: str
    text: str
    topics: tuple[str, ...] = ()
    """Ids of topics."""
    keywords: tuple[tuple[str, float], ...] = ()
    """Words with their weights, the heaviest first."""
    technologies: tuple[str, ...] = ()
    weight: float = 0.5
    """0 to 1: how much it matters. Lowered while it is not used."""
    confidence: float = 0.5
    """0 to 1: how sure its maker is."""
    sources: tuple[KnowledgeSource, ...] = ()
    maker: str
    """`local` for rules, `person`, or the name of a model."""
    prompt_version: str = ""
    first_seen_us: int
    last_seen_us: int
    """Times of its oldest and newest source turn."""
    reason: str = ""
    """Why it takes the place of the version before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeRow(NewKnowledge):
    """A version of an item as stored. Its `reason` is why another took its place, empty while it is current."""

    tenant: str
    version: int
    created_us: int
    superseded_by: str
    """`ID@VERSION` of the version, or the id of the item, that took its place; empty while it is current."""
    uses: int
    """Contexts that showed the item."""
    helped: int
    """Answers that used it."""
    last_used_us: int | None


@dataclass(frozen=True, slots=True)
class KnowledgeMark:
    """The current items of some scopes at one moment: the same as long as none is added, replaced or removed."""

    count: int
    versions: int
    """The sum of their version numbers."""
    newest_us: int


@dataclass(frozen=True, slots=True)
class Supersession:
    """An item that another one takes the place of, e.g. when two are merged."""

    id: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class TurnTopicRow:
    """A topic of a turn."""

    turn: int
    topic: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChanges:
    """All that a run changes, stored together or not at all."""

    items: tuple[NewKnowledge, ...] = ()
    superseded: tuple[Supersession, ...] = ()
    turn_topics: tuple[tuple[str, TurnTopicRow], ...] = ()
    """Sessions with topics of their turns."""
    topic_sessions: tuple[str, ...] = ()
    """Sessions whose turn topics are replaced by these."""


CHUNK_STEP = "chunk-"
"""How the names of steps begin whose results depend on nothing but their names, which are hashes of what was read. A
run whose input has changed takes them over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that is to begin, or to go on if one with the same input was interrupted."""

    id: str
    tenant: str
    scope: str
    watermark: str
    """A hash of everything the run reads."""
    prompt_version: str
    owner: str
    """A name of this attempt that no other has."""
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as stored."""

    id: str
    tenant: str
    scope: str
    watermark: str
    prompt_version: str
    state: RunState
    owner: str
    until_us: int
    started_us: int
    ended_us: int | None
    report: str
    """What it did, as JSON; empty until it ends."""
