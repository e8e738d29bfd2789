"""What strategies had made of turns, and what the user gave them to work with: goals and documents.

Artefacts can be made again; goals and documents can't, so a prune leaves them and a fork begins with a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ArtefactRow:
    """Something made, by its name. `data` is packed by the caller."""

    name: str
    kind: str
    first_turn: int
    last_turn: int
    tokens: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ArtefactsMark:
    """Changes whenever what was made for a strategy does, so that it need not be read again."""

    count: int
    newest_us: int


@dataclass(frozen=True, slots=True)
class GoalRow:
    number: int
    data: bytes
    """Packed by the caller."""
    created_us: int
    updated_us: int


@dataclass(frozen=True, slots=True)
class DocumentRow:
    name: str
    text: str
    updated_us: int


class Artefacts(Protocol):
    """The part of a store that strategies use."""

    async def mark(self, session_id: str, strategy: str) -> ArtefactsMark: ...

    async def made(self, session_id: str, strategy: str) -> list[ArtefactRow]:
        """All that was made for a strategy of the session itself, by name; a fork makes its own."""
        ...

    async def keep_made(self, session_id: str, strategy: str, made: Sequence[ArtefactRow]) -> None:
        """Keep all of these; one of the same name is replaced."""
        ...

    async def replace_made(self, session_id: str, strategy: str, old: ArtefactRow, new: ArtefactRow) -> bool:
        """Keep another of the same name, if the old one is still there as it was; whether it is."""
        ...

    async def goals(self, session_id: str) -> list[GoalRow]:
        """In the order they were added."""
        ...

    async def add_goal(self, session_id: str, data: bytes) -> GoalRow:
        """Its number is one more than the newest one's; numbers are not used again."""
        ...

    async def update_goal(self, session_id: str, number: int, data: bytes) -> GoalRow | None:
        """The goal as it is now; None if there is none of that number."""
        ...

    async def documents(self, session_id: str) -> list[DocumentRow]:
        """By name."""
        ...

    async def keep_document(self, session_id: str, name: str, text: str) -> DocumentRow:
        """Replace a document; an empty one is as good as none."""
        ...
