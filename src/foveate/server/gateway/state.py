"""State that the provider would keep or compact itself: in an assembled request the gateway's log replaces it.

A provider ignores what precedes its own compaction, so a block of it would remove the history that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from foveate.session.keys import RouteName

Record = dict[str, Any]

FIELDS: Final = ("conversation", "previous_response_id", "context_management", "thinking")
"""Fields of a request that may be replaced; `x-foveate-replaced` lists those that were."""
REPLACED: Final = ("conversation", "previous_response_id")
"""Fields that the log replaces, unless only the provider knows what they name."""
_STORED: Final[Mapping[str, RouteName]] = {
    "previousresponseid": "responses",
    "conversation": "responses",
    "cachedcontent": "caches",
    "container": "files",
}
"""Fields of a request that name what a provider stores for everybody who uses one key, and the routes that reach it.
Gemini accepts two spellings of a name, with capitals or underscores."""
_STORED_INSIDE: Final[Mapping[str, RouteName]] = {
    "fileid": "files",
    "fileids": "files",
    "fileuri": "files",
    "filesearchstorenames": "files",
    "vectorstoreids": "files",
    "container": "files",
    "containerid": "files",
    "skillid": "files",
}
"""The same in messages and tools."""
_OWN_RECORDS: Final = ("_output", "_call")
"""Ends of the types of items that repeat an earlier answer, with the files and containers that it used."""
_PROVIDERS_SKILL: Final = "anthropic"
"""The type of a skill that everybody may use."""
_DATA: Final = ("annotations", "args", "arguments", "citations", "inputschema", "metadata", "parameters", "response")
"""Fields in messages and tools whose content is the client's own or an earlier answer's: nothing is looked up by it."""
_PUBLIC: Final = ("http://", "https://")
NOT_SHARED: Final = (
    "{field} {id!r} can't be continued from the log, and is not sent with the server's provider key, whose users would "
    "reach each other's data at the provider; send the messages themselves, or a provider key of your own (with the "
    "Foveate key in X-Foveate-Key), or let the operator add {route!r} to server.shared_routes"
)
MAX_ID_CHARS: Final = 100


def without_compaction(body: Record) -> Record:
    """Return an assembled request in which the provider compacts nothing, and has compacted nothing.

    A readable summary of the provider (Anthropic) becomes text; an encrypted one (OpenAI) is removed. The turns that it
    replaced are in the log.
    """
    kept = {key: value for key, value in body.items() if key != "context_management"}
    if management := _management(body.get("context_management")):
        kept["context_management"] = management
    if isinstance(body.get("messages"), list):
        kept["messages"] = [_readable(message) for message in body["messages"]]
    if isinstance(body.get("input"), list):
        kept["input"] = [item for item in body["input"] if not _is_compaction(item)]
    return kept


def replaced_fields(sent: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """Return the names of the client's fields that are not sent as they came."""
    return ", ".join(name for name in FIELDS if name in sent and body.get(name) != sent[name])


def unshared_state(body: Mapping[str, Any], shared: Collection[str]) -> str:
    """Return why a body may not be sent with a provider key of the server: it names what the provider stores on a
    route that is not shared. Empty if it may."""
    for field, named, route in _stored(body):
        if route not in shared:
            return NOT_SHARED.format(field=field, id=named[:MAX_ID_CHARS], route=route)
    return ""


def _stored(body: Mapping[str, Any]) -> Iterator[tuple[str, str, RouteName]]:
    """Yield what a request names at the provider: the field, the id, and the route that reaches it."""
    for field, value in body.items():
        if (route := _STORED.get(_plain(field))) and (named := _id(value)):
            yield field, named, route
    prompt = body.get("prompt")  # of most requests a text
    if isinstance(prompt, Mapping) and (named := _id(prompt)):
        yield "prompt", named, "responses"
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        if _is_reference(item) and (named := _id(item)):
            yield "item_reference", named, "responses"
    waiting: list[Any] = [value for field, value in body.items() if _plain(field) not in _DATA]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            yield from _stored_inside(value)
            is_call = str(value.get("type")).endswith("tool_use")  # its input is what the model wrote
            names = {field: _plain(field) for field in value}
            waiting += [
                value[field] for field in value if names[field] not in (*_DATA, *(["input"] if is_call else []))
            ]


def _is_reference(item: object) -> bool:
    """Return whether an item of OpenAI's Responses only names a stored one; the type may be omitted."""
    return isinstance(item, dict) and item.get("type") in (None, "item_reference") and "role" not in item


def _stored_inside(record: Record) -> Iterator[tuple[str, str, RouteName]]:
    if str(record.get("type")).endswith(_OWN_RECORDS) or record.get("type") == _PROVIDERS_SKILL:
        return
    for field, value in record.items():
        if route := _STORED_INSIDE.get(_plain(field)):
            for named in map(_id, value if isinstance(value, list) else [value]):
                if named and not (_plain(field) == "fileuri" and _is_public(named)):
                    yield field, named, route


def _id(value: object) -> str:
    """Return an id, or that of an object; empty for anything else."""
    named = value.get("id") if isinstance(value, Mapping) else value
    return named if isinstance(named, str) else ""


def _is_public(uri: str) -> bool:
    """Return whether a file is of the web, not of the provider."""
    return uri.lower().startswith(_PUBLIC) and "/files/" not in uri.lower()


def _plain(field: str) -> str:
    return field.replace("_", "").lower()


def _management(value: object) -> object:
    if isinstance(value, list):
        return [entry for entry in value if not _is_compaction(entry)]
    if isinstance(value, Mapping) and isinstance(value.get("edits"), list):
        edits = [edit for edit in value["edits"] if not _is_compaction(edit)]
        return {**value, "edits": edits} if edits else None
    return value


def _readable(message: Record) -> Record:
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_is_compaction, content)):
        return message
    return {**message, "content": [_as_text(block) if _is_compaction(block) else block for block in content]}


def _as_text(block: Record) -> Record:
    return {"type": "text", "text": f"[summary by the provider] {block.get('content') or ''}".rstrip()}


def _is_compaction(entry: object) -> bool:
    return isinstance(entry, Mapping) and str(entry.get("type")).startswith("compact")
