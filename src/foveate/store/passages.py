"""The index of turns: their passages, with the words and vectors they are found by. All of it can be made again.

A passage is known by its key: the id of the row that has all passages of its turn, and its number among them. What is
found is what the session sees: its ancestors' turns as they were at the fork, and of each turn the newest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Speaker = Literal["user", "assistant", "tool", "system"]
"""Whose words they are. A tool's are its calls and results; a program's injections count as the system's."""

SPEAKERS: tuple[Speaker, ...] = ("user", "assistant", "tool", "system")
KEY_SHIFT = 12
"""A key is a row's id with so many bits for the number behind it."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A passage as it was said, and what else it is found by."""

    speaker: Speaker
    text: str
    tool: str | None
    extra: str
    """Words that the database's own tokenizer would not find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassages:
    """All passages of a turn, as far as its first `messages` messages go."""

    turn: int
    messages: int
    at_us: int
    """When the turn began."""
    maker: str
    """What cut them and made their vectors; those of another maker are made again."""
    texts: tuple[PassageText, ...]
    embedded: tuple[int, ...]
    """The numbers of those that have a vector, or are to get one."""
    marks: bytes
    """What ranking needs of each without reading it, packed by the caller."""
    vectors: bytes


@dataclass(frozen=True, slots=True)
class PassagesRow:
    """A turn's passages without their texts."""

    id: int
    turn: int
    messages: int
    at_us: int
    maker: str
    marks: bytes
    vectors: bytes


@dataclass(frozen=True, slots=True)
class Postings:
    """The keys of the passages that have a phrase, the newest first; `is_cut` if there are more."""

    keys: Sequence[int]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The index as of one moment: what came since the last look, and where phrases stand."""

    epoch: int
    """With another one than last time, something was taken away: look again from the beginning."""
    last_turn: int
    last_messages: int
    """Of the last turn, which may be open."""
    newest: int
    """The id up to which this look went, in the whole store."""
    rows: Sequence[PassagesRow]
    postings: Sequence[Postings]


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the index has of a store."""

    turns: int
    passages: int
    missing: int
    """Turns that are not indexed yet."""
    makers: tuple[str, ...]
    model: str = ""
    """What makes vectors now, as whoever asks the store knows."""
    problem: str = ""
    """Why it can't be asked."""

    @property
    def vector_models(self) -> tuple[str, ...]:
        """The models that made the vectors; an empty name where passages have words only."""
        return tuple(maker.partition(" ")[2] for maker in self.makers)


class PassageIndex(Protocol):
    """The index of a store; `foveate.testing.stores.passages` is its conformance suite."""

    async def look(
        self, session_id: str, *, after: int, phrases: Sequence[tuple[str, int]], limit: int, is_most: bool = False
    ) -> IndexSnapshot:
        """Rows with an id above `after`, and for each phrase up to `limit` passages beyond its key that have it.

        `is_most` says that most passages of the store are this session's, so that others need not be left out first.
        `Damaged` if the index can't be read.
        """
        ...

    async def postings(self, session_id: str, phrase: str, *, field: str) -> list[int]:
        """The keys of all passages that have a phrase in a field: `words`, or `tool`."""
        ...

    async def among(self, phrases: Sequence[str], texts: Sequence[PassageText]) -> list[list[int]]:
        """For each phrase the places of those texts that have it, by the same rules as `look`."""
        ...

    async def texts(self, ids: Sequence[int]) -> dict[int, list[PassageText]]:
        """The passages of these rows; those that are gone are left out."""
        ...

    async def add(self, session_id: str, made: Sequence[NewPassages]) -> None:
        """Keep what was made, in place of what another maker made of the same."""
        ...

    async def lacking(self, session_id: str, maker: str, limit: int) -> list[tuple[int, int]]:
        """Turns whose renditions are made but not their passages, or by another maker, the newest first, each with how
        many messages it has."""
        ...

    async def note_made(self, session_id: str, maker: str) -> None:
        """Note up to where a session may still lack something, so that nobody looks further."""
        ...

    async def want(self, session_id: str) -> None:
        """Have all turns of a session looked at again, whether they lack something."""
        ...

    async def unindexed(self) -> list[str]:
        """The sessions that may have such turns."""
        ...

    async def state(self, maker: str) -> IndexState: ...

    async def check(self) -> str | None:
        """What is wrong with the index, if anything."""
        ...

    async def clear(self) -> None:
        """Take everything away, so that all of it is made again; whatever state it was in."""
        ...
