"""What running sessions show: questions asked at three ages, the work at hand, the budget in use, and the cache.

    python bench/live.py                                          # every set at every budget: hours
    python bench/live.py --sets locomo-dev --budgets 4000 --conversations 1 --questions 40
    python bench/live.py --sets pi aider --budgets 16000 --set gradient.raw_share=0.4
    python bench/live.py --json > rows.json; python bench/live.py --from rows.json --write

Needs ../shared/data, ../shared/eval and nltk. Conversations are played at the session's own budget, with one context
before every turn (before every message of the assistant where a set is played by steps). A question is asked at the
end of the sitting that has its last evidence (fresh), ten sittings later (later) and at the end; it is a call of its
own, is not recorded, and is left out of the scored text. The working set is the share of what a turn or step uses,
and was said before, that its context has; strict counts a reference only on a line with words that stood beside it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import foveate.sync as foveate
from foveate.replay.replay import READ_PRICE, WRITE_PRICE
from foveate.settings import Settings, load_settings
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Turn
from live_play import AGES, Asking, Played, play_questions, play_work
from live_score import Interval, interval
from measured_block import write_block
from retention import SHARED

QA_BUDGETS = (4_000, 8_000, 16_000)
WORK_BUDGETS = (16_000, 32_000, 64_000)
SHORT_BUDGETS = (4_000, 8_000)
"""Of single SWE-agent and tau-bench runs: all of them fit into 16,000 tokens."""
JOINED_TAU_RUNS = 40


@dataclass(frozen=True, slots=True)
class Work:
    """Transcripts of agents' work."""

    files: str
    by_step: bool = False
    is_joined: bool = False
    """Played one after the other, in one session."""
    budgets_tokens: tuple[int, ...] = WORK_BUDGETS
    runs: int | None = None


QUESTIONS = ("locomo-dev", "beam-100k-dev")
WORK = {
    "pi": Work("pi-large-session.jsonl"),
    "aider": Work("aider-chat-history.md"),
    "pi-steps": Work("pi-large-session.jsonl", by_step=True),
    "swe": Work("swe-agent/*.traj", by_step=True, budgets_tokens=SHORT_BUDGETS),
    "tau": Work("tau-airline.json", by_step=True, budgets_tokens=SHORT_BUDGETS),
    "swe-joined": Work("swe-agent/*.traj", by_step=True, is_joined=True),
    "tau-joined": Work("tau-airline.json", by_step=True, is_joined=True, runs=JOINED_TAU_RUNS),
}
SETS = (*QUESTIONS, *WORK)


@dataclass(frozen=True, slots=True)
class Result:
    """A set at a budget, or one conversation of it."""

    data: str
    budget_tokens: int
    conversation: str
    """Empty for all of them."""
    conversations: int
    fitting: int
    """Conversations that never exceed the budget, and are left out."""
    calls: int
    fact: Mapping[str, Interval] = field(default_factory=dict)
    """By age, and `all` ages together."""
    every: Mapping[str, Interval] = field(default_factory=dict)
    categories: Mapping[str, float] = field(default_factory=dict)
    """FACT by type of question, at the end."""
    working_set: Mapping[str, Interval] = field(default_factory=dict)
    """By context: `ours`, `newest`, `listed`, and each as `strict …`."""
    fill: float | None = None
    """Mean share of the budget in use, from the first rebuild on; None without one."""
    least_fill: float | None = None
    """The least right after a rebuild."""
    absent: float = 0.0
    absent_strict: float = 0.0
    cached: float = 0.0
    price: float = 0.0
    rebuilds: int = 0
    rewritten_tokens: float | None = None
    """Tokens behind the common prefix, for each rebuild."""
    digest: str = ""


