"""Replay one history through several strategies and budgets, each from the first turn to the last.

    comparison = await compare(turns, strategies=["gradient", "standard"], budgets_tokens=[16_000])
    comparison.runs[0].facts_kept

The turns are compressed once; then each strategy at each budget is replayed in a separate process, as many at a time
as there are processors. Nothing is sent anywhere, and recall is off.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import pickle
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from foveate.context.context import Context
from foveate.errors import FoveateError, InputError
from foveate.replay.replay import CallSample, ReplayCall, ReplayReport, replay
from foveate.replay.report import (
    AgeShare,
    Comparison,
    FactBook,
    Needle,
    Point,
    StrategyRun,
    fact_book,
    forms_of,
    parts_of,
    plain,
    said_in,
    said_last,
    strip_of,
    tally,
)
from foveate.replay.script import Progress, Script, Surroundings, prepare
from foveate.settings import Settings, load_settings, make_strategy, settings_of, settings_table
from foveate.strategy import names as strategy_names
from foveate.text import turn_text
from foveate.turn import Json, Turn
from foveate.worker.pool import Pool

BUDGETS_TOKENS = (16_000, 64_000)
MAX_CALLS = 600
"""A conversation with more calls is sampled by default."""
NEWEST_CALLS = 200
"""Consecutive calls of a sampled run that are made one by one, to measure the cached prefix."""
MAX_RUNS = 200
MAX_NEEDLES = 1_000
POLL_SECONDS = 0.2
STAGE = "stage"
STOP = "stop"
"""Files of the scratch folder: the stage to replay, and the request to stop."""
MOMENTS = 12
"""Number of evenly spaced moments at which facts are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One strategy at one budget, as it is sent to a process."""

    folder: Path
    """The folder with the stage and the progress file."""
    name: str
    strategy: str
    strategy_settings: Mapping[str, Json] | None
    budget_tokens: int
    settings: Mapping[str, Json]
    """As a table: the sections of packages and strategies that the process has not loaded have no class there."""
    system: str
    sampling: CallSample
    needles: tuple[str, ...]

    @property
    def ticks(self) -> Path:
        """The progress file: one byte for each replayed turn."""
        return self.folder / self.name

    def turns_done(self) -> int:
        try:
            return self.ticks.stat().st_size
        except FileNotFoundError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """The result of a task."""

    report: ReplayReport
    """The report, without its last context."""
    points: tuple[Point, ...]
    strip: str
    levels_on_average: Mapping[str, float]
    facts_kept: float
    facts_on_average: float
    facts_by_age: tuple[AgeShare, ...]
    old_facts_kept: float
    found: tuple[bool, ...]
    """Whether each needle was found."""
    notes: Mapping[str, Json]


@dataclass(slots=True)
class _Watch:
    """Records each call as it is made."""

    fact_index: FactBook
    moments: Collection[int]
    """The numbers of the calls, of those made, at which facts are measured."""
    facts: list[float] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)
    """The sums of the shares of turns at each level."""

    def see(self, call: ReplayCall, context: Context) -> None:
        share = call.cached_tokens / max(1, call.tokens) if call.is_next else None
        if len(self.points) in self.moments:
            self.facts.append(self.fact_index.known_share(forms_of(context.segments), call.turn - 1))
        self.points.append(Point(call.turn, call.tokens, share, parts_of(context.segments)))
        for level, part in tally(strip_of(context.segments, call.turn)).items():
            self.levels[level] = self.levels.get(level, 0.0) + part


@dataclass(frozen=True, slots=True)
class _Failed:
    """The reason of a failed task. It is not an exception, which would end the process."""

    why: str


class _Stopped(FoveateError):
    """The comparison was cancelled."""


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
    """Replay the turns through each strategy (default: all) at each budget.

    `strategy_settings` has settings of single strategies by name. With `every`, one call in `every` is made. `progress`
    gets the number of turns: each is compressed once, and replayed once by each strategy at each budget.
    """
    began = time.perf_counter()
    settings = settings or load_settings()
    given = dict(strategy_settings or {})
    names = _checked(strategies, budgets_tokens, needles, settings, given)
    processes = (os.cpu_count() or 1) if settings.compress.processes else 0
    settings = msgspec.structs.replace(
        settings,
        compress=msgspec.structs.replace(settings.compress, processes=processes),
        # Recall would be the same for all, and hide the differences; its share of the budget goes to the history.
        recall=msgspec.structs.replace(settings.recall, enabled=False),
        allotments=msgspec.structs.replace(settings.allotments, recall=0),
    )
    script = await prepare(turns, settings=settings, model=model, around=around, progress=progress)
    compressed = time.perf_counter()
    sampling = sampling_for(script.calls, every)
    texts = [turn_text(turn.messages) for turn in turns]
    table = settings_table(settings)
    with tempfile.TemporaryDirectory(prefix="foveate-compare-") as folder:
        tasks = [
            _Task(
                folder=Path(folder),
                name=f"run-{place}",
                strategy=name,
                strategy_settings=given.get(name),
                budget_tokens=budget,
                settings=table,
                system=system,
                sampling=sampling,
                needles=tuple(needles),
            )
            for place, (budget, name) in enumerate(itertools.product(budgets_tokens, names))
        ]
        fact_index = await asyncio.to_thread(fact_book, texts)
        await asyncio.to_thread((Path(folder) / STAGE).write_bytes, pickle.dumps((script, fact_index)))
        played = await _play_all(tasks, Pool(processes), progress)
    last_mentions = said_last(texts, needles)
    runs = tuple(
        replace(_run(task, one, script.calls, last_mentions), what=described(make_strategy(task.strategy, settings)))
        for task, one in zip(tasks, played, strict=True)
    )
    return Comparison(
        title=script.around.title,
        turns=len(turns),
        raw_tokens=script.raw_tokens,
        calls=script.calls,
        sampling=sampling,
        facts=len(fact_index.weights),
        runs=runs,
        compress_seconds=compressed - began,
        seconds=time.perf_counter() - began,
        processes=max(1, processes),
    )


def sampling_for(calls: int, every: int | None = None) -> CallSample:
    """Return which calls are made by default: all, if that is fast."""
    if every is None:
        every = 1 if calls <= MAX_CALLS else -(-calls // (MAX_CALLS - NEWEST_CALLS))
    return CallSample(every, NEWEST_CALLS if every > 1 else 0)


def _checked(
    names: Sequence[str],
    budgets_tokens: Sequence[int],
    needles: Sequence[str],
    settings: Settings,
    given: Mapping[str, Mapping[str, Json]],
) -> tuple[str, ...]:
    """Return the strategies, each once; an unknown one is an error before any work is done."""
    chosen = tuple(dict.fromkeys(names)) or strategy_names()
    for name in chosen:
        make_strategy(name, settings, given.get(name))
    if not budgets_tokens or min(budgets_tokens) < 1 or len(set(budgets_tokens)) != len(budgets_tokens):
        raise InputError(f"budgets must be different numbers of tokens, 1 or more each; got {list(budgets_tokens)}")
    if len(chosen) * len(budgets_tokens) > MAX_RUNS:
        raise InputError(f"{len(chosen)} strategies at {len(budgets_tokens)} budgets are more than {MAX_RUNS} runs")
    if len(needles) > MAX_NEEDLES or not all(map(plain, needles)):
        raise InputError(f"needles are up to {MAX_NEEDLES:,} texts, none of them empty")
    return chosen


async def _play_all(tasks: Sequence[_Task], pool: Pool, progress: Progress | None) -> list[_Played]:
    """Return the result of each task; as many run at the same time as there are processes."""
    jobs = [asyncio.ensure_future(pool.run(play, [(task,)])) for task in tasks]
    reported = 0
    played: list[_Played] = []
    try:
        waiting: set[asyncio.Future[Any]] = set(jobs)
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finished = sum(task.turns_done() for task in tasks)
            if progress and finished > reported:
                progress(finished - reported)
                reported = finished
            failed = next((one for job in done for one in job.result() if isinstance(one, _Failed)), None)
            if failed:
                raise InputError(failed.why)
        played = [one for job in jobs for one in await job if isinstance(one, _Played)]
    finally:
        await asyncio.to_thread((tasks[0].folder / STOP).touch)
        await asyncio.to_thread(pool.close)
    return played


def play(task: _Task) -> _Played | _Failed:
    """Replay one task in a separate process; the progress file grows by a byte with each turn."""
    script, fact_index = _stage((task.folder / STAGE).read_bytes())
    made = sum(task.sampling.makes(call, script.calls) for call in range(script.calls))
    watch = _Watch(fact_index, {(place + 1) * made // (MOMENTS + 1) for place in range(MOMENTS)})
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
                    settings=settings_of(task.settings),
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
    text = plain("\n".join(said_in(last.segments)))
    forms = forms_of(last.segments)
    kept = fact_index.known_share(forms, report.turns)
    return _Played(
        report=replace(report, last=None),
        points=tuple(watch.points),
        strip=strip_of(last.segments, report.turns),
        levels_on_average={level: total / max(1, len(report.calls)) for level, total in watch.levels.items()},
        facts_kept=kept,
        facts_on_average=sum(watch.facts) / len(watch.facts) if watch.facts else kept,
        facts_by_age=fact_index.by_age(forms),
        old_facts_kept=fact_index.aged(forms, (report.turns + 1) // 2, report.turns).kept,
        found=tuple(plain(needle) in text for needle in task.needles),
        notes=dict(last.planned.notes),
    )


def _stage(data: bytes) -> tuple[Script, FactBook]:
    stage: tuple[Script, FactBook] = pickle.loads(data)  # noqa: S301 - written by this program
    return stage


def described(strategy: object) -> str:
    """Return the first sentence of a strategy's documentation."""
    described = " ".join((inspect.getdoc(strategy) or "").split())
    return f"{described.partition('. ')[0].rstrip('.')}." if described else ""


def _run(task: _Task, played: _Played, calls: int, last_mentions: Sequence[int | None]) -> StrategyRun:
    report = played.report
    turns = report.turns
    needles = zip(task.needles, last_mentions, played.found, strict=True)
    return StrategyRun(
        strategy=task.strategy,
        budget_tokens=task.budget_tokens,
        turns=turns,
        calls_made=len(report.calls),
        mean_tokens=report.tokens / max(1, len(report.calls)),
        max_tokens=max((call.tokens for call in report.calls), default=0),
        overruns=report.overruns,
        strip=played.strip,
        levels_on_average=played.levels_on_average,
        facts_kept=played.facts_kept,
        facts_on_average=played.facts_on_average,
        old_facts_kept=played.old_facts_kept,
        facts_by_age=played.facts_by_age,
        needles=tuple(Needle(text, turn, is_found) for text, turn, is_found in needles),
        cached_share=report.cached_share,
        price=report.price,
        model_tokens=report.model_tokens,
        cpu_ms_per_turn=report.cpu_ms * calls / max(1, turns),
        notes=played.notes,
        points=played.points,
    )
