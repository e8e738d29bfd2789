"""A list of tasks: read from Markdown, shown with numbers, ticked off, extended; frozen values and no I/O.

# Phase one               other lines keep their place
- [x] Read the old code   done
- [ ] Write the new one   open
- and test it             open, too
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from foveate.errors import InputError
from foveate.words.grammar import TASK_MARK

MAX_TASKS = 500
MAX_TASK_CHARS = 2_000
MAX_DEPTH = 8
SPACES_PER_DEPTH = 2

_ITEM = re.compile(rf"(?P<indent>\s*){TASK_MARK}(?:\s+(?:\[(?P<mark>[ xX✓✔]?)\](?:\s+|$))?(?P<text>.*))?")
_TICKS = frozenset("xX✓✔")


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do, on one line."""

    text: str
    is_done: bool = False
    depth: int = 0
    """Its depth below other tasks."""


Entry: TypeAlias = Task | str
"""A task, or a line between tasks, such as a heading."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """A merged list, and the changes."""

    tasks: TaskList
    added: tuple[str, ...] = ()
    ticked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskList:
    """A list whose tasks are identified by their number, from 1."""

    entries: tuple[Entry, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Task))

    @property
    def open(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if not task.is_done)

    @property
    def done_count(self) -> int:
        return len(self.tasks) - len(self.open)

    def numbered(self) -> str:
        """Return the list as a model sees it; empty if there is nothing in it."""
        lines = []
        number = 0
        for entry in self.entries:
            number += isinstance(entry, Task)
            lines.append(_line(entry, f"{number}."))
        return "".join(f"{line}\n" for line in lines)

    def markdown(self) -> str:
        """Return the list as Markdown; `parse_tasks` reads back the same list."""
        return "".join(f"{_line(entry, '-')}\n" for entry in self.entries)

    def ticked(self, numbers: Iterable[int], *, is_done: bool = True) -> TaskList:
        """Return the list with the tasks of these numbers done, or open again."""
        wanted = set(numbers)
        count = len(self.tasks)
        if wrong := sorted(number for number in wanted if not 1 <= number <= count):
            have = f"they are 1 to {count}" if count else "there are no tasks"
            raise InputError(f"there is no task {wrong[0]}; {have}")
        entries: list[Entry] = []
        number = 0
        for entry in self.entries:
            number += isinstance(entry, Task)
            is_meant = isinstance(entry, Task) and number in wanted
            entries.append(replace(entry, is_done=is_done) if isinstance(entry, Task) and is_meant else entry)
        return TaskList(tuple(entries))

    def extended(self, texts: Sequence[str]) -> TaskList:
        """Return the list with more tasks at the end; existing ones are not repeated."""
        known = {task.text for task in self.tasks}
        fresh = [text for text in dict.fromkeys(map(_checked, texts)) if text not in known]
        return _limited(TaskList((*self.entries, *map(Task, fresh))))

    def merged(self, other: TaskList) -> MergeReport:
        """Return the list with the open tasks of another list added, and its done tasks ticked. Nothing is removed."""
        known = {task.text: task for task in self.tasks}
        done_there = {task.text for task in other.tasks} - {task.text for task in other.open}
        ticked = [number for number, task in enumerate(self.tasks, 1) if task.text in done_there and not task.is_done]
        added = [task.text for task in other.open if task.text not in known]
        names = tuple(self.tasks[number - 1].text for number in ticked)
        return MergeReport(self.ticked(ticked).extended(added), tuple(dict.fromkeys(added)), names)


def parse_tasks(text: str) -> TaskList:
    """Parse the list in a Markdown text; `InputError` if a task or the list is too long."""
    entries: list[Entry] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        item = _ITEM.fullmatch(line)
        last = entries[-1] if entries else None
        if item and (item["text"] or "").strip():
            depth = min(MAX_DEPTH, len(item["indent"].expandtabs(4)) // SPACES_PER_DEPTH)
            entries.append(Task(_checked(item["text"]), item["mark"] in _TICKS if item["mark"] else False, depth))
        elif item:
            continue  # an empty task
        elif line[0].isspace() and isinstance(last, Task):
            entries[-1] = replace(last, text=_checked(f"{last.text} {line}"))
        else:
            entries.append(_checked(line))
    return _limited(TaskList(tuple(entries)))


def _line(entry: Entry, bullet: str) -> str:
    if isinstance(entry, str):
        return entry
    return f"{' ' * SPACES_PER_DEPTH * entry.depth}{bullet} [{'x' if entry.is_done else ' '}] {entry.text}"


def _checked(text: str) -> str:
    """Return the text on one line."""
    line = " ".join(text.split())
    if not line:
        raise InputError("a task can't be empty; say it in a few words")
    if len(line) > MAX_TASK_CHARS:
        raise InputError(f"a task takes up to {MAX_TASK_CHARS:,} characters; one has {len(line):,}: {line[:60]}…")
    return line


def _limited(tasks: TaskList) -> TaskList:
    if len(tasks.entries) > MAX_TASKS:
        raise InputError(f"a list takes up to {MAX_TASKS:,} lines; this has {len(tasks.entries):,}")
    return tasks
