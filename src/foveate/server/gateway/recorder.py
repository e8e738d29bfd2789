"""What a client's request and its answer leave in the log: each message once, under the key of its history.

State changes of one conversation happen one after another; no lock is held while a model answers. When an answer comes
and its session has moved on, it goes to a branch of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from foveate.cache import BoundedCache
from foveate.client import Foveate
from foveate.errors import SessionContinued, SessionExists, SessionNotFound, TurnBegun
from foveate.events import Event
from foveate.server.gateway.chain import RequestHistory, extend, mark_record, tail_hash, without_reminders
from foveate.server.gateway.sessions import TITLE_CHARS, ClientId, Decision, Resolver, branch_of
from foveate.server.gateway.wires import ClientRequest, OwnCall
from foveate.session import Session
from foveate.session.record import as_messages
from foveate.session.tenant import public_id, stored_id
from foveate.session.values import AnswerTail, Clients, ResponseRow
from foveate.turn import Json, Message, Text, ToolResult, turn_id

OPEN_SESSIONS = 200
"""Sessions whose handles are kept."""
PLACE_ATTEMPTS = 5
"""How often a request is placed again because another server continued its session."""
PARTIAL = "(partial answer: the client disconnected or the stream was cut)"


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """What the client's headers and the settings say about a session that is created."""

    strategy: str | None = None
    budget_tokens: int | None = None
    model: str | None = None
    platform: str | None = None


@dataclass(slots=True)
class Placement:
    """A request in the log: its session, its turn, and the key of the client's history."""

    session: Session
    name: str
    turn: int
    history: RequestHistory
    key: str
    is_held: bool = False
    """Its session is busy with it."""

    @property
    def turn_id(self) -> str:
        return turn_id(self.turn)


