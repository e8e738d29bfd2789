"""A conversation while its model fails: 30 % errors, 10 % stalls, 10 % garbage; next to the same one without a model.

    python bench/fault_storm.py                       # 1,000 turns each, in alternating rounds
    python bench/fault_storm.py --turns 200 --rounds 2 --json

Each turn is recorded and a context is made, as a chat would do. The two conversations take turns, so that whatever
else the machine does befalls both; what is in the background of one never runs during the other. Afterwards the model
is given time until nothing waits any more, and every turn is looked at. No turn may cost more than
`models.max_calls_per_turn` calls, so all of them together no more than that times the turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table

from conversation import make_conversation
from foveate import Foveate, Session
from foveate.compress.model import assign, groups, is_worth_asking
from foveate.models import Ask
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, Delays, Says, ScriptedModel, storm
from foveate.tokens import O200K
from foveate.turn import Turn
from support.faithful import faithful_answer

MODEL = "scripted:storm"
BUDGET_TOKENS = 8_000
PACE_SECONDS = 0.05
"""Between a context and the next turn; a person takes longer."""
ANSWER_SECONDS = (0.1, 0.6)
"""How long an answer takes while the conversation is timed; a fast provider's. Afterwards there is no delay."""
PROMPT = "Where were we, and what is next?"
NONCE = "0123456789abcdef"
FINISH_SECONDS = 300.0
LIMITS = {
    "timeout_seconds": 1.0,
    "backoff_seconds": 0.002,
    "breaker_seconds": 0.5,
    "breaker_failures": 5,
    "daily_usd": None,
}

_ENVELOPE = re.compile(r"<source-(\w+)>\n(.*?)\n</source-\1>", re.DOTALL)


@dataclass(slots=True)
class Timed:
    """How long each call took, in milliseconds, by round."""

    record: list[list[float]] = field(default_factory=list)
    context: list[list[float]] = field(default_factory=list)


@dataclass(slots=True)
class Ended:
    """What became of the turns in the storm."""

    turns: int = 0
    complete: int = 0
    """Have all their levels."""
    by_model: int = 0
    marked: int = 0
    waiting: int = 0
    worth_asking: int = 0
    calls: int = 0
    most_calls_of_a_turn: int = 0
    bound_of_a_turn: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def bound(self) -> int:
        return self.bound_of_a_turn * self.worth_asking


class Memory:
    """Honest answers, made beforehand: in the run they must cost the program's own process nothing."""

    def __init__(self, turns: Sequence[Turn], settings: Settings) -> None:
        (group,) = groups(settings.models)
        self._answers: dict[str, dict[str, object]] = {}
        self._by_nonce: dict[str, dict[str, object]] = {}
        for turn in turns:
            if is_worth_asking(turn.messages, O200K.base):
                made = assign(group, 1, turn.messages, O200K.base, nonce=NONCE, settings=settings.models)
                self._answers[_envelope(made.ask)[2]] = json.loads(faithful_answer(made.ask))

    def __len__(self) -> int:
        return len(self._answers)

    def hear(self, ask: Ask) -> None:
        """Remember what a request is about: a follow-up has only some lines of it."""
        envelope = _envelope(ask)
        if envelope[2] in self._answers:
            self._by_nonce[envelope[1]] = self._answers[envelope[2]]

    def __call__(self, ask: Ask) -> Says:
        answer = self._by_nonce[_envelope(ask)[1]]
        assert ask.schema
        wanted = ask.schema["properties"]
        assert isinstance(wanted, dict)
        return Says(json.dumps({name: answer[name] for name in wanted}))


def _envelope(ask: Ask) -> re.Match[str]:
    found = _ENVELOPE.search(ask.messages[1].text)
    assert found, "the source stands in an envelope"
    return found


def settings_for(*, with_model: bool) -> Settings:
    models = {"default": MODEL, **LIMITS} if with_model else {}
    return load_settings(environment={}, overrides={"models": models})


async def opened(path: Path, settings: Settings, model: ScriptedModel) -> Foveate:
    return Foveate(await open_store(str(path), settings.store), settings, load=lambda *_: model)


async def play(path: Path, settings: Settings, model: ScriptedModel, turns: Sequence[Turn], timed: Timed) -> None:
    """Some turns of a chat, timed."""
    fov = await opened(path, settings, model)
    record: list[float] = []
    context: list[float] = []
    try:
        session = await fov.session("s", budget_tokens=BUDGET_TOKENS)
        for turn in turns:
            began = time.perf_counter()
            await session.record(list(turn.messages))
            recorded = time.perf_counter()
            await session.context(PROMPT)
            context.append(1000 * (time.perf_counter() - recorded))
            record.append(1000 * (recorded - began))
            await asyncio.sleep(PACE_SECONDS)
    finally:
        await fov.close()
    timed.record.append(record)
    timed.context.append(context)


