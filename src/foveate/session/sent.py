"""Requests as the gateway sent them: what they share with the one before, and how they are stored and read again.

for request in await session.requests():        # the newest, without their bodies
    print(request.number, request.tokens)
one = await session.request(3)
one.body                                        # exactly as sent
one.kept_tokens, one.appended_tokens, one.rewritten_tokens
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from foveate.cache import BoundedCache
from foveate.errors import InvalidMessage, NotFound
from foveate.session.picture import Picture, picture_of
from foveate.session.sent_picture import pack_segments, unpack_segments, whole_segments
from foveate.store import bodies
from foveate.store.rows import NANO
from foveate.store.sent import SentRow
from foveate.text import amount, common_length, compact_json
from foveate.turn import check_json, from_us

if TYPE_CHECKING:
    from foveate.session.client_calls import CallNote

MAX_CHAIN: Final = 25
"""Differences after one complete body: reading the last takes this many steps."""
MAX_REMEMBERED: Final = 100_000
MAX_REMEMBERED_BYTES: Final = 64 * 1_048_576
"""Bodies in memory, for the comparison with the next request of their session."""
CACHE_SECONDS: Final = 300.0
"""How long providers keep a prefix at least (Anthropic and OpenAI: 5 minutes); later, nothing is expected."""
MIN_CACHED_TOKENS: Final = 1_024
"""Shorter prefixes are cached by no large provider."""
CACHED_FIELDS: Final = (
    ("tools", "functions"),
    ("system", "instructions", "systemInstruction", "system_instruction"),
    ("messages", "input", "contents"),
)
"""Fields that providers cache, in their order."""
MAX_LABEL_CHARS: Final = 80
MAX_TEXT_CHARS: Final = 200
_HINT: Final = b'"cache_control":{'
_OPEN, _CLOSE = b'[{"type":"text","text":', b"]}"
"""Around a text that has a hint, but for the bracket that follows both forms; without one the same text may be sent as
a plain string."""
MAX_FORMS: Final = 64
"""Texts in either form that are recognised as the same in one comparison."""
NEAR_END_BYTES: Final = 4_096
"""Requests usually differ from the one before at its end, which is looked at first."""
Change = Literal["kept", "rewritten", "appended"]


@dataclass(frozen=True, slots=True)
class SentBody:
    """A body in comparison with the one before it in its session."""

    row: SentRow | None
    """To store; None if requests are not kept."""
    cached_share: float | None
    """Share of the input that the provider may have cached; None without an earlier request that it may still hold."""

    def predicted(self, input_tokens: int) -> int:
        """Return how many of these tokens the provider should have cached."""
        tokens = int((self.cached_share or 0.0) * input_tokens)
        return tokens if tokens >= MIN_CACHED_TOKENS else 0


def in_full(row: SentRow, body: bytes) -> SentRow:
    """Return a request that needs no other to be read."""
    return replace(row, base="", kept_bytes=0, data=bodies.squeeze_bytes(body))


@dataclass(slots=True)
class _Last:
    """The newest request of a session."""

    body: bytes
    plain: bytes
    """What providers cache of it, without hints to the cache."""
    request_id: str
    target: tuple[str, str]
    at: float
    chain: int
    whole_tokens: int | None = None


class SentBodies:
    """The newest bodies of one process, by session. Not safe for threads: one at a time."""

    def __init__(self, *, is_stored: bool) -> None:
        self._is_stored = is_stored
        size: Callable[[_Last], int] = lambda last: len(last.body) + len(last.plain)  # noqa: E731
        self._last: BoundedCache[str, _Last] = BoundedCache(MAX_REMEMBERED, most_bytes=MAX_REMEMBERED_BYTES, size=size)

    def take(self, note: CallNote) -> SentBody:
        """Compare a request with the one before it, and remember it."""
        session_id = note.session_id or ""
        before = self._last.get(session_id)
        plain = prompt_of(note.body)
        now = time.monotonic()
        target = note.address, note.model
        last = _Last(note.body, plain, note.request_id, target, now, 0, before.whole_tokens if before else None)
        changes = bytes_changed(before.plain, plain) if before is not None else None
        share = None
        if changes and before and before.target == target and now - before.at - note.seconds <= CACHE_SECONDS:
            share = changes.kept / max(1, changes.total)
        row = self._row(note, last, before, changes) if self._is_stored else None
        self._last[session_id] = last
        return SentBody(row, share)

    def note_whole(self, note: CallNote, tokens: int) -> int | None:
        """Remember the tokens of the whole conversation; return those at the request before."""
        last = self._last.get(note.session_id or "")
        if last is None:
            return None
        before, last.whole_tokens = last.whole_tokens, tokens
        return before

    def forget(self, session_id: str) -> None:
        """Store the next request of a session completely."""
        self._last.pop(session_id)

    def _row(self, note: CallNote, last: _Last, before: _Last | None, changes: BytesChanged | None) -> SentRow:
        kept, tokens = 0, note.first.input_tokens or note.tokens
        if before is not None and before.chain < MAX_CHAIN:
            kept = common_prefix(before.body, note.body)
            last.chain = before.chain + 1 if kept else 0
        return SentRow(
            number=0,
            request_id=note.request_id,
            base=before.request_id if before is not None and kept else "",
            at_us=note.began_us,
            turn=note.turn,
            provider=host_of(note.address),
            model=plain(note.model),
            format=note.format,
            path=plain(note.path),
            status=note.status,
            tokens=note.tokens,
            input_tokens=note.first.input_tokens,
            cached_tokens=note.first.cache_read_tokens,
            size=len(note.body),
            kept_bytes=kept,
            digest=checksum(note.body),
            budget_tokens=note.budget_tokens,
            cause=note.cause,
            kept_tokens=changes.share(changes.kept, tokens) if changes else None,
            rewritten_tokens=changes.share(changes.rewritten, tokens) if changes else None,
            picture=pack_segments(note.segments),
            data=bodies.squeeze_bytes(note.body[kept:]),
        )


@dataclass(frozen=True, slots=True)
class BytesChanged:
    """How a body differs from the one before, in bytes."""

    total: int
    kept: int
    """In the common prefix."""
    rewritten: int
    """In place of what the body before had after that prefix; anything else is appended."""

    def share(self, part: int, tokens: int) -> int:
        """Return a part's share of the request's tokens."""
        return round(tokens * part / max(1, self.total))


def bytes_changed(before: bytes, after: bytes) -> BytesChanged:
    """Compare two prompts. What both end with, such as closing brackets, is not rewritten."""
    total = len(after)
    old_end, kept = _common_ends(before, after)
    old, new = before[old_end:][-NEAR_END_BYTES:], after[kept:][-NEAR_END_BYTES:]
    same = next((i for i, (a, b) in enumerate(zip(reversed(old), reversed(new), strict=False)) if a != b), None)
    shared = min(len(old), len(new)) if same is None else same
    return BytesChanged(total, kept, max(0, min(len(before) - old_end - shared, total - kept)))


def _common_ends(left: bytes, right: bytes) -> tuple[int, int]:
    """Return where the common beginning of two bodies ends in each, whichever form their texts have."""
    ends = [common_prefix(left, right)] * 2
    opened: int | None = None
    for _ in range(MAX_FORMS):
        if opened is not None and (left, right)[opened].startswith(_CLOSE, ends[opened]):
            ends[opened] += len(_CLOSE)
            opened = None
        elif opened is None and left.startswith(_OPEN, ends[0]) and right.startswith(b'"', ends[1]):
            opened = 0
            ends[0] += len(_OPEN)
        elif opened is None and right.startswith(_OPEN, ends[1]) and left.startswith(b'"', ends[0]):
            opened = 1
            ends[1] += len(_OPEN)
        else:
            break
        more = common_prefix(left[ends[0] :], right[ends[1] :])
        ends = [ends[0] + more, ends[1] + more]
    return ends[0], ends[1]


def checksum(body: bytes) -> bytes:
    """Return the checksum of a body: whether its differences were put together as they were taken apart."""
    return zlib.crc32(body).to_bytes(4)


def host_of(address: str) -> str:
    """Return the host of a provider's URL, without credentials."""
    try:
        return plain(urlsplit(address).netloc.rpartition("@")[2])
    except ValueError:
        return ""


