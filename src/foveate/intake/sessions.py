"""Decide which session a request belongs to.

Explicit ids come first: ours, then those of known clients. Without one, the longest known beginning of the client's
history decides. An edited history is a fork, a history with a different beginning continues the session its client
names. An unnecessary new session is a blemish; a turn in the wrong session is a defect.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from string import hexdigits
from typing import Any, Final, Literal, NamedTuple, Protocol

from foveate.additions import (
    asks_for_summary,
    asks_for_title,
    is_aside,
    is_for_summary,
    prompts_for_title,
    tells_of_summary,
)
from foveate.cache import BoundedCache
from foveate.intake.chain import ADDED, RequestHistory, read_history
from foveate.session.values import KnownPlace, LocatedHistory, Standing
from foveate.store import lineage
from foveate.turn import Message

BRANCH: Final = lineage.BRANCH
BRANCH_BYTES: Final = 3
KEPT_NAMES: Final = 1_000
SCRATCH: Final = "-summary"
"""Suffix of a branch that is deleted when its request is answered."""
TITLE_CHARS: Final = 60
SUMMARY_CHARS: Final = 2_000
"""Characters within which a client's summary identifies itself."""
CLAUDE_CODE_ID: Final = "x-claude-code-session-id"
Action = Literal["continue", "fork", "new", "pass"]
TurnCount = Callable[[str], Awaitable[int | None]]
"""Returns the number of turns of a session; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class ClientId:
    """The session that a client names."""

    name: str
    source: str
    """The header or field that names it."""
    parent: str | None = None
    """The session whose sub-agent this is."""
    is_summary: bool = False
    """Whether the client requests a summary of the conversation."""
    is_ours: bool = False
    """Whether our own header or path names it: such a client may send only its newest message."""


@dataclass(frozen=True, slots=True)
class SessionDecision:
    """The place for the new messages of a request."""

    action: Action
    reason: str
    history: RequestHistory
    session: str = ""
    count: int = 0
    """Messages of the request that are in the log; the rest is new."""
    parent: str | None = None
    turn: int = 0
    """The last turn that a fork shares with its parent, or that a continued session must have; 0: none."""
    after: str | None = None
    """Key of the message after which the new ones go; empty for the first of a session, None for its current end."""
    injected: int = 0
    """Messages before this index are the client's summary of logged messages."""
    standing: Standing | None = None
    """The end of the session, if it is known."""
    is_scratch: bool = False
    """Whether the request is only for the client: its session is deleted when it is answered."""

    @property
    def is_whole(self) -> bool:
        """Whether the client sends everything in its session."""
        if self.history.start or self.injected:
            return False
        if self.standing is None:
            return self.action == "new" and not self.parent and not self.count
        keyed = sum(bool(mark.items) for mark in self.history.marks[: self.count])
        return self.standing.keyed == keyed and self.standing.messages <= self.count


class Incoming(Protocol):
    """The properties of a client's request other than its messages."""

    @property
    def system(self) -> str: ...

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def max_output_tokens(self) -> int | None: ...


class Places(Protocol):
    """Looks up known histories within one tenant."""

    async def locate(self, tenant: str, keys: list[str], family: str | None = None) -> LocatedHistory: ...

    async def find_tails(self, tenant: str, tail: str) -> list[tuple[str, int]]: ...

    async def family(self, tenant: str, session_id: str) -> list[str]: ...


def is_auxiliary(request: Incoming, history: RequestHistory) -> bool:
    """Check whether this looks like a client's own housekeeping: a title, a summary, a probe for a token count."""
    if request.tools or history.last_answer is not None:
        return False
    if request.max_output_tokens is not None and request.max_output_tokens <= 1:
        return True
    text = " ".join(message.text for message in history.parse(0))
    if is_for_summary(request.system):
        return True
    return asks_for_title(request.system) or prompts_for_title(text[:2_000])


class FoundHistory(NamedTuple):
    """The longest known beginning of a history: its place, and the end of its session."""

    place: KnownPlace
    standing: Standing


