"""How much of each prompt a provider's cache has already, and what that costs, on real conversations.

    python bench/cache.py                          # the pi session and the Aider log at 16k, 32k and 64k
    python bench/cache.py --turns 300 --budgets 16000

Needs ../shared/data. One model call before every assistant message; a prompt's cached part is the prefix that it
shares with the prompt before it. Reads cost 0.1, writes 1.25, next to 1.0 without a cache. The two orders differ
only while something stands on the board, so each is also played with a model that reads an old turn every ten turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import foveate.sync as foveate
from foveate.compress.settings import CompressSettings
from foveate.context.settings import ContextSettings
from foveate.replay.replay import replay
from foveate.replay.script import Script, prepare
from foveate.settings import Settings
from foveate.turn import Turn

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts"
FILES = {"pi": "pi-large-session.jsonl", "aider": "aider-chat-history.md"}
BUDGETS = (16_000, 32_000, 64_000)
RETRIEVE_EVERY_TURNS = 10
HEADS = ("log", "calls", "budget", "schedule", "reads", "order", "cached", "price", "rebuilds", "room used")
CASES = (
    ("watermark", "cache-first", 0),
    ("interval", "cache-first", 0),
    ("watermark", "cache-first", RETRIEVE_EVERY_TURNS),
    ("watermark", "documented", RETRIEVE_EVERY_TURNS),
    ("interval", "cache-first", RETRIEVE_EVERY_TURNS),
    ("interval", "documented", RETRIEVE_EVERY_TURNS),
)


@dataclass(frozen=True, slots=True)
class Case:
    transcript: str
    budget_tokens: int
    schedule: str
    order: str
    retrieve_every_turns: int
    recalls: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    turns: int
    calls: int
    overruns: int
    cached_share: float
    price: float
    rebuilds: int
    mean_history_use: float | None
    cpu_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--budgets", nargs="*", type=int, default=list(BUDGETS))
    parser.add_argument("--schedules", nargs="*", default=["watermark", "interval"])
    parser.add_argument("--no-recall", action="store_true", help="without recall, whose room is the history's then")
    parser.add_argument("--turns", type=int, help="only the first N turns of each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown")
    options = parser.parse_args()
    if not TRANSCRIPTS.is_dir():
        sys.exit("the transcripts in ../shared/data are not here")
    cases = [
        Case(transcript, budget, *case, recalls=not options.no_recall)
        for case in CASES
        for transcript in options.transcripts
        for budget in options.budgets
        if case[0] in options.schedules
    ]
    with tempfile.TemporaryDirectory() as folder:
        for transcript in options.transcripts:
            script = load_script(FILES[transcript], options.turns, options.processes)
            (Path(folder) / transcript).write_bytes(pickle.dumps(script))
        results = sorted(play_all(cases, Path(folder), options.processes), key=lambda result: cases.index(result.case))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    elif options.markdown:
        print_markdown(results)
    else:
        print_table(results)


def load_script(file: str, limit: int | None, processes: int) -> Script:
    """A transcript's turns, compressed once for all replays."""
    settings = Settings(compress=CompressSettings(processes=processes))
    return asyncio.run(prepare(load_turns(file)[:limit], settings=settings))


def load_turns(file: str) -> list[Turn]:
    """All turns of a transcript, as one conversation."""
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "transcript.db") as fov:
        report = fov.import_file(TRANSCRIPTS / file)
        return [turn for session in report.sessions for turn in fov.open_session(session.id).load_turns()]


def play_all(cases: Sequence[Case], folder: Path, processes: int) -> Iterator[Result]:
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, ProcessPoolExecutor(processes) as pool:
        task = progress.add_task("replays", total=len(cases))
        for done in as_completed([pool.submit(play, case, folder) for case in cases]):
            progress.advance(task)
            yield done.result()


def play(case: Case, folder: Path) -> Result:
    script: Script = pickle.loads((folder / case.transcript).read_bytes())
    settings = Settings(context=replace(ContextSettings(), order=case.order))
    settings = settings.with_strategy("gradient", schedule=case.schedule)
    if not case.recalls:
        settings = replace(
            settings,
            recall=replace(settings.recall, enabled=False),
            allotments=replace(settings.allotments, recall=0),
        )
    report = asyncio.run(
        replay(
            script,
            budget_tokens=case.budget_tokens,
            settings=settings,
            retrieve_every_turns=case.retrieve_every_turns,
        )
    )
    return Result(
        case=case,
        turns=report.turns,
        calls=len(report.calls),
        overruns=report.overruns,
        cached_share=report.cached_share,
        price=report.price,
        rebuilds=sum(report.rebuilds.values()),
        mean_history_use=report.mean_history_use,
        cpu_ms=report.cpu_ms,
    )


def _cells(result: Result) -> list[str]:
    case, use = result.case, result.mean_history_use
    return [
        case.transcript,
        f"{result.calls:,}",
        f"{case.budget_tokens:,}",
        case.schedule,
        f"every {case.retrieve_every_turns} turns" if case.retrieve_every_turns else "never",
        case.order if case.retrieve_every_turns else "either",
        f"{result.cached_share:.3f}",
        f"{result.price:.2f}",
        f"{result.rebuilds:,}",
        "" if use is None else f"{use:.0%}",
    ]


def print_table(results: Sequence[Result]) -> None:
    table = Table(*HEADS, "overruns", "CPU ms/call")
    for result in results:
        table.add_row(*_cells(result), str(result.overruns), f"{result.cpu_ms:.1f}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def print_markdown(results: Sequence[Result]) -> None:
    """Cached share and price, a column for each budget."""
    budgets = sorted({result.case.budget_tokens for result in results})
    rows: dict[tuple[str, ...], list[str]] = {}
    for result in sorted(results, key=lambda result: (result.case.transcript, result.case.budget_tokens)):
        log, _, _, schedule, reads, order, cached, price, *_ = _cells(result)
        rows.setdefault((log, schedule, reads, order), []).append(f"{cached}, {price}")
    heads = ["log", "schedule", "reads", "order", *(f"{budget:,}" for budget in budgets)]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for names, figures in rows.items():
        print(f"| {' | '.join([*names, *figures])} |")


if __name__ == "__main__":
    main()