def plain(text: str) -> str:
    """Return a text of a client that can be stored and printed in a line."""
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_TEXT_CHARS])


def prompt_of(body: bytes) -> bytes:
    """Return what providers cache of a body, in their order and without hints: other fields, such as `stream`, may
    change and stand anywhere. A body that is no JSON object is compared as it is."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except ValueError:  # of msgspec, or of the encoding
        return without_hints(body)
    names = [name for same in CACHED_FIELDS for name in same if name in fields]
    return without_hints(b",".join(bytes(fields[name]) for name in names)) if names else body


def without_hints(body: bytes) -> bytes:
    """Return a JSON body without hints to the cache, which move from request to request.

    In texts quotes are escaped, so none is found there.
    """
    if _HINT not in body:
        return body
    kept, end = [], 0
    while (at := body.find(_HINT, end)) >= 0:
        kept.append(body[end:at].removesuffix(b","))
        end = (body.find(b"}", at) + 1) or len(body)
        end += body[at - 1 : at] != b"," and body[end : end + 1] == b","
    return b"".join([*kept, body[end:]])


def common_prefix(left: bytes, right: bytes) -> int:
    """Return how many bytes are equal from the beginning."""
    low, high = 0, min(len(left), len(right))
    if high > NEAR_END_BYTES and right.startswith(left[: high - NEAR_END_BYTES]):
        low = high - NEAR_END_BYTES
    return common_length(left, right, low)


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A tool, system text or message of a request, in the order in which providers cache them."""

    name: str
    """Its place in the body, e.g. `messages[3]`."""
    role: str
    bytes: int
    tokens: int
    """Its share of the request's tokens, by its bytes."""
    change: Change
    """`kept`: in the common prefix with the request before, so the provider may have it cached. `appended`: new at the
    end. `rewritten`: anything else."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it was sent to a provider, without headers and keys."""

    number: int
    """From 1, in the order in which they were sent."""
    request_id: str
    at: datetime
    turn_id: str | None
    provider: str
    model: str
    format: str
    path: str
    status: int
    """The HTTP status that the client got."""
    tokens: int
    """Counted before it was sent; 0 if it was not counted."""
    input_tokens: int
    """As the provider reported; 0 if it did not."""
    cached_tokens: int
    bytes: int
    budget_tokens: int
    cause: str
    """Why the plan was made anew for this request, so that little is kept; empty if it was not."""
    predicted_tokens: int | None
    """Tokens that the provider should have cached; None without an earlier request that it may still hold."""
    usd: float
    """The price of the call, of all its rounds."""
    kept_tokens: int | None
    """Tokens in the common prefix with the request before, by their bytes; None if it is not known."""
    rewritten_tokens: int | None
    appended_tokens: int | None
    body: str | None = None
    """Exactly as sent; None in lists, and if what it is stored as a difference from was removed."""
    parts: Sequence[RequestPart] = ()
    """What it consists of; empty in lists."""
    picture: Picture | None = None
    """What it spends its budget on, and how much it shows of each turn; None in lists, and if it is not known."""
    previous: int | None = None
    """The number of the request that it is compared with; None if there is none."""

    @property
    def changes(self) -> str:
        """What changed since the request before, in a few words."""
        if self.kept_tokens is None:
            return "first" if self.number == 1 else ""
        named = {"rewritten": self.rewritten_tokens, "new": self.appended_tokens}
        counted = [
            f"{amount(self.kept_tokens)} kept",
            *(f"{amount(size)} {name}" for name, size in named.items() if size),
        ]
        return ", ".join([*counted, *(["rebuilt"] if self.cause else [])])

    @property
    def cached(self) -> str:
        """The cached tokens that the provider reported, beside those that were predicted."""
        if not self.predicted_tokens:
            return amount(self.cached_tokens) if self.cached_tokens else ""
        return f"{amount(self.cached_tokens)} of {amount(self.predicted_tokens)}"