class Resolver:
    """Resolves sessions for one tenant."""

    def __init__(
        self,
        places: Places,
        tenant: str,
        *,
        stored: Callable[[str], str],
        public: Callable[[str], str],
        open_calls: Callable[[str, int], Awaitable[frozenset[str]]],
        is_waiting: Callable[[str, Sequence[Message]], Awaitable[bool]],
    ) -> None:
        self._places = places
        self._tenant = tenant
        self._stored = stored
        self._public = public
        self._open_calls = open_calls
        self._is_waiting = is_waiting
        self._summed: BoundedCache[str, str] = BoundedCache(KEPT_NAMES)
        """The session that a client requested a summary of, by the client's id."""

    async def resolve(
        self,
        request: Incoming,
        history: RequestHistory,
        named: ClientId | None,
        count_turns: TurnCount,
        busy: Collection[str],
        *,
        agent: str = "",
    ) -> SessionDecision:
        """Decide where a request goes, by its client's user agent too. `busy` sessions have an unanswered prompt."""
        found = await self._best(history, named.name if named else None)
        if aside := self._aside(request, history, named, found, agent):
            return aside
        if named is None:
            return await self._by_content(request, history, found)
        may_be_alone = named.is_ours and history.last_answer is None and not history.start
        turns = None if found and not may_be_alone else await count_turns(named.name)
        # A single prompt to a session with several turns is new, even if an earlier one had the same words.
        if found and (turns or 0) <= 1:
            reason = "the history continues the session named by " + named.source
            return await self._behind(history, found, reason, named)
        if turns is None:
            return await self._first(request, history, named)
        if not turns and (named.is_ours or not is_auxiliary(request, history)):
            return SessionDecision("continue", "the first request of an empty session", history, named.name, after="")
        shared = await self._shared(history, branch_of(named.name))
        return shared or await self._unmatched(request, history, named, turns, busy)

    def _aside(
        self,
        request: Incoming,
        history: RequestHistory,
        named: ClientId | None,
        found: FoundHistory | None,
        agent: str,
    ) -> SessionDecision | None:
        """Decide for what a client asks for itself: a branch that is deleted when the request is answered. What goes to
        a session that our header or path names is always recorded."""
        if named is not None and named.is_ours:
            return None
        if _is_aside(request, history, agent):
            reason = "a request of the client for itself"
            return _scratch(history, found, reason) if found else SessionDecision("pass", reason, history)
        if found is None or named is None or not _wants_summary(named, history):
            return None
        self._summed[named.name] = found.place.session_id
        return _scratch(history, found, "a summary for the client")

    async def _behind(
        self, history: RequestHistory, found: FoundHistory, reason: str, named: ClientId | None = None
    ) -> SessionDecision:
        """Continue after a known place: at the end of its session, else on a branch."""
        decision = _placed(history, found, reason)
        if decision.action == "continue":
            return decision
        if (replaced := _replaced(history, found)) is not None:
            return replace(replaced, session=await self._last_used(named)) if named else replaced
        return await self._rewritten(history, found) or decision

    async def _last_used(self, named: ClientId) -> str:
        """Return the session that a client used last under its id: the summarized one, else the last used branch."""
        names = [self._public(stored) for stored in await self._places.family(self._tenant, self._stored(named.name))]
        if (summed := self._summed.pop(named.name)) in names:
            return summed
        return next((name for name in names if is_branch(name, named.name)), named.name)

    async def _rewritten(self, history: RequestHistory, found: FoundHistory) -> SessionDecision | None:
        """Match an answer that its client rewrote, by the ids of the calls that wait for results."""
        name, turn = found.place.session_id, found.place.turn
        count, calls = history.calls(history.index_behind(found.place.key))
        if not calls or not calls <= await self._open_calls(name, turn):
            return None
        return SessionDecision("continue", "an answer with the same calls", history, name, count, turn=turn)

    async def _unmatched(
        self, request: Incoming, history: RequestHistory, named: ClientId, turns: int, busy: Collection[str]
    ) -> SessionDecision:
        """Decide for a history that the named session does not know."""
        if not named.is_ours and not request.tools:
            return SessionDecision("pass", "a request without tools that does not continue the session", history)
        if named.is_ours and history.last_answer is None:
            return await self._alone(history, named, turns, busy)
        return await self._other_beginning(history, named)

    async def _shared(self, history: RequestHistory, name: str) -> SessionDecision | None:
        """Return a fork of another session, if the history begins with one of its turns."""
        found = await self._best(history, None)
        if found is None or not history.has_answer(history.index_behind(found.place.key)):
            return None
        forked = _placed(history, found, "a history that another session begins with", always_fork=True)
        return replace(forked, session=name) if forked.action == "fork" else None

    async def _by_content(
        self, request: Incoming, history: RequestHistory, found: FoundHistory | None
    ) -> SessionDecision:
        if found and (found.place.is_head or history.has_answer(history.index_behind(found.place.key))):
            return await self._behind(history, found, "the history is known")
        if found and (same := await self._rewritten(history, found)):
            return same
        if is_auxiliary(request, history):
            return SessionDecision("pass", "a title or a probe", history)
        if (answer := history.last_answer) is not None and (tail := history.tail(answer)):
            known = await self._places.find_tails(self._tenant, tail)
            if len({session for session, _ in known}) == 1:
                session = self._public(known[0][0])
                reason = "the last answer is known in one session only"
                return SessionDecision("continue", reason, history, session, answer + 1)
        name = f"chat-{secrets.token_hex(6)}"
        return SessionDecision("new", "no part of the history is known", history, name, after="")

    async def _first(self, request: Incoming, history: RequestHistory, named: ClientId) -> SessionDecision:
        """Decide for the first request of a session that its client names."""
        if not named.is_ours and is_auxiliary(request, history):
            return SessionDecision("pass", "a title or a probe", history)
        if shared := await self._shared(history, named.name):
            return shared
        reason = f"the first request with this {named.source}"
        return SessionDecision("new", reason, history, named.name, parent=named.parent, after="")

    async def _alone(
        self, history: RequestHistory, named: ClientId, turns: int, busy: Collection[str]
    ) -> SessionDecision:
        """Decide for prompts without the history before them, which the client omits."""
        if named.name not in busy and await self._is_waiting(named.name, history.parse(0)):
            history = read_history(history.format, history.records, start=place_name(named.name, turns - 1))
            count = len(history.records)
            return SessionDecision("continue", "the prompt again, without answer", history, named.name, count)
        history = read_history(history.format, history.records, start=place_name(named.name, turns))
        if named.name in busy:
            reason = "a second prompt while the first is being answered"
            branch = branch_of(named.name)
            return SessionDecision("fork", reason, history, branch, parent=named.name, turn=turns - 1, after="")
        return SessionDecision("continue", "new messages only", history, named.name, turn=turns)

    async def _other_beginning(self, history: RequestHistory, named: ClientId) -> SessionDecision:
        """Decide for a history that its client summarized or cut at the beginning."""
        if _begins_anew(history):
            reason = "another first prompt under the same id"
            return SessionDecision("fork", reason, history, branch_of(named.name), parent=named.name, after="")
        last_prompt = history.turn_start(len(history.marks))
        for answer in range(len(history.marks) - 1, -1, -1):
            if history.marks[answer].role != "assistant" or not (tail := history.tail(answer)):
                continue
            known = [self._public(session) for session, _ in await self._places.find_tails(self._tenant, tail)]
            if (own := next((name for name in known if is_branch(name, named.name)), None)) is not None:
                reason = "the beginning of the history is another; its end is known"
                return SessionDecision("continue", reason, history, own, answer + 1)
        reason = "the client replaced its history"
        return SessionDecision("continue", reason, history, await self._last_used(named), injected=last_prompt)

    async def _best(self, history: RequestHistory, family: str | None) -> FoundHistory | None:
        keys = list(dict.fromkeys(key for key in (history.start, *history.keys) if key))
        stored = None if family is None else self._stored(family)
        found = await self._places.locate(self._tenant, keys, stored)
        if found.place is None or found.standing is None:
            return None
        return FoundHistory(replace(found.place, session_id=self._public(found.place.session_id)), found.standing)


