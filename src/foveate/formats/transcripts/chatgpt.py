"""ChatGPT's data export (Settings, Data controls): its zip file, or `conversations.json` (`conversations-000.json`, …).

A conversation is a tree: an edited prompt or a regenerated answer begins a new branch. The branch that the user
saw last is the session, under the conversation's id. Every other branch is a separate session,
`<conversation>/branch-<its first node>`, with the nodes that no earlier one has; each node keeps its parent's id.

Each record is a piece of the conversation: one node (`{"mapping": {id: node}}`), or, as the first, everything but the
nodes (`"mapping": {}`), display-only. Writing joins the pieces again. One conversation is in memory at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, TranscriptMessage, TranscriptProblem, parse_message
from foveate.formats.exchanges import result_text, said_in
from foveate.formats.files import (
    ZIP,
    Readable,
    array_elements,
    content_key,
    encode_json,
    made_session,
    read_export,
    short_title,
    zip_start,
)
from foveate.formats.parse import (
    Media,
    listed_at,
    moment_at,
    number_at,
    parse_arguments,
    record,
    role_of,
    text_at,
    value_at,
)
from foveate.turn import ROLES, Attachment, Json, Kind, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "chatgpt"

MEMBERS = re.compile(r"conversations(?:-\d+)?\.json")

_Nodes = Mapping[str, Json]


def detect(head: bytes, name: str) -> bool:
    if head.startswith(ZIP):
        is_export = name.lower().endswith(".zip") or b"conversations" in head
        return is_export and b'"chat_messages"' not in zip_start(head, "conversations.json")
    start = head.lstrip()
    return start.startswith(b"[") and b'"mapping"' in start and (b'"title"' in start or b'"current_node"' in start)


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    missing = "the zip file has no conversations.json; is it ChatGPT's data export?"
    return read_export(stream, name, MEMBERS, _read_list, missing)


def _read_list(stream: Readable, member: str) -> Iterator[TranscriptItem]:
    for item in array_elements(stream, "conversation"):
        place = f"{member}, {item.place}" if member else item.place
        if isinstance(item, TranscriptProblem):
            yield TranscriptProblem(place, item.reason)
            continue
        conversation = item.value
        nodes = value_at(conversation, "mapping")
        if not isinstance(conversation, Mapping) or not isinstance(nodes, Mapping):
            yield TranscriptProblem(place, "is not a conversation: it has no object 'mapping'")
            continue
        yield from _read_conversation(conversation, nodes, place)


def _read_conversation(conversation: Mapping[str, Json], nodes: _Nodes, place: str) -> Iterator[TranscriptItem]:
    rest: dict[str, Json] = {**conversation, "mapping": {}}
    id_ = text_at(rest, "conversation_id") or text_at(rest, "id") or content_key(0, sorted(nodes))
    title = text_at(rest, "title")
    model = text_at(rest, "default_model_slug")
    main, *branches = _branches(nodes, text_at(rest, "current_node"))
    header = SessionHeader(id_, title=short_title(title) if title else None, model=model, platform=NAME)
    yield header
    yield TranscriptMessage(id_, content_key(0, rest), parse_message(NAME, rest), place)
    yield from _read_branch(nodes, main, id_, place)
    for branch in branches:
        session = f"{id_}/branch-{branch[0]}"
        yield SessionHeader(session, title=header.title, model=model, platform=NAME)
        yield from _read_branch(nodes, branch, session, place)


def _read_branch(
    nodes: _Nodes, branch: Sequence[str], session: str, place: str
) -> Iterator[TranscriptMessage | TranscriptProblem]:
    call: str | None = None
    for id_ in branch:
        message = value_at(nodes[id_], "message")
        piece: dict[str, Json] = {"mapping": {id_: nodes[id_]}}
        role = value_at(message, "author", "role")
        if role == "tool":
            call = call or _call_above(nodes, id_)
            if call:
                piece["call"] = call
        elif message is not None:
            call = id_ if role == "assistant" and called_tool(message) else None
        where = f"{place}, message {id_}"
        try:
            yield TranscriptMessage(session, id_, parse_message(NAME, piece), where)
        except InvalidMessage as error:
            yield TranscriptProblem(where, str(error))


def _call_above(nodes: _Nodes, id_: str) -> str | None:
    """Return the call that the first result of a branch answers: it is in the parent branch."""
    above = text_at(nodes[id_], "parent")
    message = value_at(nodes.get(above or ""), "message")
    return above if value_at(message, "author", "role") == "assistant" and called_tool(message) else None


def _branches(nodes: _Nodes, current: str | None) -> list[list[str]]:
    """Return all nodes by branch, each once: first the path to the current node, then each branch to its end.

    A branch continues with a node's first child, which stays first when others are added, so its name is stable.
    """
    children = _children(nodes)
    main: dict[str, None] = {}
    node = current if current in nodes else next(reversed([*nodes]), None)
    while node in nodes and node not in main and node is not None:
        main[node] = None
        node = text_at(nodes[node], "parent")
    branches = [list(reversed(main))]
    seen = set(main)
    roots = [id_ for id_ in nodes if text_at(nodes[id_], "parent") not in nodes]
    # A cycle has no root, so each node is a start in case no other node leads to it.
    pending = [*reversed([*nodes]), *reversed(roots), *_off(children, branches[0])]
    while pending:
        start: str | None = pending.pop()
        branch = []
        while start is not None and start not in seen:
            seen.add(start)
            branch.append(start)
            start = next((child for child in children.get(start, ()) if child not in seen), None)
        if branch:
            branches.append(branch)
            pending += _off(children, branch)
    return branches


def _off(children: Mapping[str, Sequence[str]], branch: Iterable[str]) -> list[str]:
    """Return the nodes that branch off, the last one first."""
    return [child for id_ in branch for child in children.get(id_, ())][::-1]


def _children(nodes: _Nodes) -> dict[str, list[str]]:
    """Return each node's children, by the parent that they name, in the parent's order."""
    children: dict[str, dict[str, None]] = {}
    for id_, node in nodes.items():
        parent = text_at(node, "parent")
        if parent not in nodes or parent is None:
            continue
        if parent not in children:
            known = [child for child in listed_at(nodes[parent], "children") if isinstance(child, str)]
            ours = (child for child in known if child in nodes and text_at(nodes[child], "parent") == parent)
            children[parent] = dict.fromkeys(ours)
        children[parent][id_] = None
    return {parent: list(ids) for parent, ids in children.items()}


def parse(data: Json, path: str) -> Message:
    piece = record(data, path)
    nodes = record(piece.get("mapping"), f"{path}.mapping")
    if not nodes:
        return Message("system", kind="display", at=moment_at(piece, "create_time", per_second=1))
    if len(nodes) > 1:
        raise InvalidMessage(f"{path}.mapping", "has several nodes: a conversation's nodes are kept one by one")
    ((id_, node),) = nodes.items()
    return read_node(record(node, f"{path}.{id_}"), id_=id_, call=text_at(piece, "call"), path=f"{path}.{id_}")


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield a list of one conversation. Nodes are unchanged, except that they include later children."""
    conversation: dict[str, Json] = {"title": "", "mapping": {}, "current_node": None}
    nodes: dict[str, Json] = {}
    made = 0
    is_known = False
    for message in messages:
        last = next(reversed(nodes), None)
        if message.original is not None and message.original.format == NAME:
            piece = record(message.original.data, "piece")
            mapping = record(piece.get("mapping"), "mapping")
            nodes.update(mapping)
            if not mapping:
                conversation, is_known = dict(piece), True
            continue
        for written in write_messages(message):
            made += 1
            id_ = f"message-{made}"
            nodes[id_] = {"id": id_, "message": {"id": id_, **written}, "parent": last, "children": []}
            last = id_
    if not is_known or made:
        conversation["current_node"] = next(reversed(nodes), None)
    if not is_known:
        conversation["conversation_id"] = made_session(messages)
    _add_children(nodes)
    yield encode_json([{**conversation, "mapping": nodes}]) + "\n"


