"""Turns that were made to be slow: 40 shapes at three sizes, each compressed in a store beside an ordinary session.

    python bench/poison.py                      all shapes at 100 kB, 1 MB and 10 MB
    python bench/poison.py --kilobytes 100      one size
    python bench/poison.py --only blank,json    some shapes
    python bench/poison.py --cpu                only the CPU time and the memory of compressing and indexing each turn

For each shape and size: how long `record` took, the longest that the event loop was held up meanwhile, how long the
turn took to be compressed, how long an ordinary turn of another session took that was recorded right behind it, how
long `close` took, and the CPU time of the whole case, the start of the compressing process included: on a busy machine
only that is comparable.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import foveate
from foveate import Message, Session, Text, ToolCall, ToolResult
from foveate.compress.local import LocalCompressor
from foveate.recall.embed import STATIC
from foveate.recall.passages import index_turn
from foveate.tokens import exact_counter
from foveate.worker.renditions import compress_safely

BEAT_SECONDS = 0.005
POLL_SECONDS = 0.01
LIMIT_SECONDS = 120.0
Shape = Callable[[int], str]
"""A text of about so many characters."""


def repeated(piece: str) -> Shape:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


def _nested(opening: str, closing: str) -> Shape:
    return lambda size: opening * (size // 2) + closing * (size // 2)


def _json_rows(size: int) -> str:
    row = {"id": 1, "name": "ledger", "values": [1.5, 2.5, None], "note": "a\nb"}
    return json.dumps([row] * (size // len(json.dumps(row)) + 1))


def _numbered(size: int) -> str:
    return "".join(f"2026-11-15 20:{number % 60:02d}:07 INFO worker {number}: done\n" for number in range(size // 40))


def _distinct_words(size: int) -> str:
    return " ".join(f"w{number:x}" for number in range(size // 6))


def _sentences(size: int) -> str:
    return " ".join(f"Host fin-{number:04d} never answers on port {8000 + number}." for number in range(size // 42))


TEXTS: dict[str, Shape] = {
    "blank-lines": repeated("\n"),
    "spaces": repeated(" "),
    "tabs": repeated("\t"),
    "blank-and-space": repeated(" \n"),
    "carriage-returns": repeated("\r"),
    "line-separators": repeated("\u2028"),
    "prose": _sentences,
    "one-word": repeated("a"),
    "distinct-words": _distinct_words,
    "no-spaces-mixed": repeated("aB3_"),
    "digits": repeated("7"),
    "commas": repeated(","),
    "dots": repeated("."),
    "dots-and-spaces": repeated(". "),
    "semicolons": repeated("; "),
    "dashes": repeated(" - "),
    "quotes": repeated('"'),
    "backticks": repeated("`"),
    "fences": repeated("```\n"),
    "open-brackets": repeated("("),
    "nested-brackets": _nested("(", ")"),
    "stars": repeated("*"),
    "emphasis": repeated("**a** "),
    "underscores": repeated("_"),
    "hashes": repeated("# "),
    "list-items": repeated("- a\n"),
    "table": repeated("| a | b |\n"),
    "marks": repeated("[user] "),
    "backslashes": repeated("\\[user] "),
    "turn-heads": repeated("Turn 1: "),
    "chinese": repeated("不如果没有，"),
    "chinese-run": repeated("不"),
    "emoji": repeated("👩‍👩‍👧"),
    "combining": repeated("a\u0301"),
    "thanks": repeated("Thanks! "),
    "base64": repeated("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="),
}
OUTPUTS: dict[str, Shape] = {
    "output-json-line": _json_rows,
    "output-log": _numbered,
    "output-blank-lines": repeated("\n"),
    "output-grep": repeated("src/a.py:12:def run():\n"),
}


def shapes() -> dict[str, Callable[[int], list[Message]]]:
    def spoken(text: Shape) -> Callable[[int], list[Message]]:
        return lambda size: [Message("user", (Text(text(size)),)), Message("assistant", (Text("Noted."),))]

    def printed(text: Shape) -> Callable[[int], list[Message]]:
        return lambda size: [
            Message("user", (Text("Run it."),)),
            Message("assistant", (ToolCall("exec", {"command": "make"}, "c1"),)),
            Message("tool", (ToolResult("c1", (Text(text(size)),)),)),
            Message("assistant", (Text("It ran."),)),
        ]

    return {name: spoken(text) for name, text in TEXTS.items()} | {
        name: printed(text) for name, text in OUTPUTS.items()
    }


@dataclass(frozen=True, slots=True)
class Case:
    """What one shape at one size took, in seconds."""

    record: float
    stall: float
    compressed: float
    other: float
    close: float
    cpu: float


async def measure(messages: Sequence[Message], folder: Path) -> Case:
    cpu = _cpu_seconds()
    fov = await foveate.open(folder / "poison.db")
    warm = await fov.session("warm")
    await warm.record(Message("user", (Text("hello"),)))
    await fov.settle()
    poison, other = await fov.session("poison"), await fov.session("other")
    stalls: list[float] = []
    beating = asyncio.create_task(_beat(stalls))
    began = time.perf_counter()
    await poison.record(list(messages))
    record = time.perf_counter() - began
    await other.record([Message("user", (Text("Which port?"),)), Message("assistant", (Text("8443."),))])
    await poison.record(Message("user", (Text("next"),)))
    await other.record(Message("user", (Text("next"),)))
    done = time.perf_counter()
    compressed, others = await asyncio.gather(_wait(poison, done), _wait(other, done))
    beating.cancel()
    closing = time.perf_counter()
    await fov.close()
    closed = time.perf_counter() - closing
    return Case(record, max(stalls, default=0.0), compressed, others, closed, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    """Of this process and of those that ended."""
    return sum(os.times()[:4])


async def _beat(stalls: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(BEAT_SECONDS)
        stalls.append(time.perf_counter() - before - BEAT_SECONDS)


async def _wait(session: Session, began: float) -> float:
    """Until the first turn has its renditions."""
    while time.perf_counter() - began < LIMIT_SECONDS:
        if (await session.stats()).rendered:
            break
        await asyncio.sleep(POLL_SECONDS)
    return time.perf_counter() - began


def print_cpu(chosen: Mapping[str, Callable[[int], list[Message]]], size: int) -> None:
    """Compress and index each shape in this process."""
    compressor, counter = LocalCompressor(), exact_counter("o200k_base")
    for name, make in {"(loads)": shapes()["prose"], **chosen}.items():
        messages = make(size)
        began = time.process_time()
        made = compress_safely(compressor, 1, messages, counter)
        index_turn(1, messages, at_us=0, embeddings=STATIC)
        taken = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        note = "" if made.is_complete else "  coarse"
        print(f"{name:<28} {taken:7.2f} s  peak memory so far {peak:,} MB{note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilobytes", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    wanted = options.only.split(",")
    chosen = {name: make for name, make in shapes().items() if any(part in name for part in wanted)}
    for kilobytes in options.kilobytes:
        if options.cpu:
            print(f"\n{kilobytes:,} kB")
            print_cpu(chosen, kilobytes * 1_000)
            continue
        print(f"\n{kilobytes:,} kB, seconds{'':<12} record   stall  compressed  other  close    CPU")
        cases = []
        for name, make in chosen.items():
            with tempfile.TemporaryDirectory() as folder:
                case = asyncio.run(measure(make(kilobytes * 1_000), Path(folder)))
            cases.append(case)
            print_row(name, [getattr(case, field) for field in Case.__slots__])
        worst = [max(getattr(case, field) for case in cases) for field in Case.__slots__]
        middle = [statistics.median(getattr(case, field) for case in cases) for field in Case.__slots__]
        print_row("worst", worst)
        print_row("median", middle)


def print_row(title: str, row: Sequence[float]) -> None:
    print(
        f"{title:<28} {row[0]:7.2f} {row[1]:7.2f} {row[2]:11.2f} {row[3]:6.2f} {row[4]:6.2f} {row[5]:6.2f}", flush=True
    )


if __name__ == "__main__":
    main()
