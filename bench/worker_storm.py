"""Kills a process that records and compresses with SIGKILL at random moments, and looks what is left in the end.

Run from the project's root: python bench/worker_storm.py [--times 100] [--seed 1] [--directory DIR]

After the last kill everything is settled. Then every turn has all its renditions, made of all its messages, none of
them is there twice, each block of turns has its era, and `check` finds nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import foveate
from conversation import make_conversation
from foveate.compress.local import LocalCompressor
from foveate.recall.table import MARKS
from foveate.settings import Settings, load_settings
from foveate.store.rows import ERA_FANOUT
from foveate.tokens import count_tokens

SESSIONS = ("s0", "s1")
MAX_DELAY_SECONDS = 0.6
CHILD_LIMIT_SECONDS = 60
PROCESSES = (0, 0, 0, 1)
"""Most children compress in a thread, some in a process of their own, which a kill leaves behind."""
LEASE_SECONDS = 0.5

LACKING = """SELECT t.session, t.turn, t.messages FROM
    (SELECT session, turn, count(*) AS messages FROM messages GROUP BY session, turn) t
    LEFT JOIN renditions r ON r.session = t.session AND r.turn = t.turn AND r.messages = t.messages
    WHERE r.id IS NULL"""
DOUBLED = """SELECT session, turn, messages, count(*) FROM renditions
    GROUP BY session, turn, messages HAVING count(*) > 1"""
UNINDEXED = """SELECT count(*) FROM
    (SELECT session, turn, count(*) AS messages FROM messages GROUP BY session, turn) t
    LEFT JOIN passages p ON p.session = t.session AND p.turn = t.turn AND p.messages = t.messages WHERE p.id IS NULL"""
STALE = "SELECT count(*) FROM passage_words_docsize WHERE id >> 12 NOT IN (SELECT id FROM passages)"
PASSAGES = f"SELECT coalesce(sum(length(marks)), 0) / {MARKS.itemsize} FROM passages"
WORDS = "SELECT count(*) FROM passage_words_docsize"
ERAS = "SELECT session, level, count(*), max(place) + 1 FROM eras GROUP BY session, level"


class Lost(AssertionError):
    """What must never happen."""


@dataclass(slots=True)
class Stormed:
    """What a storm did."""

    kills: int = 0
    turns: int = 0
    renditions: int = 0
    eras: int = 0
    pending_at_kills: int = 0
    """Turns that lacked renditions when a child was killed, over all kills."""
    seconds: float = 0.0


def make_settings(processes: int) -> Settings:
    compress = {"processes": processes, "batch_turns": 4, "lease_seconds": LEASE_SECONDS}
    return load_settings(environment={}, overrides={"compress": compress})


def storm(times: int, directory: Path, seed: int = 1) -> Stormed:
    """Kill a compressing process so often, settle, and raise `Lost` at the first sign of damage."""
    began = time.monotonic()
    chance = random.Random(seed)
    path = directory / "worker-storm.db"
    done = Stormed()
    for number in range(times):
        _work_and_kill(path, f"{seed}-{number}", chance.uniform(0, MAX_DELAY_SECONDS), chance.choice(PROCESSES))
        done.kills += 1
        with closing(sqlite3.connect(path)) as connection:
            done.pending_at_kills += len(connection.execute(LACKING).fetchall())
    asyncio.run(_verify(path, done))
    done.seconds = time.monotonic() - began
    return done


def _work_and_kill(path: Path, run: str, delay: float, processes: int) -> None:
    command = [sys.executable, __file__, "--child", str(path), "--run", run, "--processes", str(processes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout
        try:
            line = child.stdout.readline()
            if line != b"recording\n":
                raise Lost(f"the child said {line!r}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=delay)
                raise Lost(f"the child {run} ended by itself with status {child.returncode}")
        finally:
            child.kill()


async def _verify(path: Path, done: Stormed) -> None:
    async with foveate.open(path, settings=make_settings(0)) as fov:
        await fov.settle()
        faults = [finding.problem async for finding in fov.check() if finding.problem]
        if faults:
            raise Lost(f"check found {faults}")
        for name in SESSIONS:
            session = await fov.session(name)
            contents = await session.get_turns(1, session.info.turns, "T", format="plain")
            done.turns += len(contents)
            await session.context("Where were we?", budget_tokens=2_000)
    verify_file(path)
    with closing(sqlite3.connect(path)) as connection:
        (done.renditions,) = connection.execute("SELECT count(*) FROM renditions").fetchone()
        (done.eras,) = connection.execute("SELECT count(*) FROM eras").fetchone()


def verify_file(path: Path) -> None:
    """Whether a settled file has every rendition and era once; `Lost` if not."""
    with closing(sqlite3.connect(path)) as connection:
        if lacking := connection.execute(LACKING).fetchall():
            raise Lost(f"{len(lacking)} turns lack renditions, such as {lacking[0]}")
        if doubled := connection.execute(DOUBLED).fetchall():
            raise Lost(f"{len(doubled)} renditions are there twice, such as {doubled[0]}")
        (unindexed,) = connection.execute(UNINDEXED).fetchone()
        if unindexed:
            raise Lost(f"{unindexed} turns are not in the index")
        (stale,) = connection.execute(STALE).fetchone()
        (passages,), (words,) = connection.execute(PASSAGES).fetchone(), connection.execute(WORDS).fetchone()
        if stale or passages != words:
            raise Lost(f"the index has the words of {words} passages, {stale} of them gone; there are {passages}")
        turns = dict(connection.execute("SELECT number, last_turn FROM sessions"))
        eras = {(session, level): (count, end) for session, level, count, end in connection.execute(ERAS)}
    for number, last_turn in turns.items():
        wanted = (last_turn - 1) // ERA_FANOUT
        count, end = eras.get((number, 1), (0, 0))
        if count != end or count < wanted:
            raise Lost(f"session {number} has {count} eras up to place {end}; its {last_turn} turns make {wanted}")


async def _child(path: Path, run: str, processes: int) -> None:
    """Record until killed, with compression in the background."""
    turns = make_conversation(60, seed=7).turns
    LocalCompressor().compress(1, turns[0].messages, count_tokens)  # loads what it needs, so that kills fall into work
    async with foveate.open(path, settings=make_settings(processes)) as fov:
        sessions = [await fov.session(name) for name in SESSIONS]
        os.write(sys.stdout.fileno(), b"recording\n")
        chance = random.Random(run)
        async with asyncio.timeout(CHILD_LIMIT_SECONDS):
            while True:
                turn = chance.choice(turns)
                await chance.choice(sessions).record(list(turn.messages))
                if chance.random() < 0.3:
                    await chance.choice(sessions).record([turn.messages[-1]])
                await asyncio.sleep(chance.uniform(0, 0.05))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the file is made; a temporary folder if not said")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(_child(options.child, options.run, options.processes))
        return
    with tempfile.TemporaryDirectory() as temporary:
        done = storm(options.times, options.directory or Path(temporary), options.seed)
    print(f"{done.kills} kills in {done.seconds:.0f} s, with {done.pending_at_kills:,} turns in the making.")
    print(f"{done.turns:,} turns have all their renditions ({done.renditions:,}), none doubled; {done.eras:,} eras.")
    print("check: clean.")


if __name__ == "__main__":
    main()
