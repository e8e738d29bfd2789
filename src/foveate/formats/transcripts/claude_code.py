"""Claude Code's session files: `~/.claude/projects/<folder>/<session>.jsonl`, one record per line.

`user` and `assistant` records hold Anthropic messages (one response of the model takes several lines). Everything else,
from snapshots of files to titles, is display-only. The work of a subagent is a separate session.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, Final

from foveate.additions import as_typed, is_claude_code_message
from foveate.cache import BoundedCache
from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, TranscriptProblem, load, render_messages
from foveate.formats.exchanges import with_call_ids
from foveate.formats.files import (
    PlacedRecord,
    Sessions,
    TitleRank,
    decode_json,
    encode_json,
    json_lines,
    made_session,
    read_each,
    session_in_name,
)
from foveate.formats.parse import ANTHROPIC_USAGE, every_text, number_at, text_at, time_at, time_text, value_at
from foveate.formats.parse import record as as_record
from foveate.turn import Json, Kind, Message, Opaque, Original, Part, Text, ToolResult, Usage

NAME: Final = "claude-code"
MAX_LEADING_LINES = 256
"""Lines before the first one that names its session, buffered until it is known."""
MAX_SIDECHAIN_IDS = 10_000
"""Ids of the latest records of unnamed subagents, to assign the next record to its subagent."""

_SYNTHETIC_MODEL = "<synthetic>"
_SHOWN_TEXT = {
    "agent-name": "agentName",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
    "last-prompt": "lastPrompt",
    "queue-operation": "content",
    "summary": "summary",
    "system": "content",
}
_TITLES = {"ai-title": TitleRank.GENERATED, "custom-title": TitleRank.CHOSEN, "summary": TitleRank.SUMMARY}
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d{1,9})\b")


def detect(head: bytes, name: str) -> bool:
    """Check whether any line of the beginning is a session record; a line that is too long is judged by its words."""
    lines = head.splitlines()
    for raw in lines:
        try:
            record = decode_json(raw)
        except ValueError:
            continue
        if _is_record(record):
            return True
    return len(lines) == 1 and name.endswith(".jsonl") and b'"parentUuid"' in head and b'"sessionId"' in head


def _is_record(record: Json) -> bool:
    if not isinstance(record, Mapping) or not isinstance(record.get("type"), str) or "payload" in record:
        return False
    in_session = isinstance(record.get("sessionId"), str)
    by_name = ("summary" in record and "leafUuid" in record) or ("snapshot" in record and "messageId" in record)
    return in_session or by_name or ("uuid" in record and "parentUuid" in record)


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    sessions = Sessions(NAME)
    threads = _Threads()
    main: str | None = None
    leading: list[PlacedRecord] = []
    """A line without a session belongs to the one before it; the first ones wait for the next."""

    def read_line(line: PlacedRecord) -> Iterator[TranscriptItem]:
        session = threads.session(line.value, main or session_in_name(name))
        record = as_record(line.value, "record")
        message = replace(parse(record, "record"), original=Original(NAME, record))
        yield from _news(sessions, session, record, message)
        yield sessions.found(session, record, message, place=line.place, id_=text_at(record, "uuid"))

    for line in json_lines(stream):
        if isinstance(line, TranscriptProblem):
            yield line
            continue
        leading.append(line)
        main = text_at(line.value, "sessionId") or main
        if main is None and len(leading) >= MAX_LEADING_LINES:
            main = session_in_name(name)
        if main is not None:
            yield from read_each(leading, read_line)
            leading.clear()
    yield from read_each(leading, read_line)


class _Threads:
    """Assigns records to sessions: the main one, or that of the subagent whose chain of ids a record continues."""

    def __init__(self) -> None:
        self._roots: BoundedCache[str, str] = BoundedCache(MAX_SIDECHAIN_IDS)

    def session(self, record: Json, main: str) -> str:
        agent = text_at(record, "agentId")
        if agent:
            return f"{main}/{agent}"
        if value_at(record, "isSidechain") is not True:
            return main
        own, parent = text_at(record, "uuid"), text_at(record, "parentUuid")
        root = self._roots.get(parent or "") or own or "unknown"
        if own:
            self._roots[own] = root
        return f"{main}/sidechain-{root}"


def _news(sessions: Sessions, session: str, record: Mapping[str, Json], message: Message) -> Iterator[SessionHeader]:
    """Yield what a record adds to its session's metadata."""
    kind = str(record.get("type"))
    title, rank = None, TitleRank.NONE
    if kind in _TITLES:
        title, rank = text_at(record, _SHOWN_TEXT[kind]), _TITLES[kind]
    elif message.opens_turn:
        title, rank = as_typed(message.text), TitleRank.PROMPT
    moved = text_at(record, "relocatedCwd")
    channel = moved or sessions.channel(session) or text_at(record, "cwd")
    yield from sessions.learn(session, title=title, rank=rank, model=message.model, channel=channel)


