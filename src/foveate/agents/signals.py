"""Signals of a model in a run: done, a question, a blocker, and changes of the tasks.

By a tool call, or by lines of text:

    TASKS:                                  update_tasks(tasks="- [x] …"), or done=[1], added=["…"]
    - [x] Read the old code
    - [ ] Write the new one
    STATUS: done                            finish(summary)
    STATUS: question: Which port?           ask_user(question)
    STATUS: blocked: no access to the host  report_blocker(problem)
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from foveate.agents.tasks import TaskList, parse_tasks
from foveate.errors import InputError, InvalidToolCall
from foveate.turn import Json, Message
from foveate.words.grammar import TASK_MARK, is_fence

Reason = Literal["done", "question", "blocked"]

MAX_TEXT_CHARS = 20_000
"""Limit of a question, a problem or a summary."""
UPDATE = "update_tasks"
REASONS: Mapping[str, Reason] = {"finish": "done", "ask_user": "question", "report_blocker": "blocked"}
"""The reason that each tool reports."""
_ARGUMENTS = {"finish": "summary", "ask_user": "question", "report_blocker": "problem"}
_SPOKEN: Mapping[str, Reason] = {
    "done": "done",
    "finished": "done",
    "complete": "done",
    "completed": "done",
    "question": "question",
    "blocked": "blocked",
    "blocker": "blocked",
}
_DRESS = r"[ \t*_#`]*"
# In capitals and at the start of a line, as requested: "Status: done" also occurs in reports about a part.
_STATUS = re.compile(rf"{_DRESS}STATUS{_DRESS}:{_DRESS}(?P<word>[A-Za-z]+)\b[*_`]*\s*(?P<mark>[:.,;-]*)\s*(?P<text>.*)")
_TASKS = re.compile(rf"{_DRESS}TASKS{_DRESS}:[\s*_]*")
_LISTED = re.compile(rf"\s*{TASK_MARK}\s+\S.*|\s*#+\s.*|\s{{2,}}\S.*")


@dataclass(frozen=True, slots=True)
class Signal:
    """The reason to stop."""

    reason: Reason
    text: str
    """The summary, the question or the problem."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A change of the tasks: a complete new list, or tasks done, reopened or added."""

    tasks: TaskList | None = None
    done: tuple[int, ...] = ()
    reopened: tuple[int, ...] = ()
    added: tuple[str, ...] = ()

    def apply(self, tasks: TaskList) -> TaskList:
        """Return the new list; `InputError` if the change does not fit this list."""
        base = tasks if self.tasks is None else self.tasks
        return base.ticked(self.done).ticked(self.reopened, is_done=False).extended(self.added)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an iteration's messages."""

    tasks: TaskList
    signal: Signal | None = None


Accept: TypeAlias = Callable[[TaskList, TaskList], TaskList]
"""Returns the tasks to use, from those before and after a change; `InputError` if the change is rejected."""


def tool_definitions() -> list[dict[str, Json]]:
    """Return the tools in OpenAI's format."""
    text: Json = {"type": "string"}
    numbers: Json = {"type": "array", "items": {"type": "integer"}}
    texts: Json = {"type": "array", "items": text}
    update = {"tasks": text, "done": numbers, "reopened": numbers, "added": texts}
    return [
        _function(
            UPDATE,
            'Change the task list: numbers of tasks done or reopened, tasks to add; or all of it, as "- [ ] …" lines.',
            update,
        ),
        _function("finish", "Everything that the epic asks for is done.", {"summary": text}),
        _function("ask_user", "You can't go on without the user.", {"question": text}),
        _function("report_blocker", "Something beyond your reach is in the way.", {"problem": text}),
    ]


def read_change(arguments: Json) -> TaskChange:
    """Parse a call of `update_tasks`; `InputError` tells the model what to write."""
    given = _object(UPDATE, arguments)
    unknown = sorted(set(given) - {"tasks", "done", "reopened", "added"})
    if unknown:
        raise InvalidToolCall(UPDATE, f"there is no argument {unknown[0]!r}; available: tasks, done, reopened, added")
    whole = given.get("tasks")
    if isinstance(whole, list):
        whole = "\n".join(_item(entry) for entry in whole)
    if whole is not None and not isinstance(whole, str):
        raise InvalidToolCall(UPDATE, 'tasks takes lines such as "- [ ] Write the new one"')
    tasks = None if whole is None or not whole.strip() else parse_tasks(whole)
    change = TaskChange(tasks, _numbers(given, "done"), _numbers(given, "reopened"), _texts(given, "added"))
    if change == TaskChange():
        raise InvalidToolCall(UPDATE, "give done, reopened or added, or all of the list as tasks")
    return change


def read_signal(name: str, arguments: Json) -> Signal:
    """Parse a call of one of the other tools."""
    given = _object(name, arguments)
    text = given.get(_ARGUMENTS[name]) or next((value for value in given.values() if isinstance(value, str)), "")
    if not isinstance(text, str) or (not text.strip() and name != "finish"):
        raise InvalidToolCall(name, f"{_ARGUMENTS[name]} is missing; say it in a sentence")
    return Signal(REASONS[name], text.strip()[:MAX_TEXT_CHARS])


