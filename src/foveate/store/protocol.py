"""The contract of a store; `foveate.testing.stores` is its conformance suite.

A store keeps bodies it does not read, and records where each message belongs. `append` takes `Draft`s and returns
`Place`s; sessions, forks and pins are rows beside them. What is written is durable before the call returns, or the
call fails and nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from foveate.store.agent_rows import (
    AgentLimits,
    AgentRow,
    AgentState,
    AgentTotals,
    CallLimit,
    ClaimRequest,
    NewAgent,
)
from foveate.store.cabinet_rows import CabinetRow, NewContent, PromptRow, TurnContentRow
from foveate.store.client_rows import AccessKeyRow, KnownPlace, LocatedHistory, ResponseRow
from foveate.store.knowledge_rows import (
    KnowledgeChanges,
    KnowledgeKind,
    KnowledgeMark,
    KnowledgeRow,
    NewKnowledge,
    NewRun,
    RunRow,
    TurnTopicRow,
)
from foveate.store.pictures import PictureRow
from foveate.store.rows import (
    NEWEST_ID,
    ArtefactRow,
    ArtefactsMark,
    Backlog,
    CallRow,
    Claim,
    CostRow,
    DocumentRow,
    Draft,
    DueTurn,
    EraRow,
    Finding,
    GoalRow,
    IndexSnapshot,
    IndexState,
    MessageOutline,
    MessageRow,
    NewPassages,
    NewRendition,
    NewSession,
    PassagesRow,
    PassageText,
    PinRow,
    Place,
    PostponedTurn,
    PruneReport,
    QueueState,
    RedoRequest,
    RefinedTurn,
    RenditionRow,
    RenditionSizes,
    RequestKind,
    SessionRow,
    SessionWork,
    StoredSizes,
    TurnRow,
)

if TYPE_CHECKING:
    from foveate.store.index_reader import IndexReader

T = TypeVar("T")


class Store(Protocol):
    """The contract; `foveate.testing.stores` is its conformance suite."""

    location: str

    def for_tenant(self, tenant: str) -> Store:
        """The same store for what a tenant does: the database shows no rows of others, where it can."""

    @property
    def derived(self) -> Derived:
        """Renditions, eras, plans and boards: made from the raw log."""

    @property
    def calls(self) -> Calls:
        """Calls of models and their costs."""

    @property
    def passages(self) -> PassageIndex:
        """The search index."""

    @property
    def access(self) -> Access:
        """Keys of the server."""

    @property
    def clients(self) -> Clients:
        """Where the histories that clients of the gateway send are in the log."""

    @property
    def cabinet(self) -> CabinetKeys:
        """The file cabinet."""

    @property
    def prompts(self) -> PromptRows:
        """Stored prompts."""

    @property
    def agents(self) -> AgentRows:
        """Agents, their states and the limits of their trees."""

    @property
    def knowledge(self) -> KnowledgeRows:
        """What past conversations teach, topics of turns, and the runs that learn."""

    @property
    def pictures(self) -> Pictures:
        """What contexts showed each time a plan changed."""

    @property
    def artefacts(self) -> Artefacts:
        """Artefacts of strategies, and the user's goals and documents."""

    async def create_session(self, session: NewSession) -> SessionRow:
        """Create an empty session; `SessionExists` if the id is taken."""

    async def fork_session(self, session: NewSession, parent_id: str, turn: int) -> SessionRow:
        """Create a session that starts with its parent's turns up to `turn`, its pins, goals and documents.

        Turn 0 shares no turn: a child session.
        """

    async def get_session(self, session_id: str) -> SessionRow:
        """`SessionNotFound` if there is none."""

    async def list_sessions(
        self,
        *,
        platform: str | None = None,
        channel: str | None = None,
        tenant: str | None = None,
        scope: str | None = None,
        limit: int | None = None,
    ) -> list[SessionRow]:
        """All sessions, or those with these labels, of this tenant or opened with this scope; the last used first, at
        most `limit`."""

    async def update_session(self, session_id: str, changes: Mapping[str, object]) -> SessionRow:
        """Set columns named in UPDATABLE."""

    async def delete_session(self, session_id: str) -> None:
        """Remove a session and all its own turns; `ForkInUse` while forks read them. If an agent works in it, that is
        cancelled first, and those that wait for it are queued."""

    async def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        newest_turn: int | None = None,
        after: str | None = None,
        exact: bool = False,
        tail: str = "",
    ) -> list[Place]:
        """Store all drafts, in order and durably, or none. A draft whose key the session has is not stored again.

        With `newest_turn`: `TurnBegun` if a later turn has begun. With `after`: `SessionContinued` if the last message
        of the session that has a key has another one; an empty `after` means that none has. With `exact`: `KeyReused`
        if messages were stored under these keys that are not the same as the drafts. `tail` is the hash of a prompt and
        its answer, by which `clients.find_tails` finds their turn.
        """

    async def read(self, session_id: str, first: int, last: int) -> list[MessageRow]:
        """All messages of the turns `first` to `last`, its ancestors' included; `Damaged` if one does not check."""

    async def turns(self, session_id: str, first: int, last: int) -> list[TurnRow]:
        """The same range without bodies."""

    async def outlines(self, session_id: str, first: int, last: int) -> list[MessageOutline]:
        """The same range message by message, without bodies."""

    async def keys(self, session_id: str, first: int, last: int) -> list[str | None]:
        """The key of each message of the range, None for those without; display messages are skipped."""

    async def sizes(self, session_id: str) -> StoredSizes:
        """Totals of the session, its ancestors' turns included."""

    async def raw_tokens(self, session_id: str, first: int, last: int) -> int:
        """Raw size of the turns `first` to `last`, in base tokens."""

    async def add_pin(self, session_id: str, text: str, *, locked: bool) -> PinRow:
        """Add a pin; if one with the same text exists, return it, locked if `locked`."""

    async def list_pins(self, session_id: str) -> list[PinRow]: ...

    async def remove_pin(self, session_id: str, number: int, *, even_if_locked: bool) -> None: ...

    async def prune(self, session_id: str, *, before_us: int, dry_run: bool) -> PruneReport:
        """Remove the bodies of the session's own turns that ended before then; `ForkInUse` while forks read them.

        What was made of them goes too: renditions, eras, plans, states (not those of programs), boards, artefacts, and
        the responses of these turns. `derived.pruned` changes.
        """

    async def describe(self) -> dict[str, str]:
        """Facts about the database for its operator, by topic."""

    def check(self) -> AsyncIterator[Finding]:
        """Verify everything; yields progress and problems."""

    async def close(self) -> None: ...