def parse(data: Json, path: str) -> Message:
    record = as_record(data, path)
    kind = record.get("type")
    at = time_at(record, "timestamp")
    if kind in ("user", "assistant"):
        return _parse_spoken(record, str(kind), path)
    if kind == "attachment" and value_at(record, "attachment", "type") == "queued_command":
        return replace(_parse_queued(record, path), at=at)
    if kind == "system" and record.get("subtype") == "local_command":
        return Message("user", (_shown(record),), kind="injection", at=at)
    return Message("system", (_shown(record),), kind="display", at=at or time_at(record, "snapshot", "timestamp"))


def _shown(record: Mapping[str, Json]) -> Text | Opaque:
    text = text_at(record, _SHOWN_TEXT.get(str(record.get("type")), ""))
    return Text(text) if text else Opaque(NAME, record)


def _parse_spoken(record: Mapping[str, Json], kind: str, path: str) -> Message:
    """Parse a `user` or `assistant` record."""
    spoken = as_record(record.get("message"), f"{path}.message")
    role = spoken.get("role", kind)
    if role != kind:
        raise InvalidMessage(f"{path}.message.role", f"is {role!r} in a record of type {kind!r}")
    message = load("anthropic").parse({**spoken, "role": kind}, f"{path}.message")
    model = text_at(spoken, "model")
    return replace(
        message,
        parts=_measured(message.parts, record.get("toolUseResult")),
        kind=_kind_of_user(record, message) if kind == "user" else _kind_of_assistant(record, model),
        at=time_at(record, "timestamp"),
        model=None if model == _SYNTHETIC_MODEL else model,
        usage=ANTHROPIC_USAGE.read(spoken.get("usage")) if kind == "assistant" else None,
    )


def _kind_of_user(record: Mapping[str, Json], message: Message) -> Kind:
    if message.tool_results:
        return "message"
    if record.get("isCompactSummary") is True or record.get("isMeta") is True:
        return "injection"
    if record.get("isVisibleInTranscriptOnly") is True:
        return "display"
    return "injection" if _is_injected(message, value_at(record, "origin", "kind")) else "message"


def _kind_of_assistant(record: Mapping[str, Json], model: str | None) -> Kind:
    """Return the kind: the program also writes assistant messages, as errors for people or as filler for the model."""
    if record.get("isApiErrorMessage") is True:
        return "display"
    return "injection" if model == _SYNTHETIC_MODEL or record.get("isMeta") is True else "message"


def _is_injected(message: Message, origin: Json) -> bool:
    if isinstance(origin, str) and origin != "human":
        return True
    texts = every_text(message)
    return bool(texts) and all(map(is_claude_code_message, texts))


def _parse_queued(record: Mapping[str, Json], path: str) -> Message:
    """Parse what was typed (or reported by a task) while the model was working, and sent to it between two steps."""
    queued = as_record(record.get("attachment"), f"{path}.attachment")
    prompt = {"role": "user", "content": queued.get("prompt")}
    message = load("anthropic").parse(prompt, f"{path}.attachment.prompt")
    by_program = queued.get("commandMode", "prompt") != "prompt" or record.get("isMeta") is True
    injected = by_program or _is_injected(message, value_at(queued, "origin", "kind"))
    return replace(message, kind="injection" if injected else "message")


