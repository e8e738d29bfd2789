"""Draw docs/images/budget.svg from docs/lab/benchmarks.md: answers, evidence and price against the budget.

python bench/plot_budget.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
BENCHMARKS = DOCS / "lab" / "benchmarks.md"
PICTURE = DOCS / "images" / "budget.svg"
SETS = {"locomo-dev": "LoCoMo", "beam-100k-dev": "BEAM"}
COLOURS = {"locomo-dev": "#0f766e", "beam-100k-dev": "#b45309"}
BASELINE = "#9ca3af"
CONDITIONS = {
    "newest": "newest tokens only",
    "live": "Foveate",
    "live+tools": "Foveate, with tools",
    "whole": "whole history",
}
PANEL_WIDTH, PANEL_HEIGHT, GAP, MARGIN = 210, 190, 70, 24
BARS_WIDTH = 380
BUDGETS = (4_000, 8_000, 16_000)


def rows(text: str, header: str) -> list[list[str]]:
    """Return the cells of the table whose header begins like this."""
    lines = text.partition(f"\n{header}")[2].splitlines()[2:]
    table = lines[: next((index for index, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def number(cell: str) -> float:
    """Read the first number of a cell, e.g. `0.965 (0.95 to 0.97)` or `4,000`."""
    found = re.match(r"[\d.,]+", cell)
    if not found:
        raise ValueError(f"no number in {cell!r}")
    return float(found[0].replace(",", ""))


def answers(text: str) -> list[tuple[str, str, float, float]]:
    """Return set, condition, score and mean tokens of the conditions that are drawn, by set."""
    table = [
        (row[0], row[2], number(row[7]), number(row[-1])) for row in rows(text, "| set | budget | condition | n |")
    ]
    drawn = [row for row in table if row[1] in CONDITIONS]
    return sorted(drawn, key=lambda row: (list(SETS).index(row[0]), list(CONDITIONS).index(row[1])))


def by_budget(text: str, header: str, column: int) -> dict[str, dict[int, float]]:
    """Return a column of a table by set and budget."""
    found: dict[str, dict[int, float]] = {name: {} for name in SETS}
    for row in rows(text, header):
        if row[0] in SETS:
            found[row[0]][int(number(row[1]))] = number(row[column])
    return found


def label(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#374151") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def bars(found: Sequence[tuple[str, str, float, float]], x: float, y: float) -> Iterator[str]:
    """Draw a bar for each condition."""
    name_width, height, step = 150, 14, 22
    scale = BARS_WIDTH - name_width - 90
    drawn = ""
    for set_name, condition, score, tokens in found:
        if set_name != drawn:
            y += 14 if drawn else 0
            yield label(x, y + 11, SETS[set_name], size=12, colour=COLOURS[set_name])
            y, drawn = y + 18, set_name
        colour = COLOURS[set_name] if condition.startswith("live") else BASELINE
        yield label(x + name_width - 6, y + 11, CONDITIONS[condition], anchor="end")
        yield f'<rect x="{x + name_width}" y="{y:g}" width="{scale * score:.1f}" height="{height}" fill="{colour}"/>'
        yield label(x + name_width + scale * score + 5, y + 11, f"{score:.3f} with {tokens:,.0f} tokens", size=11)
        y += step


def lines(values: dict[str, dict[int, float]], x: float, y: float) -> Iterator[str]:
    """Draw a line for each set over the budgets."""
    for tick in (0, 0.25, 0.5, 0.75, 1):
        at = y + PANEL_HEIGHT * (1 - tick)
        yield f'<line x1="{x}" y1="{at:g}" x2="{x + PANEL_WIDTH}" y2="{at:g}" stroke="#e5e7eb"/>'
        yield label(x - 6, at + 4, f"{tick:g}", anchor="end", size=11)
    places = {budget: x + 25 + index * (PANEL_WIDTH - 50) / (len(BUDGETS) - 1) for index, budget in enumerate(BUDGETS)}
    for budget, at in places.items():
        yield label(at, y + PANEL_HEIGHT + 17, f"{budget:,}", anchor="middle", size=11)
    ends = sorted(values, key=lambda name: values[name][BUDGETS[-1]], reverse=True)
    for set_name, points in values.items():
        dots = [(places[budget], y + PANEL_HEIGHT * (1 - points[budget])) for budget in BUDGETS]
        path = " ".join(f"{a:g},{b:.1f}" for a, b in dots)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[set_name]}" stroke-width="2"/>'
        side = -9 if set_name == ends[0] else 18
        for (a, b), budget in zip(dots, BUDGETS, strict=True):
            yield f'<circle cx="{a:g}" cy="{b:.1f}" r="3.5" fill="{COLOURS[set_name]}"/>'
            yield label(a, b + side, f"{points[budget]:.2f}", anchor="middle", size=11, colour=COLOURS[set_name])


def draw(text: str) -> str:
    """Return the picture of the tables of a page."""
    evidence = by_budget(text, "| questions | budget | FACT fresh", 4)
    price = by_budget(text, "| budget in use | budget | calls", 8)
    second = MARGIN + BARS_WIDTH + GAP
    third = second + PANEL_WIDTH + GAP
    width, top = third + PANEL_WIDTH + MARGIN, 56
    view = f'viewBox="0 0 {width} 322" font-family="system-ui, sans-serif" role="img"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        "<title>Answers, evidence in view and price of prompts against the budget</title>",
        f'<rect width="{width}" height="322" rx="6" fill="#ffffff"/>',
        label(MARGIN, 32, "Score of answers (right 1, partly 0.5)", size=14, colour="#111827"),
        label(second - 20, 32, "Evidence in view, at the end", size=14, colour="#111827"),
        label(third - 20, 32, "Price of prompt tokens", size=14, colour="#111827"),
        *bars(answers(text), MARGIN, top - 8),
        *lines(evidence, second, top),
        *lines(price, third, top),
        label(second + PANEL_WIDTH / 2, top + PANEL_HEIGHT + 36, "budget in tokens", anchor="middle", size=11),
        label(third + PANEL_WIDTH / 2, top + PANEL_HEIGHT + 36, "budget in tokens", anchor="middle", size=11),
        label(
            second + PANEL_WIDTH / 2 - 30,
            top + PANEL_HEIGHT + 52,
            "LoCoMo",
            anchor="middle",
            size=11,
            colour=COLOURS["locomo-dev"],
        ),
        label(
            second + PANEL_WIDTH / 2 + 30,
            top + PANEL_HEIGHT + 52,
            "BEAM",
            anchor="middle",
            size=11,
            colour=COLOURS["beam-100k-dev"],
        ),
        label(
            third + PANEL_WIDTH / 2,
            top + PANEL_HEIGHT + 52,
            "1 = no cache; 2 of 5 prompts recall",
            anchor="middle",
            size=11,
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


def main() -> None:
    PICTURE.write_text(draw(BENCHMARKS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
