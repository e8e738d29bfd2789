"""Hands a conversation over to another client: a transcript it can resume, or a first prompt, within a budget."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, get_args

from foveate import formats
from foveate.context.pins import write_pins
from foveate.errors import InputError
from foveate.formats.parse import time_text
from foveate.session.export import fenced
from foveate.strategy.build import SourceTurn
from foveate.strategy.checkpoint.extract import Find, find_all
from foveate.text import message_text, turn_text
from foveate.turn import Attachment, Json, Message, Part, Text, ToolCall, ToolResult, Turn, turn_id

if TYPE_CHECKING:
    from foveate.session import Session

HandoffTarget = Literal["claude", "codex", "opencode", "file"]
TARGETS: tuple[HandoffTarget, ...] = get_args(HandoffTarget)
FORMATS: Mapping[HandoffTarget, str] = {"claude": "claude-code", "codex": "codex"}
"""Targets that resume a transcript, with its format; the others start from a first prompt."""
SCANNED_TURNS = 200
"""Number of newest turns that are scanned for decisions, next steps and files, as the session's `files` are."""
NEWEST_SHARE = NOTES_SHARE = 0.5
"""Share of the free room for the newest turns, and share of the rest for notes; earlier turns get what is left."""
GAP = "(The steps of this turn are not shown: {steps} messages of {turn}.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A transcript or first prompt for another client."""

    session_id: str
    to: HandoffTarget
    format: str
    """`claude-code`, `codex` or `markdown`."""
    text: str
    tokens: int
    budget_tokens: int
    verbatim_turns: tuple[str, ...]
    """The newest turns, verbatim."""
    listed_turns: int
    """Earlier turns that are listed with a line each."""
    client_session: str
    """The id of the new session in the client; empty for a first prompt."""
    path: str
    """Where the client keeps such a transcript, below its own folder in the home folder; else a name of a file."""
    command: str
    """What starts the client; `{path}` is where the text was written."""


@dataclass(slots=True)
class _Room:
    session: Session
    left: int

    def tokens(self, text: str) -> int:
        engine = self.session.engine
        return engine.counter.scale(engine.counter.base(text), engine.row.calibration)

    def message_tokens(self, messages: Sequence[Message]) -> int:
        engine = self.session.engine
        base = engine.sizes.extra_tokens(messages) + sum(engine.counter.base(message_text(each)) for each in messages)
        return engine.counter.scale(base, engine.row.calibration)

    def fill(self, lines: Iterable[str], limit: int) -> list[str]:
        """Take lines as long as they fit into a limit; return them."""
        taken: list[str] = []
        limit = min(limit, self.left)
        for line in lines:
            cost = self.tokens(f"{line}\n")
            if cost > limit:
                break
            limit -= cost
            self.left -= cost
            taken.append(line)
        return taken


async def hand_over(session: Session, to: HandoffTarget, *, budget_tokens: int, folder: str) -> Handoff:
    """Write the newest turns verbatim, and before them rules, decisions, open steps, files and earlier turns."""
    if to not in TARGETS:
        raise InputError(f"no client {to!r}; use one of {', '.join(TARGETS)}")
    info = await session.refresh()
    if not info.turns:
        raise InputError(f"session {session.id!r} has no turns to hand over")
    turns = await _newest(session)
    room = _Room(session, budget_tokens)
    head = _head(session, turns)
    pins = write_pins(await session.pins())
    room.left -= room.tokens(head) + room.tokens(pins) + room.tokens("\n## Rules, verbatim\n\n")
    if room.left <= 0:
        raise InputError(f"the rules alone take {budget_tokens - room.left:,} tokens; use a larger budget")
    newest = _verbatim(room, turns, to)
    notes = await _notes(session, room, turns)
    earlier = await _earlier(session, room, first=newest[0][0] if newest else info.turns + 1)
    rules = f"\n## Rules, verbatim\n\n{pins}" if pins else ""
    brief = "".join([head, rules, *notes, *earlier.text])
    messages = [message for _, own in newest for message in own]
    made = _transcript(session, to, brief, messages, folder) if to in FORMATS else _prompt(session, to, brief, newest)
    text = made.text
    tokens = room.tokens(text) if made.format == "markdown" else room.tokens(brief) + room.message_tokens(messages)
    return replace(
        made,
        tokens=tokens,
        budget_tokens=budget_tokens,
        verbatim_turns=tuple(turn_id(number) for number, _ in newest),
        listed_turns=earlier.count,
    )


