"""The state of the checkpoint strategy between plans: its checkpoints, and how far back each kind of text reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from foveate.plan import Artefact, ArtefactSpec
from foveate.turn import Json

DETAILED, COMPACT = 3, 1
"""The longest and the shortest level of a checkpoint."""
MESSAGES_KIND, UNITS_KIND = "checkpoint", "checkpoints"
"""A checkpoint is made from the messages of its turns; one of very many turns from their units and earlier finds."""
ARCHITECTURE_KIND = "architecture"
MAX_READ_TURNS = 400
"""Maximum number of turns whose messages are read for one checkpoint."""


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint without its text, which is an artefact of its name."""

    id: str
    level: int
    first: int
    """The first of its turns; `last` is the last."""
    last: int
    first_message: int
    """The first of its messages, counted from the session's first; `last_message` is the last."""
    last_message: int
    original_tokens: int
    """Tokens of what it replaces: everything in its turns except the user's words."""
    text_tokens: int
    """Maximum tokens of its text, without its tags and the preserved list."""
    tokens: int
    """Its tokens, tags included, without the preserved list; the maximum until it is made."""
    count: int = 1
    """Number of its compressions."""
    merged: int = 1
    """Number of checkpoints merged into it."""

    @property
    def name(self) -> str:
        return f"checkpoint-{self.first}-{self.last}-{self.level}-{self.text_tokens}"

    def wanted(
        self, *, tier: int, summary_tokens: int, compact_tokens: int, architecture_tokens: int = 0
    ) -> ArtefactSpec:
        """Request its text, and after it the preserved list within `architecture_tokens`."""
        data: dict[str, Json] = {
            "id": self.id,
            "level": self.level,
            "tier": tier,
            "messages": [self.first_message, self.last_message],
            "summary_tokens": summary_tokens,
            "compact_tokens": compact_tokens,
            "architecture_tokens": architecture_tokens,
        }
        kind = MESSAGES_KIND if self.last - self.first < MAX_READ_TURNS else UNITS_KIND
        name = f"{self.name}-{summary_tokens}-{compact_tokens}-{architecture_tokens}-t{tier}"
        return ArtefactSpec(name, kind, self.first, self.last, self.text_tokens + architecture_tokens, data)


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The strategy's state. Turns 1 to `tiny_through` are Tiny; of those after them, up to `through`, only the user's
    words are shown."""

    nominal_tokens: int
    tier: int
    checkpoints: tuple[CheckpointEntry, ...] = ()
    """Checkpoints, oldest first."""
    through: int = 0
    """Turns up to this one are compressed: only the user's words of them are shown."""
    tiny_through: int = 0
    """Turns up to this one were rolled over: a Tiny replaces the user's words too."""
    tiny_tokens: int = 0
    """Room for the Tinies and eras of rolled-over turns."""
    messages: int = 0
    """Number of messages in the compressed turns."""
    seen_turn: int = 0
    """The newest turn of the last plan."""
    seen_tokens: int = 0
    """Size of `seen_turn` at the last plan."""
    compressions: int = 0
    rollovers: int = 0
    created: int = 0
    """Number of checkpoints ever made; the next one's number is one more."""
    architecture_from: int = 0
    """In a session without checkpoints, the first turn of the last compression; 0: nothing was compressed."""
    architecture_limit: int = 0
    """Maximum tokens of the preserved list: the architecture decisions of all compressed turns."""
    architecture_tokens: int = 0
    """Tokens of the preserved list; in a session without checkpoints, with its tags."""
    given_tokens: int = 0
    """Tokens of system prompt, pins, documents and tools in the session's newest context."""

    @property
    def checkpoint_tokens(self) -> int:
        return sum(checkpoint.tokens for checkpoint in self.checkpoints)

    def reserved_tokens(self, tag_tokens: int) -> int:
        """Return the tokens reserved for the checkpoints, by their levels."""
        return sum(checkpoint.text_tokens + tag_tokens for checkpoint in self.checkpoints)

    @property
    def architecture_wanted(self) -> ArtefactSpec | None:
        """The artefact of architecture decisions of a session without checkpoints: those found before, and those of the
        turns of its last compression."""
        first = 1 + max((one.last for one in self.checkpoints), default=0)
        if not self.architecture_from or first > self.through:
            return None
        name = f"architecture-{self.architecture_from}-{self.through}-{self.architecture_limit}"
        limit = self.architecture_limit
        return ArtefactSpec(name, ARCHITECTURE_KIND, self.architecture_from, self.through, limit, {"first": first})

    def as_json(self) -> dict[str, Json]:
        return {**asdict(self), "checkpoints": [asdict(checkpoint) for checkpoint in self.checkpoints]}

    @classmethod
    def from_json(cls, state: Mapping[str, Json]) -> CheckpointState:
        known: dict[str, Any] = dict(state)
        known["checkpoints"] = tuple(_entry(checkpoint) for checkpoint in known["checkpoints"])
        return cls(**known)


def _entry(stored: Mapping[str, Any]) -> CheckpointEntry:
    """Return a stored checkpoint; entries of older versions have fields that no longer exist."""
    names = {field.name for field in fields(CheckpointEntry)}
    return CheckpointEntry(**{name: value for name, value in stored.items() if name in names})


def preserved_tokens(made: Artefact) -> int:
    """Return the tokens of the preserved list in an artefact."""
    found = made.data.get("preserved_tokens", 0)
    return min(found, made.tokens) if isinstance(found, int) else 0


def merge(
    older: CheckpointEntry, newer: CheckpointEntry, *, text_tokens: int, tag_tokens: int, count: int
) -> CheckpointEntry:
    """Merge two neighbours at the newer one's level; the result is made from the turns of both."""
    original = older.original_tokens + newer.original_tokens
    return replace(
        newer,
        id=older.id,
        first=older.first,
        first_message=older.first_message,
        original_tokens=original,
        text_tokens=text_tokens,
        tokens=text_tokens + tag_tokens,
        count=max(older.count, newer.count, count),
        merged=older.merged + newer.merged,
    )
