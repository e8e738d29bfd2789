"""A comparison in the terminal: a table for each budget, the levels, and each strategy in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import Column, line, print_table, shorten
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.replay.report import Comparison, StrategyRun

BEST = "bold green"
MAX_NEEDLES_NAMED = 5
NEEDLE_CHARS = 40


def show(out: Console, name: str, compared: Comparison) -> None:
    title = f"{name}: " if not compared.title else f"{name}, {shorten(compared.title, 60)}: "
    out.print(line((title, "bold"), f"{several(compared.turns, 'turn')}, {amount(compared.raw_tokens)} tokens"))
    took = f"{compared.seconds:.0f} s with {several(compared.processes, 'process', 'processes')}"
    out.print(line((f"{compared.sampled()}; {several(compared.facts, 'fact')}; {took}", "dim")))
    for budget in compared.budgets:
        out.print(line((f"\nAt {budget:,} tokens", "bold"), ("  (* best of its row)", "dim")))
        _show_figures(out, compared, budget)
        out.print(line(("\nTurns at each level, % at the end/on average", "dim")))
        _show_levels(out, compared.at(budget))
        out.print()
        for run in compared.at(budget):
            out.print(line((f"{run.strategy}: ", "bold"), compared.words(run)))
    unsaid = [needle.text for needle in compared.runs[0].needles if needle.turn is None] if compared.runs else []
    if unsaid:
        named = ", ".join(repr(shorten(text, NEEDLE_CHARS)) for text in unsaid[:MAX_NEEDLES_NAMED])
        out.print(line((f"\nNever said in it, so that nothing could find it: {named}", "yellow")))


def _show_figures(out: Console, compared: Comparison, budget: int) -> None:
    runs = compared.at(budget)
    rows: list[list[str | Text]] = []
    for figure in compared.figures:
        won = compared.winners(figure, budget)
        cells: list[str | Text] = [figure.name]
        for run in runs:
            text = figure.text(figure.value(run))
            cells.append(line((f"*{text}", BEST)) if run.strategy in won else text)
        rows.append(cells)
    print_table(out, [Column(""), *(Column(run.strategy, "number") for run in runs)], rows)


def _show_levels(out: Console, runs: tuple[StrategyRun, ...]) -> None:
    from foveate.replay.report import ABSENT, FIDELITY

    levels = [
        level
        for level in (*FIDELITY, ABSENT)
        if any(level in run.strip or run.levels_on_average.get(level) for run in runs)
    ]
    rows = [[run.strategy, *(_shares(run, level) for level in levels)] for run in runs]
    heads = ["absent" if level == ABSENT else level for level in levels]
    print_table(out, [Column(""), *(Column(head, "number") for head in heads)], rows)


def _shares(run: StrategyRun, level: str) -> str:
    at_end, average = run.levels_at_end.get(level, 0.0), run.levels_on_average.get(level, 0.0)
    return f"{at_end:.0%}/{average:.0%}".replace("%", "") if at_end or average else ""