def branch_of(name: str) -> str:
    """Return a new name for a branch of a session."""
    return f"{name.split(BRANCH, maxsplit=1)[0]}{BRANCH}{secrets.token_hex(BRANCH_BYTES)}"


def place_name(name: str, turns: int) -> str:
    """Return the name of the place after a session's turns, for messages without the history before them."""
    return f"{name} {turns}"


def is_branch(name: str, root: str) -> bool:
    """Check whether a session is this one or a branch of it, but not a sub-agent or a temporary branch."""
    before, _, added = name.partition(BRANCH)
    return name == root or (before == root and len(added) == 2 * BRANCH_BYTES and set(added) <= set(hexdigits))


def _replaced(history: RequestHistory, found: FoundHistory) -> SessionDecision | None:
    """Match a history that its client replaced by the old prompts and a summary: what comes before that is known."""
    summary = history.summary_behind(history.index_behind(found.place.key))
    if summary is None:
        return None
    last_prompt = history.turn_start(len(history.marks))
    name = found.place.session_id
    return SessionDecision("continue", "the client replaced its history", history, name, summary, injected=last_prompt)


def _is_aside(request: Incoming, history: RequestHistory, agent: str) -> bool:
    newest = history.turn_start(len(history.marks))
    return is_aside(agent, request.system, " ".join(message.text for message in history.parse(newest, newest + 1)))