def sent_request(row: SentRow) -> SentRequest:
    """Return a request without its body."""
    return SentRequest(
        number=row.number,
        request_id=row.request_id,
        at=from_us(row.at_us),
        turn_id=f"T-{row.turn}" if row.turn else None,
        provider=row.provider,
        model=row.model,
        format=row.format,
        path=row.path,
        status=row.status,
        tokens=row.tokens,
        input_tokens=row.input_tokens,
        cached_tokens=row.cached_tokens,
        bytes=row.size,
        budget_tokens=row.budget_tokens,
        cause=row.cause,
        predicted_tokens=row.predicted_tokens,
        usd=row.nano_usd / NANO,
        kept_tokens=row.kept_tokens,
        rewritten_tokens=row.rewritten_tokens,
        appended_tokens=_appended(row),
    )


def _appended(row: SentRow) -> int | None:
    if row.kept_tokens is None or row.rewritten_tokens is None:
        return None
    return max(0, (row.input_tokens or row.tokens) - row.kept_tokens - row.rewritten_tokens)


def opened_request(
    rows: Sequence[SentRow], session_id: str, number: int, raw_tokens: Sequence[int] = ()
) -> SentRequest:
    """Return a request with its body, its picture, and its comparison with the one before, from the rows up to it.

    `raw_tokens` are those of each turn up to the request's, for one that has the whole conversation.
    """
    row = next((row for row in rows if row.number == number), None)
    if row is None:
        raise NotFound(f"no request {number} of the session {session_id!r} is kept; 'foveate requests' lists them")
    restored: dict[str, bytes] = {}
    previous: SentRow | None = None
    for one in rows:
        base = restored.get(one.base, b"") if one.base else b""
        body = base[: one.kept_bytes] + bodies.expand_bytes(one.data)
        if checksum(body) == one.digest:
            restored[one.request_id] = body
            previous = one if one.number < number else previous
    found = sent_request(row)
    data = restored.get(row.request_id)
    if data is None:
        return found
    before = restored[previous.request_id] if previous is not None else None
    parts = compared(before, data, row.input_tokens or row.tokens)
    segments = unpack_segments(row.picture, data) if row.picture else ()
    if not segments and row.tokens and len(raw_tokens) == row.turn:
        segments = whole_segments(parts, raw_tokens, row.tokens)
    return replace(
        found,
        body=data.decode("utf-8", "replace"),
        parts=parts,
        picture=picture_of(segments, row.budget_tokens) if segments and row.budget_tokens else None,
        previous=previous.number if previous is not None else None,
    )


