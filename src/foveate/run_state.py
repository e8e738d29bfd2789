"""Where a run stands, as the log says it: a fold over its turns, so that a killed run loses and doubles nothing.

What is kept is only a short cut. It says up to which turn it holds; what the log has beyond is added when it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from foveate.signals import Accept, Outcome, Signal, read_outcome
from foveate.tasks import NO_TASKS, Merged, TaskList, parse_tasks
from foveate.turn import Message

PROMPT = "Go on."
"""The same each time, so that summaries of the log need not repeat it."""
ANSWERED = "The user answers: {}"


class Given(Struct, frozen=True):
    """A list of tasks from the user, and the turn after which it came."""

    turn: int
    tasks: str


class RunState(Struct, frozen=True, kw_only=True):
    """Up to `turn`, all of it follows from the log and from what the user gave."""

    first_turn: int
    """The turns up to here were there before the run."""
    turn: int
    iteration: int = 0
    """How many are complete."""
    tasks: str = ""
    """In Markdown."""
    signal: Signal | None = None
    """Of the last iteration, if it stopped there."""
    given: tuple[Given, ...] = ()
    digest: str = ""
    """Of the text that the last list of tasks was read from."""
    tokens_before: int = 0
    """What the session's calls had taken before the run."""
    nano_usd_before: int = 0

    @property
    def task_list(self) -> TaskList:
        return parse_tasks(self.tasks)

    def pack(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def unpack(cls, text: str) -> RunState:
        return msgspec.json.decode(text, type=cls)

    def taking(self, text: str) -> tuple[RunState, Merged]:
        """With a list of tasks from the user: the first one as it is, others merged into what there is."""
        given = Given(self.turn, parse_tasks(text).markdown())
        state = msgspec.structs.replace(self._retaken(given), given=(*self.given, given), digest=digest(text))
        return state, self._merged(given)

    def after(self, number: int, messages: Sequence[Message], accept: Accept | None = None) -> RunState:
        """With one more turn, which has its answer; turns that are no iterations are log and nothing else."""
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
        """A model's new list, with the open tasks that the user gave: those can be done, but not dropped."""
        mine = {task.text for given in self.given for task in parse_tasks(given.tasks).tasks}
        return after.extended([task.text for task in before.open if task.text in mine])

    def rewound(self, last_turn: int) -> RunState:
        """As it was at the start: for a fork that ends before what was kept."""
        turn = min(self.first_turn, last_turn)
        state = msgspec.structs.replace(self, turn=turn, iteration=0, tasks="", signal=None)
        for given in self.given:
            if given.turn <= turn:
                state = state._retaken(given)
        return state

    def _retaken(self, given: Given) -> RunState:
        """New tasks are a reason to go on with what was done."""
        merged = self._merged(given)
        is_reopened = bool(merged.added) and self.signal is not None and self.signal.reason == "done"
        return msgspec.structs.replace(self, tasks=merged.tasks.markdown(), signal=None if is_reopened else self.signal)

    def _merged(self, given: Given) -> Merged:
        other = parse_tasks(given.tasks)
        return self.task_list.merged(other) if self.tasks else Merged(other, tuple(task.text for task in other.open))


def shown_tasks(tasks: TaskList, iteration: int) -> str:
    """The tasks as a model is shown them in an iteration."""
    return f"Iteration {iteration}:\n{tasks.numbered() or NO_TASKS}"


def is_iteration(messages: Sequence[Message]) -> bool:
    """Whether a turn was begun by a run."""
    prompt = next((message.text for message in messages if message.opens_turn), "")
    return prompt == PROMPT or prompt.startswith(ANSWERED.format(""))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
