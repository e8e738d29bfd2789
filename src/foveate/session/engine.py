"""The engine of a session handle: its row, its token counter, the shared parts of the store, and its contexts.

Internal. `Session` is the public façade over it. The gateway, intake, agents and tools reach it as `session.engine` for
what users don't need: drafts, limits of one handle, contexts with certain tools, events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from foveate import telemetry
from foveate.additions import ClientTexts
from foveate.context.assemble import Order
from foveate.context.board import Note, NoteKind
from foveate.context.context import Context
from foveate.context.tools import ToolSet
from foveate.events import Event, EventKind
from foveate.formats.sizes import SentSizes
from foveate.session.cabinet import Cabinet, CabinetEntry, filed_note
from foveate.session.context import Asked, Contexts, given_settings
from foveate.session.fork import fork_session
from foveate.session.read import Reader
from foveate.session.record import announce, bind_answer, context_token
from foveate.session.shared import PrefixSource, SharedParts
from foveate.session.tools import Retrieval
from foveate.session.values import (
    SessionInfo,
    describe_session,
    lowered_budget,
    restored_budget,
    with_budget,
)
from foveate.settings import SessionStrategy, session_strategy
from foveate.store import Draft, Place, SessionRow
from foveate.store.codec import draft_messages
from foveate.tokens import Counter, calibrate, session_counter
from foveate.turn import Json, Message, Text, turn_id

if TYPE_CHECKING:
    from foveate.client import Foveate


MIN_CHANGE: Final = 0.0005
"""A smaller relative change of the calibration is not stored; a falling one ends 1 % above its target."""


class SessionEngine:
    """The state of one session handle, and the operations behind `Session`."""

    row: SessionRow
    """The session's data as last read, with the budget that applies to this handle."""
    counter: Counter

    def __init__(self, row: SessionRow, shared: SharedParts, *, tenant: str = "") -> None:
        """`tenant` is the tenant whose view the session is opened in; empty: the owner's view."""
        self.tenant = tenant
        self.shared = shared
        self.store = shared.store
        self.contexts = Contexts(shared, row.id)
        self._limit_tokens: int | None = None
        self.take(row)

    @property
    def stored_id(self) -> str:
        """The id in the store; for a tenant's session `tenant:id`."""
        return self.row.id

    @property
    def home(self) -> Foveate:
        """The open store, as the tenant of this session sees it."""
        return self.shared.view(self.row.tenant)

    @property
    def info(self) -> SessionInfo:
        """Session data as of the last change or `reload` through this handle."""
        return describe_session(self.row, self.tenant)

    @property
    def sizes(self) -> SentSizes:
        """The counter of messages as sent, including images and files."""
        return SentSizes.of(self.row.model, self.row.encoding)

    @property
    def compression_level(self) -> int:
        """zstd compression level of recorded messages."""
        return self.shared.settings.store.compression_level

    @property
    def strategy(self) -> SessionStrategy:
        """The session's strategy with its settings, or the fallback with the reason."""
        settings = self.shared.settings
        return session_strategy(self.row.strategy, settings, given_settings(self.row, settings))

    def take(self, row: SessionRow) -> None:
        """Replace the session's data with a row that was just read."""
        row = with_budget(row, self.shared.settings.session.budget_tokens)
        limit = self._limit_tokens
        self._stored_row = row
        self.row = row if limit is None else replace(row, budget_tokens=min(row.budget_tokens, limit))
        self.counter = session_counter(row.model, row.encoding)

    async def reload(self) -> SessionInfo:
        """Reload the session's data, including changes by other handles."""
        self.take(await self.store.get_session(self.stored_id))
        return self.info

    async def update(self, changes: Mapping[str, object]) -> SessionInfo:
        """Store changes to the session's data."""
        if changes:
            self.take(await self.store.update_session(self.stored_id, changes))
        return self.info

    def limit_budget(self, tokens: int | None) -> None:
        """Limit the budget of this handle, e.g. to the model's window; None: no limit. Not stored."""
        if tokens == self._limit_tokens:
            return
        self._limit_tokens = tokens
        self.take(self._stored_row)

    @property
    def unlimited_budget_tokens(self) -> int:
        """The session's budget without the limit of this handle."""
        return self._stored_row.budget_tokens

    async def lower_budget(self, tokens: int) -> SessionInfo:
        """Lower the session's budget, e.g. after a provider rejected a request as too long. Never raises it."""
        await self.reload()
        return await self.update(lowered_budget(self.row, tokens))

    async def calibrate(self, sent_tokens: int, calibration: float, *, reported_tokens: int) -> float:
        """Calibrate token counts with the usage that a provider reported, and return the new factor.

        `calibration` is the factor with which `sent_tokens` were counted. Counts rise at once and fall slowly.
        """
        before = self.row.calibration
        counted = int(sent_tokens / calibration)
        after = calibrate(before, counted_tokens=counted, reported_tokens=reported_tokens, is_exact=self.counter.exact)
        if abs(after - before) >= MIN_CHANGE * before:
            await self.update({"calibration": after})
        return self.row.calibration

    async def restore_budget(self, before: SessionInfo) -> SessionInfo:
        """Restore the budget that the session had before a change."""
        return await self.update(restored_budget(before, self.shared.settings.session.budget_tokens))

    async def fork(
        self, session_id: str, at: str | int | None = None, *, title: str | None, exist_ok: bool
    ) -> SessionEngine:
        """Fork the session; see `Session.fork`."""
        row = await self.store.get_session(self.stored_id)
        forked = await fork_session(self.store, row, session_id, at, title=title, exist_ok=exist_ok)
        return SessionEngine(forked, self.shared, tenant=self.tenant)

    async def draft(
        self,
        messages: Sequence[Message],
        keys: Sequence[str | None],
        *,
        at: datetime | None = None,
        context: Context | str | None = None,
    ) -> list[Draft]:
        """Count and pack messages for `append`, each with its key."""
        bound = bind_answer(messages, partial(self.shared.asked.pop, self.stored_id), context)
        return await draft_messages(bound, at, keys, self.sizes, self.compression_level)

    async def append(
        self,
        drafts: Sequence[Draft],
        *,
        newest_turn: int | None = None,
        after: str | None = None,
        exact: bool = False,
        tail: str = "",
        since_us: int | None = None,
    ) -> list[Place]:
        """Record drafts, all or none, and publish events; see `foveate.store.log.append`."""
        shared = self.shared
        with telemetry.span("create_memory") as span:
            if span:
                told = {telemetry.OPERATION: "create_memory", telemetry.SESSION: self.stored_id}
                span.set({**told, telemetry.RECORDS: len(drafts)})
            places = await self.store.append(
                self.stored_id, drafts, newest_turn=newest_turn, after=after, exact=exact, tail=tail, since_us=since_us
            )
        shared.worker.wake(self.stored_id)
        if places and any(draft.role == "assistant" for draft in drafts):
            shared.uses.answered(self.row.tenant, self.stored_id, places[-1].turn)
        if shared.events.is_watched:
            await announce(shared.events, self.stored_id, drafts=drafts, places=places)
        return places

    def publish(self, kind: EventKind, data: Mapping[str, Json]) -> None:
        """Publish an event of this session, e.g. that a tool was called."""
        turn = turn_id(self.row.last_turn) if self.row.last_turn else None
        self.shared.events.publish(Event(kind, self.stored_id, datetime.now(UTC), turn, data))

    async def note(self, kind: NoteKind, key: str, text: str) -> None:
        """Put a note on the board, for `context.board_life_turns` turns."""
        now = (await self.reload()).turns
        life = self.shared.settings.context.board_life_turns
        await self.contexts.board.note(self.row, Note(kind, key, text, until_turn=now + life, since_turn=now))

    @property
    def cabinet(self) -> Cabinet:
        """The file cabinet that the tools of this session use; new keys are listed on the board."""
        return Cabinet(
            self.store,
            self.shared.settings,
            tenant=self.row.tenant,
            view=self.tenant,
            session_id=self.stored_id,
            on_filed=self._note_filed,
        )

    async def _note_filed(self, entry: CabinetEntry) -> None:
        """List a new key of the cabinet on the board, for `cabinet.note_turns` turns."""
        turns = self.shared.settings.cabinet.note_turns
        if turns:
            await self.reload()
            await self.contexts.board.note(self.row, filed_note(entry, self.row.last_turn, turns))

    async def context_with(
        self,
        offer: ToolSet | None,
        prompt: str | Sequence[Message] = "",
        *,
        budget_tokens: int | None = None,
        system: str = "",
        order: Order | None = None,
        strategy: str | None = None,
        recall: bool = True,
        is_answered: bool = True,
        needs_thinking: bool = False,
        client: ClientTexts = ClientTexts(),  # noqa: B008 - frozen
    ) -> Context:
        """Build a context with these tools. A prompt that is already recorded as the newest turn is not sent twice."""
        with telemetry.span("foveate.context") as span:
            span.set({telemetry.SESSION: self.stored_id})
            settings = self.shared.settings.context
            with telemetry.span("foveate.snapshot"):
                snapshot = await self.contexts.snapshot(strategy)
            self.take(snapshot.session)
            row, counter = self.row, self.counter  # another call may replace them before this one ends
            messages = [Message("user", (Text(prompt),))] if isinstance(prompt, str) else prompt
            asked = Asked(
                prompt="" if prompt and await self.contexts.reader.is_waiting(row, messages) else prompt,
                budget_tokens=budget_tokens,
                system=system,
                tools_tokens=offer.tokens(counter) if offer else 0,
                history_tools_tokens=offer.late_tokens(counter) if offer else 0,
                order=order or settings.order,
                strategy=strategy,
                recall=recall,
                client=client,
                is_display=not is_answered,
            )
            context = await self.contexts.make(replace(snapshot, session=row), counter, asked)
            sent = offer if context.has_history_tools or not offer else offer.without_history()
            drops = settings.drop_unbound_thinking
            context = replace(
                context,
                offer=sent,
                keeps_system=client.has_system,
                drops_unbound_thinking=drops,
                needs_thinking=needs_thinking,
            )
            if span:
                span.set(_told(context))
                telemetry.context_made(context.tokens, context.budget_tokens)
        if is_answered:
            self.came_from(context)
        return context

    async def look(self, *, budget_tokens: int | None = None, strategy: str | None = None) -> Context:
        """Build the current context for display only: no answer is expected from it."""
        return await self.context_with(None, budget_tokens=budget_tokens, strategy=strategy, is_answered=False)

    def came_from(self, source: Context | PrefixSource) -> None:
        """Remember that the next recorded answer came from this context, or from a request with this prefix."""
        self.shared.asked[self.stored_id] = partial(context_token, source) if isinstance(source, Context) else source

    async def is_waiting(self, prompt: Sequence[Message]) -> bool:
        """Return whether the newest turn ends with exactly this prompt and has no answer yet."""
        await self.reload()
        return await self.contexts.reader.is_waiting(self.row, prompt)

    def reader(self) -> Reader:
        """Make a reader of the session's turns, as of now."""
        return Reader(self.store, self.row, self.counter, self.contexts.reader)

    def retrieval(self) -> Retrieval:
        """Make an executor of the history tools, as of now."""
        return Retrieval(self.store, self.row, self.contexts, self.counter, searcher=self.shared.searcher)


def _told(context: Context) -> dict[str, str | int | bool]:
    """Return what a trace tells of a context."""
    return {
        "foveate.strategy": context.planned.strategy,
        "foveate.context.tokens": context.tokens,
        "foveate.context.budget_tokens": context.budget_tokens,
        "foveate.context.turns": context.planned.last_turn,
        "foveate.context.is_new_plan": context.planned.is_new,
    }