def values_of(body: str) -> list[Any]:
    """Return the parts of a body as they were sent, in the order of `SentRequest.parts`."""
    return [value for _, value in _items(body)]


def compared(before: bytes | None, after: bytes, tokens: int) -> tuple[RequestPart, ...]:
    """Compare a request with the one before it, part by part; `tokens` are those of the whole request."""
    old = [text for _, _, text in _parts(before)] if before is not None else []
    new = _parts(after)
    kept = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b[2]), min(len(old), len(new)))
    rest_old, rest_new = old[kept:], [text for _, _, text in new[kept:]]
    appended = len(new) if rest_old else kept
    if rest_old:
        match = SequenceMatcher(None, rest_old, rest_new, autojunk=False).get_opcodes()
        if match and match[-1][0] == "insert":
            appended = kept + match[-1][3]
    total = max(1, sum(len(text) for _, _, text in new))
    found = []
    for index, (name, role, text) in enumerate(new):
        change: Change = "kept" if index < kept else "appended" if index >= appended else "rewritten"
        share = round(tokens * len(text) / total)
        found.append(RequestPart(name, role, len(text), share, change))
    return tuple(found)


def _parts(body: bytes) -> list[tuple[str, str, bytes]]:
    """List the parts of a body: place, role, and content without hints to the cache."""
    found = []
    for name, item in _items(body):
        role = str(item.get("role") or item.get("type") or "")[:MAX_LABEL_CHARS] if isinstance(item, Mapping) else ""
        found.append((name, role, compact_json(_without_hints(item)).encode("utf-8", "surrogatepass")))
    return found


def _items(body: bytes | str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a body with their places, in the order in which providers cache them; none if it is nested too
    deeply to be compared and shown by parts."""
    try:
        data: Any = check_json(json.loads(body), "body")
    except (ValueError, RecursionError, InvalidMessage):
        return
    for field in (name for names in CACHED_FIELDS for name in names if isinstance(data, dict) and name in data):
        value = data[field]
        if isinstance(value, list):
            yield from ((f"{field}[{index}]", item) for index, item in enumerate(value))
        else:
            yield field, value


def _without_hints(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_hints(inner) for key, inner in value.items() if key != "cache_control"}
    if not isinstance(value, list):
        return value
    items = [_without_hints(inner) for inner in value]
    is_text = len(items) == 1 and isinstance(items[0], dict) and items[0].keys() == {"type", "text"}
    return items[0]["text"] if is_text and items[0]["type"] == "text" else items  # two forms of the same text
