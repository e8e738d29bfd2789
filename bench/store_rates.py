"""One recording process of the store's benchmark: `python store_rates.py VARIANT FILE TURNS [--mark]`.

`bare` is what sqlite3 alone takes for the same durable rows; the others go through Foveate. The answer is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import foveate
import foveate.sync
from foveate.store import sql
from foveate.store.bodies import digest_of
from foveate.store.sqlite import TYPES
from store_turns import Record, agent_turns, chat_turns, endless

RECORDERS = 64
WARM_UP_TURNS = 20
"""Not timed: they load the vocabulary and the formats."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What one run did."""

    variant: str
    turns: int
    seconds: float
    cpu_seconds: float
    commits: int
    modes: dict[str, str]

    @property
    def turns_per_second(self) -> float:
        return self.turns / self.seconds


ADD_SESSION = """INSERT INTO sessions (number, id, title, strategy, settings, budget_tokens, encoding, calibration,
    fork_turn, fork_position, last_turn, last_position, head, created_us, updated_us)
    VALUES (1, 'a', '', 'none', '{}', 0, '', 1.0, 0, 0, 0, 0, 'closed', 0, 0)"""
ADD_MESSAGE = """INSERT INTO messages
    (session, turn, position, role, kind, tokens, tool_calls, at_us, recorded_us, size, digest)
    VALUES (1, ?, ?, ?, 'message', 0, 0, ?, ?, ?, ?)"""
ADD_BODY = "INSERT INTO bodies (message, data) VALUES (?, ?)"
MOVE_HEAD = "UPDATE sessions SET last_turn = ?, last_position = ?, head = 'prompted', updated_us = ? WHERE number = 1"
NO_DIGEST = bytes(32)


def bare(path: Path, count: int, turns: Sequence[list[Record]]) -> Rate:
    """The same rows in the same tables, one commit a turn: JSON as it is, no hash, no tokens, no compression."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.create_function("sha256", 1, digest_of)
    for _, statements in sql.migrations(0, TYPES):
        for statement in statements:
            connection.execute(statement)
    connection.execute(ADD_SESSION)

    def insert(number: int, turn: list[Record]) -> None:
        now_us = time.time_ns() // 1000
        connection.execute("BEGIN IMMEDIATE")
        for position, message in enumerate(turn, 1):
            data = json.dumps(message, ensure_ascii=False).encode()
            row = (number, position, message["role"], now_us, now_us, len(data), NO_DIGEST)
            connection.execute(ADD_BODY, (connection.execute(ADD_MESSAGE, row).lastrowid, data))
        connection.execute(MOVE_HEAD, (number, len(turn), now_us))
        connection.execute("COMMIT")

    given = endless(turns)
    for number in range(1, WARM_UP_TURNS + 1):
        insert(number, next(given))
    timer = _Timer()
    for number in range(WARM_UP_TURNS + 1, WARM_UP_TURNS + count + 1):
        insert(number, next(given))
    rate = timer.rate("bare", count, count, path)
    connection.close()
    return rate


def blocking(path: Path, count: int, turns: Sequence[list[Record]]) -> Rate:
    """One recorder through `foveate.sync`."""
    with foveate.sync.open(path) as fov:
        session = fov.session("a")
        given = endless(turns)
        for _ in range(WARM_UP_TURNS):
            session.record(next(given))
        before = _commits(fov)
        timer = _Timer()
        for _ in range(count):
            session.record(next(given))
        return timer.rate("sync", count, _commits(fov) - before, path)


async def concurrent(
    variant: str, path: Path, count: int, turns: Sequence[list[Record]], *, sessions: int, recorders: int, mark: bool
) -> Rate:
    """Tasks that record one turn after another, each into its session or all into one."""
    async with foveate.open(path) as fov:
        opened = [await fov.session(f"s{index}") for index in range(sessions)]
        given = endless(turns)
        for _ in range(WARM_UP_TURNS):
            await opened[0].record(next(given))
        numbers = iter(range(count))
        say = _marker() if mark else None
        before = _commits(fov)
        timer = _Timer()
        async with asyncio.TaskGroup() as group:
            for index in range(recorders):
                group.create_task(_record_turns(opened[index % sessions], given, numbers, say))
        return timer.rate(variant, count, _commits(fov) - before, path)


async def _record_turns(
    session: foveate.Session,
    given: Iterator[list[Record]],
    numbers: Iterator[int],
    say: Callable[[str], object] | None,
) -> None:
    for number in numbers:
        if say:
            say(f"given {number}")
        await session.record(cast("list[dict[str, Any]]", next(given)))
        if say:
            say(f"acknowledged {number}")


def _marker() -> Callable[[str], object]:
    """Writes lines to nowhere, that a tracer of system calls sees between the fsyncs."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    return lambda line: os.write(nowhere, f"{line}\n".encode())


def _commits(fov: Any) -> int:
    """Of the store inside, be `fov` the blocking one or not."""
    return int(getattr(fov, "_wrapped", fov)._store.commits)


class _Timer:
    def __init__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def rate(self, variant: str, turns: int, commits: int, path: Path) -> Rate:
        seconds, cpu_seconds = time.perf_counter() - self.began, time.process_time() - self.cpu
        files = sorted(path.parent.glob(f"{path.name}*"))
        modes = {file.name.removeprefix(path.stem): f"{stat.S_IMODE(file.stat().st_mode):04o}" for file in files}
        return Rate(variant, turns, seconds, cpu_seconds, commits, modes)


def run(variant: str, path: Path, count: int, *, mark: bool = False) -> Rate:
    """The rate of one variant into a new file; `-agent` at its end takes whole turns with tool calls."""
    kind, _, long = variant.partition("-")
    turns = agent_turns() if long else chat_turns()
    if kind == "bare":
        return bare(path, count, turns)
    if kind == "sync":
        return blocking(path, count, turns)
    sessions, recorders = {"single": (1, 1), "many": (RECORDERS, RECORDERS), "shared": (1, RECORDERS)}[kind]
    return asyncio.run(concurrent(variant, path, count, turns, sessions=sessions, recorders=recorders, mark=mark))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant")
    parser.add_argument("file", type=Path)
    parser.add_argument("turns", type=int)
    parser.add_argument("--mark", action="store_true")
    options = parser.parse_args()
    print(json.dumps(asdict(run(options.variant, options.file, options.turns, mark=options.mark))))


if __name__ == "__main__":
    main()
