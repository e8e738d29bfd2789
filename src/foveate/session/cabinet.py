"""The file cabinet: complete tool results and fetched pages by key, so that a model reads only the lines it needs.

entry = await session.cabinet.file(page, name="prices.html", media_type="text/html", source=url)
await session.cabinet.read(entry.key, first_line=120, lines=10)

A key expires after `cabinet.retention_days`, and is renewed while a context shows it. Content that a session's tool
returned belongs to the log: its bytes outlive the key, until their turn is pruned.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from foveate.context.board import Note
from foveate.errors import ContentExpired, ContentNotFound, InputError
from foveate.history.late_writes import LateWrites
from foveate.session.record import check_text
from foveate.session.tenant import public_id
from foveate.session.values import copied
from foveate.settings import Settings
from foveate.store import Store
from foveate.store.bodies import MAX_BODY_BYTES
from foveate.store.cabinet import CabinetRow, NewContent, pack
from foveate.store.rows import DAY_US
from foveate.store.sql import now_us
from foveate.turn import from_us, turn_id

MAX_LINE_CHARS = 1_000
"""A longer line counts as several, so that every part of the content can be read by line numbers."""
MAX_LABEL_CHARS = 2_000
KEY = re.compile(r"f-[0-9a-f]{12,64}\b")
"""A key in a text."""
_WORD = re.compile(r"\w")
RENEWAL_US = DAY_US
"""Interval at which a key that contexts show is renewed."""
MAX_RENEWED = 10_000
_PROBED_BYTES = 8_192
_TEXT_TYPES = ("application/json", "application/xml", "application/javascript", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class CabinetEntry:
    """A key of the file cabinet, without its content."""

    key: str
    name: str
    size: int
    """Size of the content in bytes."""
    sha256: str
    media_type: str
    source: str
    """Origin of the content, e.g. a URL; empty if unknown."""
    created: datetime
    expires: datetime
    session_id: str | None = None
    """The session whose tool returned the content."""
    turn_id: str | None = None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a content."""

    text: str
    first_line: int
    last_line: int
    """0 if the excerpt is empty."""
    total_lines: int


OnFiled = Callable[[CabinetEntry], Awaitable[None]]
"""Called with each new entry, e.g. to put a note on the session's board."""


class Cabinet:
    """The file cabinet of a tenant; for the owner, of all tenants. Every change is durable when its method returns."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        tenant: str | None,
        view: str = "",
        session_id: str | None = None,
        on_filed: OnFiled | None = None,
    ) -> None:
        """`tenant` None includes all tenants. `session_id` is the stored id of the session whose tools use the cabinet.
        Session ids are returned as the tenant `view` uses them."""
        self._store = store
        self._settings = settings
        self._tenant = tenant
        self._view = view
        self._session_id = session_id
        self._on_filed = on_filed

    async def file(
        self, content: bytes, *, name: str, media_type: str = "text/plain", source: str = ""
    ) -> CabinetEntry:
        """Store content under a key made of its hash. The same content has the same key."""
        if len(content) > MAX_BODY_BYTES:
            raise InputError(f"{name} has {len(content):,} bytes; the limit of the file cabinet is {MAX_BODY_BYTES:,}")
        for label, value in (("name", name), ("media_type", media_type), ("source", source)):
            check_text(label, value)
        level = self._settings.store.compression_level
        packed, digest = await asyncio.to_thread(lambda: (pack(content, level), hashlib.sha256(content).digest()))
        new = NewContent(
            tenant=self._tenant or "",
            digest=digest,
            size=len(content),
            is_packed=packed.is_packed,
            data=packed.data,
            name=name[:MAX_LABEL_CHARS],
            media_type=media_type[:MAX_LABEL_CHARS],
            source=source[:MAX_LABEL_CHARS],
            expires_us=now_us() + retention_us(self._settings),
            session_id=self._session_id,
        )
        entry = self._entry(await self._store.cabinet.file(new, now_us=now_us()))
        if self._on_filed:
            await self._on_filed(entry)
        return entry

    async def entry(self, key: str) -> CabinetEntry:
        """Return the entry of a key. `ContentNotFound` if it does not exist, `ContentExpired` if it has expired."""
        return self._entry(await self._row(key))

    async def content(self, key: str) -> bytes:
        """Return the complete content of a key as bytes."""
        row = await self._row(key)
        found = await self._store.cabinet.read(row.tenant, row.digest)
        if found is None:
            raise ContentNotFound(key)
        return found

    async def read(self, key: str, first_line: int = 1, lines: int = 200) -> str:
        """Read lines of a text, numbered from 1. `InputError` if the content is binary."""
        return (await self.excerpt(key, first_line, lines)).text

    async def excerpt(self, key: str, first_line: int = 1, lines: int = 200) -> Excerpt:
        """Read lines of a text together with their numbers. A line of more than 1,000 characters counts as several."""
        if first_line < 1 or lines < 1:
            raise InputError(f"lines are numbered from 1; got first_line {first_line}, lines {lines}")
        text = await self.text(key)
        return await asyncio.to_thread(_excerpt, text, first_line, lines)

    async def find(self, key: str, words: str, limit: int = 20, *, first_line: int = 1) -> list[tuple[int, str]]:
        """Find lines that contain a text, ignoring case, from `first_line` on; each is returned with its number."""
        if not words.strip():
            raise InputError("the text to find is empty")
        text = await self.text(key)
        return await asyncio.to_thread(_matches, text, words.casefold(), limit, first_line)

    async def text(self, key: str) -> str:
        """Return the complete content of a key as text. `InputError` if it is binary."""
        entry, content = await self.entry(key), await self.content(key)
        found = decode(content, entry.media_type)
        if found is None:
            raise InputError(
                f"{key} ({entry.name}) is binary: {entry.media_type}, {entry.size:,} bytes; it can be written to a "
                "file, not read as text"
            )
        return found

    async def list(self) -> Sequence[CabinetEntry]:
        """List the entries that have not expired, newest first."""
        return [self._entry(row) for row in await self._store.cabinet.list_keys(self._tenant, now_us=now_us())]

    async def prune(self, *, dry_run: bool = False) -> Sequence[CabinetEntry]:
        """Remove expired keys, and content that no turn refers to; return the removed entries.

        With `dry_run`, nothing is removed.
        """
        cabinet = self._store.cabinet
        prune = cabinet.expired if dry_run else cabinet.remove_expired
        return [self._entry(row) for row in await prune(self._tenant, now_us=now_us())]

    async def _row(self, key: str) -> CabinetRow:
        row = await self._store.cabinet.find(self._tenant, key)
        if row is None:
            raise ContentNotFound(key)
        if row.removed_us is None and row.expires_us > now_us():
            return row
        places = await self._store.cabinet.references(row.tenant, row.digest)
        own = [place for place in places if place[0] == self._session_id] or places
        session, turn = own[0] if own else (None, None)
        raise ContentExpired(
            key,
            expired_at=f"{from_us(row.expires_us):%Y-%m-%d %H:%M} UTC",
            source=row.source,
            session_id=None if session in (None, self._session_id) else public_id(self._view, session),
            turn_id=None if turn is None else turn_id(turn),
        )

    def _entry(self, row: CabinetRow) -> CabinetEntry:
        return copied(
            CabinetEntry,
            row,
            sha256=row.digest.hex(),
            created=from_us(row.created_us),
            expires=from_us(row.expires_us),
            session_id=None if row.session_id is None else public_id(self._view, row.session_id),
            turn_id=None if row.turn is None else turn_id(row.turn),
        )


class KeyRenewals:
    """Renews the keys that contexts show, and restores expired ones whose content is in the log.

    All sessions of an open store share it, so that a key is not written with every context.
    """

    def __init__(self, store: Store, settings: Settings, writes: LateWrites) -> None:
        self._store = store
        self._life_us = retention_us(settings)
        self._interval_us = min(RENEWAL_US, self._life_us // 2)
        self._renewed: dict[tuple[str, str], int] = {}
        self._writes = writes

    async def renew(self, tenant: str, shown: str) -> None:
        """Renew the keys in a context's text, each once a day. A busy store never breaks the context."""
        now = now_us()
        found = sorted(keys_in(shown))
        due = [key for key in found if self._renewed.get((tenant, key), 0) + self._interval_us <= now]
        if not due:
            return

        async def write() -> None:
            await self._store.cabinet.renew(tenant, due, expires_us=now + self._life_us)

        if await self._writes.write(f"renewal of keys of {tenant!r}", write):
            if len(self._renewed) > MAX_RENEWED:
                self._renewed.clear()
            self._renewed.update({(tenant, key): now for key in due})


