"""A run: a model works on an epic, call after call, until it is done, asks, is blocked, or reaches a limit.

    epic + tasks + log ──► model ──► its answer is a turn of the log ──► tasks ──► done? a question? a blocker? a cap?
            ▲                                                                                   │ none
            └───────────────────────────────────────────────────────────────────────────────────┘

The state of a run is derived from the log, so it can be resumed after a kill: an iteration with a recorded answer
counts, any other is repeated.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from foveate.agents.calls import OwnTool
from foveate.agents.chat import AnswerSummary, Chat, ChatEvent, Notice
from foveate.agents.options import ChatOptions, Costs
from foveate.agents.signals import (
    REASONS,
    UPDATE,
    Accept,
    Outcome,
    Signal,
    is_complete,
    read_change,
    read_outcome,
    read_signal,
    tool_definitions,
)
from foveate.agents.tasks import MergeReport, TaskList, parse_tasks
from foveate.errors import InputError, Refused
from foveate.models.caller import Caller
from foveate.session import Session
from foveate.session.documents import NO_TASKS, RUN
from foveate.store.rows import NANO
from foveate.text import turn_text
from foveate.turn import Json, Message, Turn

STRATEGY = "oneshot"
DEFAULT_MAX_ITERATIONS = 100
BATCH_TURNS = 200
"""Turns of the log that are read in one batch."""
NOT_ASKED = "The run did not stop at a question, so the answer is not used."
MAX_ITERATION = 999_999
"""Upper bound of the iteration number, so that a task list that fits now always fits."""
SHOWN_TASKS = 3
"""Limit of tasks that a message names."""

StopReason = Literal["done", "question", "blocked", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits at which a run stops, checked before each iteration."""

    max_iterations: int = DEFAULT_MAX_ITERATIONS
    """Iterations of the whole run, including earlier starts."""
    max_tokens: int | None = None
    """Tokens read and written by all calls of the run, including failed ones."""
    max_usd: float | None = None
    max_seconds: float | None = None
    """Seconds since the current start."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """The run starts, or resumes."""

    iterations: int
    """Iterations that are already complete."""
    tasks: TaskList


@dataclass(frozen=True, slots=True)
class IterationStart:
    iteration: int
    is_again: bool = False
    """Whether the run was started before and ended without an answer."""


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    tasks: TaskList


@dataclass(frozen=True, slots=True)
class IterationEnd:
    """The end of an iteration: its answer is recorded, and the tasks are updated."""

    iteration: int
    answer: AnswerSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The run pauses; `run --resume` continues it."""

    reason: StopReason
    text: str
    """The summary, the question, the problem, or the limit."""
    iterations: int
    tasks: TaskList
    tokens: int
    nano_usd: int

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO


RunEvent: TypeAlias = ChatEvent | RunStart | IterationStart | TaskUpdate | IterationEnd | RunEnd


async def run(
    session: Session,
    caller: Caller,
    models: Sequence[str],
    options: ChatOptions | None = None,
    *,
    epic: str | None = None,
    tasks: str | None = None,
    answer: str | None = None,
    caps: Caps | None = None,
    unstarted: str | None = None,
    **given: Any,
) -> AsyncGenerator[RunEvent, None]:
    """Work on the epic until a reason to stop; the last event is `RunEnd`.

    Without an epic, the session's title is the task. `tasks` is Markdown; if it is passed again with changes, new and
    ticked tasks are merged. `answer` is for the question or the blocker that the run stopped at. After a `ModelError`
    the iteration is repeated on resume; a session has one run at a time. `unstarted` is that of `Chat.answer`. Other
    keyword arguments are fields of `ChatOptions`, of which a run needs `costs`, e.g. `Foveate.costs`.
    """
    options = replace(options or ChatOptions(), **given)
    if options.costs is None:
        raise InputError("a run limits its costs; pass costs=fov.costs")
    if session.info.strategy != STRATEGY:
        await session.use(STRATEGY)
    work = _Run(session, options.costs, caps or Caps(), unstarted)
    instructions, system = await session.prompts.text(INSTRUCTIONS), options.system.rstrip()
    own = replace(
        options,
        system=f"{system}\n\n{instructions}" if system else instructions,
        own_tools=work.tools(),
        keeps_partial=False,
    )
    work.chat = Chat(session, caller, models, own)
    async with aclosing(work.events(epic, tasks, answer)) as events:
        async for event in events:
            yield event


