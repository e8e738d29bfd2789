"""Kills a recording process with SIGKILL at random moments, again and again, and looks what is left in the file.

Run from the project's root: python bench/crash_storm.py [--times 200] [--seed 1] [--directory DIR]

After each kill: every turn that was acknowledged is there to the letter, every call of `record` is there as a whole
or not at all, turns and positions have no gaps, and `check` finds nothing. The next process goes on in the same file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import foveate
from foveate import formats
from foveate.errors import SessionNotFound
from foveate.tokens import count_tokens
from foveate.turn import Json, Message

SESSIONS = 4
TASKS = 6
MAX_DELAY_SECONDS = 0.3
MAX_OPENING_SECONDS = 0.03
"""Some kills fall into the opening of the file; the very first one, into its making."""
OPENING_SHARE = 0.15
CHILD_LIMIT_SECONDS = 60
FULL_CHECK_EVERY = 20
"""In between, only the turns since the last check are read; `check` reads all each time."""

_MARK = re.compile(r"call (\S+) message (\d+) of (\d+)")


class Lost(AssertionError):
    """What must never happen."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What `record` returned for one call, and what it was given."""

    session: str
    turn: int
    call: str
    messages: int
    checksum: str


@dataclass(slots=True)
class Stormed:
    """What a storm did."""

    kills: int = 0
    kills_while_opening: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    """Calls that were durable when the process was killed, though it had no time to say so."""
    messages: int = 0
    seconds: float = 0.0


def storm(times: int, directory: Path, seed: int = 1) -> Stormed:
    """Kill a recorder so often, and raise `Lost` at the first sign of damage."""
    began = time.monotonic()
    chance = random.Random(seed)
    path = directory / "storm.db"
    ledger = _Ledger(path)
    for number in range(times):
        opening = number == 0 or chance.random() < OPENING_SHARE
        delay = chance.uniform(0, MAX_OPENING_SECONDS if opening else MAX_DELAY_SECONDS)
        acknowledged = _record_and_kill(path, f"{seed}-{number}", delay, while_opening=opening)
        ledger.done.kills += 1
        ledger.done.kills_while_opening += opening
        full = number % FULL_CHECK_EVERY == FULL_CHECK_EVERY - 1 or number == times - 1
        asyncio.run(ledger.verify(acknowledged, full=full))
    ledger.done.seconds = time.monotonic() - began
    return ledger.done


def verify_file(path: Path) -> Stormed:
    """Check a file of which nothing was acknowledged."""
    ledger = _Ledger(path)
    asyncio.run(ledger.verify([], full=True))
    return ledger.done


def _record_and_kill(path: Path, run: str, delay: float, *, while_opening: bool) -> list[Acknowledged]:
    command = [sys.executable, __file__, "--child", str(path), "--run", run]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout
        try:
            _await_line(child, b"opening\n")
            if not while_opening:
                _await_line(child, b"recording\n")
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=delay)
                raise Lost(f"the recorder {run} ended by itself with status {child.returncode}")
        finally:
            child.kill()
        output, _ = child.communicate()
    # A line that was cut off was not said.
    lines = [line for line in output.decode().splitlines(keepends=True) if line.startswith("{") and line[-1] == "\n"]
    return [Acknowledged(**json.loads(line)) for line in lines]


def _await_line(child: subprocess.Popen[bytes], wanted: bytes) -> None:
    assert child.stdout
    line = child.stdout.readline()
    if line != wanted:
        raise Lost(f"the recorder said {line!r} instead of {wanted!r}")