class Pictures(Protocol):
    """What the contexts of a session showed each time its plan changed; see `foveate.store.pictures`."""

    async def add(self, session_id: str, picture: PictureRow) -> None:
        """Add a picture; of too many the oldest go."""

    async def list_pictures(self, session_id: str) -> list[PictureRow]:
        """The pictures of a session, the oldest first."""


class KnowledgeRows(Protocol):
    """Items of knowledge, topics of turns and the runs that learn; see `foveate.store.knowledge`."""

    async def add(self, tenant: str, items: Iterable[NewKnowledge]) -> list[KnowledgeRow]:
        """Add versions of items; the current ones before them are superseded."""

    async def list_items(
        self, tenant: str | None, *, scopes: Sequence[str] | None = None, kind: KnowledgeKind | None = None
    ) -> list[KnowledgeRow]:
        """The current items, those of these scopes if any are named, in the order of scopes, kinds and ids."""

    async def mark(self, tenant: str, scopes: Sequence[str]) -> KnowledgeMark:
        """What tells whether the current items of these scopes changed."""

    async def versions(self, tenant: str | None, item_id: str) -> list[KnowledgeRow]:
        """All versions of an item, the oldest first; empty if there is none."""

    async def count_uses(self, tenant: str, item_ids: Sequence[str], *, used: int = 0, helped: int = 0) -> None:
        """Count that items were shown, and that answers used them."""

    async def turn_topics(self, session_id: str, first: int, last: int) -> list[TurnTopicRow]:
        """The topics of these turns, its ancestors' included; of each turn the heaviest first."""

    async def begin_run(self, new: NewRun) -> RunRow:
        """Begin a run, or go on with an interrupted one that has the same input; `RunInProgress` while another is
        running. An interrupted run whose input has changed since is replaced; results of `CHUNK_STEP`s are taken
        over. A run starts later than all before it, even if the clock was set back."""

    async def get_run(self, run_id: str) -> RunRow: ...

    async def list_runs(self, tenant: str | None, *, scope: str | None = None, limit: int = 100) -> list[RunRow]:
        """The runs, those of a scope if one is named, the newest first."""

    async def renew_run(self, run_id: str, owner: str, lease_seconds: float) -> None:
        """Extend the lease of a run; `RunLost` if another has taken it."""

    async def release_run(self, run_id: str, owner: str) -> None:
        """Give a run back, so that another goes on with it at once."""

    async def keep_step(self, run_id: str, owner: str, name: str, data: bytes) -> None:
        """Keep the result of a step; `RunLost` if another has taken the run."""

    async def steps(self, run_id: str) -> dict[str, bytes]:
        """The results of a run's steps by name; a damaged one counts as not done."""

    async def finish_run(self, run_id: str, owner: str, report: str, changes: KnowledgeChanges) -> None:
        """Store all changes of a run and end it; `RunLost` if another has taken it, and then nothing is stored.

        Items that a person decided on while the run worked stay as the person left them.
        """

    async def fail_run(self, run_id: str, owner: str, report: str) -> None:
        """End a run without changes."""