def read_outcome(messages: Sequence[Message], tasks: TaskList, accept: Accept | None = None) -> Outcome:
    """Return the outcome of an iteration's messages, from the tasks before it.

    An invalid change, or one that `accept` rejects, is ignored. Of several signals the last one counts.
    """
    accept = accept or _as_it_is
    signal: Signal | None = None
    for message in messages:
        if message.role != "assistant" or message.kind != "message":
            continue
        written = _read_lines(message.text)
        signal = written.signal or signal
        for listed in written.tasks:
            with suppress(InputError):
                tasks = accept(tasks, listed)
        for call in message.tool_calls:
            with suppress(InputError):
                if call.name == UPDATE:
                    tasks = accept(tasks, read_change(call.arguments).apply(tasks))
                elif call.name in REASONS:
                    signal = read_signal(call.name, call.arguments)
    return Outcome(tasks, signal)


def is_complete(messages: Sequence[Message]) -> bool:
    """Check whether an iteration is answered: the last answer calls no tools, or only those that report its status."""
    spoken = [message for message in messages if message.kind == "message"]
    answer = next((message for message in reversed(spoken) if message.role == "assistant"), None)
    if answer is None or spoken[-1].role not in ("assistant", "tool"):
        return False
    return all(call.name == UPDATE or call.name in REASONS for call in answer.tool_calls)


def _as_it_is(_before: TaskList, after: TaskList) -> TaskList:
    return after


@dataclass(frozen=True, slots=True)
class _Written:
    signal: Signal | None
    tasks: tuple[TaskList, ...]


def _read_lines(text: str) -> _Written:
    """Parse the marker lines of an answer. Lines inside fences are quoted, except for a fenced list of tasks."""
    signal: Signal | None = None
    lists: list[TaskList] = []
    plain: list[str] = []
    lines = deque(text.splitlines())
    is_fenced = False
    while lines:
        line = lines.popleft()
        if is_fence(line):
            is_fenced = not is_fenced
        elif is_fenced:
            continue
        elif _TASKS.fullmatch(line):
            lists += _whole(_take_list(lines))
        elif reason := _reason(status := _STATUS.fullmatch(line)):
            assert status is not None, "there is no reason without one"
            detail = status["text"].strip(" *_`") or " ".join(plain)
            signal = Signal(reason, detail[:MAX_TEXT_CHARS])
        elif line.strip():
            plain.append(line.strip())
    return _Written(signal, tuple(lists))


def _reason(status: re.Match[str] | None) -> Reason | None:
    """Parse a status line; "done with the first part" is not done."""
    reason = _SPOKEN.get(status["word"].lower()) if status else None
    is_partly = status is not None and bool(status["text"].strip(" *_`")) and not status["mark"]
    return None if reason == "done" and is_partly else reason


def _take_list(lines: deque[str]) -> list[str]:
    """Return the list that comes next, in a fence or not."""
    while lines and not lines[0].strip():
        lines.popleft()
    is_fenced = bool(lines and is_fence(lines[0]))
    if is_fenced:
        lines.popleft()
    listed = []
    while lines and _LISTED.fullmatch(lines[0]):
        listed.append(lines.popleft())
    if is_fenced and lines and is_fence(lines[0]):
        lines.popleft()
    return listed


def _whole(lines: Sequence[str]) -> list[TaskList]:
    try:
        tasks = parse_tasks("\n".join(lines))
    except InputError:
        return []
    return [tasks] if tasks.tasks else []


def _object(name: str, arguments: object) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise InvalidToolCall(name, "the arguments are not JSON") from None
    if not isinstance(arguments, Mapping):
        raise InvalidToolCall(name, "the arguments are not an object")
    return arguments


def _item(entry: object) -> str:
    """Return an element of a list of tasks, as some models write it."""
    if isinstance(entry, Mapping):
        text = next((value for value in (entry.get("text"), entry.get("task"), entry.get("title")) if value), "")
        is_done = entry.get("done") is True or entry.get("status") in ("done", "completed")
        return f"- [{'x' if is_done else ' '}] {text}"
    text = str(entry).strip()
    return text if _LISTED.fullmatch(text) else f"- [ ] {text}"


def _numbers(given: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = given.get(key)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    try:
        return tuple(int(one) for one in listed if not isinstance(one, bool))
    except (TypeError, ValueError):
        raise InvalidToolCall(UPDATE, f"{key} takes task numbers, e.g. [1, 2]") from None


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) and one.strip() for one in listed):
        raise InvalidToolCall(UPDATE, f"{key} takes texts of tasks")
    return tuple(listed)


def _function(name: str, description: str, properties: Mapping[str, Json]) -> dict[str, Json]:
    required: list[Json] = [] if name == UPDATE else list(properties)
    parameters: Json = {"type": "object", "properties": dict(properties), "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