@dataclass(slots=True)
class _Ledger:
    """What was acknowledged so far, and how far each session was verified."""

    path: Path
    done: Stormed = field(default_factory=Stormed)
    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    verified: dict[str, int] = field(default_factory=dict)

    async def verify(self, acknowledged: Sequence[Acknowledged], *, full: bool) -> None:
        self.acknowledged.update((entry.call, entry) for entry in acknowledged)
        self.done.acknowledged = len(self.acknowledged)
        async with foveate.open(self.path) as fov:
            faults = [finding.problem async for finding in fov.check() if finding.problem]
            if faults:
                raise Lost(f"check found {faults}")
            found: set[str] = set()
            self.done.messages = 0
            for name in _session_names():
                with contextlib.suppress(SessionNotFound):
                    session = await fov.open_session(name)
                    found |= await self._verify_session(session, first=1 if full else self.verified.get(name, 1))
                    self.done.messages += (await session.stats()).messages
        expected = self.acknowledged if full else {entry.call for entry in acknowledged}
        if missing := set(expected) - found:
            raise Lost(f"{len(missing)} acknowledged calls are gone, such as {self.acknowledged[min(missing)]}")
        self.seen |= found
        self.done.unacknowledged = len(self.seen - set(self.acknowledged))

    async def _verify_session(self, session: foveate.Session, *, first: int) -> set[str]:
        turns = await session.load_turns(first)
        numbers = [turn.number for turn in turns]
        if numbers != list(range(first, first + len(turns))):
            raise Lost(f"the turns of {session.id} are {numbers}")
        if turns and turns[-1].number != session.info.turns:
            raise Lost(f"{session.id} says it has {session.info.turns} turns, and has {turns[-1].number}")
        calls: dict[str, list[tuple[int, Message]]] = {}
        for turn in turns:
            for message in turn.messages:
                calls.setdefault(_mark_of(message)[0], []).append((turn.number, message))
        for call, kept in calls.items():
            self._verify_call(session.id, call, kept)
        self.verified[session.id] = max(numbers, default=first)
        return set(calls)

    def _verify_call(self, session: str, call: str, kept: list[tuple[int, Message]]) -> None:
        """All messages of one call of `record`, in their order, in one turn, as they were given."""
        total = _mark_of(kept[0][1])[2]
        parts = [_mark_of(message)[1] for _, message in kept]
        if parts != list(range(1, total + 1)):
            raise Lost(f"of call {call}, which has {total} messages, {session} has {parts}")
        if len({turn for turn, _ in kept}) != 1:
            raise Lost(f"call {call} is spread over turns {[turn for turn, _ in kept]} of {session}")
        given = self.acknowledged.get(call)
        actual = Acknowledged(session, kept[0][0], call, total, _checksum([_data(message) for _, message in kept]))
        if given and given != actual:
            raise Lost(f"{given} was acknowledged; the file has {actual}")


def _mark_of(message: Message) -> tuple[str, int, int]:
    data = _data(message)
    match = _MARK.match(str(data["content"])) if isinstance(data, dict) else None
    if match is None:
        raise Lost(f"a message that nobody recorded: {message}")
    return match[1], int(match[2]), int(match[3])


def _data(message: Message) -> Json:
    return message.original.data if message.original else None


def _checksum(messages: Sequence[Json]) -> str:
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def _session_names() -> list[str]:
    return [f"s{index}" for index in range(SESSIONS)]


async def _child(path: Path, run: str) -> None:
    """Record until killed; say each turn on standard output, but only when `record` has returned."""
    count_tokens("loads the vocabulary")
    formats.message_formats()
    _say("opening")
    async with foveate.open(path) as fov:
        sessions = [await fov.session(name) for name in _session_names()]
        _say("recording")
        async with asyncio.timeout(CHILD_LIMIT_SECONDS), asyncio.TaskGroup() as group:
            for task in range(TASKS):
                group.create_task(_keep_recording(sessions, f"{run}-{task}"))


async def _keep_recording(sessions: Sequence[foveate.Session], run: str) -> None:
    chance = random.Random(run)
    count = 0
    while True:
        count += 1
        call = f"{run}-{count}"
        messages = _make_call(call, chance)
        session = chance.choice(sessions)
        recorded = await session.record(messages)
        said = Acknowledged(recorded.session_id, recorded.number, call, recorded.messages, _checksum(messages))
        _say(json.dumps(asdict(said)))


def _make_call(call: str, chance: random.Random) -> list[dict[str, Json]]:
    """One to five messages: a prompt with what it leads to, or more for the open turn."""
    roles = chance.choice(
        [
            ["user"],
            ["user", "assistant"],
            ["user", "assistant", "tool", "assistant"],
            ["user", "assistant", "tool", "tool", "assistant"],
            ["assistant"],
            ["assistant", "tool", "assistant"],
        ]
    )
    return [_make_message(role, f"call {call} message {n} of {len(roles)}", chance) for n, role in enumerate(roles, 1)]


def _make_message(role: str, mark: str, chance: random.Random) -> dict[str, Json]:
    words = chance.choices(["berth", "tide", str(chance.random())], k=chance.choice([0, 5, 20, 80, 400, 2_000]))
    message: dict[str, Json] = {"role": role, "content": f"{mark} {' '.join(words)}"}
    if role == "assistant" and chance.random() < 0.5:
        called = {"name": "read_file", "arguments": json.dumps({"path": f"{chance.random()}.py"})}
        message["tool_calls"] = [{"id": f"c-{mark}", "type": "function", "function": called}]
    if role == "tool":
        message["tool_call_id"] = f"c-{mark}"
    return message


def _say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the file is made; a temporary folder if not said")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        with contextlib.suppress(BrokenPipeError):
            asyncio.run(_child(options.child, options.run))
        return
    with tempfile.TemporaryDirectory() as temporary:
        done = storm(options.times, options.directory or Path(temporary), options.seed)
    print(f"{done.kills} kills in {done.seconds:.0f} s, {done.kills_while_opening} of them while opening.")
    print(f"{done.acknowledged:,} acknowledged turns and {done.messages:,} messages: all there, none partial.")
    print(f"{done.unacknowledged:,} calls were durable before they could be acknowledged. check: clean each time.")


if __name__ == "__main__":
    main()
