"""Tracks files and todos from a conversation's messages alone: read, changed, planned, and their links.

Nothing here touches a disk: a path is the one in a tool call, whether the file exists or not.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import accumulate

from foveate.cache import BoundedCache
from foveate.compress.exchange import ToolExchange, definitions, read_exchange
from foveate.compress.lines import brief
from foveate.compress.tools import files
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

MAX_FILES = 200
MAX_CHANGES = 400
MAX_TODOS = 60
"""Limit of the entries; the oldest are dropped first."""
MAX_CALLS = 1_000
"""Limit of the tool calls whose result may still come."""
MAX_SECTIONS = 8
MAX_SCANNED_LINES = 1_500
NAME_WORTH, MAX_SPREAD = 3.0, 0.34
"""Worth of a word in a section's name rather than in its lines, and the maximum share of sections that have it: a word
of more does not tell them apart."""
MAX_ABOUT, MAX_PLACES, STEM_LETTERS = 48, 200, 4
"""Limits of the words and their places, and the minimum letters that two forms of a longer word have in common."""
SUMMARY_CHARS, SUMMARY_LETTERS, SUMMARY_LINES = 160, 12, 40
"""Limits of a file's summary: its maximum length, the minimum letters of its line, and the lines searched for it."""
TODO_CHARS = 80
NAME_CHARS = 48
DIGEST_CHARS = 8

_NO_SUMMARY = ("import ", "from ", "use ", "using ", "package ", "include", "const ", "let ", "var ")
_TODO_TOOL = re.compile(r"todo|^updateplan$|^writeplan$|^plan$|^tasklist$")
MAX_WRAPPED_CHARS = 4_000_000
"""A larger object is not parsed for the file in it."""
_CONTENTS = ("content", "contents", "file_content", "text", "data")
_PATHS = ("file_path", "path", "filename", "file")
_LISTS = ("todos", "plan", "items", "tasks", "steps", "list", "todo_list", "todoList")
_WORDS = ("content", "step", "text", "title", "description", "task", "name", "todo")
_CHECKBOX = re.compile(r"(?:(?:[-*]|\d{1,9}\.)\s*)?\[([ xX~>-])\]\s+(\S.*)")
"""Matched against a line without surrounding white space."""
_NUMBERED = re.compile(r"^\s*(\d+)(?:→|\t|:|\||  )(.*)$")
_NAME_WORD = re.compile(r"[A-Z]?[^\W\dA-Z_]{2,}|[A-Z]{3,}")
"""The words of a name: `parse` and `Header` of `parseHeader`."""
_HEADING = re.compile(r"^#{1,4} (\S.*)$")
_START = ("start_line", "startLine", "line_start", "insert_line", "line", "start", "offset", "line_number")
_END = ("end_line", "endLine", "line_end", "end")


@dataclass(frozen=True, slots=True)
class FileSection:
    """A heading or definition, and its range of lines."""

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was read."""

    path: str
    turn: int
    position: int
    lines: int
    digest: str
    """The beginning of the SHA-256 of the content read."""
    summary: str = ""
    sections: tuple[FileSection, ...] = ()
    first_line: int = 1
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file."""

    path: str
    turn: int
    position: int
    change: str
    """created, written (it is unknown whether it existed before), modified or deleted."""
    lines: str
    at: datetime | None = None
    todo: str = ""
    """The todo in progress at the time."""


@dataclass(frozen=True, slots=True)
class Todo:
    text: str
    status: str
    """open, active or done."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool result with its call, and its effect on a file, if any."""

    call: ToolCall
    file: FileRead | FileChange | None