def _add_children(nodes: dict[str, Json]) -> None:
    for id_, node in list(nodes.items()):
        parent = text_at(node, "parent")
        above = nodes.get(parent or "")
        listed = value_at(above, "children")
        if parent and isinstance(above, Mapping) and isinstance(listed, list) and id_ not in listed:
            nodes[parent] = {**above, "children": [*listed, id_]}


_POINTERS: dict[str, Media] = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
}
_CONTEXT_FIELDS = ("user_profile", "user_instructions", "model_set_context")
_TEXT_FIELDS = ("text", "result", "content", "summary")


def read_node(node: Mapping[str, Json], *, id_: str, call: str | None, path: str) -> Message:
    """Parse the message of a node. `call` is the node of the tool call it answers, which the node does not name."""
    if node.get("message") is None:
        return Message("system", kind="display")
    message = record(node["message"], f"{path}.message")
    author = record(message.get("author"), f"{path}.message.author")
    role = role_of(author, f"{path}.message.author", {name: name for name in ROLES})
    content = record(message.get("content"), f"{path}.message.content")
    parts = (*_content_parts(content), *_attached(message, content))
    at, model = moment_at(message, "create_time", per_second=1), text_at(message, "metadata", "model_slug")
    kind: Kind = "message"
    tool = called_tool(message)
    if role == "assistant" and tool:
        parts = _as_call(parts, tool, id_)
    elif role == "tool" and call:
        parts = (_as_result(parts, message, call),)
    elif role == "tool":
        role, kind = "system", "injection"
    elif not parts or content.get("content_type") == "reasoning_recap" or number_at(message, "weight") == 0:
        kind = "display"
    elif _is_context(message, content):
        kind = "injection"
    if not parts:
        kind = "display"
    return Message(role, parts, kind=kind, at=at, name=text_at(author, "name"), model=model)


def called_tool(message: Json) -> str | None:
    """Return the tool that a message is addressed to; None if it is for everyone."""
    recipient = text_at(message, "recipient")
    return None if recipient in (None, "all", "assistant", "user") else recipient


