"""Record a client's request and its answer in the log: each message once, under the key of its history.

State changes of one conversation are serialized; no lock is held while a model answers. If the session has advanced
when an answer arrives, the answer is recorded on a separate branch.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from foveate.additions import ClientTexts, without_reminders
from foveate.cache import BoundedCache
from foveate.client import Foveate, open_row
from foveate.errors import FoveateError, SessionContinued, SessionExists, SessionNotFound, TurnBegun
from foveate.events import Event
from foveate.intake.chain import RequestHistory, extend, mark_message, mark_record, part_count, tail_hash
from foveate.intake.project import project_scope
from foveate.intake.sessions import TITLE_CHARS, ClientId, Incoming, Resolver, SessionDecision, branch_of
from foveate.recall.questions import Need, need_of
from foveate.session import Session
from foveate.session.client_requests import empty_standing
from foveate.session.record import as_messages
from foveate.session.tenant import public_id, stored_id
from foveate.session.values import Clients, Draft, ResponseRow, Standing
from foveate.store.codec import MANY_MESSAGES
from foveate.store.sql import now_us
from foveate.turn import Json, Message, Text, ToolCall, ToolResult, turn_id

OPEN_SESSIONS = 200
"""Limit of cached session handles."""
PLACE_ATTEMPTS = 5
"""Attempts to place a request whose session another server continued."""
PARTIAL = "(partial answer: the client disconnected or the stream was cut)"


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Properties of a new session, from the client's headers and the settings."""

    strategy: str | None = None
    budget_tokens: int | None = None
    model: str | None = None
    platform: str | None = None
    folder: str = ""
    """The folder that the client works in: the session's project label, and its recall scope."""


SessionCheck: TypeAlias = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class Placement:
    """A request in the log: its session, its turn, and the key of the client's history."""

    session: Session
    name: str
    history: RequestHistory
    key: str
    drafts: Sequence[Draft]
    """New messages."""
    whole: Standing | None
    """The previous end of the session, if the client sends all of it."""
    turn: int = 0
    """Set when the request is recorded."""
    is_held: bool = False
    """Whether the request keeps its session busy."""
    is_scratch: bool = False
    """Whether the session is deleted when the request is answered."""
    since_us: int = 0
    """When it was begun: what is made for it is not stored if something was erased since."""
    is_first: bool = False
    """Whether the session was created for the request."""
    record: asyncio.Task[None] | None = None
    """Records the new messages."""

    @property
    def turn_id(self) -> str:
        return turn_id(self.turn)

    @property
    def client_texts(self) -> ClientTexts:
        """What the request has besides the conversation."""
        return self.history.client_texts(self.turn)

    @property
    def may_recall(self) -> bool:
        """Whether the newest prompt may need recall from other sessions. The first always may: nothing is cached."""
        start = self.history.turn_start(len(self.history.marks))
        if not any(mark.opens_turn for mark in self.history.marks[:start]):
            return True
        words = " ".join(without_reminders(message.text) for message in self.history.parse(start, start + 1))
        return need_of(words) is not Need.NONE

    async def recorded(self) -> None:
        """Wait until new messages are durable; raise a recording error. Cancelling the wait does not stop recording."""
        if self.record is not None:
            await asyncio.shield(self.record)