async def finish(path: Path, settings: Settings, model: ScriptedModel) -> Ended:
    """Give the model time until nothing waits, then look at every turn."""
    fov = await opened(path, settings, model)
    try:
        session = await fov.session("s")
        await session.record([{"role": "user", "content": "That is all."}])  # closes the last turn
        deadline = time.monotonic() + FINISH_SECONDS
        while True:
            await fov.settle()
            stats = await session.stats()
            if not stats.waiting or time.monotonic() > deadline:
                break
            assert stats.waiting_until
            await asyncio.sleep(max(0.05, stats.waiting_until.timestamp() - time.time()))
        return Ended(
            turns=stats.turns,
            complete=await complete_turns(session, stats.turns),
            by_model=stats.by_model,
            marked=stats.fallbacks,
            waiting=stats.waiting,
            bound_of_a_turn=settings.models.max_calls_per_turn,
        )
    finally:
        await fov.close()


async def complete_turns(session: Session, turns: int) -> int:
    levels = {level: await session.get_turns(1, turns, level, format="plain") for level in ("S", "C", "T")}
    return sum(all(content.content.strip() for content in row) for row in zip(*levels.values(), strict=True))


def read_accounts(path: Path, ended: Ended) -> None:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT turn, outcome FROM calls").fetchall()
    ended.calls = len(rows)
    ended.most_calls_of_a_turn = max(Counter(turn for turn, _ in rows).values(), default=0)
    ended.outcomes = dict(Counter(outcome for _, outcome in rows).most_common())


async def run(turns: Sequence[Turn], rounds: int, seed: int, folder: Path) -> tuple[dict[str, Timed], Ended]:
    calm, stormy = settings_for(with_model=False), settings_for(with_model=True)
    chance = random.Random(seed)
    memory = Memory(turns, stormy)

    is_timed = True

    def honest(ask: Ask) -> Behaviour:
        return Delays(chance.uniform(*ANSWER_SECONDS), memory(ask)) if is_timed else memory(ask)

    stormy_script = storm(seed, honest)

    def script(ask: Ask) -> Behaviour:
        memory.hear(ask)
        return stormy_script(ask)

    model = ScriptedModel(script, name=MODEL)
    timed = {"without": Timed(), "with": Timed()}
    runs: list[tuple[str, Settings]] = [("without", calm), ("with", stormy)]
    for number in range(rounds):
        block = turns[number * len(turns) // rounds : (number + 1) * len(turns) // rounds]
        for name, settings in runs if number % 2 else runs[::-1]:
            await play(folder / f"{name}.db", settings, model, block, timed[name])
    is_timed = False
    ended = await finish(folder / "with.db", stormy, model)
    ended.worth_asking = len(memory)
    read_accounts(folder / "with.db", ended)
    return timed, ended


def percentile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def summary(timed: dict[str, Timed]) -> list[dict[str, object]]:
    """Each call's percentiles over all rounds, and the middle one of the rounds' own ratios."""
    rows: list[dict[str, object]] = []
    pick: dict[str, Callable[[Timed], list[list[float]]]] = {
        "record": lambda times: times.record,
        "context": lambda times: times.context,
    }
    for call, of in pick.items():
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            without, given = (
                percentile([value for round_ in of(timed[key]) for value in round_], share) for key in timed
            )
            ratios = [
                percentile(b, share) / percentile(a, share)
                for a, b in zip(of(timed["without"]), of(timed["with"]), strict=True)
            ]
            rows.append(
                {
                    "call": f"{call} {name}",
                    "without_ms": round(without, 2),
                    "with_ms": round(given, 2),
                    "ratio": round(given / without, 2),
                    "median_ratio_of_rounds": round(statistics.median(ratios), 2),
                }
            )
    return rows


def show(rows: Sequence[dict[str, object]], ended: Ended) -> None:
    table = Table("call", "without a model, ms", "in the storm, ms", "ratio", "middle ratio of rounds")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    out = Console(width=100)
    out.print(table)
    out.print(
        f"{ended.complete:,} of {ended.turns:,} turns have all their levels: {ended.by_model:,} by the model, "
        f"{ended.marked:,} marked, {ended.waiting:,} still waiting; {ended.worth_asking:,} were worth asking about."
    )
    out.print(
        f"{ended.calls:,} calls of at most {ended.bound:,}; the most of one turn {ended.most_calls_of_a_turn} of "
        f"{ended.bound_of_a_turn}. Outcomes: "
        + ", ".join(f"{name} {count:,}" for name, count in ended.outcomes.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    turns = make_conversation(options.turns, seed=options.seed).turns[: options.turns]
    with tempfile.TemporaryDirectory() as folder:
        timed, ended = asyncio.run(run(turns, options.rounds, options.seed, Path(folder)))
    rows = summary(timed)
    if options.json:
        print(json.dumps({"times": rows, "ended": {**asdict(ended), "bound": ended.bound}}, indent=2))
    else:
        show(rows, ended)


if __name__ == "__main__":
    main()