class AgentRows(Protocol):
    """Agents, their states and the limits of their trees; see `foveate.store.agents`."""

    async def spawn(
        self,
        session: NewSession,
        agent: NewAgent,
        *,
        limits: AgentLimits,
        fork_turn: int | None = None,
        override: AgentLimits | None = None,
    ) -> AgentRow:
        """Add an agent with its session: a fork of the parent's at a turn (0 shares no turn), or one without a parent.

        `LimitReached` if the tree has no room for it. `override` holds for the tree if this is its first agent.
        """

    async def get(self, agent_id: str) -> AgentRow:
        """`AgentNotFound` if there is none."""

    async def of_session(self, session_id: str) -> AgentRow | None:
        """The agent that works in a session."""

    async def list_agents(
        self,
        *,
        tenant: str | None = None,
        state: AgentState | None = None,
        tree: str | None = None,
        parent_session: str | None = None,
        limit: int = 1_000,
    ) -> list[AgentRow]:
        """The newest first."""

    async def totals(self, tree: str, limits: AgentLimits) -> AgentTotals:
        """What a tree has used of its limits. A call in progress counts with the most it may take."""

    async def is_free(self, tree: str | None = None, top: str | None = None) -> bool:
        """Whether there is an agent to claim: any, one of a tree, or `top` or one below it."""

    async def claim(self, wanted: ClaimRequest) -> list[AgentRow]:
        """Lease queued agents and those whose worker died, the oldest first. One that failed too often is lost; it is
        among what is returned, with this state."""

    async def renew(self, owner: str, lease_seconds: float) -> dict[str, int]:
        """Extend the leases of a worker; the claims that it still holds, by agent."""

    async def held(self, owner: str) -> dict[str, int]:
        """The claims that a worker holds, by agent."""

    async def release(self, owner: str) -> None:
        """Queue what a worker that ends in good order did not finish."""

    async def check_claim(self, agent_id: str, owner: str, claims: int) -> None:
        """`ClaimLost` unless this claim is the newest of a running agent."""

    async def finish(
        self, claimed: AgentRow, state: AgentState, *, result: str | None = None, problem: str | None = None
    ) -> AgentRow:
        """Store how an agent ended, and queue those that wait for it; `ClaimLost` if another worker has it."""

    async def park(self, claimed: AgentRow, waits: str, children: Sequence[str] = (), until_us: int = 0) -> AgentRow:
        """Let an agent wait; if one of the agents that it waits for has ended meanwhile, it is queued at once. From
        `until_us` on it can be claimed though nothing happened; 0: never."""

    async def resume(self, agent_id: str, *, expected: str, grants: str, decision: str = "") -> AgentRow:
        """Queue an agent that waits for a person; `AgentEnded` if it does not wait for what was expected any more."""

    async def cancel(self, agent_id: str) -> list[AgentRow]:
        """End an agent and all below it that have not ended; those that were cancelled."""

    async def mark_read(self, agent_id: str) -> None:
        """Note that its result was shown to the session it works for."""


