"""Where a turn is kept, raw and for good: one protocol, one file per database.

A store keeps bodies it does not look into, and knows where each message stands. It is told what to keep as
`Draft`s and answers with `Place`s; sessions, forks and pins are rows beside them. What goes in is durable
before the call returns, or the call fails and nothing of it is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from foveate.errors import InputError
from foveate.store.artefacts import Artefacts
from foveate.store.calls import Calls
from foveate.store.derived import Derived
from foveate.store.passages import PassageIndex
from foveate.store.settings import StoreSettings
from foveate.tokens import EncodingName
from foveate.turn import Kind, Role

Head = Literal["closed", "preamble", "prompted"]
"""A session's newest turn: takes nothing more, waits for its prompt, or has it."""

UPDATABLE = frozenset({"title", "platform", "channel", "strategy", "settings", "budget_tokens", "model", "calibration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session to be made; with a parent it starts from the parent's turn `fork_turn`."""

    id: str
    title: str
    platform: str | None
    channel: str | None
    strategy: str
    settings: str
    budget_tokens: int
    model: str | None
    encoding: EncodingName


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(NewSession):
    """A session as stored."""

    number: int
    calibration: float
    parent: int | None
    parent_id: str | None
    fork_turn: int
    fork_position: int
    last_turn: int
    last_position: int
    head: Head
    created_us: int
    updated_us: int
    """When it was last used: the time of its newest message; until it has one, when it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be kept. `starts` overrules whether it starts a turn; `key` makes keeping it twice impossible."""

    role: Role
    kind: Kind
    opens_turn: bool
    is_preamble: bool
    tokens: int
    tool_calls: int
    at_us: int | None
    body: bytes
    """As `bodies.pack` made it."""
    digest: bytes
    size: int
    key: str | None = None
    starts: bool | None = None
    tool_results: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a draft went. `is_new` is False if its key was there already."""

    turn: int
    position: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as stored; `body` is None once pruned."""

    turn: int
    position: int
    role: Role
    kind: Kind
    tokens: int
    at_us: int
    recorded_us: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """A message without its body. `tool_results` is None where it was kept before these were counted."""

    turn: int
    role: Role
    kind: Kind
    tokens: int
    tool_results: int | None
    at_us: int
    pruned: int
    """1 where its body was removed."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """What is known of a turn without reading it."""

    turn: int
    messages: int
    tokens: int
    tool_calls: int
    first_at_us: int
    last_at_us: int
    size: int
    pruned: bool


@dataclass(frozen=True, slots=True)
class PinRow:
    number: int
    text: str
    locked: bool
    created_us: int


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """What a session's own messages take: as they came, and as stored."""

    messages: int
    tokens: int
    tool_calls: int
    raw_bytes: int
    stored_bytes: int
    first_at_us: int | None
    last_at_us: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `check` saw: a fault, or how far it is (`done` of `total`)."""

    problem: str | None = None
    advice: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune took away, or would."""

    turns: int
    messages: int
    raw_bytes: int
    stored_bytes: int


class Store(Protocol):
    """The contract; `foveate.testing.stores` is its conformance suite."""

    location: str

    @property
    def derived(self) -> Derived:
        """What is made from the raw log and kept beside it."""
        ...

    @property
    def calls(self) -> Calls:
        """What models were asked, and what it cost."""
        ...

    @property
    def passages(self) -> PassageIndex:
        """What turns are found by."""
        ...

    @property
    def artefacts(self) -> Artefacts:
        """What strategies had made of turns, and the goals and documents they were given."""
        ...

    async def create_session(self, session: NewSession) -> SessionRow:
        """A new, empty session; `SessionExists` if there is one of that id."""
        ...

    async def fork_session(self, session: NewSession, parent_id: str, turn: int) -> SessionRow:
        """A session that begins with its parent's turns up to `turn` as they are now, with the parent's pins,
        goals and documents."""
        ...

    async def get_session(self, session_id: str) -> SessionRow:
        """`SessionNotFound` if there is none."""
        ...

    async def list_sessions(self, *, platform: str | None = None, channel: str | None = None) -> list[SessionRow]:
        """All, or those with these labels; the one used last comes first."""
        ...

    async def update_session(self, session_id: str, changes: Mapping[str, object]) -> SessionRow:
        """Set columns named in UPDATABLE. `calibration` only ever goes up."""
        ...

    async def delete_session(self, session_id: str) -> None:
        """Remove a session and all its own turns; `ForkInUse` while forks read them."""
        ...

    async def append(self, session_id: str, drafts: Sequence[Draft], *, newest_turn: int | None = None) -> list[Place]:
        """Keep all drafts, in order, durably and together, or none.

        With `newest_turn`: `TurnBegun` if a later turn has begun.
        """
        ...

    async def read(self, session_id: str, first: int, last: int) -> list[MessageRow]:
        """All messages of the turns `first` to `last`, its ancestors' included; `Damaged` if one does not check."""
        ...

    async def turns(self, session_id: str, first: int, last: int) -> list[TurnRow]:
        """The same range without bodies."""
        ...

    async def outlines(self, session_id: str, first: int, last: int) -> list[MessageOutline]:
        """The same range message by message, without bodies."""
        ...

    async def keys(self, session_id: str, first: int, last: int) -> list[str | None]:
        """Under what key each message of the range was kept, None if under none; those for display are left out."""
        ...

    async def sizes(self, session_id: str) -> StoredSizes:
        """Totals over everything the session reads, its ancestors' turns included."""
        ...

    async def raw_tokens(self, session_id: str, first: int, last: int) -> int:
        """What the turns `first` to `last` take as they came, in base tokens."""
        ...

    async def add_pin(self, session_id: str, text: str, *, locked: bool) -> PinRow:
        """A new pin; or the one that has this text word for word, locked from now on if this one is to be."""
        ...

    async def list_pins(self, session_id: str) -> list[PinRow]: ...

    async def remove_pin(self, session_id: str, number: int, *, even_if_locked: bool) -> None: ...

    async def prune(self, session_id: str, *, before_us: int, dry_run: bool) -> PruneReport:
        """Remove the bodies of the session's own turns that ended before then; `ForkInUse` while forks read them.

        What was made of them goes too: renditions, eras, keepsakes and artefacts. The keepsake `pruned` is another one
        each time.
        """
        ...

    def check(self) -> AsyncIterator[Finding]:
        """Verify everything; progress and faults as they come."""
        ...

    async def close(self) -> None: ...


async def open_store(location: str, settings: StoreSettings) -> Store:
    """The store at a file path (created if there is none) or a database URL."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme.startswith("postgres"):
        raise InputError("PostgreSQL is not supported yet; give the path of a file, as in foveate.open('chat.db')")
    if separator:
        raise InputError(f"{scheme}:// is not a kind of store; give the path of a file, as in foveate.open('chat.db')")
    from foveate.store.sqlite import SqliteStore  # noqa: PLC0415 - a store's driver loads when it is used

    return await SqliteStore.open(location, settings)