class Recorder:
    """Records the requests and answers of one tenant."""

    def __init__(self, view: Foveate, clients: Clients, tenant: str) -> None:
        self._view = view
        self._clients = clients
        self._tenant = tenant
        self._resolver = Resolver(
            clients,
            tenant,
            stored=self._stored,
            public=self._public,
            open_calls=self._open_calls,
            is_waiting=self._is_waiting,
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._busy: Counter[str] = Counter()
        self._handles: BoundedCache[str, Session] = BoundedCache(OPEN_SESSIONS)
        self._records: set[asyncio.Task[None]] = set()

    def use(self, session: Session) -> None:
        """Use this handle for its session, with its limits."""
        self._handles[self._public(session.engine.stored_id)] = session

    def _stored(self, name: str) -> str:
        return stored_id(self._tenant, name)

    def _public(self, stored: str) -> str:
        return public_id(self._tenant, stored)

    async def place(
        self, request: Incoming, history: RequestHistory, named: ClientId | None, choice: SessionChoice
    ) -> Placement | SessionDecision:
        """Record the new messages of a request. A decision to pass it on unrecorded is returned unchanged."""
        placed = await self.begin(request, history, named, choice)
        if isinstance(placed, Placement):
            try:
                await placed.recorded()
            except BaseException:
                self.release(placed)
                raise
        return placed

    async def begin(
        self,
        request: Incoming,
        history: RequestHistory,
        named: ClientId | None,
        choice: SessionChoice,
        *,
        check: SessionCheck | None = None,
    ) -> Placement | SessionDecision:
        """Find the session of a request, and start to record its new messages: `Placement.recorded` waits for that.

        Until it is recorded, no other request of the conversation is placed. `check` raises an error for a session that
        the request may not continue.
        """

        async def resolve(own: Placement | None = None) -> SessionDecision:
            found = await self._resolve(request, history, named, choice, own)
            if check and found.action == "continue":
                await check(found.session)
            return found

        lock = self._lock(named, history)
        await lock.acquire()
        since_us = now_us()
        record: asyncio.Task[None] | None = None
        try:
            decision = await resolve()
            if decision.action == "pass":
                return decision
            placement = await self._placement(decision, choice)
            placement.since_us = since_us

            async def again() -> SessionDecision:
                return await resolve(placement)

            record = placement.record = asyncio.create_task(self._record(placement, decision, choice, again))
            self._records.add(record)
        finally:
            if record is None:
                lock.release()
        record.add_done_callback(lambda task: self._ended(task, lock))
        self._hold(placement)
        return placement

    async def settle(self) -> None:
        """Wait until everything that was begun is recorded."""
        await asyncio.gather(*self._records, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], lock: asyncio.Lock) -> None:
        self._records.discard(task)
        lock.release()
        if not task.cancelled():
            task.exception()  # whoever waits for the record raises it

    async def _resolve(
        self,
        request: Incoming,
        history: RequestHistory,
        named: ClientId | None,
        choice: SessionChoice,
        own: Placement | None = None,
    ) -> SessionDecision:
        """Decide where a request goes; its `own` placement does not make a session busy."""
        own_name = own.name if own is not None and own.is_held else None
        busy = {name for name, count in self._busy.items() if count > (name == own_name)} if own_name else self._busy
        agent = choice.platform or ""
        return await self._resolver.resolve(request, history, named, self._turns, busy, agent=agent)

    def release(self, placement: Placement) -> None:
        """Release a request that is answered or cancelled; a second call has no effect."""
        if not placement.is_held:
            return
        self._let_go(placement)
        if placement.is_scratch:
            drop = asyncio.create_task(self._drop(placement))
            self._records.add(drop)
            drop.add_done_callback(self._records.discard)

    async def withdraw(self, placement: Placement) -> None:
        """Delete the session that was created for a request that can't be sent: no later request is its repetition."""
        if placement.is_first:
            await self._drop(placement)

    async def _drop(self, placement: Placement) -> None:
        """Delete the branch of a request that was only for the client."""
        with suppress(FoveateError):
            await placement.recorded()
        with suppress(FoveateError):
            await self._view.delete_session(placement.name)
        self._handles.pop(placement.name)

    def _let_go(self, placement: Placement) -> None:
        placement.is_held = False
        self._busy[placement.name] -= 1
        if not self._busy[placement.name]:
            del self._busy[placement.name]

    def _hold(self, placement: Placement) -> None:
        placement.is_held = True
        self._busy[placement.name] += 1

    def _move(self, placement: Placement, session: Session, name: str) -> None:
        """Move the request to another session."""
        was_held = placement.is_held
        if was_held:
            self._let_go(placement)
        placement.session, placement.name = session, name
        if was_held:
            self._hold(placement)

    async def add_round(
        self, placement: Placement, format_name: str, said: Sequence[Mapping[str, Any]], results: Sequence[Message]
    ) -> None:
        """Record a round of internal tool calls, which the client never sees."""
        await self._append_made(placement, [*as_messages(list(said), format_name), *results], placement.turn)

    async def add_answer(
        self,
        placement: Placement,
        format_name: str,
        *,
        said: Sequence[Mapping[str, Any] | Message],
        shown: Sequence[Mapping[str, Any] | Message],
        results: Sequence[Message] = (),
    ) -> None:
        """Record the answer under the key of the client's next history, with the `results` of internal calls."""
        messages = as_messages(list(said), format_name) if said else []
        if not messages or placement.is_scratch:
            return
        is_shown = said == shown and len(said) == len(messages)
        if is_shown:
            marks = [*map(mark_message, messages)]
        else:
            marks = [mark_record(format_name, record) for record in shown if isinstance(record, Mapping)]
        keys: list[str | None] = []
        key = placement.key
        for mark in marks:
            for item in mark.items:
                key = extend(key, item)
            keys.append(key if mark.items else None)
        if not is_shown:
            keys = [*[None] * (len(messages) - 1), key if key != placement.key else None]
        start = placement.history.turn_start(len(placement.history.marks))
        said_last = [item for mark in (*placement.history.marks[start:], *marks) for item in mark.items]
        recorded = [*messages, *results], [*keys, *[None] * len(results)]
        async with self._lock_of(placement.name):
            await self._add_answer(placement, *recorded, tail_hash(said_last))
        placement.key = key

    async def add_response(self, placement: Placement, response: Mapping[str, Any]) -> None:
        """Store a response by its id, so that a later request can name it instead of sending the history."""
        row = ResponseRow(str(response["id"]), placement.name, placement.turn, placement.key, dict(response))
        await self._clients.add_response(self._stored(placement.name), row, since_us=placement.since_us)

    async def get_response(self, response_id: str) -> ResponseRow | None:
        """Return a response that a client of this tenant got."""
        found = await self._clients.get_response(self._tenant, response_id)
        return None if found is None else replace(found, session_id=self._public(found.session_id))

    async def delete_response(self, response_id: str) -> bool:
        return await self._clients.delete_response(self._tenant, response_id)

    async def add_partial(self, placement: Placement, format_name: str, said: Sequence[Mapping[str, Any]]) -> None:
        """Store the received part of an interrupted answer; no model sees it."""
        words = "\n".join(message.text for message in as_messages(list(said), format_name)).strip() if said else ""
        if words:
            message = Message("assistant", (Text(f"{PARTIAL}\n{words}"),), kind="display")
            await self._append_made(placement, [message])

    async def _append_made(
        self, placement: Placement, messages: Sequence[Message], newest_turn: int | None = None
    ) -> None:
        """Append what was made for a request."""
        engine = placement.session.engine
        drafts = await engine.draft(messages, [None] * len(messages))
        await engine.append(drafts, newest_turn=newest_turn, since_us=placement.since_us)

    async def _add_answer(
        self, placement: Placement, messages: Sequence[Message], keys: Sequence[str | None], tail: str
    ) -> None:
        drafts = await placement.session.engine.draft(messages, keys)
        try:
            engine = placement.session.engine
            places = await engine.append(
                drafts, newest_turn=placement.turn, after=placement.key or None, tail=tail, since_us=placement.since_us
            )
        except (SessionContinued, TurnBegun):
            await self._branch(placement)
            places = await placement.session.engine.append(drafts, tail=tail, since_us=placement.since_us)
        placement.turn = places[-1].turn

    async def _branch(self, placement: Placement) -> None:
        """Move a request to a separate session: the turns before it, and the request again."""
        history, parent = placement.history, placement.session
        start = history.turn_start(len(history.marks))
        name = branch_of(placement.name)
        if placement.turn > 1:
            session = await parent.fork(name, placement.turn - 1)
        else:
            session = await self._view.session(name, title=parent.info.title, model=parent.info.model)
        try:
            messages, keys = history.to_record(start)
            recorded = await session.record_all(messages, key=keys)
        except FoveateError:
            with suppress(FoveateError):
                await self._view.delete_session(name)
            raise
        placement.turn = recorded[-1].number
        self._move(placement, session, name)

    async def _placement(self, decision: SessionDecision, choice: SessionChoice) -> Placement:
        """Return where a request goes, with its new messages."""
        session = await self._open(decision, choice)
        try:
            return await self._prepared(decision, session)
        except BaseException:
            await self._discard_empty(decision, session)
            raise

    async def _prepared(self, decision: SessionDecision, session: Session) -> Placement:
        history = decision.history
        parse = partial(history.to_record, decision.count, injected=decision.injected)
        new = history.records[decision.count :]
        is_long = len(new) >= MANY_MESSAGES or sum(max(1, part_count(record)) for record in new) >= MANY_MESSAGES
        messages, keys = await asyncio.to_thread(parse) if is_long else parse()
        if decision.is_scratch:  # no later request may continue a session that is deleted soon
            keys = [None] * len(messages)
        drafts = await session.engine.draft(messages, keys) if messages else []
        key = history.keys[-1] if history.keys else ""
        whole = (decision.standing or empty_standing(session.engine)) if decision.is_whole else None
        return Placement(
            session,
            decision.session,
            history,
            key,
            drafts,
            whole,
            is_scratch=decision.is_scratch,
            is_first=decision.action != "continue",
        )

    async def _record(
        self,
        placement: Placement,
        decision: SessionDecision,
        choice: SessionChoice,
        again: Callable[[], Awaitable[SessionDecision]],
    ) -> None:
        """Record the new messages. If another server was faster, the session is resolved again."""
        for attempt in itertools.count(1):
            try:
                await self._append(placement, decision)
                break
            except FoveateError as error:
                await self._discard_empty(decision, placement.session)
                if not isinstance(error, SessionContinued | TurnBegun) or attempt == PLACE_ATTEMPTS:
                    raise
                decision = await again()
                if decision.action == "pass":
                    raise
            moved = await self._placement(decision, choice)
            self._move(placement, moved.session, moved.name)
            placement.history, placement.key, placement.drafts = moved.history, moved.key, moved.drafts
            placement.is_scratch, placement.is_first = moved.is_scratch, moved.is_first
        self._handles[decision.session] = placement.session
        self._announce(placement.session.id, decision, placement)

    async def _discard_empty(self, decision: SessionDecision, session: Session) -> None:
        """Delete a session that was created for a request, if it contains nothing of the request."""
        if decision.action == "continue":
            return
        with suppress(FoveateError):  # the store may be what failed
            info = await session.refresh()
            if turn_id(info.turns) == (info.fork_turn_id or turn_id(0)):
                await self._view.delete_session(decision.session)
                self._handles.pop(decision.session)

    async def _append(self, placement: Placement, decision: SessionDecision) -> None:
        notes: list[Awaitable[object]] = []
        if decision.action != "continue":
            notes.append(self._view.note_origin(placement.name, f"gateway: {decision.reason}"))
        if placement.drafts:
            newest = (decision.turn or None) if decision.action == "continue" else None
            append = placement.session.engine.append(placement.drafts, newest_turn=newest, after=decision.after)
            places, _ = await asyncio.gather(append, asyncio.gather(*notes))  # in one commit
            placement.turn = places[-1].turn
        else:
            await asyncio.gather(*notes)
            placement.turn = (await placement.session.refresh()).turns

    async def _open(self, decision: SessionDecision, choice: SessionChoice) -> Session:
        if decision.action == "continue":
            return await self._known(decision.session, decision.standing)
        if decision.parent is not None:
            try:
                parent = await self._known(decision.parent)
                return await parent.fork(decision.session, decision.turn)
            except SessionExists:
                return await self._known(decision.session)
            except SessionNotFound:  # a client may name a parent that was never recorded, or is deleted
                if decision.action != "new":
                    raise
                self._handles.pop(decision.parent)
        words = " ".join(message.text for message in decision.history.first_prompt())
        return await self._view.session(
            decision.session,
            title=_title(words),
            strategy=choice.strategy,
            budget_tokens=choice.budget_tokens,
            model=choice.model or None,
            platform=choice.platform,
            channel=choice.folder or None,
            scope=project_scope(choice.folder),
        )

    async def _turns(self, name: str) -> int | None:
        try:
            return (await (await self._known(name)).refresh()).turns
        except SessionNotFound:
            self._handles.pop(name)
            return None

    async def _open_calls(self, name: str, turn: int) -> frozenset[str]:
        """Return ids of the calls without results in a turn, if it is the newest of its session."""
        session = await self._known(name)
        if (await session.refresh()).turns != turn:
            return frozenset()
        parts = [part for one in await session.load_turns(turn) for message in one.messages for part in message.parts]
        called = {part.id for part in parts if isinstance(part, ToolCall) and part.id}
        return frozenset(called - {part.call_id for part in parts if isinstance(part, ToolResult)})

    async def _is_waiting(self, name: str, prompt: Sequence[Message]) -> bool:
        """Check whether a session ends with exactly these messages, and has no answer yet."""
        session = await self._known(name)
        await session.refresh()
        return await session.engine.is_waiting(prompt)

    async def _known(self, name: str, standing: Standing | None = None) -> Session:
        """Return an existing session. Its handle is cached, since it knows what it showed last."""
        handle = self._handles.get(name)
        if handle is None:
            handle = open_row(self._view, standing.row) if standing else await self._view.open_session(name)
            self._handles[name] = handle
        elif standing:
            handle.engine.take(standing.row)
        return handle

    def _lock(self, named: ClientId | None, history: RequestHistory) -> asyncio.Lock:
        """Return the lock of a named session and its branches; else of all conversations with this first message."""
        first = next((key for key in history.keys if key), "")
        return self._lock_of(named.name if named else first)

    def _lock_of(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name.split("~", maxsplit=1)[0], asyncio.Lock())

    def _announce(self, session_id: str, decision: SessionDecision, placement: Placement) -> None:
        data: dict[str, Json] = {"action": decision.action, "reason": decision.reason, "known_messages": decision.count}
        self._view.publish(Event("session-resolved", session_id, datetime.now(UTC), placement.turn_id, data))


def _title(words: str) -> str:
    line = " ".join(without_reminders(words).split())
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"
