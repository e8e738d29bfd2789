"""Validation and parsing of what users pass in. Errors say what is wrong and what is expected."""

from __future__ import annotations

import asyncio
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from foveate import formats
from foveate.context.context import Context
from foveate.context.signatures import is_signed
from foveate.errors import InvalidMessage, PinNotFound
from foveate.events import Event, EventBus
from foveate.session.values import RecordedTurn
from foveate.store import Draft, Place
from foveate.store.codec import LARGE_CHARS, MANY_MESSAGES, draft_turn
from foveate.text import weigh_json
from foveate.tokens import Counter
from foveate.turn import Json, Message, Turn, parse_time, turn_id

if TYPE_CHECKING:
    from foveate.session.engine import SessionEngine
    from foveate.session.shared import PrefixSource

MAX_SESSION_ID_CHARS = 300
STEP_EVENTS = 500
"""Events that are published without a pause: about 10 ms of processor time."""
MAX_PIN_DIGITS = 18
"""Longer numbers exceed the databases' integers."""

_EXAMPLE = '{"role": "user", "content": "…"}'


class Dumpable(Protocol):
    """A message or block of a provider's package; those of OpenAI, Anthropic and Google are pydantic models."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


Recordable: TypeAlias = (
    "Turn | Message | Mapping[str, Any] | Dumpable | Sequence[Message | Mapping[str, Any] | Dumpable]"
)


def check_session_id(session_id: str) -> str:
    """Return a session id; `InvalidMessage` if it is empty, too long or not printable."""
    if not session_id.strip() or not session_id.isprintable() or len(session_id) > MAX_SESSION_ID_CHARS:
        allowed = f"use 1 to {MAX_SESSION_ID_CHARS} printable characters"
        raise InvalidMessage("session id", f"{session_id[:50]!r} can't be one; {allowed}")
    return session_id


def check_text(field: str, text: str) -> str:
    """Return a text; `InvalidMessage` if it has a lone surrogate, which can't be encoded and stored."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(field, f"has a lone surrogate at character {error.start}; use text without one") from error
    return text


def pin_number(session_id: str, pin_id: str) -> int:
    """Parse the number in a pin's id, e.g. `P-1`."""
    number = pin_id.removeprefix("P-")
    if not (number.isascii() and number.isdecimal()):
        raise InvalidMessage("pin", f"{pin_id!r} is not a pin's id; ids look like P-1")
    if len(number) > MAX_PIN_DIGITS:
        raise PinNotFound(session_id, pin_id)
    return int(number)


def printable_text(text: str) -> str:
    """Replace the characters of a transcript's title that can't be encoded; its record keeps the original."""
    return text.encode("utf-8", "replace").decode()


async def read_messages(value: object, format_name: str | None) -> list[Message]:
    """Convert a user's input to canonical messages, in a thread if it is large or long."""
    is_many = isinstance(value, Sequence) and len(value) >= MANY_MESSAGES
    if is_many or (isinstance(value, Mapping | Sequence) and weigh_json(value, LARGE_CHARS) > LARGE_CHARS):
        return await asyncio.to_thread(as_messages, value, format_name)
    return as_messages(value, format_name)


def as_messages(value: object, format_name: str | None) -> list[Message]:
    """Convert a user's input to canonical messages; `InvalidMessage` says what is expected instead."""
    if isinstance(value, Message | Mapping) or hasattr(value, "model_dump"):
        value = [value]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidMessage("messages", f"is {type(value).__name__}; pass a list of messages such as {_EXAMPLE}")
    listed = list(value)
    if not listed:
        raise InvalidMessage("messages", f"is empty; pass at least one, such as {_EXAMPLE}")
    if all(isinstance(entry, Message) for entry in listed):
        return [_with_true_original(message) for message in listed]
    listed = [record for entry in listed for record in _answered(_as_record(entry))]
    for index, entry in enumerate(listed):
        if not isinstance(entry, Mapping):
            raise InvalidMessage(f"messages[{index}]", f"is {type(entry).__name__}; a message looks like {_EXAMPLE}")
    return formats.parse_messages(listed, format_name)


def _as_record(entry: object) -> object:
    """Convert a provider's object, or such objects in a message's blocks, to dicts; a dict is not changed."""
    if isinstance(entry, Mapping):
        return {key: [*map(_dumped, value)] if isinstance(value, list) else value for key, value in entry.items()}
    return _dumped(entry)


def _answered(record: object) -> Sequence[object]:
    """Extract the messages of a provider's complete response: OpenAI's completion or response, Gemini's candidates."""
    if not isinstance(record, Mapping) or "role" in record:
        return [record]
    for key, inner in (("choices", "message"), ("candidates", "content")):
        if isinstance(record.get(key), list) and record[key]:
            first = record[key][0]
            return [first.get(inner)] if isinstance(first, Mapping) else [first]
    if record.get("object") == "response" and isinstance(record.get("output"), list):
        return list(record["output"])
    return [record]


