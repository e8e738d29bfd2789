"""A client's history as a chain of hashes, each over everything up to a message.

Clients change their own history between two requests: `cache_control` moves, a list of text blocks becomes a string,
arguments are formatted differently, dates and reminders appear and disappear. The canonical form omits all of that.
System messages, tools, model and protocol are not part of the chain.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from foveate.additions import (
    Addition,
    ClientTexts,
    Instruction,
    addition,
    instructions_in,
    is_changing,
    split_rules,
    without_reminders,
)
from foveate.cache import BoundedCache
from foveate.session.record import as_messages
from foveate.store.message_keys import HISTORY_PREFIX, hashed
from foveate.text import turn_text
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

Record = Mapping[str, Any]

HASH_BYTES: Final = 16
ADDED: Final = ("message", "renewed")
"""Additions that have no key of their own."""
STEP_MESSAGES: Final = 200
"""Messages, or parts of them, that are read without a pause: at most about 20 ms of processor time."""
CACHED_MESSAGES: Final = 50_000
"""Messages whose hashes are cached; a client sends the same ones repeatedly."""
_SALT: Final = secrets.token_bytes(32)
"""Hashed before the bytes of a message for `_known`, so that no client can create a collision."""

_known: BoundedCache[int, MessageMark] = BoundedCache(CACHED_MESSAGES)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class MessageMark:
    """The chain's data of one message."""

    items: tuple[bytes, ...]
    """Hashes of its content; empty for a message without content of its own."""
    role: str
    opens_turn: bool
    addition: Addition = ""
    """Whether the client added it for this request only."""
    instructs: bool = False
    """Whether it has instructions of the client."""


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The messages of a request, with the chain's key after each."""

    format: str
    records: Sequence[Record]
    marks: Sequence[MessageMark]
    keys: Sequence[str]
    """Keys of the chain; a message without a mark has the key of the one before it."""
    start: str = ""
    """The key of what comes before the first message, if a client names that instead of sending it."""

    def parse(self, first: int, last: int | None = None) -> list[Message]:
        """Parse messages from one index up to another."""
        records = list(self.records[first:last])
        return as_messages(records, self.format) if records else []

    def to_record(self, first: int, *, injected: int = 0) -> tuple[list[Message], list[str | None]]:
        """Return the messages from an index on as they are recorded, with their keys; None without content.

        What the client sends anew with each prompt is recorded for people only: requests have its newest version.
        Messages before `injected` are the client's summary.
        """
        messages: list[Message] = []
        keys: list[str | None] = []
        is_renewed = any(mark.addition == "renewed" for mark in self.marks)  # files or rules come with each prompt
        for index, message in enumerate(self.parse(first), first):
            mark = self.marks[index]
            key = self.keys[index] if mark.items else None
            if mark.addition == "renewed":
                messages.append(replace(message, kind="display"))
            elif index < injected or mark.addition == "message":
                messages.append(replace(message, kind="injection"))
            else:
                own = _without_rules(message) if is_renewed else [message]
                messages += own
                keys += [key, *[None] * (len(own) - 1)]
                continue
            keys.append(key)
        return messages, keys

    def client_texts(self, last_turn: int) -> ClientTexts:
        """Return what the client sends besides the conversation, whose newest prompt begins this turn."""
        instructions: list[Instruction] = []
        later = sum(mark.opens_turn for mark in self.marks)
        for index, mark in enumerate(self.marks):
            later -= mark.opens_turn
            if mark.instructs:
                (message,) = self.parse(index, index + 1)
                turn = max(1, last_turn - later)
                instructions += [Instruction(turn, key, text) for key, text in instructions_in(message)]
        has_system = any(mark.role == "system" for mark in self.marks)
        return ClientTexts(tuple(instructions), self.renewed_text(), has_system)

    def renewed_text(self) -> str:
        """Return what the client sends anew with each prompt, as text; empty if there is none."""
        renewed = [index for index, mark in enumerate(self.marks) if mark.addition == "renewed"]
        messages = [message for index in renewed for message in self.parse(index, index + 1)]
        newest = self.turn_start(len(self.marks))
        if renewed and self.marks[newest].opens_turn:
            rules = [rules for message in self.parse(newest, newest + 1) for rules in _without_rules(message)[1:]]
            messages += [replace(one, kind="message") for one in rules]
        return turn_text(tuple(messages))

    def first_prompt(self) -> list[Message]:
        """Return the message that begins the conversation."""
        first = next((index for index, mark in enumerate(self.marks) if mark.opens_turn), 0)
        return self.parse(first, first + 1)

    def index_behind(self, key: str) -> int:
        """Return the number of messages up to this key; messages that a client added after it are new."""
        known = 0
        for index, (own, mark) in enumerate(zip(self.keys, self.marks, strict=True)):
            is_answer = mark.role == "assistant" and not mark.items  # thinking, whose answer follows
            if own == key and not (known and (mark.addition in ADDED or is_answer)):
                known = index + 1
            elif known:
                break
        return known

    def has_answer(self, count: int) -> bool:
        """Check whether the model answered among the first messages, or before them."""
        return bool(self.start) or any(mark.role == "assistant" for mark in self.marks[:count])

    def turn_start(self, count: int) -> int:
        """Return the index of the prompt that begins the turn of the last of the first messages."""
        return max((index for index, mark in enumerate(self.marks[:count]) if mark.opens_turn), default=0)

    def summary_behind(self, count: int) -> int | None:
        """Return the index of the client's own summary after the first messages and before the newest prompt."""
        newest = self.turn_start(len(self.marks))
        found = [index for index in range(count, newest) if self.marks[index].addition == "summary"]
        return found[-1] if found else None

    def calls(self, first: int) -> tuple[int, frozenset[str]]:
        """Return the index after the model's messages that begin at an index, and the ids of their calls."""
        last = first
        while last < len(self.marks) and self.marks[last].role == "assistant":
            last += 1
        parts = [part for message in self.parse(first, last) for part in message.parts]
        return last, frozenset(part.id for part in parts if isinstance(part, ToolCall) and part.id)

    @property
    def last_answer(self) -> int | None:
        """The index of the last message of the model."""
        found = [index for index, mark in enumerate(self.marks) if mark.role == "assistant" and mark.items]
        return found[-1] if found else None

    def tail(self, answer: int) -> str | None:
        """Return the hash of an answer and the prompt before it; None if there is none."""
        start = self.turn_start(answer)
        if not self.marks[start].opens_turn or start >= answer:
            return None
        return tail_hash([item for mark in self.marks[start : answer + 1] for item in mark.items])


