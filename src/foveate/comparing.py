"""One history through several strategies at several budgets, each played from the first turn to the last.

    comparison = await compare(turns, strategies=["gradient", "standard"], budgets_tokens=[16_000])
    comparison.runs[0].facts_kept

The turns are compressed once; then each strategy at each budget is played in a process of its own, as many at a time
as there are processors. Nothing is sent anywhere, and recall is off.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from foveate.background.pool import Pool
from foveate.comparison import AgeShare, Comparison, Needle, Point, Run, parts_of, strip_of, tally
from foveate.compress.facts import find_facts
from foveate.context.assembled import Context, Segment
from foveate.errors import FoveateError, InputError
from foveate.replaying import Call, ReplayReport, Sampling, replay
from foveate.settings import Settings, load_settings, make_strategy
from foveate.staging import Progress, Script, Surroundings, prepare
from foveate.strategy import names as strategy_names
from foveate.text import turn_text
from foveate.turn import Json, Turn

BUDGETS_TOKENS = (16_000, 64_000)
MAX_CALLS = 600
"""A conversation with more calls is sampled, unless it is said how."""
NEWEST_CALLS = 200
"""Of one that is sampled, so many calls are made one by one, to see what a cache would have."""
MAX_RUNS = 200
MAX_NEEDLES = 1_000
POLL_SECONDS = 0.2
SCRIPT = "script"
STOP = "stop"
"""Files of the scratch folder: the turns to be played, and that nobody waits any more."""
NOT_SAID = ("system", "explanation", "tools", "framing")
"""Parts of a context that are none of the history's."""


