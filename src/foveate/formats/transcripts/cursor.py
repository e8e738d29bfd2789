"""Cursor's database `~/.config/Cursor/User/globalStorage/state.vscdb`, or exported `{"composerId": …, "bubbles": […]}`.

A conversation ("composer") lists its messages ("bubbles"), which are rows of their own. A bubble of the assistant has
text, thinking, or one tool with its arguments and result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from foveate.formats import SQLITE, TranscriptItem
from foveate.formats.conversations import ConversationFormat, Labels, decoded_object, read_rows
from foveate.formats.exchanges import result_text
from foveate.formats.parse import (
    Record,
    count_at,
    listed_at,
    moment_at,
    number_at,
    parse_arguments,
    text_at,
    time_at,
    time_text,
    value_at,
)
from foveate.turn import Json, Message, Part, Reasoning, Text, ToolCall, ToolResult, Usage

NAME = "cursor"
USER, ASSISTANT = 1, 2
_COMPOSERS = "SELECT key, value FROM cursorDiskKV WHERE key GLOB 'composerData:*' ORDER BY key"
_BUBBLES = "SELECT key, value FROM cursorDiskKV WHERE key GLOB ?"
_ENDED = ("completed", "error", "cancelled", "rejected")
_HEAVY = ("richText", "context", "codeBlockData", "originalFileStates", "conversationMap", "conversationState")


def detect(head: bytes, name: str) -> bool:
    if head.startswith(SQLITE):
        return name.endswith(".vscdb") or b"cursorDiskKV" in head
    return head.lstrip().startswith(b"{") and b'"composerId"' in head and b'"bubbles"' in head


def read_file(path: Path) -> Iterator[TranscriptItem]:
    """Read the database, which Cursor may have open. One conversation is in memory at a time."""
    for key, value in read_rows(path, _COMPOSERS):
        composer = decoded_object(value)
        id_ = text_at(composer, "composerId") or str(key).partition(":")[2]
        if headers := listed_at(composer, "fullConversationHeadersOnly"):
            stored = {
                str(name).rpartition(":")[2]: decoded_object(bubble)
                for name, bubble in read_rows(path, _BUBBLES, (f"bubbleId:{id_}:*",))
            }
            ids = [text_at(header, "bubbleId") or "" for header in headers]
            bubbles: list[Json] = [stored[bubble] for bubble in ids if bubble in stored]
        else:
            bubbles = listed_at(composer, "conversation")
        if bubbles:
            left_out = ("fullConversationHeadersOnly", "conversation", *_HEAVY)
            rest = {name: field for name, field in composer.items() if name not in left_out}
            yield from _FORMAT.read_one({**rest, "composerId": id_, "bubbles": bubbles}, f"conversation {id_}")


class _Cursor(ConversationFormat):
    name = NAME
    items_key = "bubbles"

    def labels(self, conversation: Record) -> Labels:
        model = text_at(conversation, "modelConfig", "modelName")
        return Labels(text_at(conversation, "composerId"), text_at(conversation, "name"), model)

    def item_id(self, item: Record) -> str | None:
        return text_at(item, "bubbleId")

    def is_finished(self, item: Record) -> bool:
        tool = item.get("toolFormerData")
        if isinstance(tool, Mapping):
            return value_at(tool, "status") in _ENDED
        return item.get("type") == USER or bool(text_at(item, "text") or text_at(item, "thinking", "text"))

    def split(self, item: Record) -> Iterable[Record]:
        tool = item.get("toolFormerData")
        slim = {key: value for key, value in item.items() if key not in _HEAVY}
        if not isinstance(tool, Mapping) or value_at(tool, "status") not in _ENDED:
            return [slim]
        call = {key: tool[key] for key in ("name", "toolCallId", "rawArgs", "params") if key in tool}
        return [{**slim, "toolFormerData": call}, {"result": tool, "createdAt": item.get("createdAt")}]

    def join(self, pieces: Sequence[Record]) -> Record:
        return {**pieces[0], "toolFormerData": pieces[1]["result"]} if len(pieces) > 1 else pieces[0]

    def message(self, piece: Record, path: str) -> Message:
        at = (
            time_at(piece, "createdAt")
            or moment_at(piece, "createdAt")
            or moment_at(piece, "timingInfo", "clientEndTime")
        )
        if "result" in piece:
            return Message("tool", (_result(piece["result"]),), at=at)
        if piece.get("type") == USER:
            text = text_at(piece, "text")
            return Message("user", (Text(text),) if text else (), kind="message" if text else "display", at=at)
        parts = tuple(_said(piece, path))
        tokens = piece.get("tokenCount")
        usage = None
        if isinstance(tokens, Mapping) and (tokens.get("inputTokens") or tokens.get("outputTokens")):
            usage = Usage(count_at(tokens, "inputTokens"), count_at(tokens, "outputTokens"))
        model = text_at(piece, "modelInfo", "modelName")
        return Message("assistant", parts, kind="message" if parts else "display", at=at, model=model, usage=usage)

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        moment: dict[str, Json] = {"createdAt": time_text(message.at)} if message.at else {}
        kind = ASSISTANT if message.role in ("assistant", "tool") else USER
        thoughts = [part.text for part in message.parts if isinstance(part, Reasoning)]
        made: dict[str, Json] = {"bubbleId": id_, "type": kind, "text": message.text, **moment}
        yield {**made, **({"thinking": {"text": "\n".join(thoughts)}} if thoughts else {})}
        for number, call in enumerate(message.tool_calls):
            tool = {"name": call.name, "toolCallId": call.id, "params": call.arguments}
            yield {"bubbleId": f"{id_}-{number}", "type": ASSISTANT, "text": "", "toolFormerData": tool, **moment}
        for number, result in enumerate(message.tool_results):
            tool = {
                "name": result.name,
                "toolCallId": result.call_id,
                "result": result_text(result),
                "status": "completed",
            }
            yield {"bubbleId": f"{id_}-{number}", "type": ASSISTANT, "text": "", "toolFormerData": tool, **moment}

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"composerId": id_, "name": ""}


def _said(piece: Record, path: str) -> Iterator[Part]:
    if thought := text_at(piece, "thinking", "text"):
        yield Reasoning(thought)
    if text := text_at(piece, "text"):
        yield Text(text)
    tool = piece.get("toolFormerData")
    if isinstance(tool, Mapping) and ("rawArgs" in tool or "params" in tool):
        arguments = tool.get("rawArgs") or tool.get("params") or {}
        given = arguments if isinstance(arguments, str | Mapping) else {"input": arguments}
        yield ToolCall(text_at(tool, "name") or "tool", parse_arguments(given, path), id=text_at(tool, "toolCallId"))


def _result(tool: Json) -> ToolResult:
    result = value_at(tool, "result")
    text = result if isinstance(result, str) else "" if result is None else "".join(str(result))
    if isinstance(result, str):
        decoded = decoded_object(result)
        text = text_at(decoded, "output") or text_at(decoded, "contents") or result
    code = number_at(decoded_object(result) if isinstance(result, str) else result, "exitCode")
    failed = value_at(tool, "status") not in ("completed", None)
    call_id, name = text_at(tool, "toolCallId"), text_at(tool, "name")
    return ToolResult(call_id, (Text(text),), name=name, is_error=failed, exit_code=None if code is None else int(code))


_FORMAT = _Cursor()
read = _FORMAT.read
parse = _FORMAT.parse
write = _FORMAT.write