def part_count(record: Mapping[str, Any]) -> int:
    """Return the length of a message's longest list: its content, its parts or its calls."""
    longest = 0
    for value in record.values():
        if isinstance(value, list) and len(value) > longest:
            longest = len(value)
    return longest


def read_history(format: str, records: Sequence[Record], *, start: str = "") -> RequestHistory:  # noqa: A002
    """Read the history of a request; `start` is the key of what the provider stores before it, if anything."""
    return _chained(format, records, [mark_record(format, record) for record in records], start)


async def read_history_in_steps(format: str, records: Sequence[Record], *, start: str = "") -> RequestHistory:  # noqa: A002
    """Read the history of a request, with other requests in between if it is long."""
    marks: list[MessageMark] = []
    read = 0
    for record in records:
        if read >= STEP_MESSAGES:
            await asyncio.sleep(0)
            read = 0
        read += max(1, part_count(record))
        marks.append(mark_record(format, record))
    if len(records) < STEP_MESSAGES:
        return _chained(format, records, marks, start)
    return await asyncio.to_thread(_chained, format, records, marks, start)


def _chained(format: str, records: Sequence[Record], marks: list[MessageMark], start: str) -> RequestHistory:  # noqa: A002
    marks = _without_additions(marks)
    keys: list[str] = []
    key = start
    for mark in marks:
        for item in mark.items:
            key = extend(key, item)
        keys.append(key)
    return RequestHistory(format, records, marks, keys, start)