class Derived(Protocol):
    """Everything that is made from the raw log."""

    @property
    def due(self) -> DueQueue:
        """Turns, eras and artefacts queued for a model."""

    async def unsettled(self) -> list[str]:
        """The sessions that have turns without renditions, open turns included."""

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, include_open: bool
    ) -> list[Claim]:
        """Lease up to `limit` turns that lack renditions; the open turn only if asked for, or much grown."""

    async def add_renditions(
        self, session_id: str, renditions: Sequence[NewRendition], *, owner: str | None = None
    ) -> list[int]:
        """Store renditions and release their leases; existing ones are not replaced. The turns that were stored.

        With an `owner`, those of turns that it has not leased any more are rejected.
        """

    async def release(self, session_id: str, owner: str) -> None:
        """Release what this owner leased and did not finish."""

    async def sizes_of(self, session_id: str, first: int, last: int) -> list[RenditionSizes]:
        """Tokens of the turns at each level, oldest first, ancestors' included."""

    async def counts(self, session_id: str, first: int, last: int, *, chunk_turns: int) -> dict[int, int]:
        """Number of renditions in each chunk of turns; sizes change only if it changes."""

    async def renditions(self, session_id: str, first: int, last: int) -> list[RenditionRow]:
        """The newest renditions of the turns that have any."""

    async def tinies(self, session_id: str, first: int, last: int) -> list[tuple[int, str, int]]:
        """The turns with their tiny texts and the tokens of these."""

    async def add_eras(self, session_id: str, eras: Sequence[EraRow]) -> None: ...

    async def eras(self, session_id: str, level: int, first: int, last: int) -> list[EraRow]:
        """Eras of a level by place, including those of ancestors before the fork."""

    async def era_tokens(self, session_id: str, level: int, first: int, last: int) -> list[tuple[int, int]]:
        """The places of eras and their tokens, without units."""

    async def next_era(self, session_id: str, level: int) -> int:
        """The place of the first missing era of a level."""

    async def settled(self, session_id: str) -> int:
        """The last turn up to which every turn has its renditions."""

    async def plan(self, session_id: str, strategy: str) -> bytes | None:
        """The plan that a strategy keeps between calls; None if there is none, or a damaged one."""

    async def keep_plan(self, session_id: str, strategy: str, data: bytes) -> None: ...

    async def offer(self, session_id: str, strategy: str) -> bytes | None:
        """The artefacts on display that a model may word; None if there are none, or damaged ones."""

    async def keep_offer(self, session_id: str, strategy: str, data: bytes) -> None: ...

    async def recalled(self, session_id: str) -> bytes | None:
        """The last memory layer; None if there is none, or a damaged one."""

    async def keep_recalled(self, session_id: str, data: bytes) -> None: ...

    async def pruned(self, session_id: str) -> int | None:
        """When turns were pruned last; different after each prune."""

    async def backlog(self, session_id: str) -> Backlog: ...


