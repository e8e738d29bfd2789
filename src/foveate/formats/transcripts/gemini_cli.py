"""Gemini CLI's session files: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`; `.json` in earlier versions.

A file is a log: the session, its messages, the same message again when its tools have run, and `$set` with changed
fields. When a session is resumed its messages are written again in another form; the first form is kept. Results of
tools are in the message that called them; the following message, which repeats them, is display-only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import BinaryIO

from foveate.additions import is_gemini_message
from foveate.formats import TranscriptItem, TranscriptProblem, load
from foveate.formats.conversations import ConversationFormat, Labels
from foveate.formats.exchanges import result_text
from foveate.formats.files import decode_json, encode_json, first_json_line, json_lines, read_whole
from foveate.formats.parse import Record, UsageKeys, listed_at, records_at, text_at, time_at, time_text, value_at
from foveate.turn import Json, Kind, Message, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "gemini-cli"
_FOLDER = re.compile(r"Workspace Directories:\*\*\s*\n\s*- (.+)")
_RESPONSE = "_response"
_USAGE = UsageKeys("input", "output", "cached", reasoning="thoughts", is_reasoning_apart=True)


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    first = first_json_line(head)
    if isinstance(first, Mapping):
        return "sessionId" in first and "projectHash" in first
    return head.lstrip().startswith(b"{") and b'"projectHash"' in head and b'"sessionId"' in head


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    try:
        raw = read_whole(stream)
    except ValueError as error:
        yield TranscriptProblem(name, str(error))
        return
    try:
        whole = decode_json(raw)
    except ValueError:
        whole = None
    if isinstance(whole, Mapping) and "messages" in whole:
        yield from _FORMAT.read_one(_marked(whole), name)
        return
    log = _Log()
    for line in json_lines(BytesIO(raw)):
        if isinstance(line, TranscriptProblem):
            yield line
        else:
            log.add(line[1])
    yield from _FORMAT.read_one(log.conversation(), name)


class _Log:
    """The session that a log describes."""

    def __init__(self) -> None:
        self._session: dict[str, Json] = {}
        self._messages: dict[str, Record] = {}

    def add(self, line: Json) -> None:
        if not isinstance(line, Mapping):
            return
        changes = line.get("$set")
        if isinstance(changes, Mapping):
            for message in listed_at(changes, "messages"):
                self._add_known(message)
            self._session |= {key: value for key, value in changes.items() if key != "messages"}
        elif "projectHash" in line:
            self._session = {**line, **self._session}
        elif id_ := text_at(line, "id"):
            self._messages[id_] = line

    def _add_known(self, message: Json) -> None:
        """Add a message of the list that a resumed session begins with."""
        id_ = text_at(message, "id")
        if not id_ or not isinstance(message, Mapping) or id_ in self._messages:
            return
        answered = self._messages.get(id_.removesuffix(_RESPONSE))
        if not (id_.endswith(_RESPONSE) and answered and answered.get("toolCalls")):
            self._messages[id_] = message

    def conversation(self) -> dict[str, Json]:
        return _marked({**self._session, "messages": [*self._messages.values()]})


def _marked(session: Record) -> dict[str, Json]:
    """Return the session, with a marker on messages that repeat results."""
    listed = records_at(session, "messages")
    called = {text_at(call, "id") for one in listed for call in records_at(one, "toolCalls") if "result" in call}
    marked = [{**one, "repeats": True} if called & _responses(one) else one for one in listed]
    return {**session, "messages": marked}


def _responses(message: Record) -> set[str | None]:
    return {text_at(part, "functionResponse", "id") for part in listed_at(message, "content")} - {None}


class _GeminiCli(ConversationFormat):
    name = NAME
    items_key = "messages"

    def labels(self, conversation: Record) -> Labels:
        messages = records_at(conversation, "messages")
        texts = [_text(one.get("content")) for one in messages if one.get("type") == "user"]
        prompt = next((text for text in texts if text and not is_gemini_message(text)), None)
        folder = next((found[1].strip() for text in texts if (found := _FOLDER.search(text))), None)
        model = next((text_at(one, "model") for one in messages if text_at(one, "model")), None)
        return Labels(text_at(conversation, "sessionId"), text_at(conversation, "summary") or prompt, model, folder)

    def is_finished(self, item: Record) -> bool:
        return item.get("type") != "gemini" or bool(item.get("content") or records_at(item, "toolCalls"))

    def split(self, item: Record) -> Iterable[Record]:
        calls = records_at(item, "toolCalls")
        if not any("result" in call for call in calls):
            return [item]
        slim: list[Json] = [{key: call[key] for key in ("id", "name", "args") if key in call} for call in calls]
        return [{**item, "toolCalls": slim}, {"results": list(calls), "timestamp": item.get("timestamp")}]

    def join(self, pieces: Sequence[Record]) -> Record:
        item = {key: value for key, value in pieces[0].items() if key != "repeats"}
        return {**item, "toolCalls": pieces[1]["results"]} if len(pieces) > 1 else item

    def message(self, piece: Record, path: str) -> Message:
        at = time_at(piece, "timestamp")
        results = piece.get("results")
        if isinstance(results, list):
            return Message("tool", tuple(_result(call) for call in results), at=at)
        kind, content = piece.get("type"), piece.get("content")
        if kind == "gemini":
            return Message(
                "assistant",
                tuple(_said(piece, path)),
                at=at,
                model=text_at(piece, "model"),
                usage=_USAGE.read(piece.get("tokens")),
            )
        if kind != "user":
            return Message("system", (Text(_text(content)),), kind="display", at=at)
        parts = _parts(content, "user", path)
        if any(isinstance(part, ToolResult) for part in parts):
            return Message("tool", parts, kind="display" if piece.get("repeats") else "message", at=at)
        spoken: Kind = "injection" if is_gemini_message(_text(content)) else "message"
        return Message("user", parts, kind=spoken, at=at)

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        made: dict[str, Json] = {"id": id_, "timestamp": time_text(message.at) if message.at else None}
        if message.tool_results:
            made |= {"type": "user", "content": [_made_result(part) for part in message.tool_results]}
        elif message.role == "assistant":
            thoughts: list[Json] = [
                {"subject": "", "description": part.text} for part in message.parts if isinstance(part, Reasoning)
            ]
            calls: list[Json] = [
                {"id": call.id, "name": call.name, "args": call.arguments} for call in message.tool_calls
            ]
            made |= {"type": "gemini", "content": message.text, "thoughts": thoughts, "model": message.model}
            made |= {"toolCalls": calls} if calls else {}
        else:
            made |= {"type": "user", "content": [{"text": message.text}]}
        yield made

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"sessionId": id_, "projectHash": "", "kind": "main"}

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        conversation = self.conversation(messages)
        items = listed_at(conversation, "messages")
        del conversation["messages"]
        yield from (encode_json(line) + "\n" for line in (conversation, *items))


def _said(piece: Record, path: str) -> Iterator[Part]:
    for thought in listed_at(piece, "thoughts"):
        lines = [text_at(thought, "subject"), text_at(thought, "description")]
        yield Reasoning("\n".join(line for line in lines if line))
    yield from _parts(piece.get("content"), "model", path)
    for call in records_at(piece, "toolCalls"):
        yield ToolCall(text_at(call, "name") or "", call.get("args") or {}, id=text_at(call, "id"))


def _parts(content: Json, role: str, path: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return load("gemini").parse({"role": role, "parts": content or []}, path).parts


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text for part in listed_at(content) if (text := text_at(part, "text")))


def _result(call: Json) -> ToolResult:
    name, id_ = text_at(call, "name"), text_at(call, "id")
    answers = [value_at(one, "functionResponse", "response") for one in listed_at(call, "result")]
    texts = [text_at(one, "output") or text_at(one, "error") or json.dumps(one) for one in answers if one is not None]
    failed = value_at(call, "status") == "error"
    return ToolResult(id_, (Text("\n".join(texts)),) if texts else (), name=name, is_error=failed)


def _made_result(part: ToolResult) -> Json:
    response = {"id": part.call_id, "name": part.name, "response": {"output": result_text(part)}}
    return {"functionResponse": response}


_FORMAT = _GeminiCli()
parse = _FORMAT.parse
write = _FORMAT.write