class _Run:
    """One run in progress."""

    chat: Chat

    def __init__(self, session: Session, costs: Costs, caps: Caps, unstarted: str | None = None) -> None:
        self._session = session
        self._unstarted = unstarted
        self._costs = costs
        self._caps = caps
        self._began = time.monotonic()
        self._state = RunState(first_turn=0, turn=0)
        self._draft = TaskList()
        """The tasks as the iteration in progress has changed them."""

    def tools(self) -> list[OwnTool]:
        answers = {UPDATE: self._update}
        made = []
        for definition in tool_definitions():
            name = str(definition["function"]["name"])  # type: ignore[index, call-overload]
            made.append(OwnTool(definition, answers.get(name) or _Noting(name), is_last=True))
        return made

    async def events(self, epic: str | None, tasks: str | None, answer: str | None) -> AsyncGenerator[RunEvent, None]:
        notes = await self._begin(epic, tasks)
        yield RunStart(self._state.iteration, self._state.task_list)
        for note in notes:
            yield Notice(note)
        while True:
            waiting = await self._catch_up()
            if waiting is None and answer is None and (ended := await self._ended()):
                yield ended
                return
            if capped := await self._capped(is_new=waiting is None):
                yield capped
                return
            if answer is not None and (waiting or not self._state.signal):
                if not waiting or answer.strip() not in turn_text(waiting.messages):
                    yield Notice(NOT_ASKED)
                answer = None
            async with aclosing(self._iteration(waiting, answer)) as events:
                async for event in events:
                    yield event
            answer = None

    async def _iteration(self, waiting: Turn | None, answer: str | None) -> AsyncGenerator[RunEvent, None]:
        """Ask for one answer, and update the tasks from it."""
        before = self._state.task_list
        number = self._state.iteration + 1
        self._draft = read_outcome(waiting.messages, before, self._accept).tasks if waiting else before
        yield IterationStart(number, is_again=waiting is not None)
        if waiting:
            stream = self.chat.answer(unstarted=self._unstarted)
        else:
            prompt = PROMPT if answer is None else ANSWERED.format(answer.strip())
            stream = self.chat.say(prompt, key=f"run/iteration-{number}")
        finished: AnswerSummary | None = None
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, AnswerSummary):
                    finished = piece
                else:
                    yield piece
        assert finished is not None, "an answer is finished, or an error"
        await self._catch_up()
        if self._state.task_list != before:
            yield TaskUpdate(self._state.task_list)
        yield IterationEnd(number, finished)

    async def _begin(self, epic: str | None, tasks: str | None) -> list[str]:
        """Store the passed documents and resume the run. Returns notices for the user."""
        info = await self._session.refresh()
        documents = self._session.documents
        known = await documents.get("epic")
        if epic is not None and epic.strip() and epic != known:
            if known.strip():
                raise Refused(
                    f"session {info.id!r} has a different epic, and a run's epic is fixed; start another session, or "
                    "omit the epic to resume"
                )
            await documents.give("epic", epic)
        kept = await documents.get(RUN)
        if kept:
            self._state = RunState.unpack(kept)
        else:
            tokens, nano_usd = await self._spent()
            self._state = RunState(
                first_turn=info.turns, turn=info.turns, tokens_before=tokens, nano_usd_before=nano_usd
            )
            tasks = tasks if tasks is not None else await documents.get("tasks")
        await self._catch_up()
        notes: list[str] = []
        if tasks is not None and tasks.strip() and digest(tasks) != self._state.digest:
            notes = self._take(tasks)
        if not (known.strip() or (epic or "").strip() or info.title.strip() or self._state.tasks):
            raise InputError("there is nothing to work on; pass an epic, tasks, or a session title")
        await self._keep()
        return notes

    def _take(self, tasks: str) -> list[str]:
        """Merge a list from the user; return notices about it, if it is not the first."""
        is_first = not self._state.given
        state, merged = self._state.taking(tasks)
        self._check(merged.tasks)
        self._state = state
        if is_first:
            return []
        parts = [f"{what}: {_some(names)}" for what, names in (("new", merged.added), ("done", merged.ticked)) if names]
        changes = "; ".join(parts) or "nothing new"
        return [f"The tasks have changed since they were read ({changes}). The run's own tasks are kept."]

    async def _catch_up(self) -> Turn | None:
        """Update the state from newer turns of the log and save it; return the newest turn if it is unanswered."""
        info = await self._session.refresh()
        state = self._state
        if state.turn > info.turns:
            state = state.rewound(info.turns)
        waiting: Turn | None = None
        for first in range(state.turn + 1, info.turns + 1, BATCH_TURNS):
            last = min(first + BATCH_TURNS - 1, info.turns)
            for outline in await self._session.outline(first, last):
                turn = Turn((), outline.number) if outline.is_pruned else await self._session.load_turn(outline.number)
                if turn.number == info.turns and is_iteration(turn.messages) and not is_complete(turn.messages):
                    waiting = turn
                else:
                    state = state.after(turn.number, turn.messages, self._accept)
        if state != self._state:
            self._state = state
            await self._keep()
        return waiting

    async def _keep(self) -> None:
        """Save the list before the turn number that it covers; after a crash between the two, the log fills the gap."""
        await self._show(self._state.task_list)
        await self._session.documents.give(RUN, self._state.pack())

    async def _ended(self) -> RunEnd | None:
        signal = self._state.signal
        return await self._end(signal.reason, signal.text) if signal else None

    async def _capped(self, *, is_new: bool) -> RunEnd | None:
        """Return the limit that prevents the next iteration."""
        caps = self._caps
        tokens, nano_usd = await self._spent()
        tokens -= self._state.tokens_before
        usd = (nano_usd - self._state.nano_usd_before) / NANO
        seconds = time.monotonic() - self._began
        if is_new and self._state.iteration >= caps.max_iterations:
            return await self._end("cap", f"{self._state.iteration:,} of at most {caps.max_iterations:,} iterations")
        if caps.max_tokens is not None and tokens >= caps.max_tokens:
            return await self._end("cap", f"{tokens:,} of at most {caps.max_tokens:,} tokens")
        if caps.max_usd is not None and usd >= caps.max_usd:
            return await self._end("cap", f"${usd:.4f} of at most ${caps.max_usd:.4f}")
        if caps.max_seconds is not None and seconds >= caps.max_seconds:
            return await self._end("cap", f"{seconds:,.0f} of at most {caps.max_seconds:,.0f} seconds")
        return None

    async def _end(self, reason: StopReason, text: str) -> RunEnd:
        tokens, nano_usd = await self._spent()
        return RunEnd(
            reason=reason,
            text=text,
            iterations=self._state.iteration,
            tasks=self._state.task_list,
            tokens=tokens - self._state.tokens_before,
            nano_usd=nano_usd - self._state.nano_usd_before,
        )

    async def _spent(self) -> tuple[int, int]:
        """Return tokens and nano-dollars of all calls for the session."""
        rows = await self._costs(self._session.id)
        return sum(row.input_tokens + row.output_tokens for row in rows), sum(row.nano_usd for row in rows)

    async def _update(self, arguments: Json) -> str:
        """Apply a model's change to the draft of the tasks; it takes effect once the answer is recorded."""
        try:
            changed = self._accept(self._draft, read_change(arguments).apply(self._draft))
        except InputError as error:
            return f"Error: {error}\n"
        gone = {task.text for task in self._draft.open} - {task.text for task in changed.tasks}
        self._draft = changed
        await self._show(changed)
        dropped = f" Open tasks that are not in it any more: {_some(sorted(gone))}." if gone else ""
        return f"The list has {len(changed.tasks)} tasks, {len(changed.open)} of them open.{dropped}\n"

    def _accept(self, before: TaskList, after: TaskList) -> TaskList:
        kept = self._state.keeping_given(before, after)
        self._check(kept)
        return kept

    async def _show(self, tasks: TaskList) -> None:
        await self._session.documents.give("tasks", shown_tasks(tasks, self._state.iteration + 1))

    def _check(self, tasks: TaskList) -> None:
        self._session.documents.check("tasks", shown_tasks(tasks, MAX_ITERATION))