class DueQueue(Protocol):
    """What is queued for workers and models. Open turns wait until they are closed; ancestors queue their own."""

    async def take_sessions(self, *, limit: int, lease_seconds: float) -> list[SessionWork]:
        """Sessions that got something new, and those that were put back and are due; the longest waiting first.

        Nobody else gets them within the time of the lease, unless something is recorded in them.
        """

    async def put_back(self, work: SessionWork, seconds: float | None) -> None:
        """Look at a session again after this time; None: when something was recorded. Without effect if something
        was since it was taken."""

    async def wait_for_work(self, seconds: float) -> None:
        """Return when something was recorded in any process, as far as the database tells, or after this time."""

    async def state(self, *, limit: int) -> QueueState:
        """Counts of the queue, and up to `limit` of the parked turns."""

    async def sessions(self) -> list[tuple[str, int]]:
        """The sessions with queued turns and the first due time of each, the earliest first."""

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, max_calls: int, now_us: int
    ) -> list[DueTurn]:
        """Lease up to `limit` turns that are due, and reserve half of the remaining calls for each.

        A turn without remaining calls is marked incomplete and leaves the queue.
        """

    async def lease_roll_ups(self, session_id: str, owner: str, lease_seconds: float) -> bool:
        """Lease the requests for a session's eras and artefacts; False while anybody has the lease."""

    async def reserve(self, due: DueTurn, calls: int) -> bool:
        """Record, before they are made, the total calls that the turn may have; False if its lease was lost."""

    async def refine(self, due: DueTurn, made: RefinedTurn) -> bool:
        """Store a model's rendition and release the lease; False if the turn has newer renditions, or another worker
        has claimed it since."""

    async def postpone(self, due: DueTurn, noted: PostponedTurn) -> bool:
        """Leave the renditions as they are and release the lease; False, and nothing is changed, if another worker has
        claimed the turn since."""

    async def hold(self, session_id: str, until_us: int) -> None:
        """Nothing of the session is due before then."""

    async def hurry(self, now_us: int) -> None:
        """Make everything postponed due now, in every session."""

    async def renew(self, owner: str, lease_seconds: float) -> None:
        """Extend all leases of this owner."""

    async def release(self, owner: str) -> None:
        """Release all leases of this owner; reserved calls stay counted."""

    async def requested(self, session_id: str, kind: RequestKind, name: str) -> int:
        """A count of requests to models; 0 if none was noted."""

    async def note_requested(self, session_id: str, kind: RequestKind, name: str, count: int) -> None: ...

    async def want_again(self, session_id: str, wanted: RedoRequest, now_us: int) -> int:
        """Queue again what can be improved, with its calls reset; the number of turns."""


class Artefacts(Protocol):
    """Artefacts of strategies, goals and documents."""

    async def mark(self, session_id: str, strategy: str) -> ArtefactsMark: ...

    async def made(self, session_id: str, strategy: str) -> list[ArtefactRow]:
        """A strategy's artefacts of the session itself, by name; a fork has its own."""

    async def keep_made(self, session_id: str, strategy: str, made: Sequence[ArtefactRow]) -> None:
        """Store these; those of the same name are replaced."""

    async def replace_made(self, session_id: str, strategy: str, old: ArtefactRow, new: ArtefactRow) -> bool:
        """Replace an artefact if it is still unchanged; whether it was replaced."""

    async def state(self, session_id: str, strategy: str) -> bytes | None:
        """A strategy's state, a record of what people did; None if there is none, or a damaged one."""

    async def keep_state(self, session_id: str, strategy: str, data: bytes) -> None:
        """Replace a state; a damaged one is set aside, where `check` finds it."""

    async def replace_state(self, session_id: str, strategy: str, old: bytes | None, new: bytes) -> bool:
        """Replace a state if it is still unchanged; whether it was replaced."""

    async def board(self, session_id: str) -> bytes | None:
        """The session's board; None if there is none, or a damaged one."""

    async def keep_board(self, session_id: str, data: bytes) -> None:
        """Replace the board; a damaged one is set aside, where `check` finds it."""

    async def goals(self, session_id: str) -> list[GoalRow]:
        """In the order they were added."""

    async def add_goal(self, session_id: str, data: bytes) -> GoalRow:
        """Its number is one more than the newest one's; numbers are not reused."""

    async def update_goal(self, session_id: str, number: int, data: bytes) -> GoalRow | None:
        """The updated goal; None if there is none of that number."""

    async def documents(self, session_id: str) -> list[DocumentRow]:
        """By name."""

    async def keep_document(self, session_id: str, name: str, text: str) -> DocumentRow:
        """Replace a document; an empty one counts as none."""