@dataclass(frozen=True, slots=True)
class FactBook:
    """The facts of a history by their form, each counted once, where it was said last."""

    weights: Mapping[str, float]
    turns: Mapping[str, int]

    def kept(self, forms: frozenset[str], least_turn: int, most_turn: int) -> AgeShare:
        """What these forms have of the facts that were said last in these turns; ages are from the newest turn."""
        newest = max(self.turns.values(), default=0)
        own = [form for form, turn in self.turns.items() if least_turn <= turn <= most_turn]
        total = sum(self.weights[form] for form in own)
        kept = sum(self.weights[form] for form in own if form in forms)
        return AgeShare(newest - most_turn, newest - least_turn, len(own), kept / total if total else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One strategy at one budget, as a process is told of it."""

    folder: Path
    """Has the script; progress is told in it."""
    name: str
    strategy: str
    strategy_settings: Mapping[str, Json] | None
    budget_tokens: int
    settings: Settings
    system: str
    sampling: Sampling
    needles: tuple[str, ...]

    @property
    def ticks(self) -> Path:
        """Has a byte for each turn that was played."""
        return self.folder / self.name

    def turns_done(self) -> int:
        try:
            return self.ticks.stat().st_size
        except FileNotFoundError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """What came of it."""

    report: ReplayReport
    """Without its last context."""
    points: tuple[Point, ...]
    strip: str
    levels_on_average: Mapping[str, float]
    forms: frozenset[str]
    """Of the facts in the last context."""
    found: tuple[bool, ...]
    """Of each needle."""
    notes: Mapping[str, Json]


@dataclass(slots=True)
class _Watch:
    """Takes down each call as it is made."""

    points: list[Point] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)
    """The shares of turns at each level, added up."""

    def see(self, call: Call, context: Context) -> None:
        share = call.cached_tokens / max(1, call.tokens) if call.is_next else None
        self.points.append(Point(call.turn, call.tokens, share, parts_of(context.segments)))
        for level, part in tally(strip_of(context.segments, call.turn)).items():
            self.levels[level] = self.levels.get(level, 0.0) + part


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why nothing came of it. It is no exception, which would take the process with it."""

    why: str


class _Stopped(FoveateError):
    """Nobody waits for it any more."""


async def compare(
    turns: Sequence[Turn],
    *,
    strategies: Sequence[str] = (),
    budgets_tokens: Sequence[int] = BUDGETS_TOKENS,
    needles: Sequence[str] = (),
    strategy_settings: Mapping[str, Mapping[str, Json]] | None = None,
    settings: Settings | None = None,
    model: str | None = None,
    around: Surroundings | None = None,
    system: str = "",
    every: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Play the turns through each strategy (all, if none is named) at each budget.

    `strategy_settings` has settings of single strategies by name. With `every` one call in so many is made. `progress`
    is told of turns: each is compressed once, and played once by each strategy at each budget.
    """
    began = time.perf_counter()
    settings = settings or load_settings()
    given = dict(strategy_settings or {})
    names = _checked(strategies, budgets_tokens, needles, settings, given)
    processes = (os.cpu_count() or 1) if settings.compress.processes else 0
    settings = msgspec.structs.replace(
        settings,
        compress=msgspec.structs.replace(settings.compress, processes=processes),
        # Recall would be the same for all, and hide what each shows by itself; its room is the history's.
        recall=msgspec.structs.replace(settings.recall, enabled=False),
        allotments=msgspec.structs.replace(settings.allotments, recall=0),
    )
    script = await prepare(turns, settings=settings, model=model, around=around, progress=progress)
    compressed = time.perf_counter()
    sampling = sampling_for(script.calls, every)
    texts = [turn_text(turn.messages) for turn in turns]
    with tempfile.TemporaryDirectory(prefix="foveate-compare-") as folder:
        tasks = [
            _Task(
                folder=Path(folder),
                name=f"run-{place}",
                strategy=name,
                strategy_settings=given.get(name),
                budget_tokens=budget,
                settings=settings,
                system=system,
                sampling=sampling,
                needles=tuple(needles),
            )
            for place, (budget, name) in enumerate(itertools.product(budgets_tokens, names))
        ]
        book, played = await _play_all(script, texts, tasks, Pool(processes), progress)
    said = _said_last(texts, needles)
    runs = tuple(_run(task, one, book, script.calls, said) for task, one in zip(tasks, played, strict=True))
    return Comparison(
        title=script.around.title,
        turns=len(turns),
        raw_tokens=script.raw_tokens,
        calls=script.calls,
        sampling=sampling,
        facts=len(book.weights),
        runs=runs,
        compress_seconds=compressed - began,
        seconds=time.perf_counter() - began,
        processes=max(1, processes),
    )


def sampling_for(calls: int, every: int | None = None) -> Sampling:
    """Which calls are made, if it is not said: all, as long as that is quick."""
    if every is None:
        every = 1 if calls <= MAX_CALLS else -(-calls // (MAX_CALLS - NEWEST_CALLS))
    return Sampling(every, NEWEST_CALLS if every > 1 else 0)


def fact_book(texts: Sequence[str]) -> FactBook:
    """The facts of turns, oldest first."""
    weights: dict[str, float] = {}
    turns: dict[str, int] = {}
    for turn, text in enumerate(texts, 1):
        for key, weight in find_facts(text).items():
            form = key[2:]
            weights[form] = max(weight, weights.get(form, 0.0))
            turns[form] = turn
    return FactBook(weights, turns)


def forms_of(segments: Sequence[Segment]) -> frozenset[str]:
    """The forms of the facts that a context has, its explanation left out."""
    return frozenset(key[2:] for text in said_in(segments) for key in find_facts(text))


def by_age(book: FactBook, forms: frozenset[str], turns: int) -> tuple[AgeShare, ...]:
    """What is kept by age, newest first: of 0, 1, 2 to 3, 4 to 7, … turns ago, as far as there are facts."""
    shares = []
    least, most = 0, 0
    while least < turns:
        share = book.kept(forms, max(1, turns - most), turns - least)
        if share.facts:
            shares.append(AgeShare(least, min(most, turns - 1), share.facts, share.kept))
        least, most = most + 1, 2 * most + 1
    return tuple(shares)


def _checked(
    names: Sequence[str],
    budgets_tokens: Sequence[int],
    needles: Sequence[str],
    settings: Settings,
    given: Mapping[str, Mapping[str, Json]],
) -> tuple[str, ...]:
    """The strategies, each once; a mistake is told before any work is done."""
    chosen = tuple(dict.fromkeys(names)) or strategy_names()
    for name in chosen:
        make_strategy(name, settings, given.get(name))
    if not budgets_tokens or min(budgets_tokens) < 1 or len(set(budgets_tokens)) != len(budgets_tokens):
        raise InputError(f"budgets are different numbers of tokens, 1 or more each; got {list(budgets_tokens)}")
    if len(chosen) * len(budgets_tokens) > MAX_RUNS:
        raise InputError(f"{len(chosen)} strategies at {len(budgets_tokens)} budgets are more than {MAX_RUNS} runs")
    if len(needles) > MAX_NEEDLES or not all(map(plain, needles)):
        raise InputError(f"needles are up to {MAX_NEEDLES:,} texts, none of them empty")
    return chosen


async def _play_all(
    script: Script, texts: Sequence[str], tasks: Sequence[_Task], pool: Pool, progress: Progress | None
) -> tuple[FactBook, list[_Played]]:
    """The history's facts, and what came of each task; they run at the same time, as far as there are processes."""
    folder = tasks[0].folder
    await asyncio.to_thread((folder / SCRIPT).write_bytes, pickle.dumps(script))
    jobs = [asyncio.ensure_future(pool.run(_play, [(task,)])) for task in tasks]
    books = asyncio.ensure_future(pool.run(fact_book, [(texts,)]))
    told = 0
    played: list[_Played] = []
    try:
        waiting: set[asyncio.Future[Any]] = {*jobs, books}
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finished = sum(task.turns_done() for task in tasks)
            if progress and finished > told:
                progress(finished - told)
                told = finished
            failed = next((one for job in done for one in job.result() if isinstance(one, _Failed)), None)
            if failed:
                raise InputError(failed.why)
        played = [one for job in jobs for one in await job if isinstance(one, _Played)]
    finally:
        await asyncio.to_thread((folder / STOP).touch)
        await asyncio.to_thread(pool.close)
    return (await books)[0], played


def _play(task: _Task) -> _Played | _Failed:
    """Play one task; in a process of its own, so progress is told by a file that grows by a byte with each turn."""
    script: Script = pickle.loads((task.folder / SCRIPT).read_bytes())  # noqa: S301 - written by this program
    watch = _Watch()
    with task.ticks.open("wb", buffering=0) as ticks:

        def tick(turns: int) -> None:
            if (task.folder / STOP).exists():
                raise _Stopped
            ticks.write(b"." * turns)

        try:
            tick(0)
            report = asyncio.run(
                replay(
                    script,
                    budget_tokens=task.budget_tokens,
                    strategy=task.strategy,
                    strategy_settings=task.strategy_settings,
                    settings=task.settings,
                    system=task.system,
                    sampling=task.sampling,
                    progress=tick,
                    observe=watch.see,
                )
            )
        except FoveateError as error:
            return _Failed(f"{task.strategy} at {task.budget_tokens:,} tokens: {error}")
    last = report.last
    assert last is not None, "a replay ends on a context"
    said = plain("\n".join(said_in(last.segments)))
    return _Played(
        report=replace(report, last=None),
        points=tuple(watch.points),
        strip=strip_of(last.segments, report.turns),
        levels_on_average={level: total / max(1, len(report.calls)) for level, total in watch.levels.items()},
        forms=forms_of(last.segments),
        found=tuple(plain(needle) in said for needle in task.needles),
        notes=dict(last.planned.notes),
    )


def _run(task: _Task, played: _Played, book: FactBook, calls: int, said: Sequence[int | None]) -> Run:
    report = played.report
    turns = report.turns
    needles = zip(task.needles, said, played.found, strict=True)
    return Run(
        strategy=task.strategy,
        budget_tokens=task.budget_tokens,
        turns=turns,
        calls_made=len(report.calls),
        mean_tokens=report.tokens / max(1, len(report.calls)),
        max_tokens=max((call.tokens for call in report.calls), default=0),
        overruns=report.overruns,
        strip=played.strip,
        levels_on_average=played.levels_on_average,
        facts_kept=book.kept(played.forms, 1, turns).kept,
        old_facts_kept=book.kept(played.forms, 1, turns // 2).kept,
        facts_by_age=by_age(book, played.forms, turns),
        needles=tuple(Needle(text, turn, is_found) for text, turn, is_found in needles),
        cached_share=report.cached_share,
        price=report.price,
        model_tokens=report.model_tokens,
        cpu_ms_per_turn=report.cpu_ms * calls / max(1, turns),
        notes=played.notes,
        points=played.points,
    )


def _said_last(texts: Sequence[str], needles: Sequence[str]) -> list[int | None]:
    """The last turn that has each needle."""
    wanted = [plain(needle) for needle in needles]
    found: list[int | None] = [None] * len(wanted)
    for turn, text in enumerate(map(plain, texts) if wanted else (), 1):
        for place, needle in enumerate(wanted):
            if needle in text:
                found[place] = turn
    return found


def plain(text: str) -> str:
    """The text as needles are looked for in it: whatever its case and its spaces."""
    return " ".join(text.casefold().split())


def said_in(segments: Sequence[Segment]) -> list[str]:
    """What a context has of the history, its explanation left out."""
    return [segment.text for segment in segments if segment.name not in NOT_SAID]
