"""Copilot Chat in VS Code: `~/.config/Code/User/workspaceStorage/<workspace>/chatSessions/<id>.json`, or `.jsonl`.

A request holds the prompt and everything the model answered. The rounds of its tools are split into calls and results,
as they were sent to the model. A `.jsonl` file is a log of changes: the whole session, then values that were set, added
to a list, or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, BinaryIO

from foveate.formats import TranscriptItem, TranscriptProblem
from foveate.formats.conversations import ConversationFormat, Labels
from foveate.formats.exchanges import result_text
from foveate.formats.files import decode_json, first_json_line, json_lines, read_whole
from foveate.formats.parse import Record, listed_at, moment_at, parse_arguments, text_at, value_at
from foveate.turn import Json, Kind, Message, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "copilot-chat"
WHOLE, SET, ADD, REMOVE = range(4)
_ROUNDS = "toolCallRounds"
_RESULTS = "toolCallResults"


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    first = first_json_line(head)
    if isinstance(first, Mapping) and first.get("kind") == WHOLE and "v" in first:
        return True
    is_session = b'"requests"' in head and (b'"requesterUsername"' in head or b'"responderUsername"' in head)
    return head.lstrip().startswith(b"{") and (is_session or b'{"kind":0,"v":{' in head[:100])


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    try:
        raw = read_whole(stream)
    except ValueError as error:
        yield TranscriptProblem(name, str(error))
        return
    try:
        session = decode_json(raw)
    except ValueError:
        session = None
    if not isinstance(session, Mapping) or session.get("kind") == WHOLE:
        log: list[Json] = []
        for line in json_lines(BytesIO(raw)):
            if isinstance(line, TranscriptProblem):
                yield line
            else:
                log.append(line[1])
        session = _replayed(log)
    if isinstance(session, Mapping):
        id_ = {} if text_at(session, "sessionId") else {"sessionId": name.partition(".")[0]}
        yield from _FORMAT.read_one({**session, **id_}, name)


def _replayed(log: Sequence[Json]) -> Json:
    """Return the session that results from a log of changes."""
    session: Any = {}
    for entry in log:
        if not isinstance(entry, Mapping):
            continue
        path, value = entry.get("k"), entry.get("v")
        if entry.get("kind") == WHOLE:
            session = value
        elif isinstance(path, list) and path:
            holder = _holder(session, path)
            if holder is not None:
                _change(holder, path[-1], entry, value)
    changed: Json = session
    return changed


def _holder(session: Any, path: Sequence[Any]) -> Any:
    for key in path[:-1]:
        try:
            session = session[key]
        except (LookupError, TypeError):
            return None
    return session if isinstance(session, dict | list) else None


def _change(holder: Any, key: Any, entry: Record, value: Json) -> None:
    is_place = isinstance(holder, list) and isinstance(key, int) and 0 <= key < len(holder)
    if not is_place and not (isinstance(holder, dict) and isinstance(key, str)):
        return
    if entry.get("kind") == SET:
        holder[key] = value
    elif entry.get("kind") == REMOVE:
        if is_place or key in holder:
            del holder[key]
    elif entry.get("kind") == ADD:
        if isinstance(holder, dict):
            holder.setdefault(key, [])
        if isinstance(holder[key], list):
            start = entry.get("i")
            if isinstance(start, int):
                del holder[key][start:]
            holder[key].extend(value if isinstance(value, list) else [])


class _CopilotChat(ConversationFormat):
    name = NAME
    items_key = "requests"

    def labels(self, conversation: Record) -> Labels:
        requests = listed_at(conversation, "requests")
        model = next((found for one in requests if (found := text_at(one, "modelId"))), None)
        prompt = next((found for one in requests if (found := text_at(one, "message", "text"))), None)
        title = text_at(conversation, "customTitle") or prompt
        return Labels(text_at(conversation, "sessionId"), title, model and model.rpartition("/")[2])

    def item_id(self, item: Record) -> str | None:
        return text_at(item, "requestId")

    def is_finished(self, item: Record) -> bool:
        return bool(item.get("result") or item.get("isCanceled"))

    def split(self, item: Record) -> Iterable[Record]:
        rounds = listed_at(item, "result", "metadata", _ROUNDS)
        answers = value_at(item, "result", "metadata", _RESULTS)
        known: dict[str, Json] = {key: value for key, value in item.items() if key not in ("response", "result")}
        yield known
        moment = {"timestamp": item.get("timestamp"), "modelId": item.get("modelId")}
        for one in rounds:
            yield {"round": one, **moment}
            ids = [text_at(call, "id") or "" for call in listed_at(one, "toolCalls")]
            found = {id_: answers[id_] for id_ in ids if isinstance(answers, Mapping) and id_ in answers}
            if found:
                yield {"answers": found, **moment}
        rest = item.get("result")
        known_metadata = value_at(rest, "metadata")
        if isinstance(rest, Mapping) and isinstance(known_metadata, Mapping):
            metadata = {key: one for key, one in known_metadata.items() if key not in (_ROUNDS, _RESULTS)}
            rest = {**rest, "metadata": metadata}
        final: dict[str, Json] = {"response": item.get("response"), "result": rest}
        yield {**final, **moment, "has_rounds": bool(rounds)}

    def join(self, pieces: Sequence[Record]) -> Record:
        """Join the request; values that were added to its pieces are removed again."""
        request = dict(pieces[0])
        rounds = [piece["round"] for piece in pieces if "round" in piece]
        answers = [piece["answers"] for piece in pieces if "answers" in piece]
        final: Record = next((piece for piece in pieces if "response" in piece), {})
        result = final.get("result")
        if final.get("response") is not None:
            request["response"] = final["response"]
        if isinstance(result, Mapping):
            metadata = result.get("metadata")
            if rounds and isinstance(metadata, Mapping):
                joined = {key: value for found in answers if isinstance(found, Mapping) for key, value in found.items()}
                more: dict[str, Json] = {_ROUNDS: rounds, **({_RESULTS: joined} if answers else {})}
                result = {**result, "metadata": {**metadata, **more}}
            request["result"] = result
        return request

    def message(self, piece: Record, path: str) -> Message:
        at = moment_at(piece, "timestamp")
        model = text_at(piece, "modelId")
        if "round" in piece:
            parts = tuple(_round_parts(piece["round"], path))
            kind: Kind = "message" if parts else "display"
            return Message("assistant", parts, kind=kind, at=at, model=model and model.rpartition("/")[2])
        if isinstance(answers := piece.get("answers"), Mapping):
            return Message("tool", tuple(_result(id_, one) for id_, one in answers.items()), at=at)
        if "response" in piece:
            text = "" if piece.get("has_rounds") else _shown(piece.get("response"))
            return Message("assistant", (Text(text),) if text else (), kind="message" if text else "display", at=at)
        text = text_at(piece, "message", "text") or ""
        return Message("user", (Text(text),) if text else (), kind="message" if text else "display", at=at)

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        made: dict[str, Json] = {
            "requestId": id_,
            "timestamp": int(message.at.timestamp() * 1000) if message.at else None,
        }
        if message.role == "user" and not message.tool_results:
            yield {**made, "message": {"text": message.text, "parts": []}, "response": [], "result": {}}
            return
        calls: list[Json] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
        one: dict[str, Json] = {"response": message.text, "toolCalls": calls}
        results = {part.call_id or "": {"content": [{"value": result_text(part)}]} for part in message.tool_results}
        metadata: dict[str, Json] = {_ROUNDS: [one]}
        if results:
            empty: list[Json] = [{"id": id_, "name": "", "arguments": "{}"} for id_ in results]
            metadata = {_ROUNDS: [{"response": "", "toolCalls": empty}], _RESULTS: results}
        yield {**made, "message": {"text": "", "parts": []}, "response": [], "result": {"metadata": metadata}}

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"version": 3, "requesterUsername": "", "responderUsername": "GitHub Copilot", "sessionId": id_}


def _round_parts(one: Json, path: str) -> Iterator[Part]:
    """Yield the parts of a round: the model's thinking, text and calls."""
    if thought := text_at(one, "thinking", "text"):
        yield Reasoning(thought)
    if text := text_at(one, "response"):
        yield Text(text)
    for call in listed_at(one, "toolCalls"):
        arguments = parse_arguments(value_at(call, "arguments"), path)
        if name := text_at(call, "name"):
            yield ToolCall(name, arguments, id=text_at(call, "id"))


def _result(id_: str, answer: Json) -> ToolResult:
    texts = [text for one in listed_at(answer, "content") for text in _texts(value_at(one, "value"))]
    return ToolResult(id_, (Text("\n".join(texts)),) if texts else ())


def _texts(value: Json) -> Iterator[str]:
    """Yield the text of a result: plain, or in the nodes that the program would render."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        if text := text_at(value, "text"):
            yield text
        for key in ("node", "children"):
            inner = value.get(key)
            for one in inner if isinstance(inner, list) else [inner]:
                yield from _texts(one)


def _shown(response: Json) -> str:
    """Return the text of an answer as people saw it."""
    texts = []
    for part in listed_at(response):
        value = value_at(part, "value")
        if value_at(part, "kind") in (None, "markdownContent"):
            texts.append(value if isinstance(value, str) else text_at(part, "content", "value") or "")
    return "".join(texts)


_FORMAT = _CopilotChat()
parse = _FORMAT.parse
write = _FORMAT.write
