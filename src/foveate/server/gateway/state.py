"""State that the provider would keep or compact itself: in an assembled request the gateway's log replaces it.

A provider ignores what precedes its own compaction, so a block of it would remove the history that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from foveate.session.keys import RouteName

Record = dict[str, Any]

FIELDS: Final = ("conversation", "previous_response_id", "context_management", "thinking")
"""Fields of a request that may be replaced; `x-foveate-replaced` lists those that were."""
STORED: Final[Mapping[str, RouteName]] = {
    "previous_response_id": "responses",
    "conversation": "responses",
    "cachedContent": "caches",
    "cached_content": "caches",
}
"""Fields that name what a provider stores for everybody who uses one key, and the routes that reach it."""
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
    for field, route in STORED.items():
        if (value := body.get(field)) and route not in shared:
            named = value.get("id") if isinstance(value, Mapping) else value
            return NOT_SHARED.format(field=field, id=str(named)[:MAX_ID_CHARS], route=route)
    return ""


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
