"""The values that go into a store and come out of it: one class per kind of row.

Bodies, units, marks and vectors are bytes that the caller packed; a store keeps them without reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from foveate.tokens import Counter, EncodingName, exact_counter
from foveate.turn import Kind, Role

Head = Literal["closed", "preamble", "prompted"]
"""State of a session's newest turn: complete, without its prompt yet, or with it."""
UPDATABLE = frozenset(
    {
        *("title", "platform", "channel", "strategy", "settings", "budget_tokens", "budget_chosen", "model"),
        *("calibration", "mode", "scope"),
    }
)
ERA_FANOUT = 32
"""Turns per era of level 1, and eras per era of the next level."""
LOCAL_MAKER = "local"
"""The maker of renditions that need no model; every other maker is a model."""
RequestKind = Literal["artefact", "era", "failures"]
"""What is counted of requests to models: an artefact's, the next place of a level's eras, failed calls in a row."""
Speaker = Literal["user", "assistant", "tool", "system"]
"""Author of a passage. Calls and results are a tool's; text injected by a program counts as the system's."""
SPEAKERS: tuple[Speaker, ...] = ("user", "assistant", "tool", "system")
KEY_SHIFT = 12
"""A passage's key is its row's id shifted by this many bits, plus its number in the row."""
PASSAGE_MASK = (1 << KEY_SHIFT) - 1
"""The bits of a key that are the number."""
NEWEST_ID = (1 << 48) - 1
"""Above every row's id."""
NANO = 1_000_000_000
"""Nano-dollars in a dollar: whole numbers add up the same in every database."""
DAY_US = 86_400_000_000
OK = "ok"
UNFIT = "unfit"
RUNNING = "running"
"""Outcome of a call that is reserved and not settled yet; permanent if its process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session to create."""

    id: str
    title: str
    platform: str | None
    channel: str | None
    strategy: str
    settings: str
    budget_tokens: int
    model: str | None
    encoding: EncodingName
    tenant: str = ""
    """Whose it is; the local owner's is empty."""
    budget_chosen: int = 1
    """0: nobody chose the budget; it is the default, and less where the model's window is smaller."""
    mode: str = ""
    """The name of a stored prompt that is part of every system prompt; empty: none."""
    scope: str = ""
    """The scope whose knowledge and past sessions it may recall, e.g. `user:anna`; empty: none."""


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
    """Time of its newest message; its creation time while it has none."""

    @classmethod
    def of(cls, columns: Sequence[Any]) -> SessionRow:
        """Make a row from the values of `SESSION_COLUMNS`."""
        return cls(**dict(zip(SESSION_COLUMNS, columns, strict=True)))

    @property
    def is_open(self) -> bool:
        """Whether the newest turn can still grow."""
        return self.last_turn > 0 and self.head != "closed"

    @property
    def exact(self) -> Counter:
        """The counter that stored sizes were made with."""
        return exact_counter(self.encoding)


