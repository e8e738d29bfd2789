"""What the low-water mark trades: facts in view against the share of prompts that stays cached.

    python bench/watermark.py                   # the pi session and the demo at 16k and 32k
    python bench/watermark.py --markdown        # the table as Markdown

The pi session needs ../shared/data. A replay is made for each mark. Facts are what `foveate.compress.facts` finds in
the raw turns so far, by weight; every 25 calls, once the history has filled its room, those that the context still
has are counted. Of the demo, the planted facts told so far that stand there to the letter are counted too.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import pickle
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cache import FILES, TRANSCRIPTS, load_turns
from conversation import make_conversation
from foveate.compress.facts import Facts, find_facts
from foveate.compress.settings import CompressSettings
from foveate.context.context import Context
from foveate.demo import PlantedFact
from foveate.replay.replay import ReplayCall, replay
from foveate.replay.script import Script, prepare
from foveate.settings import Settings
from foveate.text import turn_text
from foveate.turn import Turn

MARKS = (0.25, 0.35, 0.5, 0.6, 0.75, 0.9)
BUDGETS = (16_000, 32_000)
SAMPLE_CALLS = 25
HEADS = ("log", "budget", "low water", "budget used", "room used", "facts in view", "planted", "cached", "price")


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation, and what can be asked of it."""

    script: Script
    facts: tuple[Facts, ...]
    """Of each turn."""
    planted: tuple[PlantedFact, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A replay at one mark."""

    talk: str
    budget_tokens: int
    low_water: float
    mean_use: float | None
    mean_history_use: float | None
    facts_share: float | None
    planted_share: float | None
    cached_share: float
    price: float
    overruns: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talks", nargs="*", default=["pi", "demo"], choices=["pi", "demo", "aider"])
    parser.add_argument("--budgets", nargs="*", type=int, default=list(BUDGETS))
    parser.add_argument("--marks", nargs="*", type=float, default=list(MARKS))
    parser.add_argument("--turns", type=int, help="only the first N turns of each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if not TRANSCRIPTS.is_dir() and options.talks != ["demo"]:
        sys.exit("the transcripts in ../shared/data are not here; --talks demo needs none")
    cases = list(itertools.product(options.talks, options.budgets, options.marks))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.talks:
            talk = load_talk(name, options.turns, options.processes)
            (Path(folder) / name).write_bytes(pickle.dumps(talk))
        points = sorted(play_all(cases, Path(folder), options.processes), key=_place(cases))
    if options.json:
        print(json.dumps([asdict(point) for point in points], indent=2))
    elif options.markdown:
        print_markdown(points)
    else:
        print_table(points)


def _place(cases: Sequence[tuple[str, int, float]]) -> Callable[[Point], int]:
    return lambda point: cases.index((point.talk, point.budget_tokens, point.low_water))


def load_talk(name: str, limit: int | None, processes: int) -> Talk:
    planted: tuple[PlantedFact, ...] = ()
    if name == "demo":
        conversation = make_conversation(300, 42)
        turns: list[Turn] = list(conversation.turns)[:limit]
        planted = conversation.facts
    else:
        turns = load_turns(FILES[name])[:limit]
    settings = Settings(compress=CompressSettings(processes=processes))
    script = asyncio.run(prepare(turns, settings=settings))
    return Talk(script, tuple(find_facts(turn_text(turn.messages)) for turn in turns), planted)


def play_all(cases: Sequence[tuple[str, int, float]], folder: Path, processes: int) -> Iterator[Point]:
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, ProcessPoolExecutor(processes) as pool:
        task = progress.add_task("replays", total=len(cases))
        for done in as_completed([pool.submit(play, *case, folder) for case in cases]):
            progress.advance(task)
            yield done.result()


def play(name: str, budget_tokens: int, low_water: float, folder: Path) -> Point:
    talk: Talk = pickle.loads((folder / name).read_bytes())
    sampler = _Sampler(talk)
    settings = Settings().with_strategy("gradient", low_water=low_water)
    report = asyncio.run(replay(talk.script, budget_tokens=budget_tokens, settings=settings, observe=sampler.observe))
    return Point(
        talk=name,
        budget_tokens=budget_tokens,
        low_water=low_water,
        mean_use=report.mean_use,
        mean_history_use=report.mean_history_use,
        facts_share=statistics.mean(sampler.facts) if sampler.facts else None,
        planted_share=statistics.mean(sampler.planted) if sampler.planted else None,
        cached_share=report.cached_share,
        price=report.price,
        overruns=report.overruns,
    )


class _Sampler:
    """Looks into some of the contexts."""

    def __init__(self, talk: Talk) -> None:
        self.facts: list[float] = []
        self.planted: list[float] = []
        self._talk = talk
        self._calls = 0

    def observe(self, call: ReplayCall, context: Context) -> None:
        if self._calls or call.rebuilt == "full":
            self._calls += 1
            if self._calls % SAMPLE_CALLS == 0:
                self._look(call.turn, context.text)

    def _look(self, turn: int, text: str) -> None:
        weights: dict[str, float] = {}
        for facts in self._talk.facts[:turn]:
            for key, weight in facts.items():
                weights[key[2:]] = max(weight, weights.get(key[2:], 0.0))
        there = {key[2:] for key in find_facts(text)}
        kept = sum(weight for form, weight in weights.items() if form in there)
        self.facts.append(kept / max(1.0, sum(weights.values())))
        told = [fact for fact in self._talk.planted if fact.turn <= turn]
        if told:
            self.planted.append(sum(fact.needle in text for fact in told) / len(told))


def _cells(point: Point) -> list[str]:
    return [
        point.talk,
        f"{point.budget_tokens:,}",
        f"{point.low_water:.2f}",
        _share(point.mean_use),
        _share(point.mean_history_use),
        _share(point.facts_share),
        _share(point.planted_share),
        f"{point.cached_share:.3f}",
        f"{point.price:.2f}",
    ]


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def print_table(points: Sequence[Point]) -> None:
    table = Table(*HEADS, "overruns")
    for point in points:
        table.add_row(*_cells(point), str(point.overruns))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def print_markdown(points: Sequence[Point]) -> None:
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for point in points:
        print(f"| {' | '.join(_cells(point))} |")


if __name__ == "__main__":
    main()