class PassageIndex(Protocol):
    """The index of a store; `foveate.testing.stores.passages` is its conformance suite."""

    async def read(self, job: Callable[[IndexReader], T]) -> T:
        """Run a function that reads the index in one read transaction, on a reading thread. It may run again after a
        lost connection."""

    async def look(
        self,
        session_id: str | None,
        *,
        after: int,
        phrases: Sequence[tuple[str, int]],
        limit: int,
        until: int = NEWEST_ID,
        is_most: bool = False,
    ) -> IndexSnapshot:
        """Rows with an id above `after` and up to `until`, and for each phrase up to `limit` passages beyond its key
        that contain it.

        Without a session, those of all sessions: a turn that forks share once, as its own session's.
        With `is_most`, most passages of the store are this session's, and others are not filtered first.
        `Damaged` if the index can't be read.
        """

    async def rows(self, session_id: str, ids: Sequence[int], turns: Sequence[int]) -> list[PassagesRow]:
        """The rows of a session with these ids or of these turns, in the order of their ids; missing ones are
        skipped."""

    async def postings(self, session_id: str | None, phrase: str, *, field: str) -> list[int]:
        """The keys of all passages that contain a phrase in a field (`words` or `tool`), in a session or in all."""

    async def among(self, phrases: Sequence[str], texts: Sequence[PassageText]) -> list[list[int]]:
        """For each phrase the places of the texts that contain it, by the rules of `look`."""

    async def nearest(
        self, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, float]] | None:
        """Keys and similarities of the passages of all sessions, or of these, whose vectors are nearest, the nearest
        first; None if the database has no index of vectors."""

    async def texts(self, ids: Sequence[int]) -> dict[int, list[PassageText]]:
        """The passages of these rows; missing rows are skipped."""

    async def add(self, session_id: str, made: Sequence[NewPassages]) -> None:
        """Store passages, in place of those of another maker."""

    async def lacking(self, session_id: str, maker: str, limit: int) -> list[tuple[int, int]]:
        """Turns that have renditions but no passages of this maker, the newest first, each with its number of
        messages."""

    async def note_made(self, session_id: str, maker: str) -> None:
        """Record up to which turn passages may be missing, so that nobody looks further."""

    async def want(self, session_id: str) -> None:
        """Have all turns of a session checked again for missing passages."""

    async def unindexed(self) -> list[str]:
        """The sessions that may lack passages."""

    async def state(self, maker: str) -> IndexState: ...

    async def check(self) -> str | None:
        """The problem of the index, if any."""

    async def clear(self) -> None:
        """Remove the whole index, whatever its state, so that it is made again."""


class Calls(Protocol):
    """The accounts: every call of a model."""

    async def add(self, call: CallRow) -> int:
        """Record a call and return its number; if its session is gone, without one."""

    async def reserve(
        self, call: CallRow, *, since_us: int, limit_nano_usd: int, within: CallLimit | None = None
    ) -> int | None:
        """Record a call that is about to be made, at its maximum cost; None if all calls since a moment would
        then cost more than the limit. `LimitReached` or `ClaimLost` if an agent may not make it. The check is atomic
        across processes.
        """

    async def settle(self, reservation: int, call: CallRow) -> None:
        """Replace a reservation by the call's real usage."""

    async def mark_unfit(self, number: int) -> None:
        """The call was answered, but the answer was rejected."""

    async def newest(self, since_us: int, *, limit: int) -> list[CallRow]:
        """The last `limit` calls since a moment, oldest first."""

    async def spent(self, since_us: int) -> int:
        """Nano-dollars of all calls since a moment, of every session and process, reservations included."""

    async def costs(self, session_id: str | None = None, *, since_us: int = 0) -> list[CostRow]:
        """Totals by session, day, model and purpose, oldest day first; of one session, or all."""