def _is_context(message: Mapping[str, Json], content: Mapping[str, Json]) -> bool:
    """Check whether ChatGPT added it invisibly: memories, custom instructions, notes to the model."""
    if str(content.get("content_type")).endswith("_editable_context"):
        return True
    role = value_at(message, "author", "role")
    return role != "assistant" and value_at(message, "metadata", "is_visually_hidden_from_conversation") is True


def _content_parts(content: Mapping[str, Json]) -> Iterator[Part]:
    match content:
        case {"content_type": "thoughts", "thoughts": list(thoughts)}:
            for thought in thoughts:
                lines = [text_at(thought, "summary"), text_at(thought, "content")]
                yield Reasoning("\n".join(line for line in lines if line))
        case {"parts": list(parts)}:
            yield from (_part(part) for part in parts if part not in ("", None))
        case _:
            fields = _CONTEXT_FIELDS if any(content.get(field) for field in _CONTEXT_FIELDS) else _TEXT_FIELDS
            texts = [text for text in (text_at(content, field) for field in fields) if text]
            if texts:
                yield Text("\n\n".join(texts) if fields is _CONTEXT_FIELDS else texts[0])
            elif any(value not in ("", None, []) for key, value in content.items() if key not in _UNSAID):
                yield Opaque(NAME, content)


_UNSAID = ("content_type", "language", "response_format_name", "repository", "repo_summary", "structured_context")
"""Fields of a content that have no text of their own."""


def _part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(part)
    kind = text_at(part, "content_type") or ""
    pointer = text_at(part, "asset_pointer")
    if kind == "audio_transcription" and (text := text_at(part, "text")):
        return Text(text)
    media = _POINTERS.get(kind)
    if media and pointer:
        return Attachment(media, uri=pointer)
    return Opaque(NAME, part)


def _attached(message: Mapping[str, Json], content: Mapping[str, Json]) -> Iterator[Attachment]:
    """Yield files that are listed with the content; a picture that is also in the content counts once."""
    inline = [text_at(part, "asset_pointer") or "" for part in listed_at(content, "parts")]
    for file in listed_at(message, "metadata", "attachments"):
        id_ = text_at(file, "id")
        if id_ and not any(pointer.endswith(id_) for pointer in inline):
            media_type = text_at(file, "mime_type") or text_at(file, "mimeType")
            media: Media = "image" if (media_type or "").startswith("image/") else "file"
            yield Attachment(media, file_id=id_, name=text_at(file, "name"), media_type=media_type)


def _as_call(parts: tuple[Part, ...], tool: str, id_: str) -> tuple[Part, ...]:
    """Return what the assistant wrote to a tool as the call's arguments."""
    written = "\n".join(part.text for part in parts if isinstance(part, Text))
    others = tuple(part for part in parts if not isinstance(part, Text))
    return (*others, ToolCall(tool, parse_arguments(written, "arguments") if written else {}, id=id_))


def _as_result(parts: tuple[Part, ...], message: Mapping[str, Json], call: str) -> ToolResult:
    status = text_at(message, "metadata", "aggregate_result", "status") or ""
    failed = status.startswith("failed") or value_at(message, "content", "content_type") == "system_error"
    content = tuple(part if isinstance(part, Text | Attachment | Opaque) else Opaque(NAME, None) for part in parts)
    return ToolResult(call, content, name=text_at(message, "author", "name"), is_error=failed)


def write_messages(message: Message) -> Iterator[dict[str, Json]]:
    """Yield a message of another format as ChatGPT's messages without ids: one each for text, a call and a result."""
    if message.kind == "display":
        return
    thoughts = [part.text for part in message.parts if isinstance(part, Reasoning) and part.text]
    if thoughts:
        steps: Json = [{"summary": "", "content": text, "finished": True} for text in thoughts]
        yield _message(message, "assistant", {"content_type": "thoughts", "thoughts": steps})
    words = said_in(message.parts)
    if words:
        yield _message(message, message.role, {"content_type": "text", "parts": words})
    for part in message.parts:
        if isinstance(part, ToolCall):
            arguments = part.arguments if isinstance(part.arguments, str) else encode_json(part.arguments)
            code: dict[str, Json] = {"content_type": "code", "language": "unknown", "text": arguments}
            yield {**_message(message, "assistant", code), "recipient": part.name}
        elif isinstance(part, ToolResult):
            output: dict[str, Json] = {"content_type": "execution_output", "text": result_text(part)}
            author: dict[str, Json] = {"role": "tool", "name": part.name}
            yield {**_message(message, "tool", output), "author": author}


def _message(message: Message, role: str, content: dict[str, Json]) -> dict[str, Json]:
    metadata: dict[str, Json] = {"model_slug": message.model} if message.model else {}
    if message.kind == "injection":
        metadata["is_visually_hidden_from_conversation"] = True
    return {
        "author": {"role": role},
        "create_time": message.at.timestamp() if message.at else None,
        "content": content,
        "weight": 1.0,
        "metadata": metadata,
        "recipient": "all",
    }