def _scratch(history: RequestHistory, found: FoundHistory, reason: str) -> SessionDecision:
    """Answer a request on a branch that is deleted afterwards."""
    decision = _placed(history, found, reason, always_fork=True)
    return replace(decision, session=f"{branch_of(found.place.session_id)}{SCRATCH}", is_scratch=True)


def _wants_summary(named: ClientId, history: RequestHistory) -> bool:
    """Check whether a client requests a summary of its own history, to send that instead."""
    if named.is_summary:
        return True
    if named.source != CLAUDE_CODE_ID:
        return False
    newest = history.parse(len(history.records) - 1)
    return any(asks_for_summary(message.text) for message in newest)


def _begins_anew(history: RequestHistory) -> bool:
    """Check whether this is a single prompt, and not the summary of an earlier conversation."""
    if history.last_answer is not None or sum(mark.opens_turn for mark in history.marks) > 1:
        return False
    text = " ".join(message.text for message in history.first_prompt())
    return not tells_of_summary(text[:SUMMARY_CHARS])


def _placed(history: RequestHistory, found: FoundHistory, reason: str, *, always_fork: bool = False) -> SessionDecision:
    """Continue after a known place: at the end of its session, else on a branch."""
    place = found.place
    count = history.index_behind(place.key)
    if place.is_head and not always_fork:
        name, standing = place.session_id, found.standing
        return SessionDecision("continue", reason, history, name, count, after=place.key, standing=standing)
    # The client's additions to this request may come before the next prompt.
    is_next = next((mark.opens_turn for mark in history.marks[count:] if mark.addition not in ADDED), False)
    # What comes before the first message of the request was not sent, and can't be recorded again.
    shares_turn = count == 0 or (place.ends_turn and is_next)
    turn = place.turn if shares_turn else place.turn - 1
    count = count if shares_turn else history.turn_start(count)
    branch = branch_of(place.session_id)
    if turn < 1:
        return SessionDecision("new", f"{reason}, but for the first answer", history, branch, after="")
    shared = f"{reason} up to T-{turn}"
    return SessionDecision("fork", shared, history, branch, count, parent=place.session_id, turn=turn, after="")