def filed_note(entry: CabinetEntry, turn: int, turns: int) -> Note:
    """Write the board's note about content that was filed in this turn."""
    is_page = entry.source.startswith(("http://", "https://"))
    where = f", from {entry.source}" if entry.source else ""
    text = f"{entry.name}, {entry.media_type}, {entry.size:,} bytes{where}"
    return Note("fetch" if is_page else "cabinet", entry.key, text, until_turn=turn + turns, since_turn=turn)


def retention_us(settings: Settings) -> int:
    """Return the lifetime of a key in microseconds."""
    return int(settings.cabinet.retention_days * DAY_US)


def keys_in(text: str) -> set[str]:
    """Find the keys that a text mentions."""
    # A search is much faster if the pattern begins with letters instead of a word boundary.
    return {found[0] for found in KEY.finditer(text) if not _WORD.match(text[found.start() - 1 : found.start()])}


def decode(content: bytes, media_type: str) -> str | None:
    """Decode content as text; None if it is binary. Invalid UTF-8 is replaced if the media type is a text type."""
    if b"\0" in content[:_PROBED_BYTES]:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        kind = media_type.partition(";")[0].strip().lower()
        is_text = kind.startswith("text/") or kind in _TEXT_TYPES
        return content.decode("utf-8", "replace") if is_text else None


def _lines(text: str) -> list[str]:
    """Split a text into lines, and long lines into pieces."""
    lines = text.splitlines()
    if max(map(len, lines), default=0) <= MAX_LINE_CHARS:
        return lines
    return [
        line[start : start + MAX_LINE_CHARS] for line in lines for start in range(0, max(len(line), 1), MAX_LINE_CHARS)
    ]


def _excerpt(text: str, first_line: int, lines: int) -> Excerpt:
    all_lines = _lines(text)
    chosen = all_lines[first_line - 1 : first_line - 1 + lines]
    last = first_line + len(chosen) - 1 if chosen else 0
    return Excerpt("".join(f"{line}\n" for line in chosen), first_line, last, len(all_lines))


def _matches(text: str, words: str, limit: int, first_line: int) -> list[tuple[int, str]]:
    numbered = ((number, line) for number, line in enumerate(_lines(text), 1) if number >= first_line)
    found = ((number, line) for number, line in numbered if words in line.casefold())
    return [match for match, _ in zip(found, range(limit), strict=False)]
