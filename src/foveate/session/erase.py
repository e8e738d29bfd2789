"""Erasure of turns, or of one text, everywhere in the store; see `foveate.store.erase`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from foveate.additions import as_typed, typed_only, without_reminders
from foveate.errors import ErasureOutdated, InvalidMessage
from foveate.session.engine import SessionEngine
from foveate.session.fork import split_title
from foveate.session.record import check_text, printable_text
from foveate.session.tenant import public_id
from foveate.store import Store
from foveate.store.codec import redact_message, restore_message
from foveate.store.erase import (
    BOARDS,
    KEYS,
    NAMES,
    SENT_WITH_TEXT,
    TITLES,
    ErasureRow,
    ErasureSurvey,
    QuotingPin,
    Redaction,
)
from foveate.store.redaction import MARK, Redactor
from foveate.text import turn_text
from foveate.turn import Message, from_us, turn_id, turn_number

SHORTEST_TEXT = 4
"""Characters of a text that can be erased: a shorter one occurs inside words."""
BATCH_TURNS = 200
FOUND = {
    "messages",
    "pins",
    "knowledge items",
    "stored responses",
    "whole tool results",
    NAMES,
    KEYS,
    BOARDS,
    SENT_WITH_TEXT,
}
"""What a text is found in; the other counts are of what is made again."""
ATTEMPTS = 5
"""How often an erasure starts again because the session changed meanwhile."""
BACKUPS = (
    "Copies are out of reach: backups and exports of this store, stores that 'foveate store copy' made, transcripts of "
    "clients, what models and proxies were sent, and answers that a running server keeps for an Idempotency-Key"
)
NOT_SWEPT = "Free pages of the file may still have it: run 'foveate erase SESSION --sweep'"


@dataclass(frozen=True, slots=True)
class QuotedPin:
    """A pin that quotes what is erased."""

    session_id: str
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """What an erasure removed, or would remove."""

    session_id: str
    is_erased: bool
    """False for a preview."""
    turns: tuple[str, ...]
    counts: Mapping[str, int]
    """Removed rows by what they are."""
    forks: tuple[str, ...]
    """Forks that read the turns; they lose them too."""
    pins: tuple[QuotedPin, ...]
    """Pins that quote what is erased and were not removed."""
    kept_items: tuple[str, ...] = ()
    """Ids of knowledge that cites the turns, and that a person wrote, reviewed or pinned."""
    notes: tuple[str, ...] = ()
    """What the erasure does not reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure in the audit."""

    id: str
    session_id: str
    kind: Literal["turns", "text"]
    turns: tuple[str, ...]
    by: str
    counts: Mapping[str, int]
    at: datetime
    overwritten_at: datetime | None
    """When the free pages of the file were overwritten; None: not yet, or not by Foveate."""


class Eraser:
    """Erases in one session."""

    def __init__(self, engine: SessionEngine, *, forks: bool, pins: bool, by: str) -> None:
        self._engine = engine
        self._store: Store = engine.store
        self._key = engine.stored_id
        self._forks = forks
        self._pins = pins
        self._by = check_text("by", by)

    async def turns(self, turns: Sequence[str | int], *, dry_run: bool) -> EraseReport:
        """Erase turns; with `dry_run` only report what would be erased."""
        numbers = [self._number(turn) for turn in turns]
        messages = [await self._messages(number) for number in numbers]
        words = [" ".join(turn_text(turn).split()) for turn in messages]
        prompts = {reading for turn in messages for message in turn for reading in _readings(message)}

        def quotes(pin: QuotingPin) -> bool:
            quoted = " ".join(pin.text.split())
            return any(quoted in text for text in words)

        for _ in range(ATTEMPTS):
            survey = await self._store.erasures.survey(self._key, numbers)
            pins = [pin for pin in survey.pins if quotes(pin)]
            titles = {title: changed for title in survey.titles if (changed := _without_prompt(title, prompts))}
            if dry_run:
                replaced = sum(title in titles for title in survey.titles)
                return self._report(numbers, survey, pins, counts={**survey.counts, TITLES: replaced})
            gone = {(pin.session_id, pin.number) for pin in pins if self._pins or pin.is_removed}
            try:
                row = await self._store.erasures.erase_turns(
                    self._key,
                    numbers,
                    forks=survey.forks if self._forks else None,
                    pins=gone,
                    titles=titles,
                    actor=self._by,
                )
            except ErasureOutdated:
                continue
            return self._report(numbers, survey, [pin for pin in pins if not self._pins], row)
        raise ErasureOutdated(self._key)

    async def text(self, text: str, *, dry_run: bool) -> EraseReport:
        """Replace a text wherever it occurs in the session; with `dry_run` only report where."""
        redactor = make_redactor(text)
        for _ in range(ATTEMPTS):
            await self._engine.reload()
            head = self._engine.row.last_turn, self._engine.row.last_position
            redactions = await self._redactions(redactor)
            numbers = sorted({redaction.turn for redaction in redactions})
            survey = await self._store.erasures.survey(self._key, numbers, redactor=redactor)
            pins = [pin for pin in survey.pins if redactor.is_in(pin.text)]
            counts = {**survey.counts, "messages": len(redactions), "pins": len(pins) if self._pins else 0}
            if dry_run or not any(counts[name] for name in counts.keys() & FOUND):
                return self._report(numbers, survey, pins, counts=counts)
            try:
                row = await self._store.erasures.erase_text(
                    self._key,
                    redactions,
                    redactor=redactor,
                    seen=head,
                    forks=survey.forks if self._forks else None,
                    pins=self._pins,
                    actor=self._by,
                )
            except ErasureOutdated:
                continue
            return self._report(numbers, survey, [pin for pin in pins if not self._pins], row)
        raise ErasureOutdated(self._key)

    async def _redactions(self, redactor: Redactor) -> list[Redaction]:
        """Return the session's own messages that contain the text, without it."""
        row, sizes, level = self._engine.row, self._engine.sizes, self._engine.compression_level
        found: list[Redaction] = []
        for first in range(row.fork_turn + 1, row.last_turn + 1, BATCH_TURNS):
            last = min(first + BATCH_TURNS - 1, row.last_turn)
            rows = await self._store.read(self._key, first, last)
            redact = partial(redact_message, redactor=redactor, sizes=sizes, compression_level=level)
            drafts = await asyncio.to_thread(lambda job, given: [*map(job, given)], redact, rows)
            found += [
                Redaction(turn=each.turn, position=each.position, old_digest=each.digest, draft=draft)
                for each, draft in zip(rows, drafts, strict=True)
                if draft
            ]
        return found

    async def _messages(self, number: int) -> tuple[Message, ...]:
        """Return the messages of a turn; an erased one has none."""
        rows = await self._store.read(self._key, number, number)
        return tuple(restore_message(row) for row in rows if row.body is not None)

    def _number(self, turn: str | int) -> int:
        number = turn_number(turn)
        if number is None:
            raise InvalidMessage("turn", f"{turn!r} is not a turn; turns look like T-12")
        return number

    def _report(
        self,
        numbers: Sequence[int],
        survey: ErasureSurvey,
        pins: Sequence[QuotingPin],
        row: ErasureRow | None = None,
        *,
        counts: Mapping[str, int] | None = None,
    ) -> EraseReport:
        tenant = self._engine.tenant
        shown = counts or survey.counts if row is None else json.loads(row.counts)
        return EraseReport(
            session_id=public_id(tenant, self._key),
            is_erased=row is not None,
            turns=tuple(map(turn_id, sorted(set(numbers)))),
            counts={name: count for name, count in shown.items() if count},
            forks=tuple(public_id(tenant, fork) for fork in survey.forks),
            pins=tuple(
                QuotedPin(public_id(tenant, pin.session_id), f"P-{pin.number}", pin.text)
                for pin in pins
                if not pin.is_removed
            ),
            kept_items=survey.kept_items,
            notes=(BACKUPS,),
        )