@dataclass(slots=True)
class Tracker:
    """Everything known so far; call `follow` with the messages in order."""

    reads: BoundedCache[str, FileRead] = field(default_factory=lambda: BoundedCache(MAX_FILES))
    """The newest read of each path."""
    changes: list[FileChange] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    summaries: Mapping[str, str] = field(default_factory=dict)
    """Stored summaries of files, by path; they take precedence over a file's own summary."""
    about: frozenset[str] = frozenset()
    """Words that the turn is about; sections of files with them are described first."""
    _calls: BoundedCache[str, ToolCall] = field(default_factory=lambda: BoundedCache(MAX_CALLS))
    _waiting: list[ToolCall] = field(default_factory=list)

    @property
    def active_todo(self) -> str:
        """The todo in progress, if a todo list names one."""
        return next((todo.text for todo in self.todos if todo.status == "active"), "")

    def follow(self, turn: int, position: int, message: Message, *, curate: bool = True) -> list[ToolUse]:
        """Add a message; return the properties of each tool result in it.

        Without `curate`, files that were read get neither summary nor sections.
        """
        for call in message.tool_calls:
            self._waiting.append(call)
            if call.id:
                self._calls[call.id] = call
            self._plan(call)
        del self._waiting[:-MAX_TODOS]
        found: list[ToolUse] = []
        for given in message.tool_results:
            call, result = unwrapped(self.call_of(given), given)
            exchange = read_exchange(call, result)
            file = self._took(exchange, result, turn, position, message.at, curate=curate)
            found.append(ToolUse(call, file))
        return found

    def call_of(self, result: ToolResult) -> ToolCall:
        """Return the call of a result: by id, else the oldest unanswered one of its name; else one without
        arguments."""
        call = self._calls.pop(result.call_id) if result.call_id else None
        if call is None:
            call = next((one for one in self._waiting if not one.id and result.name in (None, one.name)), None)
        if call is not None and call in self._waiting:
            self._waiting.remove(call)
        return call or ToolCall(result.name or "tool", {})

    def _took(
        self, exchange: ToolExchange, result: ToolResult, turn: int, position: int, at: datetime | None, *, curate: bool
    ) -> FileRead | FileChange | None:
        action = files.action(exchange)
        if action is None or exchange.failed:
            return None
        if action == "read":
            return self._took_read(exchange, result, turn, position, at, curate=curate)
        changes = list(self._changes(exchange, action, turn, position, at))
        self.changes += changes
        del self.changes[:-MAX_CHANGES]
        return changes[0] if changes else None

    def _took_read(
        self, exchange: ToolExchange, result: ToolResult, turn: int, position: int, at: datetime | None, *, curate: bool
    ) -> FileRead | None:
        path = exchange.path
        if not path or not exchange.lines:
            return None
        text = "".join(part.text for part in result.content if isinstance(part, Text))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
        first, lines = _numbered(exchange)
        sections = tuple(sections_of(lines, first, self.about)) if curate else ()
        summary = self.summaries.get(path) or (_summary(lines) if curate and first == 1 else "")
        read = FileRead(path, turn, position, exchange.total_lines, digest, summary, sections, first, at)
        self.reads[path] = read
        return read

    def _changes(
        self, exchange: ToolExchange, action: files.Action, turn: int, position: int, at: datetime | None
    ) -> Iterator[FileChange]:
        patch = next((text for text in exchange.arguments.values() if isinstance(text, str) and "*** " in text), "")
        for path in files.changed_paths(exchange):
            change = {"write": "modified" if self._knows(path) else "written", "delete": "deleted"}.get(
                action, "modified"
            )
            if f"*** Add File: {path}" in patch or exchange.tool.lower().startswith("create"):
                change = "created"
            elif f"*** Delete File: {path}" in patch:
                change = "deleted"
            yield FileChange(path, turn, position, change, _changed_lines(exchange), at, self.active_todo)

    def _knows(self, path: str) -> bool:
        """Return whether a file was read or changed before, if that is still stored."""
        return path in self.reads or any(change.path == path for change in self.changes)

    def _plan(self, call: ToolCall) -> None:
        """Store a todo list, which each call contains as a whole, in one of several formats."""
        if not _TODO_TOOL.search(call.name.rpartition("__")[2].lower().replace("_", "").replace("-", "")):
            return
        arguments = read_exchange(call, None).arguments
        listed = next((arguments[key] for key in _LISTS if key in arguments), arguments.get("input"))
        todos = list(_todos(listed))
        if todos:
            self.todos = todos[:MAX_TODOS]


def unwrapped(call: ToolCall, result: ToolResult) -> tuple[ToolCall, ToolResult]:
    """Replace a file that was read as an object such as {"status", "file_path", "content"} by its content and path."""
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    if text.lstrip()[:1] != "{" or len(text) > MAX_WRAPPED_CHARS:
        return call, result
    if files.action(read_exchange(call, result)) != "read":
        return call, result
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return call, result
    content = next((said[key] for key in _CONTENTS if isinstance(said.get(key), str)), None)
    if content is None:
        return call, result
    path = next((said[key] for key in _PATHS if isinstance(said.get(key), str)), None)
    if path and isinstance(call.arguments, Mapping) and not read_exchange(call, None).path:
        call = replace(call, arguments={**call.arguments, "file_path": path})
    return call, replace(result, content=(Text(content),))


def track(
    turns: Sequence[tuple[int, Sequence[Message]]], *, curate: bool = True, summaries: Mapping[str, str] | None = None
) -> Tracker:
    """Track files and todos through turns, passed with their numbers."""
    tracker = Tracker(summaries=summaries or {})
    for number, messages in turns:
        for position, message in enumerate(messages):
            tracker.follow(number, position, message, curate=curate)
    return tracker


def sections_of(lines: Sequence[str], first_line: int = 1, about: Collection[str] = ()) -> Iterator[FileSection]:
    """Yield headings and definitions of a file: those with words of `about`, then the largest of the others; of many,
    the best."""
    starts: list[tuple[str, int]] = []
    for number, line in enumerate(lines[:MAX_SCANNED_LINES], first_line):
        if heading := _HEADING.match(line):
            starts.append((brief(heading[1], NAME_CHARS), number))
        elif (names := definitions([line], 1)) and names[0]:
            starts.append((brief(names[0], NAME_CHARS), number))
    if not starts:
        return
    ends = [start - 1 for _, start in starts[1:]] + [first_line + len(lines) - 1]
    found = [FileSection(name, start, max(start, end)) for (name, start), end in zip(starts, ends, strict=True)]
    worths = _relevance(found, lines, first_line, about) if about else [0.0] * len(found)
    best = sorted(
        zip(worths, found, strict=True), key=lambda pair: (-pair[0], pair[1].first - pair[1].last, pair[1].first)
    )
    yield from (pair[1] for pair in sorted(best[:MAX_SECTIONS], key=lambda pair: (not pair[0], pair[1].first)))