def _measured(parts: tuple[Part, ...], outcome: Json) -> tuple[Part, ...]:
    """Return the parts; a lone tool result gets the exit code and duration that the program recorded."""
    if sum(isinstance(part, ToolResult) for part in parts) != 1:
        return parts
    duration = number_at(outcome, "durationSeconds")
    for field in ("durationMs", "totalDurationMs"):
        milliseconds = number_at(outcome, field)
        duration = milliseconds / 1000 if duration is None and milliseconds is not None else duration
    code = number_at(outcome, "exitCode")
    return tuple(
        replace(part, exit_code=_exit_code(part) if code is None else int(code), duration_seconds=duration)
        if isinstance(part, ToolResult)
        else part
        for part in parts
    )


def _exit_code(result: ToolResult) -> int | None:
    first = result.content[0] if result.content else None
    match = _EXIT_CODE.match(first.text) if result.is_error and isinstance(first, Text) else None
    return int(match[1]) if match else None


def write(messages: Sequence[Message]) -> Iterator[str]:
    natives = [message.original.data for message in messages if message.original and message.original.format == NAME]
    home = next((record for record in natives if text_at(record, "sessionId")), None)
    session = text_at(home, "sessionId") or made_session(messages)
    place: dict[str, Json] = {"isSidechain": value_at(home, "isSidechain") is True, "sessionId": session}
    if agent := text_at(home, "agentId"):
        place["agentId"] = agent
    parent: str | None = None
    for index, message in enumerate(with_call_ids(messages)):
        if message.original and message.original.format == NAME:
            records = [message.original.data]
        else:
            records = list(_made_records(message, place, index=index, parent=parent))
        for record in records:
            parent = text_at(record, "uuid") or parent
            yield encode_json(record) + "\n"


def _made_records(
    message: Message, place: Mapping[str, Json], *, index: int, parent: str | None
) -> Iterator[dict[str, Json]]:
    """Yield records of a message of another format, as Claude Code would write them."""
    for step, content in enumerate(_made_contents(message)):
        own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{place['sessionId']}/{index}/{step}"))
        moment = {"timestamp": time_text(message.at)} if message.at else {}
        yield {"parentUuid": parent, "userType": "external", **place, **content, "uuid": own, **moment}
        parent = own


def _made_contents(message: Message) -> Iterator[dict[str, Json]]:
    if message.kind == "display":
        yield {"type": "system", "subtype": "informational", "content": message.text, "level": "info"}
        return
    meta: dict[str, Json] = {"isMeta": True} if message.kind == "injection" else {}
    if message.role in ("system", "developer"):
        yield {"type": "user", "message": {"role": "user", "content": message.text}, "isMeta": True}
        return
    for rendered in render_messages("anthropic", [message]):
        spoken = as_record(rendered, "message")
        if spoken.get("role") == "assistant":
            yield {"type": "assistant", "message": _made_response(message, spoken), **meta}
        else:
            yield {"type": "user", "message": spoken, **meta, **_outcome(message)}


def _made_response(message: Message, spoken: Mapping[str, Json]) -> dict[str, Json]:
    content = spoken.get("content")
    response: dict[str, Json] = {"type": "message", **spoken}
    # Claude Code itself reads an assistant's content as blocks only.
    response["content"] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message.model:
        response["model"] = message.model
    if message.usage:
        response["usage"] = _made_usage(message.usage)
    return response


def _made_usage(usage: Usage) -> dict[str, Json]:
    return {
        "input_tokens": max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _outcome(message: Message) -> dict[str, Json]:
    """Return the fields that `_measured` reads; they describe one result only."""
    if len(message.tool_results) != 1:
        return {}
    result = message.tool_results[0]
    noted: dict[str, Json] = {}
    if result.exit_code is not None:
        noted["exitCode"] = result.exit_code
    if result.duration_seconds is not None:
        noted["durationSeconds"] = result.duration_seconds
    return {"toolUseResult": noted} if noted else {}