async def _newest(session: Session) -> list[Turn]:
    """Load the newest turns that were not removed."""
    reader = session.engine.reader()
    found = await reader.kept(*reader.between(max(1, session.info.turns - SCANNED_TURNS + 1), None))
    return [turn for turn in found if isinstance(turn, Turn) and turn.messages]


def _head(session: Session, turns: Sequence[Turn]) -> str:
    info = session.info
    title = f" ({_line(info.title)})" if info.title else ""
    until = f", until {turns[-1].at:%Y-%m-%d}" if turns and turns[-1].at else ""
    return (
        f"# A conversation to continue\n\nSession `{session.id}`{title}: {info.turns:,} turns{until}. What follows was "
        "decided and done before you joined; continue from the newest turns. "
        f"`foveate show {session.id} T-n` prints any turn in full.\n"
    )


def _verbatim(room: _Room, turns: Sequence[Turn], to: HandoffTarget) -> list[tuple[int, list[Message]]]:
    """Return the newest turns that fit, verbatim; of a newest turn that is too long, its prompt and last answer."""
    limit, found = int(room.left * NEWEST_SHARE), list[tuple[int, list[Message]]]()
    for turn in reversed(turns):
        own = _spoken(turn)
        cost = _cost(room, turn, own, to)
        if cost > limit and not found:
            own = _ends(turn, own)
            cost = _cost(room, turn, own, to)
            limit = max(limit, min(cost, room.left))
        if not own or cost > limit:
            break
        limit -= cost
        room.left -= cost
        found.insert(0, (turn.number or 0, own))
    if not found:
        raise InputError(f"the newest turn does not fit into {room.left:,} tokens; use a larger budget")
    return found


def _cost(room: _Room, turn: Turn, own: Sequence[Message], to: HandoffTarget) -> int:
    if to in FORMATS:
        return room.message_tokens(own)
    return room.tokens(_written(turn.number or 0, own))


def _spoken(turn: Turn) -> list[Message]:
    """Return the messages of a turn as any provider accepts them: without thinking, and each call with its result."""
    answered = {result.call_id for message in turn.messages for result in message.tool_results}
    called = {call.id for message in turn.messages for call in message.tool_calls}
    found = []
    for message in turn.messages:
        if message.role in ("system", "developer") or message.kind != "message":
            continue
        parts = tuple(part for part in message.parts if _is_kept(part, answered & called))
        if parts:
            found.append(replace(message, parts=parts, original=None, prefix=None, usage=None))
    return found


def _is_kept(part: Part, paired: set[str | None]) -> bool:
    match part:
        case Text(text):
            return bool(text.strip())
        case ToolCall(id=call) | ToolResult(call_id=call):
            return call in paired
        case Attachment():
            return True
        case _:
            return False


def _ends(turn: Turn, own: Sequence[Message]) -> list[Message]:
    """Return the prompt and the last answer of a turn, with a note for what is between them."""
    prompt = next((message for message in own if message.role == "user" and not message.tool_results), None)
    answer = next((message for message in reversed(own) if message.role == "assistant" and message.text.strip()), None)
    if prompt is None:
        return []
    words = tuple(part for part in answer.parts if isinstance(part, Text)) if answer else ()
    steps = len(own) - 1 - bool(answer)
    gap = Text(GAP.format(steps=steps, turn=turn_id(turn.number or 0)))
    return [prompt, Message("assistant", (gap, *words), at=answer.at if answer else prompt.at)]


async def _notes(session: Session, room: _Room, turns: Sequence[Turn]) -> list[str]:
    """Return the sections on what is open, what was decided, and files."""
    goals = [goal for goal in await session.goals.list() if goal.status == "active"]
    files = await session.files.list()
    finds = find_all([SourceTurn(turn.number or 0, turn.messages, (), "") for turn in turns])
    waiting = [todo.text for todo in files.todos if todo.status != "done"]
    todo = [f"- {_line(text)}" for text in waiting] or [f"- {_found(find)}" for find in finds.next_steps]
    decided = [f"- {goal.id}: {_line(text)}" for goal in goals for text in goal.decisions]
    found = sorted((*finds.architecture, *finds.decisions), key=lambda find: -find.turn)
    changed = dict.fromkeys(change.path for change in reversed(files.changes))
    read = dict.fromkeys(each.path for each in reversed(files.reads) if each.path not in changed)
    sections = {
        "Goals": [line for goal in goals for line in _goal_lines(goal.title, goal.steps)],
        "Open": todo,
        "Decided": list(dict.fromkeys([*decided, *(f"- {_found(find)}" for find in found)])),
        "Files": [f"- {_line(path)} (changed)" for path in changed] + [f"- {_line(path)} (read)" for path in read],
    }
    limit = int(room.left * NOTES_SHARE)
    written = []
    for title, lines in sections.items():
        heading = f"\n## {title}\n\n"
        cost = room.tokens(heading)
        if not lines or cost >= limit:
            continue
        before = room.left
        room.left -= cost
        taken = room.fill(lines, limit - cost)
        if taken:
            written.append(heading + "".join(f"{line}\n" for line in taken))
            limit -= before - room.left
        else:
            room.left = before
    return written


