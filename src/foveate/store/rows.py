"""The rows of a store: one class per kind.

Bodies, units, marks and vectors are bytes packed by the caller; the store does not interpret them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from foveate.tokens import Counter, EncodingName, exact_counter
from foveate.turn import Kind, Role

Head = Literal["closed", "preamble", "prompted"]
"""State of a session's newest turn: complete, prompt not recorded yet, or prompt recorded."""
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
"""Counters of requests to models: an artefact's, the next place of a level's eras, consecutive failed calls."""
Speaker = Literal["user", "assistant", "tool", "system"]
"""Author of a passage. Calls and results belong to the tool; text injected by a program belongs to the system."""
SPEAKERS: tuple[Speaker, ...] = ("user", "assistant", "tool", "system")
KEY_SHIFT = 12
"""A passage's key is its row's id shifted left by this many bits, plus its number in the row."""
PASSAGE_MASK = (1 << KEY_SHIFT) - 1
"""The bits of a key that hold the number."""
NEWEST_ID = (1 << 48) - 1
"""Larger than any row's id."""
NANO = 1_000_000_000
"""Nano-dollars in a dollar: integer sums are the same in every database."""
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
    """The owner's id; empty for the local owner."""
    budget_chosen: int = 1
    """0: the default budget, reduced if the model's window is smaller."""
    mode: str = ""
    """The name of a stored prompt that is included in every system prompt; empty: none."""
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
    def newest(self) -> tuple[int, int]:
        """The newest turn and the position of its last message; in a fork without turns of its own, its parent's."""
        return self.last_turn, self.last_position or self.fork_position

    @property
    def is_open(self) -> bool:
        """Whether the newest turn can still grow."""
        return self.last_turn > 0 and self.head != "closed"

    @property
    def exact(self) -> Counter:
        """The counter that stored sizes were made with."""
        return exact_counter(self.encoding)


class Origin(NamedTuple):
    """The session that something was read of, and its last prune then. Removing turns changes it."""

    number: int
    created_us: int
    pruned_us: int | None


SESSION_COLUMNS = (
    *("number", "id", "title", "platform", "channel", "strategy", "settings", "budget_tokens", "model", "encoding"),
    *("calibration", "parent", "parent_id", "fork_turn", "fork_position", "last_turn", "last_position", "head"),
    *("created_us", "updated_us", "tenant", "budget_chosen", "mode", "scope"),
)
"""The columns of a session, in the order in which they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to store. `starts` overrides the detection of a turn's start; a `key` is stored once per session."""

    role: Role
    kind: Kind
    opens_turn: bool
    is_preamble: bool
    tokens: int
    tool_calls: int
    at_us: int | None
    body: bytes
    """The data of `bodies.pack`."""
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
    """A stored message; `body` is None if it was pruned."""

    turn: int
    position: int
    role: Role
    kind: Kind
    tokens: int
    at_us: int
    recorded_us: int
    body: bytes | None
    problem: str | None = None
    """The damage, if any; the body is then a note."""
    digest: bytes = b""
    erased_us: int | None = None
    """When it, or a text in it, was erased."""


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """A message without its body. `tool_results` is None if it was stored before they were counted."""

    turn: int
    role: Role
    kind: Kind
    tokens: int
    tool_results: int | None
    at_us: int
    pruned: int
    """1 if its body was removed."""


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
    erased_us: int | None = None
    """When it, or a text in it, was erased."""


@dataclass(frozen=True, slots=True)
class PinRow:
    number: int
    text: str
    locked: bool
    created_us: int


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """Totals of a session: recorded and stored."""

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
    session: str = ""
    """The session that the problem is in; empty: none, or it is not known."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The counts of a prune, or of its dry run."""

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
    """Consecutive claims, including this one; the workers of the earlier ones died."""


@dataclass(frozen=True, slots=True)
class SessionWork:
    """A session that a worker has taken from the queue."""

    session_id: str
    token: int
    """Proof that it was not taken or written to since."""
    is_new: bool
    """True if something was recorded; False if it was put back, and nothing was recorded since."""


@dataclass(frozen=True, slots=True)
class ParkedTurn:
    """A turn that is not attempted again."""

    session_id: str
    turn: int
    calls: int
    """Model calls made or reserved for it."""
    reason: str


WorkerKind = Literal["worker", "serve"]
"""The command of a process that does background work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBeat:
    """A process that says that it does background work."""

    id: str
    kind: WorkerKind
    host: str
    pid: int
    version: str
    compresses: bool
    """Whether it compresses and indexes turns, besides running agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A process that does background work, by its heartbeat."""

    kind: WorkerKind
    host: str
    pid: int
    version: str
    compresses: bool
    """Whether it compresses and indexes turns, besides running agents."""
    running_seconds: float
    seen_seconds: float
    """Time since its last heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The work queue of a store."""

    sessions: int
    """Sessions that need a worker, now or later."""
    due_sessions: int
    model_turns: int
    """Turns queued for a model, now or later."""
    due_model_turns: int
    waited_seconds: float
    """Time since the first queued turn became due."""
    leased: int
    """Turns in progress."""
    expired: int
    """Leases of dead workers; their turns can be claimed."""
    owners: int
    """Workers that hold leases."""
    parked: int
    parked_turns: tuple[ParkedTurn, ...]
    """A few of them, the newest first."""
    workers: tuple[RunningWorker, ...] = ()
    """Processes of `foveate worker` and `foveate serve` that run, idle or not."""


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
    """Why it is not attempted again; empty for a normal rendition."""
    words: bytes | None = None
    """The turn's content words, as packed by `foveate.history.worth`."""
    brief: bytes | None = None
    """`foveate.renditions.Renditions.brief`; None if there is none."""
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
    """The turn's content words, as packed by `foveate.history.worth`."""
    brief: int | None = None
    at_us: int = 0
    """When the turn began."""
    erased_us: int | None = None
    """When it, or a text in it, was erased."""


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


