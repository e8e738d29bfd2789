"""One import of the store's benchmark: `python store_import.py TRANSCRIPT FILE` prints its time and memory in JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import foveate
from conversation import make_conversation
from foveate.formats import load_transcript

MEGABYTE = 1_000_000
DEMO_TURNS = 1_500


@dataclass(frozen=True, slots=True)
class Imported:
    megabytes: float
    messages: int
    seconds: float
    peak_megabytes: float
    """The process's largest resident memory, all of Python and the vocabulary included."""


def write_transcript(path: Path, megabytes: int) -> None:
    """A Claude Code session of this size: the demo conversation over and over, each record with an id of its own."""
    messages = [message for turn in make_conversation(DEMO_TURNS).turns for message in turn.messages]
    lines = [line for line in "".join(load_transcript("claude-code").write(messages)).splitlines() if line]
    records = [json.loads(line) for line in lines]
    numbers = itertools.count(1)
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for record in itertools.cycle(records):
            if "uuid" in record:
                record["parentUuid"], record["uuid"] = record["uuid"], str(uuid.UUID(int=next(numbers)))
            written += file.write(json.dumps(record, ensure_ascii=False) + "\n")
            if written >= megabytes * MEGABYTE:
                return


async def import_it(transcript: Path, path: Path, size_bytes: int) -> Imported:
    async with foveate.open(path) as fov:
        began = time.perf_counter()
        report = await fov.import_file(transcript)
        seconds = time.perf_counter() - began
    if report.problems or report.added != report.found:
        raise SystemExit(f"{len(report.problems)} problems, {report.added} of {report.found} added")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Imported(size_bytes / MEGABYTE, report.added, seconds, peak / MEGABYTE)


async def store_demo(path: Path, turns: int) -> foveate.SessionStats:
    """Record the demo conversation and weigh it."""
    async with foveate.open(path) as fov:
        session = await fov.session("demo")
        for turn in make_conversation(turns).turns:
            await session.record(turn)
        return await session.stats()


def main() -> None:
    transcript, path = map(Path, sys.argv[1:])
    print(json.dumps(asdict(asyncio.run(import_it(transcript, path, transcript.stat().st_size)))))


if __name__ == "__main__":
    main()