def main() -> None:
    options = parse_options()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The score sums in the order of sets, so a threshold may fall to either side from one run to the next.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    if not SHARED.is_dir():
        sys.exit("the conversations in ../shared/data are not here")
    results = load_results(options.from_) if options.from_ else measure_all(options)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("\n".join(render([each for each in results if options.each or not each.conversation])))
    if options.write:
        write_block("bench/live.py", "\n".join(render([each for each in results if not each.conversation])))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--budgets", nargs="*", type=int, help="default: those of each set")
    parser.add_argument("--conversations", type=int, help="only the first N of each set")
    parser.add_argument("--only", nargs="*", help="only the conversations of these names")
    parser.add_argument("--questions", type=int, help="only the first N of each conversation")
    parser.add_argument("--ages", nargs="*", default=list(AGES), choices=AGES)
    parser.add_argument("--turns", type=int, default=400, help="at most so many turns of each transcript")
    parser.add_argument("--by-utterance", action="store_true", help="an assistant's answer is a turn of its own")
    parser.add_argument("--no-recall", action="store_true", help="without recall, whose room is the history's then")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="e.g. gradient.raw_share=0.4")
    parser.add_argument("--each", action="store_true", help="also a row for each conversation")
    parser.add_argument("--json", action="store_true", help="all rows, each conversation's too")
    parser.add_argument("--markdown", action="store_true", help="the tables as in docs/lab/benchmarks.md (default)")
    parser.add_argument(
        "--from", dest="from_", nargs="*", metavar="FILE", help="rows that --json wrote; nothing is run"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/lab/benchmarks.md")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def live_settings(overrides: Sequence[str], *, recalls: bool) -> Settings:
    """Everything is waited for, so that two runs have the same contexts."""
    values: dict[str, dict[str, object]] = {"recall": {"deadline_seconds": None}}
    if not recalls:
        values = {"recall": {"deadline_seconds": None, "enabled": False}, "allotments": {"recall": 0}}
    for override in overrides:
        key, _, value = override.partition("=")
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = _value(value)
    return load_settings(environment={}, overrides=values)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@dataclass(frozen=True, slots=True)
class Task:
    """A conversation to play at a budget."""

    data: str
    budget_tokens: int
    run: Callable[[], Played] | None
    """None for one that always fits."""


def measure_all(options: argparse.Namespace) -> list[Result]:
    settings = live_settings(options.set, recalls=not options.no_recall)
    tasks = [task for name in options.sets for task in make_tasks(name, settings, options)]
    fitting: dict[tuple[str, int], int] = defaultdict(int)
    played: dict[tuple[str, int], list[Played]] = defaultdict(list)
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    # Not forked: the thread that runs the library's event loop would be missing in the copy.
    pool = ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn"))
    with pool, Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("conversations", total=sum(task.run is not None for task in tasks))
        jobs = {}
        for task in tasks:
            if task.run is None:
                fitting[task.data, task.budget_tokens] += 1
            else:
                jobs[pool.submit(task.run)] = task
        for done in as_completed(jobs):
            played[jobs[done].data, jobs[done].budget_tokens].append(done.result())
            progress.advance(bar)
    results = []
    for name, budget in dict.fromkeys((task.data, task.budget_tokens) for task in tasks):
        own = sorted(played[name, budget], key=lambda one: one.conversation)
        results.append(sum_up(name, budget, own, fitting=fitting[name, budget]))
        results += [sum_up(name, budget, [one], conversation=one.conversation) for one in own if len(own) > 1]
    return results


def make_tasks(name: str, settings: Settings, options: argparse.Namespace) -> Iterator[Task]:
    if name in QUESTIONS:
        conversations = json.loads((SHARED / "data" / "qa" / f"{name}.json").read_text())
        asking = Asking(tuple(options.ages), options.questions, options.by_utterance)
        for budget in options.budgets or QA_BUDGETS:
            for each in _chosen({each["id"]: each for each in conversations}, options).values():
                yield Task(name, budget, partial(play_questions, each, budget, settings, asking))
        return
    work = WORK[name]
    chosen = _chosen(load_work(work, options.turns), options)
    sizes = {key: sum(count_tokens(turn_text(turn.messages)) for turn in turns) for key, turns in chosen.items()}
    for budget in options.budgets or work.budgets_tokens:
        for key, turns in chosen.items():
            run = partial(play_work, key, turns, budget, settings, by_step=work.by_step)
            yield Task(name, budget, run if sizes[key] > budget else None)


def _chosen(named: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    chosen = [key for key in named if not options.only or key in options.only]
    return {key: named[key] for key in chosen[: options.conversations]}


def load_work(work: Work, limit: int) -> dict[str, list[Turn]]:
    """Load the conversations of transcripts, by name."""
    loaded: dict[str, list[Turn]] = {}
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "transcripts.db") as fov:
        for path in sorted((SHARED / "data" / "transcripts").glob(work.files)):
            for session in fov.import_file(path).sessions[: work.runs]:
                loaded[session.id] = fov.open_session(session.id).load_turns()[:limit]
    return {work.files: [turn for turns in loaded.values() for turn in turns]} if work.is_joined else loaded


def sum_up(
    name: str, budget_tokens: int, played: Sequence[Played], *, conversation: str = "", fitting: int = 0
) -> Result:
    calls = [call for one in played for call in one.calls]
    full = [call for one in played for call in _past_first_rebuild(one)]
    rebuilds = [call for call in full if call.rebuilt]
    tokens = sum(call.tokens for call in calls)
    cached = sum(call.cached_tokens for call in calls) / max(1, tokens)
    ends = [answer for one in played for answer in one.answers if "end" in answer.ages]
    categories = sorted({answer.category for answer in ends})
    return Result(
        name,
        budget_tokens,
        conversation,
        conversations=len(played),
        fitting=fitting,
        calls=len(calls),
        fact=_by_age(played, lambda answer: answer.fact),
        every=_by_age(played, lambda answer: float(answer.is_complete)),
        categories={kind: _mean([each.fact for each in ends if each.category == kind]) or 0 for kind in categories},
        working_set=_working_set(played),
        fill=_mean([call.tokens / budget_tokens for call in full]),
        least_fill=min((call.tokens / budget_tokens for call in rebuilds), default=None),
        absent=_mean([call.absent for call in full]) or 0.0,
        absent_strict=_mean([call.absent_strict for call in full]) or 0.0,
        cached=cached,
        price=READ_PRICE * cached + WRITE_PRICE * (1 - cached),
        rebuilds=len(rebuilds),
        rewritten_tokens=_mean([float(call.tokens - call.cached_tokens) for call in rebuilds]),
        digest=" ".join(one.digest for one in played),
    )


def _past_first_rebuild(played: Played) -> Sequence[Any]:
    """Return the calls from the first rebuild on; the plan of the first turn is none."""
    calls = played.calls
    first = next((at for at, call in enumerate(calls) if call.rebuilt not in (None, "first")), len(calls))
    return calls[first:]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _by_age(played: Sequence[Played], value: Callable[[Any], float]) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    answers = [answer for one in played for answer in one.answers]
    for age in (*AGES, "all"):
        groups: dict[str, list[float]] = defaultdict(list)
        for answer in answers:
            groups[answer.question] += [value(answer)] * sum(age in (own, "all") for own in answer.ages)
        if mean := interval(groups.values()):
            found[age] = mean
    return found


def _working_set(played: Sequence[Played]) -> dict[str, Interval]:
    uses = [use for one in played for use in one.uses]
    found: dict[str, Interval] = {}
    for prefix, kept in (("", [use.plain for use in uses]), ("strict ", [use.strict for use in uses if use.strict])):
        for name in ("ours", "newest", "listed"):
            if mean := interval([[getattr(one, name)] for one in kept]):
                found[prefix + name] = mean
    return found


def render(results: Sequence[Result]) -> Iterator[str]:
    """Write the tables: questions, the work at hand, and for both the budget and the cache."""
    asked = [result for result in results if result.fact]
    if asked:
        ages = [age for age in (*AGES, "all") if any(age in result.fact for result in asked)]
        yield from _head("questions", "budget", *(f"FACT {age}" for age in ages), "ALL " + ", ".join(ages), "asked")
        for result in asked:
            cells = [_percent(result.fact.get(age)) for age in ages]
            every = " / ".join(f"{result.every[age].mean:.3f}" for age in ages if age in result.every)
            yield _line(_name(result), f"{result.budget_tokens:,}", *cells, every, f"{result.fact['all'].counted:,}")
        yield ""
    work = [result for result in results if result.working_set]
    if work:
        yield from _head("working set", "budget", "ours", "newest tokens", "list of names", "strict: ours", "newest",
                         "list", "counted")  # fmt: skip
        for result in work:
            kept = result.working_set
            cells = [_percent(kept.get(name)) for name in ("ours", "newest", "listed")]
            cells += [_percent(kept.get(f"strict {name}")) for name in ("ours", "newest", "listed")]
            yield _line(_name(result), f"{result.budget_tokens:,}", *cells, f"{kept['ours'].counted:,}")
        yield ""
    yield from _head("budget in use", "budget", "calls", "fill", "least after a rebuild", "turns without words",
                     "strict", "cached", "price", "rebuilds", "tokens rewritten each", "left out")  # fmt: skip
    for result in results:
        yield _line(
            _name(result),
            f"{result.budget_tokens:,}",
            f"{result.calls:,}",
            _figure(result.fill),
            _figure(result.least_fill),
            _figure(result.absent),
            _figure(result.absent_strict),
            f"{result.cached:.3f}",
            f"{result.price:.2f}",
            f"{result.rebuilds:,}",
            "" if result.rewritten_tokens is None else f"{result.rewritten_tokens:,.0f}",
            f"{result.fitting} of {result.fitting + result.conversations} fit" if result.fitting else "",
        )


def _name(result: Result) -> str:
    return f"{result.data} {result.conversation}".strip()


def _percent(mean: Interval | None) -> str:
    return f"{mean.mean:.3f} ({mean.low:.2f} to {mean.high:.2f})" if mean else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _head(*names: str) -> Iterator[str]:
    yield _line(*names)
    yield f"|{' --- |' * len(names)}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def load_results(files: Sequence[str]) -> list[Result]:
    """Read rows that --json wrote; a later row replaces an earlier one of the same set, budget and conversation."""
    found: dict[tuple[str, int, str], Result] = {}
    for row in (row for file in files for row in json.loads(Path(file).read_text())):
        for part in ("fact", "every", "working_set"):
            row[part] = {name: Interval(*values) for name, values in row[part].items()}
        result = Result(**row)
        found[result.data, result.budget_tokens, result.conversation] = result
    return sorted(found.values(), key=lambda one: (SETS.index(one.data), one.budget_tokens, one.conversation))


if __name__ == "__main__":
    main()