def _goal_lines(title: str, steps: Iterable[object]) -> Iterator[str]:
    yield f"- {_line(title)}"
    for step in steps:
        yield f"  - {_line(getattr(step, 'title', ''))} ({getattr(step, 'status', '')})"


@dataclass(frozen=True, slots=True)
class _Earlier:
    text: tuple[str, ...]
    count: int


async def _earlier(session: Session, room: _Room, *, first: int) -> _Earlier:
    """Return the turns before `first` with a line each, the newest that fit."""
    heading = "\n## Earlier turns, in a line each\n\n"
    room.left -= room.tokens(heading) + room.tokens("- (T-1 to T-9999: not listed)\n")
    found = await session.engine.store.derived.tinies(session.engine.stored_id, 1, first - 1) if first > 1 else []
    lines = [f"- {turn_id(turn)}: {_line(text)}" for turn, text, _ in reversed(found)]
    taken = room.fill(lines, room.left)[::-1]
    if not lines:
        return _Earlier((), 0)
    rest = first - 1 - len(taken)
    note = [f"- ({turn_id(1)} to {turn_id(rest)}: not listed)"] if rest > 0 and len(found) == first - 1 else []
    return _Earlier((heading, *(f"{line}\n" for line in [*note, *taken])), len(taken))


def _found(find: Find) -> str:
    return f"{turn_id(find.turn)}: {_line(find.text)}"


def _line(text: str) -> str:
    """Return a text as part of one line, so that it can't begin a section."""
    return " ".join(text.split())


def _written(number: int, messages: Sequence[Message]) -> str:
    """Write a turn for a first prompt; a fence keeps its text apart from what is around it."""
    return f"\n### {turn_id(number)}\n\n{fenced(turn_text(tuple(messages)).strip())}\n"


def _prompt(
    session: Session, to: HandoffTarget, brief: str, newest: Sequence[tuple[int, Sequence[Message]]]
) -> Handoff:
    text = brief + "\n## Newest turns, verbatim\n" + "".join(_written(number, own) for number, own in newest)
    command = 'opencode run "$(cat {path})"' if to == "opencode" else ""
    return _made(session, to, "markdown", text, path=f"{_name(session.id)}-handoff.md", command=command)


def _transcript(session: Session, to: HandoffTarget, brief: str, messages: list[Message], folder: str) -> Handoff:
    """Write a transcript as the client itself would; the notes are what a program said, not the user."""
    name = FORMATS[to]
    at = messages[0].at
    first = Message("user", (Text(brief),), kind="injection", at=at)
    lines = [json.loads(line) for line in formats.load_transcript(name).write([first, *messages])]
    key = json.dumps([session.id, folder, lines], ensure_ascii=False)
    client = str(uuid.uuid5(uuid.NAMESPACE_OID, key))
    moment = time_text(at) if at else "1970-01-01T00:00:00.000Z"
    if to == "claude":
        records = [{**line, "sessionId": client, "cwd": folder, "version": "foveate"} for line in lines]
        path = f".claude/projects/{re.sub('[^A-Za-z0-9]', '-', folder)}/{client}.jsonl"
        command = f"claude --resume {client}"
    else:
        meta: dict[str, Json] = {**lines[0]["payload"], "id": client, "cwd": folder, "source": "cli"}
        records = [{**lines[0], "payload": meta}, *lines[1:]]
        day, clock = moment[:10], moment[11:19].replace(":", "-")
        path = f".codex/sessions/{day.replace('-', '/')}/rollout-{day}T{clock}-{client}.jsonl"
        command = f"codex resume {client}"
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    made = _made(session, to, name, text, path=path, command=f"cd {shlex.quote(folder)} && {command}")
    return replace(made, client_session=client)


def _made(session: Session, to: HandoffTarget, name: str, text: str, *, path: str, command: str) -> Handoff:
    return Handoff(
        session_id=session.id,
        to=to,
        format=name,
        text=text,
        tokens=0,
        budget_tokens=0,
        verbatim_turns=(),
        listed_turns=0,
        client_session="",
        path=str(PurePosixPath(path)),
        command=command,
    )


def _name(session_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", session_id).lstrip(".-")[:80] or "session"