def _relevance(
    sections: Sequence[FileSection], lines: Sequence[str], first_line: int, about: Collection[str]
) -> list[float]:
    """Weigh sections by the words that they share with the turn, most in their names; a word of many sections says
    nothing."""
    text = "\n".join(lines[:MAX_SCANNED_LINES]).lower()
    ends = list(accumulate(len(line) + 1 for line in lines[:MAX_SCANNED_LINES]))
    opens = [ends[section.first - first_line - 1] if section.first > first_line else 0 for section in sections]
    names = [_name_words(section.name) for section in sections]
    worths = [0.0] * len(sections)
    for word in sorted(about, key=lambda word: (-len(word), word))[:MAX_ABOUT]:
        named = {place for place, own in enumerate(names) if any(_same_word(word, other) for other in own)}
        inside = {bisect_right(opens, at) - 1 for at in _places(text, word)}
        for found, worth in ((named, NAME_WORTH), (inside - named - {-1}, 1.0)):
            if len(found) <= max(1, len(sections) * MAX_SPREAD):
                for place in found:
                    worths[place] += worth / len(found)
    return worths


def _name_words(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORD.findall(name)]


def _same_word(one: str, other: str) -> bool:
    """Return whether two words are the same, up to their endings: `rotate` and `rotation`."""
    shorter = min(len(one), len(other))
    stem = min(shorter, max(STEM_LETTERS, shorter - 2))
    return one[:stem] == other[:stem]


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    for _ in range(MAX_PLACES):
        if at < 0:
            return
        if not at or not text[at - 1].isalpha():
            yield at
        at = text.find(word, at + len(word))


def to_json(tracker: Tracker) -> dict[str, Json]:
    """Return everything known, for display."""
    return {
        "reads": [_as_json(read) for _, read in tracker.reads.items()],
        "changes": [_as_json(change) for change in tracker.changes],
        "todos": [_as_json(todo) for todo in tracker.todos],
    }


def _as_json(value: FileRead | FileChange | Todo) -> dict[str, Json]:
    fields = asdict(value)
    if at := fields.get("at"):
        fields["at"] = at.isoformat()
    return fields


def _numbered(exchange: ToolExchange) -> tuple[int, list[str]]:
    """Return the first line's number and the lines without numbers, if the tool numbered them."""
    lines = exchange.lines[:MAX_SCANNED_LINES]
    numbered = [_NUMBERED.match(line) for line in lines[:3]]
    if numbered and all(numbered):
        bare = [found[2] if (found := _NUMBERED.match(line)) else line for line in lines]
        start = numbered[0]
        return (int(start[1]) if start else 1), bare
    start_text = exchange.argument("offset", "start_line", "startLine")
    return (int(start_text) if start_text and start_text.isdecimal() and int(start_text) else 1), lines


def _summary(lines: Sequence[str]) -> str:
    """Return a file's own summary: its title or first comment, else its first line with enough letters."""
    for line in lines[:SUMMARY_LINES]:
        words = line.strip().strip("\"'#/*<>!-=; ").strip()
        if sum(map(str.isalpha, words)) >= SUMMARY_LETTERS and not words.startswith(_NO_SUMMARY):
            return brief(words, SUMMARY_CHARS)
    return ""


def _changed_lines(exchange: ToolExchange) -> str:
    start, end = exchange.argument(*_START), exchange.argument(*_END)
    size = files.change_size(exchange)
    if start and start.isdecimal() and "insert_line" not in exchange.arguments:
        place = f"lines {start}-{end}" if end and end.isdecimal() and end != start else f"line {start}"
        return f"{place}, {size}" if size.startswith(("-", "+")) else place
    return size


def _todos(listed: Json) -> Iterator[Todo]:
    if isinstance(listed, str):
        for line in listed.split("\n"):
            if box := _CHECKBOX.match(line.strip()):
                status = {" ": "open", "x": "done", "X": "done"}.get(box[1], "active")
                yield Todo(brief(box[2], TODO_CHARS), status)
        return
    for item in listed if isinstance(listed, Sequence) else ():
        if isinstance(item, str) and item.strip():
            yield Todo(brief(item, TODO_CHARS), "open")
        elif isinstance(item, Mapping):
            words = next((item[key] for key in _WORDS if isinstance(item.get(key), str)), None)
            status = str(item.get("status", item.get("state", ""))).lower().replace("-", "_").replace(" ", "_")
            if isinstance(words, str) and words.strip():
                yield Todo(brief(words, TODO_CHARS), _status(status))


def _status(said: str) -> str:
    if said in ("completed", "complete", "done", "finished", "cancelled", "canceled"):
        return "done"
    return "active" if said in ("in_progress", "active", "doing", "started", "current", "running") else "open"
