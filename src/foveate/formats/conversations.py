"""The common part of formats whose file is an object per conversation, with a list of items.

A conversation becomes a session. Everything but its items comes first, as one display-only record. An item becomes one
or several messages: an answer with tool calls and their results is split, since results are separate messages.
Each piece is a record `{"of": id, …}` of the format; writing joins the pieces again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from foveate.errors import InputError, InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, TranscriptMessage, TranscriptProblem, parse_message
from foveate.formats.files import content_key, decode_json, made_session, read_whole, short_title
from foveate.formats.parse import Record, listed_at, record, text_at
from foveate.text import json_slices
from foveate.turn import Json, Message

REST = "conversation"
"""The record that holds everything but the items."""
OF = "of"
"""Key under which a piece has the id of its item."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The metadata of a conversation."""

    id: str | None = None
    title: str | None = None
    model: str | None = None
    channel: str | None = None


class ConversationFormat:
    """Such a format; a subclass defines how its items are read and made."""

    name: str
    items_key: str

    def labels(self, conversation: Record) -> Labels:
        """Return the conversation's id and metadata."""
        raise NotImplementedError

    def item_id(self, item: Record) -> str | None:
        """Return the item's id, which stays the same when the conversation grows."""
        return text_at(item, "id")

    def is_finished(self, item: Record) -> bool:  # noqa: ARG002
        """Check whether an item at the end of a conversation is complete; if not, a later import reads it."""
        return True

    def split(self, item: Record) -> Iterable[Record]:
        """Split an item into pieces, one for each message."""
        return [item]

    def join(self, pieces: Sequence[Record]) -> Record:
        """Join the pieces of an item."""
        (item,) = pieces
        return item

    def message(self, piece: Record, path: str) -> Message:
        """Parse the message of a piece."""
        raise NotImplementedError

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        """Make items for a message of another format that is not display-only."""
        raise NotImplementedError

    def make_conversation(self, id_: str) -> dict[str, Json]:
        """Make a conversation without items, for messages of other formats."""
        raise NotImplementedError

    def problem(self, conversation: Record) -> str | None:  # noqa: ARG002
        """Return why an object is not a conversation of this format."""
        return None

    def read(self, stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
        """Yield the items of a file that is one conversation."""
        try:
            conversation = decode_json(read_whole(stream))
        except ValueError as error:
            yield TranscriptProblem(name, str(error))
            return
        if not isinstance(conversation, Mapping):
            yield TranscriptProblem(name, "is not an object")
        elif problem := self.problem(conversation):
            yield TranscriptProblem(name, problem)
        else:
            yield from self.read_one(conversation, name)

    def read_one(self, conversation: Record, place: str) -> Iterator[TranscriptItem]:
        """Yield the items of one conversation."""
        items = [*listed_at(conversation, self.items_key)]
        rest: dict[str, Json] = {key: value for key, value in conversation.items() if key != self.items_key}
        labels = self.labels(conversation)
        session = labels.id or content_key(0, rest)
        title = short_title(labels.title) if labels.title else None
        yield SessionHeader(session, title=title, model=labels.model, platform=self.name, channel=labels.channel)
        yield TranscriptMessage(session, REST, parse_message(self.name, {REST: _lasting(rest)}), place)
        while items and isinstance(items[-1], Mapping) and not self.is_finished(items[-1]):
            items.pop()
        seen: set[str] = set()
        for number, value in enumerate(items, 1):
            where = f"{place}, message {number}"
            if not isinstance(value, Mapping):
                yield TranscriptProblem(where, "is not an object")
                continue
            id_ = self.item_id(value) or content_key(number, value)
            if id_ in seen:
                id_ = f"{id_}-{number}"
            seen.add(id_)
            yield from self._read_item(value, session, id_, where)

    def _read_item(self, item: Record, session: str, id_: str, where: str) -> Iterator[TranscriptItem]:
        try:
            for number, piece in enumerate(self.split(item)):
                key = id_ if number == 0 else f"{id_}/{number}"
                yield TranscriptMessage(session, key, parse_message(self.name, {OF: id_, **piece}), where)
        except InvalidMessage as error:
            yield TranscriptProblem(where, str(error))

    def parse(self, data: Json, path: str) -> Message:
        piece = record(data, path)
        if REST in piece:
            return Message("system", kind="display")
        return self.message(piece, path)

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield a file of one conversation."""
        yield from json_slices(self.conversation(messages))
        yield "\n"

    def conversation(self, messages: Sequence[Message]) -> dict[str, Json]:
        """Build the conversation of these messages."""
        rest: dict[str, Json] | None = None
        pieces: dict[str, list[Record]] = {}
        for number, message in enumerate(messages):
            if message.original is None or message.original.format != self.name:
                made = () if message.kind == "display" else self.make(message, f"message-{number + 1}")
                for part, item in enumerate(made):
                    pieces[f"message-{number + 1}-{part}"] = [item]
                continue
            piece = record(message.original.data, "piece")
            if REST in piece:
                rest = dict(record(piece[REST], "conversation"))
            else:
                native = {key: value for key, value in piece.items() if key != OF}
                pieces.setdefault(str(piece.get(OF)), []).append(native)
        if rest is None:
            rest = self.make_conversation(made_session(messages))
        return {**rest, self.items_key: [self.join(found) for found in pieces.values()]}


_CHANGING = ("lastUpdated", "updated_at", "lastMessageDate", "lastUpdatedAt", "time_updated")


def _lasting(rest: Mapping[str, Json]) -> dict[str, Json]:
    """Return a conversation's fields without those that change whenever it grows."""
    return {key: value for key, value in rest.items() if key not in _CHANGING}


def decoded_object(data: Json | bytes) -> Record:
    """Decode the object in a database column; empty if there is none."""
    try:
        value = decode_json(data if isinstance(data, bytes) else str(data).encode())
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


def read_rows(path: Path, query: str, parameters: Sequence[str] = ()) -> Iterator[tuple[Json, ...]]:
    """Yield rows of another program's database, which may be open there; nothing is written to it."""
    import sqlite3  # noqa: PLC0415 - loaded with the first database

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield from connection.execute(query, parameters)
    except sqlite3.Error as error:
        raise InputError(f"{path}: can't be read: {error}") from error