class Access(Protocol):
    """Keys of the server."""

    async def add(self, key: AccessKeyRow) -> None: ...

    async def list_all(self) -> list[AccessKeyRow]:
        """All keys, the oldest first; revoked ones too."""

    async def find(self, digest: bytes) -> AccessKeyRow | None:
        """The key with this hash, unless it is revoked."""

    async def revoke(self, key_id: str) -> bool:
        """Whether there was such a key that was not revoked yet."""

    async def exist(self) -> bool:
        """Whether any key was ever created: a server without keys serves loopback only."""


class Clients(Protocol):
    """Where the histories that clients send are in the log: by the keys of messages, answers and responses."""

    async def find(self, tenant: str, keys: Sequence[str], family: str | None = None) -> list[KnownPlace]:
        """The places of the last of these keys that any session of the tenant has.

        A `family` is a session and those whose id is its own followed by `~` and more.
        """

    async def locate(self, tenant: str, keys: Sequence[str], family: str | None = None) -> LocatedHistory:
        """The best place that `find` gives (the end of a session, then the last used), and what its session holds."""

    async def find_tails(self, tenant: str, tail: str) -> list[tuple[str, int]]:
        """Sessions and turns with this answer, the last used first; a few at most."""

    async def family(self, tenant: str, session_id: str) -> list[str]:
        """Ids of a session and its family (see `find`), the last used first."""

    async def add_response(self, session_id: str, response: ResponseRow) -> None:
        """Store a response; one of the same id is kept as it is."""

    async def get_response(self, tenant: str, response_id: str) -> ResponseRow | None: ...

    async def delete_response(self, tenant: str, response_id: str) -> bool:
        """Remove it; whether there was one. The turn stays."""


class CabinetKeys(Protocol):
    """The file cabinet: contents, the turns of the log that refer to them, and keys to them.

    Without a tenant, `find`, `list_keys` and those for expired keys look at all tenants.
    """

    async def file(self, new: NewContent, *, now_us: int) -> CabinetRow:
        """Store a content and its key, and that a turn refers to it. Filed again, the key lives longer."""

    async def find(self, tenant: str | None, key: str) -> CabinetRow | None:
        """A key, expired ones too."""

    async def list_keys(self, tenant: str | None, session_id: str | None = None, *, now_us: int) -> list[CabinetRow]:
        """The keys that are not expired, of one session or all, the newest first."""

    async def read(self, tenant: str, digest: bytes) -> bytes | None:
        """A content; `Damaged` if it is not what was stored."""

    async def renew(self, tenant: str, keys: Sequence[str], *, expires_us: int) -> int:
        """Let keys live until then, expired ones too if their bytes are still stored; how many were changed."""

    async def expired(self, tenant: str | None, *, now_us: int) -> list[CabinetRow]:
        """The keys that are over and not removed yet."""

    async def remove_expired(self, tenant: str | None, *, now_us: int) -> list[CabinetRow]:
        """Remove the keys that are over, and the bytes that no turn refers to."""

    async def references(self, tenant: str, digest: bytes) -> list[tuple[str, int]]:
        """The sessions and turns of the log that have a content, the newest turn first."""

    async def of_turns(self, session_id: str, first: int, last: int) -> list[TurnContentRow]:
        """The contents that these turns refer to, its ancestors' included."""


class PromptRows(Protocol):
    """Stored prompts by tenant, key and version."""

    async def add(self, tenant: str, key: str, text: str | None) -> PromptRow:
        """Store a new version; without a text, a return to the built-in prompt."""

    async def newest(self, tenant: str) -> list[PromptRow]:
        """The newest version of each key of a tenant, by key."""

    async def history(self, tenant: str, key: str) -> list[PromptRow]:
        """All versions of a key, the oldest first."""