SESSION_COLUMNS = (
    *("number", "id", "title", "platform", "channel", "strategy", "settings", "budget_tokens", "model", "encoding"),
    *("calibration", "parent", "parent_id", "fork_turn", "fork_position", "last_turn", "last_position", "head"),
    *("created_us", "updated_us", "tenant", "budget_chosen", "mode", "scope"),
)
"""The columns of a session, in the order in which they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to store. `starts` overrides whether it starts a turn; a `key` is stored once per session."""

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
    """Where a draft was stored. `is_new` is False if its key was stored before."""

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
    problem: str | None = None
    """How it is damaged; its body is a note then."""


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """A message without its body. `tool_results` is None if it was stored before these were counted."""

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
    """Totals of a turn, without its bodies."""

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
    """Totals of a session: as recorded, and as stored."""

    messages: int
    tokens: int
    tool_calls: int
    raw_bytes: int
    stored_bytes: int
    first_at_us: int | None
    last_at_us: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that `check` found, or its progress (`done` of `total`)."""

    problem: str | None = None
    advice: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune removed, or would remove."""

    turns: int
    messages: int
    raw_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that needs renditions of its first `messages` messages."""

    session_id: str
    turn: int
    messages: int
    attempts: int = 1
    """Claims in a row, this one included; the workers of those before it died."""


@dataclass(frozen=True, slots=True)
class SessionWork:
    """A session that a worker has taken from the queue of sessions."""

    session_id: str
    token: int
    """Proves that it was not taken or written to since."""
    is_new: bool
    """Something was recorded; False if it was put back, and nothing was recorded since."""


@dataclass(frozen=True, slots=True)
class ParkedTurn:
    """A turn for which no more attempts are made."""

    session_id: str
    turn: int
    calls: int
    """Calls of a model that were made or reserved for it."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The work queue of a store."""

    sessions: int
    """Sessions that a worker has to look at, now or later."""
    due_sessions: int
    model_turns: int
    """Turns queued for a model, now or later."""
    due_model_turns: int
    waited_seconds: float
    """How long the first turn that is due for a model has been."""
    leased: int
    """Turns in progress."""
    expired: int
    """Leases of workers that died; their turns can be claimed."""
    owners: int
    """Workers that hold leases."""
    parked: int
    parked_turns: tuple[ParkedTurn, ...]
    """Some of them, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRendition:
    """All levels of a turn, like `foveate.renditions.Renditions`."""

    turn: int
    messages: int
    maker: str
    version: int
    is_complete: bool
    smoothed_tokens: int
    compressed_tokens: int
    tiny_tokens: int
    tiny: str
    compressed: bytes
    smoothed: bytes
    units: bytes
    refusals: int
    passages: NewPassages | None = None
    """Index entries of the turn."""
    due_us: int | None = None
    """When a model is asked for a better rendition; None: never."""
    parked: str = ""
    """Why no more attempts are made; empty for a rendition that was made as usual."""
    words: bytes | None = None
    """What the turn says, as `foveate.history.worth` packs it."""
    brief: bytes | None = None
    """`foveate.renditions.Renditions.brief`; None: there is none."""
    brief_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RenditionSizes:
    """Tokens of a turn per level; None where there is no rendition yet."""

    turn: int
    raw: int
    messages: int
    rendition: int | None
    smoothed: int | None
    compressed: int | None
    tiny: int | None
    is_pruned: bool
    words: bytes | None = None
    """What the turn says, as `foveate.history.worth` packs it."""
    brief: int | None = None


@dataclass(frozen=True, slots=True)
class RenditionRow:
    """A turn's stored renditions."""

    turn: int
    smoothed_tokens: int
    compressed_tokens: int
    tiny_tokens: int
    tiny: str
    compressed: bytes
    smoothed: bytes
    units: bytes
    maker: str
    version: int
    is_complete: bool
    made_us: int
    brief: bytes | None = None
    brief_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EraRow:
    level: int
    place: int
    tokens: int
    units: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many turns of a session have renditions, and how many are queued."""

    pending: int
    complete: int
    incomplete: int
    refusals: int
    waiting: int
    """Turns queued for a model, now or later."""
    due_us: int | None
    """When the first of them is due."""
    by_model: int
    """Turns whose newest renditions a model made."""


@dataclass(frozen=True, slots=True)
class DueTurn:
    """A turn claimed for a model. Its current texts are those of `rendition`."""

    session_id: str
    turn: int
    messages: int
    rendition: int
    due_us: int
    calls: int
    """Total calls before this claim."""
    reserved: int
    """Calls allowed now; counted as made until `refine` or `postpone` reports the real number."""
    smoothed_tokens: int
    compressed_tokens: int
    owner: str
    """Who claimed it; results of anybody else are rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedTurn:
    """A model's rendition of a turn; a level that is None stays as it was."""

    maker: str
    version: int
    calls: int
    """Total calls for the turn."""
    refusals: int
    is_complete: bool = True
    """False: a level that a model should have made is missing; the turn is marked incomplete."""
    smoothed: bytes | None = None
    smoothed_tokens: int | None = None
    compressed: bytes | None = None
    compressed_tokens: int | None = None
    tiny: str | None = None
    tiny_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedTurn:
    """The outcome of a claim that leaves the renditions as they are."""

    due_us: int | None
    """When a model is asked again; None: never."""
    calls: int
    """Total calls for the turn."""
    refusals: int = 0
    """Rejected answers, added to the count."""
    is_marked: bool = False
    """The local rendition is a fallback for one a model failed to make."""
    parked: str = ""
    """Why no more attempts are made, where that is no ordinary outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoRequest:
    """Which renditions to make again."""

    local_version: int
    """Local renditions older than this, or incomplete, are made again."""
    model_version: int | None
    """Local renditions and those of an older prompt are queued for a model; None: no model configured."""


@dataclass(frozen=True, slots=True)
class ArtefactRow:
    """An artefact, by its name."""

    name: str
    kind: str
    first_turn: int
    last_turn: int
    tokens: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ArtefactsMark:
    """Changes whenever a strategy's artefacts do, so that they can be cached."""

    count: int
    newest_us: int