class Recorder:
    """Records the requests and answers of one tenant."""

    def __init__(self, view: Foveate, clients: Clients, tenant: str) -> None:
        self._view = view
        self._clients = clients
        self._tenant = tenant
        self._resolver = Resolver(clients, tenant, stored=self._stored, public=self._public)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._busy: Counter[str] = Counter()
        self._handles: BoundedCache[str, Session] = BoundedCache(OPEN_SESSIONS)

    def _stored(self, name: str) -> str:
        return stored_id(self._tenant, name)

    def _public(self, stored: str) -> str:
        return public_id(self._tenant, stored)

    async def place(
        self, request: ClientRequest, history: RequestHistory, named: ClientId | None, choice: SessionChoice
    ) -> Placement | Decision:
        """Record what is new of a request. A decision to pass it on unrecorded is returned as it is."""
        async with self._lock(named, history):
            for attempt in range(PLACE_ATTEMPTS):
                turns = None if named is None else await self._turns(named.name)
                decision = await self._resolver.resolve(request, history, named, turns, self._busy)
                if decision.action == "pass":
                    return decision
                session = await self._open(decision, choice)
                try:
                    placement = await self._record(session, decision)
                    break
                except (SessionContinued, TurnBegun):  # by another server on the same store
                    if attempt == PLACE_ATTEMPTS - 1:
                        raise
        self._hold(placement)
        if decision.action != "continue":
            await self._view.note_origin(placement.name, f"gateway: {decision.reason}")
        self._announce(session.id, decision, placement)
        return placement

    def release(self, placement: Placement) -> None:
        """The request is answered, or given up; a second call has no effect."""
        if not placement.is_held:
            return
        placement.is_held = False
        self._busy[placement.name] -= 1
        if not self._busy[placement.name]:
            del self._busy[placement.name]

    def _hold(self, placement: Placement) -> None:
        placement.is_held = True
        self._busy[placement.name] += 1

    async def add_round(
        self, placement: Placement, format_name: str, said: Sequence[Mapping[str, Any]], results: Sequence[Message]
    ) -> None:
        """Record a round of own tools, which the client never sees."""
        messages = [*as_messages(list(said), format_name), *results]
        await placement.session.record_all(messages, turn=placement.turn)

    async def add_answer(
        self,
        placement: Placement,
        format_name: str,
        *,
        said: Sequence[Mapping[str, Any]],
        shown: Sequence[Mapping[str, Any]],
        results: Sequence[Message] = (),
    ) -> None:
        """Record the answer under the key of the history that the client will send next; `results` of own calls too."""
        messages = as_messages(list(said), format_name) if said else []
        if not messages:
            return
        key = placement.key
        items = [item for record in shown for item in mark_record(format_name, record).items]
        for item in items:
            key = extend(key, item)
        keys: list[str | None] = [None] * (len(messages) - 1) + [key if items else None] + [None] * len(results)
        async with self._lock_of(placement.name):
            await self._add_answer(placement, [*messages, *results], keys)
        placement.key = key
        start = placement.history.turn_start(len(placement.history.marks))
        asked = [item for mark in placement.history.marks[start:] for item in mark.items]
        await self._clients.add_tail(
            self._stored(placement.name), AnswerTail(tail_hash([*asked, *items]), placement.turn)
        )

    async def add_response(self, placement: Placement, response: Mapping[str, Any]) -> None:
        """Keep a response by its id, so that a later request can name it instead of sending the history."""
        row = ResponseRow(str(response["id"]), placement.name, placement.turn, placement.key, dict(response))
        await self._clients.add_response(self._stored(placement.name), row)

    async def get_response(self, response_id: str) -> ResponseRow | None:
        """A response that was given to a client of this tenant."""
        found = await self._clients.get_response(self._tenant, response_id)
        return None if found is None else replace(found, session_id=self._public(found.session_id))

    async def delete_response(self, response_id: str) -> bool:
        return await self._clients.delete_response(self._tenant, response_id)

    async def add_partial(self, placement: Placement, format_name: str, said: Sequence[Mapping[str, Any]]) -> None:
        """Keep what arrived of an answer that was cut off; no model is shown it."""
        words = "\n".join(message.text for message in as_messages(list(said), format_name)).strip() if said else ""
        if words:
            message = Message("assistant", (Text(f"{PARTIAL}\n{words}"),), kind="display")
            await placement.session.record_all([message])

    async def _add_answer(self, placement: Placement, messages: Sequence[Message], keys: Sequence[str | None]) -> None:
        try:
            recorded = await placement.session.record_all(
                list(messages), key=list(keys), turn=placement.turn, after=placement.key or None
            )
        except (SessionContinued, TurnBegun):
            await self._branch(placement)
            recorded = await placement.session.record_all(list(messages), key=list(keys))
        placement.turn = recorded[-1].number

    async def _branch(self, placement: Placement) -> None:
        """Move a request to a session of its own: the turns before it, and the request again."""
        history, parent = placement.history, placement.session
        start = history.turn_start(len(history.marks))
        name = branch_of(placement.name)
        if placement.turn > 1:
            session = await parent.fork(name, placement.turn - 1)
        else:
            session = await self._view.session(name, title=parent.info.title, model=parent.info.model)
        recorded = await session.record_all(history.parse(start), key=_keys(history, start))
        self.release(placement)
        placement.session, placement.name, placement.turn = session, name, recorded[-1].number
        self._hold(placement)

    async def _open(self, decision: Decision, choice: SessionChoice) -> Session:
        if decision.action == "continue":
            return await self._known(decision.session)
        if decision.parent is not None:
            parent = await self._known(decision.parent)
            try:
                return await parent.fork(decision.session, decision.turn)
            except SessionExists:
                return await self._known(decision.session)
        words = " ".join(message.text for message in decision.history.first_prompt())
        return await self._view.session(
            decision.session,
            title=_title(words),
            strategy=choice.strategy,
            budget_tokens=choice.budget_tokens,
            model=choice.model or None,
            platform=choice.platform,
        )

    async def _record(self, session: Session, decision: Decision) -> Placement:
        history = decision.history
        messages = history.parse(decision.count)
        messages = [
            replace(message, kind="injection") if index + decision.count < decision.injected else message
            for index, message in enumerate(messages)
        ]
        if messages:
            turn_now = (decision.turn or None) if decision.action == "continue" else None
            recorded = await session.record_all(
                messages, key=_keys(history, decision.count), turn=turn_now, after=decision.after
            )
            turn = recorded[-1].number
        else:
            turn = (await session.refresh()).turns
        self._handles[decision.session] = session
        key = history.keys[-1] if history.keys else ""
        return Placement(session, decision.session, turn, history, key)

    async def _turns(self, name: str) -> int | None:
        try:
            return (await (await self._known(name)).refresh()).turns
        except SessionNotFound:
            self._handles.pop(name)
            return None

    async def _known(self, name: str) -> Session:
        """An existing session. Its handle is kept, since it knows what it showed last."""
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = await self._view.open_session(name)
        return handle

    def _lock(self, named: ClientId | None, history: RequestHistory) -> asyncio.Lock:
        """One for a named session and its branches; else for all conversations that begin with the same message."""
        first = next((key for key in history.keys if key), "")
        return self._lock_of(named.name if named else first)

    def _lock_of(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name.split("~", maxsplit=1)[0], asyncio.Lock())

    def _announce(self, session_id: str, decision: Decision, placement: Placement) -> None:
        data: dict[str, Json] = {"action": decision.action, "reason": decision.reason, "known_messages": decision.count}
        self._view.publish(Event("session-resolved", session_id, datetime.now(UTC), placement.turn_id, data))


def own_results(results: Sequence[tuple[OwnCall, str]]) -> list[Message]:
    """Results of own calls as messages."""
    return [Message("tool", (ToolResult(call.id or None, (Text(text),), name=call.name),)) for call, text in results]


def _keys(history: RequestHistory, first: int) -> list[str | None]:
    """The key of each message; a message that says nothing has none."""
    return [history.keys[index] if history.marks[index].items else None for index in range(first, len(history.marks))]


def _title(words: str) -> str:
    line = " ".join(without_reminders(words).split())
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"
