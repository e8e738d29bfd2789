"""Loads made-up conversations straight into a file, renditions included, so that a million turns take minutes.

Eras are not loaded: `settle` makes them, as it does for any conversation.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import foveate
from foveate.context.costs import content_tokens
from foveate.renditions import Unit
from foveate.settings import load_settings
from foveate.store import bodies, derived, log
from foveate.store.rows import NewRendition
from foveate.text import message_text
from foveate.tokens import O200K
from foveate.turn import Message, Role, Text
from foveate.worker.renditions import pack_units

BATCH_TURNS = 5_000
START_US = 1_600_000_000_000_000
_MESSAGES = """INSERT INTO messages (id, session, turn, position, role, kind, tokens, tool_calls, at_us, recorded_us,
    size, digest) VALUES (?, 1, ?, ?, ?, 'message', ?, 0, ?, ?, ?, ?)"""
_WORKS = ("pump", "crane", "berth", "ledger", "invoice", "tide gauge", "ferry", "buoy", "radar", "mooring")
_DEEDS = ("repaired", "moved", "checked", "ordered", "refused", "painted", "sold", "measured", "closed", "booked")
_PLACES = ("quay", "dock", "basin", "shed", "pier", "office", "lock", "yard")


async def load(path: Path, turns: int, facts: Mapping[int, str] | None = None, *, filler_words: int = 0) -> None:
    """A session `bulk` with this many short turns; `facts` are said in turns of their own number."""
    settings = load_settings(environment={}, overrides={"compress": {"enabled": False, "processes": 0}})
    async with foveate.open(path, settings=settings) as fov:
        await fov.session("bulk", budget_tokens=100_000)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = off")
        for first in range(1, turns + 1, BATCH_TURNS):
            numbers = range(first, min(first + BATCH_TURNS, turns + 1))
            connection.execute("BEGIN")
            _add(connection, numbers, facts or {}, filler_words)
            connection.execute("COMMIT")
        head = {"turns": turns, "now": time.time_ns() // 1000}
        connection.execute(
            "UPDATE sessions SET last_turn = :turns, last_position = 2, head = 'closed', settled = :turns,"
            " updated_us = :now WHERE number = 1",
            head,
        )


def said_in(turn: int, facts: Mapping[int, str], filler_words: int = 0) -> tuple[str, str]:
    """The prompt and the answer of a turn."""
    chance = random.Random(turn)
    deed, work, place = chance.choice(_DEEDS), chance.choice(_WORKS), chance.choice(_PLACES)
    code = f"{chance.choice('ABCDEFGH')}{chance.randrange(1000, 10_000)}"
    filler = "".join(f" {chance.choice(_WORKS)} {chance.choice(_DEEDS)}" for _ in range(filler_words // 2))
    asked = f"{facts[turn]} Note that." if turn in facts else f"Was the {work} {code} {deed} at {place} {turn % 97}?"
    return asked, f"Yes, {deed} the {work} {code} on day {turn % 365}.{filler}"


def _add(connection: sqlite3.Connection, turns: range, facts: Mapping[int, str], filler_words: int) -> None:
    messages, contents, renditions = [], [], []
    for turn in turns:
        asked, answered = said_in(turn, facts, filler_words)
        for position, (role, text) in enumerate(_spoken(asked, answered), 1):
            body = bodies.pack({"format": "openai", "data": {"role": role, "content": text}}, 3)
            at_us = START_US + turn * 60_000_000
            number = 2 * turn + position - 2
            tokens = O200K.base(message_text(Message(role, (Text(text),))))
            messages.append((number, turn, position, role, tokens, at_us, at_us, body.size, body.digest))
            contents.append({"session": 1, "turn": turn, "position": position, "data": body.data})
        rendition = _rendition(turn, asked, answered)
        renditions.append(derived.rendition_values(1, rendition, calls=0, made_us=START_US))
    connection.executemany(_MESSAGES, messages)
    connection.executemany(log.ADD_BODY, contents)
    connection.executemany(derived.ADD_RENDITION.removesuffix(" RETURNING id"), renditions)


def _spoken(asked: str, answered: str) -> Iterator[tuple[Role, str]]:
    yield "user", asked
    yield "assistant", answered


def _rendition(turn: int, asked: str, answered: str) -> NewRendition:
    short = answered[:60].rstrip()
    smoothed = f"[user] {asked}\n[assistant] {answered}\n"
    compressed = f"{asked} [assistant] {short}"
    tiny = asked if "Note that." in asked else short
    units = (
        Unit(turn, asked, 3.0, _facts(asked)),
        Unit(turn, f"[assistant] {short}", 1.0, _facts(short)),
    )
    return NewRendition(
        turn=turn,
        messages=2,
        maker="bulk",
        version=1,
        is_complete=True,
        smoothed_tokens=content_tokens(smoothed, "S", O200K),
        compressed_tokens=content_tokens(compressed, "C", O200K),
        tiny_tokens=content_tokens(tiny, "T", O200K),
        tiny=tiny,
        compressed=bodies.squeeze(compressed),
        smoothed=bodies.squeeze(smoothed),
        units=pack_units(units),
        refusals=0,
    )


def _facts(text: str) -> frozenset[str]:
    words = (word.strip(".,?").lower() for word in text.split())
    return frozenset(f"{'n' if any(map(str.isdigit, word)) else 'w'}:{word}" for word in words)