@dataclass(frozen=True, slots=True)
class GoalRow:
    number: int
    data: bytes
    created_us: int
    updated_us: int


@dataclass(frozen=True, slots=True)
class DocumentRow:
    name: str
    text: str
    updated_us: int


class PassageText(NamedTuple):
    """A passage as recorded, and additional search words."""

    speaker: Speaker
    text: str
    tool: str | None
    extra: str
    """Words that the database's own tokenizer would not find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassages:
    """All passages of a turn's first `messages` messages."""

    turn: int
    messages: int
    at_us: int
    """When the turn began."""
    maker: str
    """Version of the splitter and the embedder; passages of another maker are made again."""
    texts: tuple[PassageText, ...]
    embedded: tuple[int, ...]
    """The numbers of those that have a vector or will get one."""
    marks: bytes
    """What ranking needs without the texts."""
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
    session: int
    """The number of the session that recorded the turn."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The keys of the passages that contain a phrase, the newest first; `is_cut` if there are more."""

    keys: Sequence[int]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class IndexedSession:
    """The turns of a session that a search covers."""

    number: int
    id: str
    created_us: int
    epoch: int
    """If it changed, rows were removed: look again from the beginning."""
    first_turn: int
    last_turn: int
    last_messages: int
    """Of the last turn, which may be open."""


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The index at one moment: rows added since the last look, and the postings of phrases."""

    sessions: Sequence[IndexedSession]
    """The session that was asked for; or all, those used last first."""
    newest: int
    """The highest id at that moment, in the whole store."""
    rows: Sequence[PassagesRow]
    postings: Sequence[Postings]
    has_items: bool = False
    """The store has items of knowledge, of whatever scope."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the index of a store contains."""

    turns: int
    passages: int
    missing: int
    """Turns that are not indexed yet."""
    makers: tuple[str, ...]
    model: str = ""
    """The current embedding model; set by the caller."""
    problem: str = ""
    """Why it can't be read."""

    @property
    def vector_models(self) -> tuple[str, ...]:
        """The models that made the vectors; an empty name where passages have words only."""
        return tuple(maker.partition(" ")[2] for maker in self.makers)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call. `turn` is set for a turn's renditions."""

    session_id: str | None
    turn: int | None
    at_us: int
    provider: str
    """Whose limits it counts against."""
    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    nano_usd: int
    is_estimate: bool
    """The price is assumed, or the provider reported no usage."""
    latency_us: int
    outcome: str
    """`ok`; `unfit` for an answer that was paid for and not used; or the reason of a `ModelError`."""
    prompt_hash: str = ""
    """SHA-256 of the system prompt that was sent, in hex; empty if there was none."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """Totals of the calls of one session, day, model and purpose."""

    session_id: str | None
    day: str
    """In UTC, e.g. 2026-11-15."""
    model: str
    purpose: str
    calls: int
    failed: int
    unfit: int
    """Answered, but the answer was rejected."""
    latency_us: int
    """Sum over the calls."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    nano_usd: int
    is_estimate: bool

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO
