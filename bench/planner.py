"""What choosing levels costs: CPU of one plan of the gradient, by turns and budget.

Run from the project's root: python bench/planner.py [--repeats 9] [--json]

Long turns take 2,000 / 1,200 / 700 / 45 tokens at the four levels, short ones 35 / 33 / 22 / 15.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from foveate.plan import TurnSizes
from foveate.strategy.gradient import Gradient
from foveate.testing.histories import USUAL_OVERHEADS, EvenHistory, sized

TURNS = (100, 1_000, 10_000, 100_000, 1_000_000)
BUDGETS = (16_000, 100_000, 200_000)
KINDS = {"long": sized(2_000, 1_200, 700, 45), "short": sized(35, 33, 22, 15)}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one plan."""

    kind: str
    turns: int
    budget_tokens: int
    cpu_ms: float
    items_read: int
    eras_read: int
    turns_shown: int
    """Turns that stand for themselves."""
    use: float
    """The share of the budget spent."""


def measure(kind: str, like: TurnSizes, turns: int, budget_tokens: int, repeats: int) -> Cost:
    gradient = Gradient()
    taken: list[float] = []
    for _ in range(repeats):
        history = EvenHistory(turns, like)
        began = time.process_time()
        plan = gradient.plan(history, budget_tokens, USUAL_OVERHEADS)
        taken.append((time.process_time() - began) * 1_000)
    shown = sum(row.last - row.first + 1 for row in plan.rows if row.level != "E")
    cpu_ms = statistics.median(taken)
    use = plan.tokens / budget_tokens
    return Cost(kind, turns, budget_tokens, cpu_ms, history.reads["items"], history.reads["eras"], shown, use)


def print_table(costs: list[Cost]) -> None:
    table = Table("kind", "turns", "budget", "CPU ms", "items read", "eras read", "turns shown singly", "use")
    for cost in costs:
        table.add_row(
            cost.kind,
            f"{cost.turns:,}",
            f"{cost.budget_tokens:,}",
            f"{cost.cpu_ms:.1f}",
            f"{cost.items_read:,}",
            f"{cost.eras_read:,}",
            f"{cost.turns_shown:,}",
            f"{cost.use:.1%}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="the median of so many is given")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs = [
        measure(kind, like, turns, budget, options.repeats)
        for kind, like in KINDS.items()
        for budget in BUDGETS
        for turns in TURNS
    ]
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        print_table(costs)


if __name__ == "__main__":
    main()
