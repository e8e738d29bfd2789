"""What keeping a conversation costs, side by side with bare sqlite3 doing the same durable inserts.

Run from the project's root: python bench/store.py [--quick | --full] [--import-mb 100] [--json]

Each rate is the median of several processes; those that are compared take turns, since machines are noisy. The same
is measured on a disk whose fsync takes longer (strace or a C compiler is needed): group commit is there for those.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from store_disk import THIS_DISK, Disk, slow_disk, watch_fsyncs
from store_import import store_demo, write_transcript
from store_rates import RECORDERS, Rate
from store_turns import agent_turns, chat_turns, json_bytes

PAUSE_MS = 4.0
"""What an fsync takes on many a cloud disk, and less than on a hard disk."""
SINGLE = ("bare", "single", "sync")
MANY = ("many", "shared")
LONG = ("bare-agent", "single-agent")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    repeats: int
    turns: int
    slow_turns: int
    lengths: tuple[int, ...]
    samples: int
    imports_mb: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    measure: str
    figure: str
    beside: str = ""
    target: str = ""
    met: bool | None = None
    values: dict[str, Any] | None = None


def plan_of(options: argparse.Namespace) -> Plan:
    if options.quick:
        return Plan(2, 500, 60, (100, 1_000, 10_000), 100, (2, 6))
    imports = (10, options.import_mb) + ((1_000,) if options.full else ())
    return Plan(9 if options.full else 5, 2_000, 200, (100, 1_000, 10_000, 100_000), 500, imports)


def measure_rates(disk: Disk, variants: Sequence[str], turns: int, repeats: int) -> dict[str, list[Rate]]:
    """Every variant in a process and a file of its own, one after the other, so often."""
    rates: dict[str, list[Rate]] = {variant: [] for variant in variants}
    for _ in range(repeats):
        for variant in variants:
            count = turns if variant not in MANY else max(turns, RECORDERS * 10)
            with tempfile.TemporaryDirectory() as directory:
                answer = disk.run("store_rates.py", variant, Path(directory) / "rates.db", count)
            rates[variant].append(Rate(**answer))
    return rates


def rate_rows(disk: Disk, plan: Plan, turns: int) -> Iterator[Row]:
    variants = SINGLE + MANY + (LONG if disk is THIS_DISK else ())
    rates = measure_rates(disk, variants, turns, plan.repeats)
    speed = {name: statistics.median(rate.turns_per_second for rate in runs) for name, runs in rates.items()}
    bare = speed["bare"]
    yield Row(f"{disk.name}: bare sqlite3, a commit a turn", f"{bare:,.0f} turns/s", values={"turns_per_second": bare})
    for variant, name in (("single", "one recorder"), ("sync", "one recorder, foveate.sync")):
        yield _slower(f"{disk.name}: {name}", speed[variant], bare)
    for variant, name in (("many", f"{RECORDERS} sessions"), ("shared", "one session")):
        ratio = speed[variant] / bare
        group = statistics.median(rate.turns / rate.commits for rate in rates[variant])
        yield Row(
            f"{disk.name}: {RECORDERS} recorders, {name}",
            f"{speed[variant]:,.0f} turns/s",
            f"{ratio:.1f} x bare; {group:.1f} turns a commit",
            "≥ 10 x bare",
            ratio >= 10,
            {"turns_per_second": speed[variant], "ratio": ratio, "turns_per_commit": group},
        )
    if "bare-agent" in speed:
        yield _slower(f"{disk.name}: one recorder, turns with tools", speed["single-agent"], speed["bare-agent"])
        modes = rates["many"][-1].modes
        private = set(modes.values()) == {"0600"}
        shown = ", ".join(f"{name} {mode}" for name, mode in modes.items())
        yield Row("file modes", shown, target="0600", met=private, values=modes)


def _slower(measure: str, speed: float, bare: float) -> Row:
    ratio = bare / speed
    values = {"turns_per_second": speed, "times_bare": ratio}
    return Row(measure, f"{speed:,.0f} turns/s", f"{ratio:.2f} x bare's time", "≤ 2 x", ratio <= 2, values)


def disk_rows(plan: Plan, directory: Path) -> Iterator[Row]:
    yield from rate_rows(THIS_DISK, plan, plan.turns)
    slow = slow_disk(PAUSE_MS, directory)
    if slow:
        yield from rate_rows(slow, plan, plan.slow_turns)
    else:
        yield Row("a slower disk", "skipped", "needs strace, allowed to trace, or a C compiler")
    watched = watch_fsyncs(directory, "many", RECORDERS * 10)
    if watched:
        yield Row(
            f"fsyncs for {watched.turns} turns of {RECORDERS} recorders",
            f"{watched.fsyncs}",
            f"{watched.turns_behind_one} turns had one between their giving and their acknowledgement",
            "all",
            watched.turns_behind_one == watched.turns,
            asdict(watched),
        )
    else:
        yield Row("fsyncs", "not counted", "needs strace, allowed to trace")


def measure_growth(plan: Plan) -> list[dict[str, float]]:
    """The cost at each length, the median of several runs with files of their own."""
    runs = []
    for _ in range(min(plan.repeats, 3)):
        with tempfile.TemporaryDirectory() as directory:
            runs.append(THIS_DISK.run("store_growth.py", directory, plan.samples, *plan.lengths))
    return [
        {name: statistics.median(cost[name] for cost in costs) for name in costs[0]}
        for costs in zip(*runs, strict=True)
    ]


def growth_rows(plan: Plan) -> Iterator[Row]:
    costs = measure_growth(plan)
    for cost in costs:
        shown = f"{cost['record_p50_ms']:.2f} / {cost['record_p99_ms']:.2f} ms"
        beside = f"CPU {cost['record_cpu_ms']:.2f} ms"
        yield Row(f"record, p50 / p99, at {cost['turns']:,} turns", shown, beside, values=cost)
    first, last = costs[0], costs[-1]
    growth = last["record_p50_ms"] / first["record_p50_ms"]
    cpu_growth = last["record_cpu_ms"] / first["record_cpu_ms"]
    yield Row(
        f"record, p50 at {last['turns']:,} turns to that at {first['turns']:,}",
        f"{growth:.2f}",
        f"CPU alone: {cpu_growth:.2f}",
        "≤ 1.5",
        growth <= 1.5,
        {"ratio": growth, "cpu_ratio": cpu_growth},
    )
    cpu_ms = last["get_turn_cpu_ms"]
    name = f"get_turn at {last['turns']:,} turns, CPU"
    yield Row(name, f"{cpu_ms:.2f} ms", target="≤ 1 ms", met=cpu_ms <= 1, values={"cpu_ms": cpu_ms})


def import_rows(plan: Plan, directory: Path) -> Iterator[Row]:
    peaks: list[float] = []
    for megabytes in plan.imports_mb:
        transcript = directory / f"{megabytes}.jsonl"
        write_transcript(transcript, megabytes)
        done = THIS_DISK.run("store_import.py", transcript, directory / f"import{megabytes}.db")
        transcript.unlink()
        speed = done["megabytes"] / done["seconds"]
        peaks.append(done["peak_megabytes"])
        shown = f"{done['messages']:,} messages; peak memory {peaks[-1]:,.0f} MB"
        yield Row(f"import of {megabytes:,} MB", f"{speed:.1f} MB/s", shown, values=done)
    growth = peaks[-1] / peaks[0]
    name = f"peak memory, {plan.imports_mb[-1]:,} MB to {plan.imports_mb[0]:,} MB"
    yield Row(name, f"{growth:.2f}", target="flat", met=growth < 1.25, values={"ratio": growth})


def size_rows(directory: Path) -> Iterator[Row]:
    path = directory / "demo.db"
    stored = asyncio.run(store_demo(path, 300))
    ratio = stored.raw_bytes / stored.stored_bytes
    file_bytes = path.stat().st_size
    shown = f"{stored.raw_bytes:,} to {stored.stored_bytes:,} bytes; the file has {file_bytes:,}"
    values = {"raw_bytes": stored.raw_bytes, "stored_bytes": stored.stored_bytes, "file_bytes": file_bytes}
    yield Row("compression of the demo's bodies", f"{ratio:.2f} x", shown, values=values)


def all_rows(plan: Plan, directory: Path) -> Iterator[Row]:
    yield from disk_rows(plan, directory)
    yield from growth_rows(plan)
    yield from import_rows(plan, directory)
    yield from size_rows(directory)


def show(rows: Sequence[Row], console: Console) -> None:
    small, large = json_bytes(chat_turns()), json_bytes(agent_turns())
    table = Table(title=f"A turn has 2 messages and {small:,.0f} bytes of JSON; with tools {large:,.0f} bytes")
    table.add_column("measure")
    table.add_column("figure", justify="right")
    table.add_column("beside it")
    table.add_column("target")
    for row in rows:
        sign = {True: " met", False: " MISSED", None: ""}[row.met]
        table.add_row(row.measure, row.figure, row.beside, f"{row.target}{sign}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="under a minute, small sizes")
    size.add_argument("--full", action="store_true", help="more repeats, and an import of 1 GB")
    parser.add_argument("--import-mb", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    notes = Console(stderr=True)
    with tempfile.TemporaryDirectory() as directory:
        for row in all_rows(plan_of(options), Path(directory)):
            rows.append(row)
            notes.print(f"{row.measure}: {row.figure}", style="dim", highlight=False)
    if options.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=2)
        print()
    else:
        show(rows, Console(width=None if sys.stdout.isatty() else 160))


if __name__ == "__main__":
    main()
