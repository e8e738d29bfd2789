"""Cline's conversations: `~/.cline/data/sessions/<id>/<id>.messages.json`, with Anthropic's messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from foveate.formats import load, render_messages
from foveate.formats.conversations import ConversationFormat, Labels
from foveate.formats.parse import Record, UsageKeys, listed_at, moment_at, text_at, value_at
from foveate.turn import Json, Message, Text

NAME = "cline"
_INPUT = re.compile(r"\A<user_input mode=\"\w+\">(.*)</user_input>\Z", re.DOTALL)
_FOLDER = re.compile(r"Working Directory: (.+)")
_USAGE = UsageKeys("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


def detect(head: bytes, name: str) -> bool:
    is_file = name.endswith(".messages.json") or b'"modelInfo"' in head
    return is_file and head.lstrip().startswith(b"{") and b'"messages"' in head and b'"sessionId"' in head


class _Cline(ConversationFormat):
    name = NAME
    items_key = "messages"

    def labels(self, conversation: Record) -> Labels:
        messages = listed_at(conversation, "messages")
        model = next((found for one in messages if (found := text_at(one, "modelInfo", "id"))), None)
        typed = (_typed(value_at(one, "content")) for one in messages if value_at(one, "role") == "user")
        folder = _FOLDER.search(text_at(conversation, "system_prompt") or "")
        title = next((text for text in typed if text), None)
        return Labels(text_at(conversation, "sessionId"), title, model, folder[1].strip() if folder else None)

    def message(self, piece: Record, path: str) -> Message:
        role = "assistant" if piece.get("role") == "assistant" else "user"
        message = load("anthropic").parse({"role": role, "content": piece.get("content") or []}, path)
        parts = tuple(Text(_plain(part.text)) if isinstance(part, Text) else part for part in message.parts)
        model = text_at(piece, "modelInfo", "id")
        return replace(
            message, parts=parts, at=moment_at(piece, "ts"), model=model, usage=_USAGE.read(piece.get("metrics"))
        )

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        for number, made in enumerate(render_messages("anthropic", [message.without_original()])):
            if isinstance(made, Mapping):
                moment: dict[str, Json] = {"ts": int(message.at.timestamp() * 1000)} if message.at else {}
                yield {"id": f"{id_}-{number}", **made, **moment}

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"version": 1, "sessionId": id_}


def _plain(text: str) -> str:
    found = _INPUT.match(text)
    return found[1] if found else text


def _typed(content: Json) -> str:
    return " ".join(_plain(text) for block in listed_at(content) if (text := text_at(block, "text")))


_FORMAT = _Cline()
read = _FORMAT.read
parse = _FORMAT.parse
write = _FORMAT.write