def make_redactor(text: str) -> Redactor:
    """Check a text to erase."""
    if len(text.strip()) < SHORTEST_TEXT:
        raise InvalidMessage("text", f"is too short to be erased safely; give at least {SHORTEST_TEXT} characters")
    return Redactor(text)


def _readings(message: Message) -> set[str]:
    """Return the lines that a title may be made from: a prompt's, also without what programs added to it."""
    if message.role in ("assistant", "tool") and message.kind == "message":
        return set()
    typed = typed_only(message.text)
    readings = {message.text, without_reminders(message.text), typed, as_typed(message.text), as_typed(typed)}
    return {"\n".join(" ".join(line.split()) for line in printable_text(text).split("\n")) for text in readings}


def _without_prompt(title: str, prompts: Collection[str]) -> str:
    """Return what replaces a title that is the beginning of a prompt, or of one of its lines; else nothing."""
    made, added = split_title(title)
    words = made.removesuffix("…").split()
    begins = re.compile(r"(?:\A|[\n>]) ?" + r"[ \n]+".join(map(re.escape, words)))
    return f"{MARK}{added}" if words and any(map(begins.search, prompts)) else ""


def describe_erasure(row: ErasureRow, tenant: str) -> Erasure:
    return Erasure(
        id=row.id,
        session_id=public_id(tenant, row.session_id),
        kind=row.kind,
        turns=tuple(row.turns.split()),
        by=row.actor,
        counts=json.loads(row.counts),
        at=from_us(row.at_us),
        overwritten_at=None if row.swept_us is None else from_us(row.swept_us),
    )


async def sweep(store: Store) -> str:
    """Overwrite what erased rows left in the file; return what is left to do, empty for nothing."""
    before = [row.at_us for row in await store.erasures.list_all() if row.swept_us is None]
    if not before:
        return ""
    rest = await store.erasures.sweep()
    if not rest:
        await store.erasures.note_swept(max(before))
    return rest