def _dumped(value: Any) -> object:
    if isinstance(value, Mapping) or not hasattr(value, "model_dump"):
        return value
    return value.model_dump(mode="json", exclude_none=True)


def _with_true_original(message: Message) -> Message:
    """Remove a message's original if it differs from the message, so that both are stored consistently."""
    original = message.original
    if original and formats.parse_message(original.format, original.data) != message:
        return message.without_original()
    return message


def numbered_keys(key: str | Sequence[str | None] | None, count: int) -> list[str | None]:
    """Return a key for each message: the keys in a list, or one key with a number appended."""
    if not isinstance(key, str | None):
        if len(key) != count:
            raise InvalidMessage("key", f"has {len(key)} keys for {count} messages; pass one for each")
        return list(key)
    return [None] * count if key is None else [f"{key}#{index}" for index in range(count)]


async def make_drafts(
    engine: SessionEngine,
    messages: Recordable,
    *,
    at: str | float | datetime | None,
    format_name: str | None,
    key: str | Sequence[str | None] | None,
    context: Context | str | None,
) -> list[Draft]:
    """Make the drafts that `Session.record_all` stores."""
    moment = None if at is None else parse_time(at)
    for each in (key,) if isinstance(key, str | None) else key:
        check_text("key", each or "")
    if isinstance(messages, Turn):
        if not messages.messages:
            raise InvalidMessage("turn", "has no messages; a turn has at least one")
        if not isinstance(key, str | None):
            raise InvalidMessage("key", "is a list; pass one key for a whole turn")
        return await draft_turn(messages, moment, key, engine.sizes, engine.compression_level)
    parsed = await read_messages(messages, format_name)
    return await engine.draft(parsed, numbered_keys(key, len(parsed)), at=moment, context=context)


def bind_answer(
    messages: Sequence[Message], asked: Callable[[], PrefixSource | None], context: Context | str | None = None
) -> Sequence[Message]:
    """Add the hash of its request to the first answer among the messages, if that has signed thinking.

    The request is that of `context`, or else the last one (`asked`).
    """
    place = next((index for index, message in enumerate(messages) if message.role == "assistant"), None)
    if place is None:
        return messages
    source = asked()  # always called: the answer to the last request has arrived
    if not is_signed(messages[place]) or (source is None and context is None):
        return messages
    prefix = source() if context is None and source else context_token(context)
    return [*messages[:place], replace(messages[place], prefix=prefix), *messages[place + 1 :]] if prefix else messages


def context_token(context: Context | str | None) -> str | None:
    """Return the token of a context; a token is returned unchanged."""
    return context.token if isinstance(context, Context) else context


def recorded_turns(
    session_id: str, drafts: Sequence[Draft], places: Sequence[Place], counter: Counter
) -> list[RecordedTurn]:
    """Describe the turns that were created or extended, in order."""
    return [
        RecordedTurn(session_id, number, len(group), counter.scale(sum(draft.tokens for draft, _ in group)))
        for number, group in by_turn(zip(drafts, places, strict=True)).items()
    ]


def by_turn(placed: Iterable[tuple[Draft, Place]]) -> dict[int, list[tuple[Draft, Place]]]:
    """Group drafts by the turn they were added to."""
    groups: dict[int, list[tuple[Draft, Place]]] = {}
    for draft, place in placed:
        groups.setdefault(place.turn, []).append((draft, place))
    return groups


async def announce(events: EventBus, session_id: str, *, drafts: Sequence[Draft], places: Sequence[Place]) -> None:
    """Publish events for the messages and turns that were added; those that already existed are skipped.

    Many are published with other work in between, so that subscribers keep up.
    """
    for number, event in enumerate(_added(session_id, drafts, places), 1):
        events.publish(event)
        if number % STEP_EVENTS == 0:
            await asyncio.sleep(0)


def _added(session_id: str, drafts: Sequence[Draft], places: Sequence[Place]) -> Iterator[Event]:
    now = datetime.now(UTC)
    turns: Counted[int] = Counted()
    for draft, place in zip(drafts, places, strict=True):
        if place.is_new:
            turns[place.turn] += 1
            data: dict[str, Json] = {"role": draft.role, "position": place.position, "tokens": draft.tokens}
            yield Event("message-added", session_id, now, turn_id(place.turn), data)
    for turn, messages in turns.items():
        yield Event("turn-recorded", session_id, now, turn_id(turn), {"messages": messages})