def era_turns(level: int, place: int) -> range:
    """Return the turns of an era."""
    turns = ERA_FANOUT**level
    return range(place * turns + 1, (place + 1) * turns + 1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts of a session's turns with renditions, and of queued ones."""

    pending: int
    complete: int
    incomplete: int
    refusals: int
    waiting: int
    """Turns queued for a model, now or later."""
    due_us: int | None
    """Due time of the first of them."""
    by_model: int
    """Turns whose newest renditions were made by a model."""


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
    """Calls allowed now; counted as made until `refine` or `postpone` reports the actual number."""
    smoothed_tokens: int
    compressed_tokens: int
    owner: str
    """Owner of the claim; results of other owners are rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedTurn:
    """A model's rendition of a turn; a level that is None is unchanged."""

    maker: str
    version: int
    calls: int
    """Total calls for the turn."""
    refusals: int
    is_complete: bool = True
    """False if a level that a model should have made is missing; the turn is marked incomplete."""
    smoothed: bytes | None = None
    smoothed_tokens: int | None = None
    compressed: bytes | None = None
    compressed_tokens: int | None = None
    tiny: str | None = None
    tiny_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedTurn:
    """The outcome of a claim that does not change the renditions."""

    due_us: int | None
    """When a model is asked again; None: never."""
    calls: int
    """Total calls for the turn."""
    refusals: int = 0
    """Rejected answers, added to the count."""
    is_marked: bool = False
    """The local rendition is a fallback for one a model failed to make."""
    parked: str = ""
    """Why it is not attempted again; empty for an ordinary outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoRequest:
    """A selection of renditions to make again."""

    local_version: int
    """Local renditions older than this, or incomplete, are made again."""
    model_version: int | None
    """Local renditions and those of an older prompt are queued for a model; None: no model configured."""


@dataclass(frozen=True, slots=True)
class ArtefactRow:
    """A stored artefact."""

    name: str
    kind: str
    first_turn: int
    last_turn: int
    tokens: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ArtefactsMark:
    """A fingerprint that changes with a strategy's artefacts, so that they can be cached."""

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
    """Words that the database's own tokenizer would miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassages:
    """All passages of a turn's first `messages` messages."""

    turn: int
    messages: int
    at_us: int
    """Start time of the turn."""
    maker: str
    """Version of the splitter and the embedder; passages of another version are rebuilt."""
    texts: tuple[PassageText, ...]
    embedded: tuple[int, ...]
    """Numbers of the passages that have or will get a vector."""
    marks: bytes
    """Data for ranking without the texts."""
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
    """Keys of the passages that contain a phrase, the newest first; `is_cut` if there are more."""

    keys: Sequence[int]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class IndexedSession:
    """The turns of a session that are searched."""

    number: int
    id: str
    created_us: int
    epoch: int
    """Changes when rows were removed: read again from the beginning."""
    first_turn: int
    last_turn: int
    last_messages: int
    """Number of messages of the last turn, which may be open."""


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The index at one moment: rows added since the last read, and the postings of phrases."""

    sessions: Sequence[IndexedSession]
    """The requested session, or all, the most recently used first."""
    newest: int
    """The highest id in the whole store at that moment."""
    rows: Sequence[PassagesRow]
    postings: Sequence[Postings]
    has_items: bool = False
    """The store has items of knowledge, of whatever scope."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """The contents of a store's index."""

    turns: int
    passages: int
    missing: int
    """Turns that are not indexed yet."""
    makers: tuple[str, ...]
    model: str = ""
    """The current embedding model; set by the caller."""
    problem: str = ""
    """Why it can't be read; empty if it can."""

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
    """The provider whose limits it counts against."""
    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    nano_usd: int
    is_estimate: bool
    """True if the price is assumed, or the provider reported no usage."""
    latency_us: int
    outcome: str
    """`ok`; `unfit` for an answer that was paid for but not used; or the reason of a `ModelError`."""
    prompt_hash: str = ""
    """SHA-256 of the system prompt that was sent, in hex; empty if there was none."""
    tenant: str = ""
    """Of a call without a session; with one it is the session's."""
    key_id: str = ""
    """The server's key of the client that made it; empty for calls of Foveate itself."""
    client: str = ""
    """The program that made it, e.g. `claude-cli`."""
    request_id: str = ""
    status: int = 0
    """HTTP status that the client got; 0 for calls of Foveate itself."""
    first_byte_us: int = 0
    """Time until the provider's answer began."""
    written_tokens: int = 0
    """Input that the provider wrote to its cache."""
    thinking_tokens: int = 0
    """Output that was thinking."""
    predicted_tokens: int | None = None
    """Input that the provider was expected to have cached; None where nothing is expected."""
    whole_tokens: int | None = None
    """Input, had the whole conversation been sent; None if unknown."""
    whole_nano_usd: int | None = None
    """Cost, had the whole conversation been sent; None if unknown."""


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
    """Calls whose answer was rejected."""
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