def _without_additions(marks: list[MessageMark]) -> list[MessageMark]:
    """Return the marks, without those of the client's additions and of the replies to them."""
    added = [index for index, mark in enumerate(marks) if mark.addition not in ("", "summary")]
    beginning = max((index for index in added if marks[index].addition == "beginning"), default=-1)
    alone = [(index, index) for index in added if index > beginning]
    for first, last in [(0, beginning), *alone] if beginning >= 0 else alone:
        kind: Addition = "message" if marks[last].addition == "message" else "renewed"
        has_reply = last + 1 < len(marks) and marks[last + 1].role == "assistant"
        for index in range(first, last + 1 + has_reply):
            marks[index] = replace(marks[index], items=(), opens_turn=False, addition=kind)
    return marks


def _without_rules(message: Message) -> list[Message]:
    """Return a prompt, and the rules that its client added at its end, if any, as a message for people only."""
    if message.role != "user" or len(message.parts) != 1 or not isinstance(message.parts[0], Text):
        return [message]
    said, rules = split_rules(message.text)
    if not rules:
        return [message]
    prompt = replace(message, parts=(Text(said),), original=None)
    return [prompt, replace(prompt, parts=(Text(rules.lstrip("\n")),), kind="display")]


def extend(key: str, item: bytes) -> str:
    """Return the key of a chain with one more item."""
    return hashed(HISTORY_PREFIX, key.encode() + item)


def tail_hash(items: Sequence[bytes]) -> str:
    return hashlib.blake2b(b"".join(items), digest_size=HASH_BYTES).hexdigest()


def mark_record(format: str, record: Record) -> MessageMark:  # noqa: A002
    """Return the chain's data of a client's message; cached by its bytes."""
    # Python's hash of bytes is keyed and takes a quarter of the time of a cryptographic one.
    seen = hash(b"%b%b:%b" % (_SALT, format.encode(), _encode(record)))
    found = _known.get(seen)
    if found is None:
        (message,) = as_messages([record], format)
        found = _known[seen] = mark_message(message)
    return found


def mark_message(message: Message) -> MessageMark:
    is_part = message.role in ("user", "assistant", "tool") and message.kind == "message"
    items = tuple(_hash(item) for item in _items(message)) if is_part else ()
    added = addition(message.text) if message.role == "user" else ""
    instructs = any(True for _ in instructions_in(message))
    return MessageMark(items, message.role, message.opens_turn and bool(items), added, instructs)


def _items(message: Message) -> Iterator[list[Json]]:
    """Yield the content of a message: results, then its text, then calls; the order in which formats agree."""
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield ["result", "".join(text for inner in part.content for text in _content(inner))]
    if text := "".join(words for part in message.parts for words in _content(part)):
        yield ["assistant" if message.role == "assistant" else "user", text]
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield ["call", part.name, json.dumps(part.arguments, sort_keys=True)]


def _content(part: Part) -> Iterator[str]:
    """Yield text without white space, and files by their hash. Reasoning is omitted: clients drop it."""
    match part:
        case Text(text):
            if words := _words(text):
                yield words
        case Attachment():
            named = part.data or part.uri or part.file_id or ""
            yield f"file {hashlib.blake2b(named.encode(), digest_size=HASH_BYTES).hexdigest()}"
        case Opaque():
            yield json.dumps(_without_hints(part.data), sort_keys=True)
        case Reasoning() | ToolCall() | ToolResult():
            return


def _words(text: str) -> str:
    kept = without_reminders(text)
    return "" if is_changing(kept) else "".join(kept.split())


def _without_hints(data: Json) -> Json:
    if isinstance(data, Mapping):
        return {key: _without_hints(value) for key, value in data.items() if key != "cache_control"}
    if isinstance(data, list | tuple):
        return [_without_hints(value) for value in data]
    return data


def _hash(item: list[Json]) -> bytes:
    encoded = json.dumps(item, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=HASH_BYTES).digest()
