"""Strict validators over random agentic histories: every strategy, budgets from 500 to 64k, four formats, cross-format.

Each request is also recounted independently: one that is larger than its budget is a fault.

python bench/validators.py [REQUESTS]        default: 20,000
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from foveate.errors import FoveateError
from foveate.settings import load_settings
from support.messages import FORMATS, random_turns
from support.recount import recount
from support.validators import faults

STRATEGIES = ("gradient", "standard", "checkpoint", "topics", "hybrid", "oneshot")
BUDGETS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)


async def measure(wanted: int) -> tuple[Counter[str], Counter[str]]:
    """The counts of requests and errors, and of faults by what they say."""
    seen: Counter[str] = Counter()
    found: Counter[str] = Counter()
    seed = 0
    # Hundreds of small stores: starting processes for each takes longer than everything else.
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0, "close_seconds": 0}})
    while seen["requests"] < wanted:
        seed += 1
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            async with foveate.open(str(Path(folder) / "chat.db"), settings=settings) as fov:
                await one_store(fov, rng, seen, found, seed)
    return seen, found


async def one_store(
    fov: foveate.Foveate, rng: random.Random, seen: Counter[str], found: Counter[str], seed: int
) -> None:
    usual = rng.choice(FORMATS)
    session = await fov.session("s", strategy=rng.choice(STRATEGIES), budget_tokens=rng.choice(BUDGETS))
    for _ in range(rng.choice([1, 3, 10, 30])):
        recorded = usual if rng.random() < 0.8 else rng.choice(FORMATS)
        await session.record(random_turns(rng, recorded, turns=1)[0], format=recorded)
    if rng.random() < 0.5:
        await fov.settle()
    prompts = ["And now?", "What was the gate code?"]
    if rng.random() < 0.5:
        await session.record({"role": "user", "content": "And now?"})
        prompts = [""]
    for strategy, prompt in itertools.product((None, *STRATEGIES), prompts):
        budget = None if rng.random() < 0.4 else rng.choice(BUDGETS)
        try:
            context = await session.context(prompt, strategy=strategy, budget_tokens=budget, tools=True, system="Go.")
        except FoveateError as error:
            seen[f"rejected with {type(error).__name__}"] += 1
            continue
        for name in FORMATS:
            seen["requests"] += 1
            request = context.request(name)
            if (tokens := recount(name, request)) > context.budget_tokens:
                found[f"{name}: over budget"] += 1
                print(f"seed {seed} {name} {strategy} {budget}: {tokens} of {context.budget_tokens}", file=sys.stderr)
            for problem in faults(name, request):
                found[f"{name}: {problem[:110]}"] += 1
                print(f"seed {seed} {usual} {name} {strategy} {budget}: {problem[:200]}", file=sys.stderr)


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seen, found = asyncio.run(measure(wanted))
    for what, count in sorted(seen.items()):
        print(f"{count:>8,}  {what}")
    print(f"{found.total():>8,}  faults")
    for what, count in found.most_common(20):
        print(f"{count:>8,}  {what}")


if __name__ == "__main__":
    main()
