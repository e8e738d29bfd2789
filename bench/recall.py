"""What contexts with recall keep of the evidence, on public long conversations; what that costs; and planted needles.

    python bench/recall.py                                   # the table, into docs/lab/benchmarks.md
    python bench/recall.py --sets locomo-dev --budgets 4000 --methods both
    python bench/recall.py --scope                           # one session for each sitting, all in one scope
    python bench/recall.py --lessons                         # with and without lessons, and what is cached
    python bench/recall.py --needles                         # 100 facts in a chat, 100 in an agent's session
    python bench/recall.py --deadline                        # stages made slow on purpose
    python bench/recall.py --cost                            # what recall adds to a call, at 1,000 and 10,000 turns

Needs ../shared/data and ../shared/eval (but for --needles, --deadline and --cost), and nltk for the score. Each
utterance is a turn of its own. Contexts of the table are one-off, and the question is left out of what is scored.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from foveate.settings import Settings, load_settings
from measured_block import write_block
from recall_cost import cost_all, hold_all
from recall_lessons import lessons_all
from recall_needles import seek_all
from recall_scope import scope_all
from retention import OWN_BUDGET, SHARED, newest_rows, record

SETS = ("locomo-dev", "beam-100k-dev")
BUDGETS = (1_000, 2_000, 4_000, 8_000, 16_000)
METHODS = ("newest", "gradient", "recall", "both")
LABELS = {
    "newest": "newest turns only",
    "gradient": "gradient, no recall",
    "recall": "recall, no history",
    "both": "gradient and recall",
}


@dataclass(frozen=True, slots=True)
class Result:
    """One cell of the table."""

    data: str
    method: str
    budget_tokens: int
    fact: float
    every: float
    by_type: Mapping[str, float]
    median_ms: float
    digest: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--budgets", nargs="*", type=int, default=list(BUDGETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--questions", type=int, help="only the first N of each conversation")
    parser.add_argument("--write", action="store_true", help="put the table into docs/lab/benchmarks.md")
    parser.add_argument("--conversations", type=int, help="--scope, replays of --lessons: the first N")
    parser.add_argument("--scope", action="store_true")
    parser.add_argument("--lessons", action="store_true")
    parser.add_argument("--needles", action="store_true")
    parser.add_argument("--deadline", action="store_true")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    alone = {"needles": seek_all, "deadline": hold_all, "cost": cost_all}
    for name, run in alone.items():
        if getattr(options, name):
            return print(run())
    if not SHARED.is_dir():
        sys.exit("the questions in ../shared/data/qa are not here")
    if options.scope:
        conversations = load("locomo-dev")[: options.conversations]
        return print(scope_all(conversations, settings_for("both"), options.budgets, score_way))
    if options.lessons:
        return print(
            lessons_all({name: load(name) for name in options.sets}, options.budgets, score_way, options.conversations)
        )
    results = [result for name in options.sets for result in measure(name, options)]
    table = "\n".join([*render(results), *by_type(results)])
    print(table)
    print("contexts", hashlib.sha256("".join(result.digest for result in results).encode()).hexdigest()[:16])
    if options.write:
        write_block("bench/recall.py", table)
    return None


def load(name: str) -> list[dict[str, Any]]:
    conversations: list[dict[str, Any]] = json.loads((SHARED / "data" / "qa" / f"{name}.json").read_text())
    return conversations


def settings_for(method: str) -> Settings:
    """All of it waited for, so that two runs give the same bytes."""
    overrides: dict[str, object] = {"recall": {"deadline_seconds": None}}
    if method == "recall":
        overrides["allotments"] = {"board": 0.0, "recall": 0.95}
    return load_settings(environment={}, overrides=overrides)


def measure(name: str, options: argparse.Namespace) -> Iterator[Result]:
    conversations = load(name)
    for conversation in conversations:
        conversation["questions"] = conversation["questions"][: options.questions]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "qa.db"
        with foveate.open(path) as fov:
            for conversation in conversations:
                record(fov.session(conversation["id"], budget_tokens=OWN_BUDGET), conversation, name)
            fov.settle()
        for method in options.methods:
            with foveate.open(path, settings=settings_for(method)) as fov:
                for budget in options.budgets:
                    times: list[float] = []
                    rows = [
                        row
                        for each in conversations
                        for row in make_rows(fov, each, method, budget=budget, times=times)
                    ]
                    result = score(name, method, budget, rows=rows, times=times, folder=Path(folder))
                    told = f"FACT {result.fact:.3f} ALL {result.every:.3f}, contexts {result.digest[:8]}"
                    print(f"{name} {method} {budget}: {told}", file=sys.stderr)
                    yield result


def make_rows(
    fov: Any, conversation: dict[str, Any], method: str, *, budget: int, times: list[float]
) -> Iterator[dict[str, Any]]:
    if method == "newest":
        yield from newest_rows(conversation, budget)
        return
    session = fov.open_session(conversation["id"])
    for question in conversation["questions"]:
        start = time.perf_counter()
        context = session.context(question["question"], budget_tokens=budget, recall=method != "gradient")
        times.append(time.perf_counter() - start)
        assert context.tokens <= budget
        text, tokens = context.text, context.tokens
        if method == "recall":
            kept = [segment for segment in context.segments if segment.name not in ("history", "prompt")]
            text, tokens = "".join(segment.text for segment in kept), sum(segment.tokens for segment in kept)
        yield {"question_id": question["id"], "context": text, "tokens": tokens}


def score(
    name: str, method: str, budget: int, *, rows: Sequence[dict[str, Any]], times: Sequence[float], folder: Path
) -> Result:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    contexts = folder / "contexts.jsonl"
    contexts.write_text(lines)
    data = SHARED / "data" / "qa" / f"{name}.json"
    command = [sys.executable, str(SHARED / "eval" / "score.py"), "--data", str(data), str(contexts)]
    # The score sums in the order of a set, so a threshold may fall to either side from one run to the next.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    words = told[0].split()
    types = {line.split()[0]: float(line.split()[1]) for line in told[1:] if line.strip()}
    digest = hashlib.sha256(lines.encode()).hexdigest()
    median = statistics.median(times) * 1000 if times else 0.0
    fact, every = (float(words[words.index(label) + 1]) for label in ("FACT", "ALL"))
    return Result(name, method, budget, fact, every, types, median, digest)


def score_way(name: str, way: str, budget: int, rows: Sequence[dict[str, Any]], folder: Path) -> tuple[float, float]:
    result = score(name, way, budget, rows=rows, times=(), folder=folder)
    return result.fact, result.every


def render(results: Sequence[Result]) -> Iterator[str]:
    """FACT and ALL, a column for each budget."""
    budgets = sorted({result.budget_tokens for result in results})
    heads = ["questions", "context", *(f"{budget:,}" for budget in budgets), "ms a question"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for name in dict.fromkeys(result.data for result in results):
        for method in METHODS:
            own = {r.budget_tokens: r for r in results if (r.data, r.method) == (name, method)}
            if not own:
                continue
            cells = [f"{own[b].fact:.3f} ({own[b].every:.3f})" if b in own else "" for b in budgets]
            slow = max(result.median_ms for result in own.values())
            yield (
                f"| {name} | {LABELS[method]} | {' | '.join(cells)} | {slow:.0f} |"
                if slow
                else (f"| {name} | {LABELS[method]} | {' | '.join(cells)} | |")
            )


def by_type(results: Sequence[Result]) -> Iterator[str]:
    """FACT of gradient and recall together, by type of question."""
    for name in dict.fromkeys(result.data for result in results):
        own = [result for result in results if (result.data, result.method) == (name, "both")]
        if not own:
            continue
        yield f"\n| {name}, both | {' | '.join(f'{result.budget_tokens:,}' for result in own)} |"
        yield f"|{' --- |' * (len(own) + 1)}"
        for kind in sorted(own[0].by_type):
            yield f"| {kind.replace('_', ' ')} | {' | '.join(f'{result.by_type[kind]:.3f}' for result in own)} |"


if __name__ == "__main__":
    main()