@dataclass(frozen=True, slots=True)
class _Noting:
    """Acknowledges a call that reports the model's status."""

    name: str

    async def __call__(self, arguments: Json) -> str:
        try:
            read_signal(self.name, arguments)
        except InputError as error:
            return f"Error: {error}\n"
        return f"Noted: {REASONS[self.name]}.\n"


def _some(names: Sequence[str]) -> str:
    """List the first of the tasks, by their text."""
    listed = "; ".join(names[:SHOWN_TASKS])
    more = len(names) - SHOWN_TASKS
    return f"{listed}; and {more} more" if more > 0 else listed


INSTRUCTIONS = "run/instructions"
"""Name of the prompt for a model that works autonomously."""
PROMPT = "Go on."
"""The same in each iteration, so that summaries of the log need not repeat it."""
ANSWERED = "The user answers: {}"


class Given(Struct, frozen=True):
    """A list of tasks from the user, and the turn after which it was passed."""

    turn: int
    tasks: str


class RunState(Struct, frozen=True, kw_only=True):
    """The state up to `turn`, derived from the log and the user's input."""

    first_turn: int
    """The last turn before the run."""
    turn: int
    iteration: int = 0
    """Number of complete iterations."""
    tasks: str = ""
    """Task list in Markdown."""
    signal: Signal | None = None
    """Signal of the last iteration, if the run stopped there."""
    given: tuple[Given, ...] = ()
    digest: str = ""
    """Hash of the text of the user's last task list."""
    tokens_before: int = 0
    """Tokens of the session's calls before the run."""
    nano_usd_before: int = 0

    @property
    def task_list(self) -> TaskList:
        return parse_tasks(self.tasks)

    def pack(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def unpack(cls, text: str) -> RunState:
        return msgspec.json.decode(text, type=cls)

    def taking(self, text: str) -> tuple[RunState, MergeReport]:
        """Return the state with a list of tasks from the user: the first one unchanged, others merged."""
        given = Given(self.turn, parse_tasks(text).markdown())
        state = msgspec.structs.replace(self._retaken(given), given=(*self.given, given), digest=digest(text))
        return state, self._merged(given)

    def after(self, number: int, messages: Sequence[Message], accept: Accept | None = None) -> RunState:
        """Return the state after one more answered turn; turns that are not iterations change nothing else."""
        is_own = is_iteration(messages)
        outcome = read_outcome(messages, self.task_list, accept) if is_own else Outcome(self.task_list)
        state = msgspec.structs.replace(
            self,
            turn=number,
            iteration=self.iteration + is_own,
            tasks=outcome.tasks.markdown(),
            signal=outcome.signal,
        )
        for given in self.given:
            if given.turn == number:
                state = state._retaken(given)
        return state

    def keeping_given(self, before: TaskList, after: TaskList) -> TaskList:
        """Return a model's new list with the user's open tasks: those can be completed, but not dropped."""
        user_tasks = {task.text for given in self.given for task in parse_tasks(given.tasks).tasks}
        return after.extended([task.text for task in before.open if task.text in user_tasks])

    def rewound(self, last_turn: int) -> RunState:
        """Return the state at the start, for a fork that ends before the saved turn."""
        turn = min(self.first_turn, last_turn)
        state = msgspec.structs.replace(self, turn=turn, iteration=0, tasks="", signal=None)
        for given in self.given:
            if given.turn <= turn:
                state = state._retaken(given)
        return state

    def _retaken(self, given: Given) -> RunState:
        """Return the state with a list of the user merged in; new tasks reopen a completed run."""
        merged = self._merged(given)
        is_reopened = bool(merged.added) and self.signal is not None and self.signal.reason == "done"
        return msgspec.structs.replace(self, tasks=merged.tasks.markdown(), signal=None if is_reopened else self.signal)

    def _merged(self, given: Given) -> MergeReport:
        other = parse_tasks(given.tasks)
        return (
            self.task_list.merged(other) if self.tasks else MergeReport(other, tuple(task.text for task in other.open))
        )


def shown_tasks(tasks: TaskList, iteration: int) -> str:
    """Return the tasks as a model sees them in an iteration."""
    return f"Iteration {iteration}:\n{tasks.numbered() or NO_TASKS}"


def is_iteration(messages: Sequence[Message]) -> bool:
    """Check whether a run started the turn."""
    prompt = next((message.text for message in messages if message.opens_turn), "")
    return prompt == PROMPT or prompt.startswith(ANSWERED.format(""))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
