"""A comparison as one self-contained page: a table, plots, and a sentence about each strategy.

The page has the data of its plots in attributes; `report.js` draws them with uPlot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING

from foveate.session import picture
from foveate.session.picture import ABSENT, FIDELITY

if TYPE_CHECKING:
    from foveate.replay.report import Comparison, Point, StrategyRun

MAX_POINTS = 400
"""Prompts of a run that are drawn; a longer run is sampled evenly."""
MAX_BINS = 16
COLOURS = 8
PARTS = ("fixed", "documents", "E", "T", "A", "C", "U", "S", "M", "R", "board")
"""Parts of a stack from bottom to top, in the order of a prompt, from the oldest to the newest."""
LEVEL_NAMES: Mapping[str, str] = {
    **{level: picture.LEVEL_NAMES[level] for level in FIDELITY},
    ABSENT: picture.HOLLOW_NAME,
}
PART_NAMES: Mapping[str, str] = {
    **LEVEL_NAMES,
    "fixed": "system, explanation, framing",
    "documents": "pins, goals, epic, tasks",
    "board": "board",
}
UPLOT_NOTICE = "uPlot 1.6.32, Copyright (c) 2022 Leon Sorokin, MIT License"


def write_page(name: str, compared: Comparison) -> str:
    """Return the page, including its style and script."""
    library = _file("uplot.min.js").partition("*/")[2]
    places = {
        "title": escape(f"{name}: strategies compared"),
        "style": _file("uplot.min.css") + _file("report.css"),
        "script": f"/* {UPLOT_NOTICE} */{library}{_file('report.js')}",
        "report": write_report(name, compared),
    }
    page = _file("page.html")
    for place, text in places.items():
        page = page.replace(f"<!-- {place} -->", text)
    return page


def write_report(name: str, compared: Comparison) -> str:
    """Return the contents of the page, which need `report.css`, `report.js` and uPlot."""
    title = f"{name}: {compared.title}" if compared.title and compared.title != name else name
    figures = (
        f"{compared.turns:,} turns, {compared.raw_tokens:,} tokens, {compared.facts:,} facts. "
        f"Replayed calls: {compared.sampled()}. It took {compared.seconds:.0f} seconds."
    )
    tabs = "".join(
        f'<button type="button" data-budget="{budget}">{budget:,} tokens</button>' for budget in compared.budgets
    )
    sections = "\n".join(_section(compared, budget) for budget in compared.budgets)
    return f"""<header>
<h1>{escape(title)}</h1><p class="recommended">{escape(compared.recommendation)}</p><p>{escape(figures)}</p>
<nav aria-label="Budget">{tabs}</nav>
</header>
{sections}
{_file("how_to_read.html")}"""


def _file(name: str) -> str:
    return files("foveate.replay").joinpath(name).read_text("utf-8")


def _section(compared: Comparison, budget: int) -> str:
    runs = compared.at(budget)
    colours = {run.strategy: compared.strategies.index(run.strategy) % COLOURS for run in runs}
    words = "".join(
        f'<li><b class="s{colours[run.strategy]}">{escape(run.strategy)}</b> {escape(run.what)}'
        f'<span class="note">{escape(compared.words(run))}</span></li>'
        for run in runs
    )
    toggles = "".join(
        f'<button type="button" class="s{colour}" data-strategy="{escape(name)}" aria-pressed="true">'
        f"{escape(name)}</button>"
        for name, colour in colours.items()
    )
    strips = "".join(f'<p class="name">{escape(run.strategy)}</p>{_strip(run)}' for run in runs)
    levels = [level for level in LEVEL_NAMES if any(level in run.strip for run in runs)]
    ends = f'<p class="ends"><span>T-1, the oldest</span><span>T-{compared.turns}</span></p>'
    stacks = "".join(_figure(f"{run.strategy}: tokens of each prompt, by part", _stack(run)) for run in runs)
    parts = [part for part in PARTS if any(part in point.parts for run in runs for point in run.points)]
    return f"""<section data-budget="{budget}">
<h2>At {budget:,} tokens</h2>
<ul class="words">{words}</ul>
{_table(compared, budget)}
<h3>Retention</h3>
<div class="toggles">{toggles}</div>
<div class="plots">
{_figure("Level of each turn at the end", f"{strips}{ends}{_key(levels)}")}
{_figure("Facts kept, by turns since their last mention", _facts(runs, colours))}
{_figure("Cached share of each prompt", _cached(runs, colours, max(1, compared.turns)))}
</div>
<h3>Tokens by part</h3>
{_key(parts)}
<div class="plots">{stacks}</div>
</section>"""


def _table(compared: Comparison, budget: int) -> str:
    runs = compared.at(budget)
    heads = "".join(f'<th scope="col">{escape(run.strategy)}</th>' for run in runs)
    rows = []
    for figure in compared.differing(budget):
        won = compared.winners(figure, budget)
        cells = "".join(
            f'<td class="{mark}">{escape(figure.text(figure.value(run)))}</td>'
            for run in runs
            for mark in ["best" if run.strategy in won else ""]
        )
        what = f"{escape(figure.name)}<small>{escape(figure.what)}</small>"
        rows.append(f'<tr><th scope="row">{what}</th>{cells}</tr>')
    for level in LEVEL_NAMES:
        if any(level in run.strip or run.levels_on_average.get(level) for run in runs):
            cells = "".join(f"<td>{_shares(run, level)}</td>" for run in runs)
            what = f"{escape(_named(level))}<small>{escape(_meaning(level))}</small>"
            rows.append(f'<tr class="level"><th scope="row">{what}</th>{cells}</tr>')
    return (
        '<p class="note">A column is a strategy, as explained above. The best value of each row is marked. The lower '
        "rows are the share of turns at each level: at the end, and smaller, on average over all prompts.</p>"
        f'<div class="scroll"><table><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="note">{escape(compared.alike(budget))}</p>'
    )


def _shares(run: StrategyRun, level: str) -> str:
    at_end, average = run.levels_at_end.get(level, 0.0), run.levels_on_average.get(level, 0.0)
    return f"{at_end:.0%} <small>{average:.0%}</small>" if at_end or average else ""


def _named(part: str) -> str:
    return f"{part} {PART_NAMES[part]}" if part in FIDELITY else PART_NAMES[part]


def _meaning(level: str) -> str:
    """Return what a turn at this level shows."""
    return "only its number" if level == ABSENT else picture.MEANINGS[picture.LEVELS[level]]


def _class(part: str) -> str:
    return "p-absent" if part == ABSENT else f"p-{part}"


def _key(parts: Sequence[str]) -> str:
    named = (f'<span><i class="{_class(part)}"></i>{escape(_named(part))}</span>' for part in parts)
    return f'<p class="key">{" ".join(named)}</p>'


def _figure(title: str, plot: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{plot}</figure>"


def _strip(run: StrategyRun) -> str:
    """Return the turns of a run in a row, oldest left, coloured by level; consecutive equal levels are one piece."""
    pieces, first = [], 1
    for level, group in groupby(run.strip):
        last = first + len(list(group)) - 1
        turns = f"T-{first}" if first == last else f"T-{first} to T-{last}"
        tip = escape(f"{run.strategy}: {turns} {LEVEL_NAMES[level]}")
        pieces.append(f'<i class="{_class(level)} tip" data-turns="{last - first + 1}" data-tip="{tip}"></i>')
        first = last + 1
    return f'<div class="strip">{"".join(pieces)}</div>'


def _plot(axis: str, places: Sequence[tuple[str, str]], lines: Sequence[object], limit: int | None = None) -> str:
    """Return a plot for the script: labels of the axis and titles of the tips by place; with a limit, a stack."""
    data = {"axis": axis, "labels": [label for label, _ in places], "heads": [head for _, head in places]}
    return f'<div class="plot" data-plot="{escape(json.dumps({**data, "lines": lines, "limit": limit}))}"></div>'


def _line(name: str, colour: str, values: Sequence[float | None]) -> object:
    return {"name": name, "colour": colour, "values": [value and round(value, 4) for value in values]}


def _facts(runs: Sequence[StrategyRun], colours: Mapping[str, int]) -> str:
    places = []
    for share in runs[0].facts_by_age if runs else ():
        age = f"{share.least}" if share.least == share.most else f"{share.least}\u2013{share.most}"
        places.append((f"{share.least:,}", f"{age} turns ago, {share.facts:,} facts"))
    lines = [
        _line(run.strategy, f"s{colours[run.strategy]}", [share.kept for share in run.facts_by_age]) for run in runs
    ]
    return _plot("turns ago", places, lines)


def _cached(runs: Sequence[StrategyRun], colours: Mapping[str, int], turns: int) -> str:
    bins = min(MAX_BINS, turns)
    places = []
    for place in range(bins):
        first, last = place * turns // bins + 1, (place + 1) * turns // bins
        places.append((f"{first:,}", f"T-{first}" if first >= last else f"T-{first} to T-{last}"))
    lines = [_line(run.strategy, f"s{colours[run.strategy]}", _binned(run.points, bins, turns)) for run in runs]
    return _plot("turn", places, lines)


def _binned(points: Sequence[Point], bins: int, turns: int) -> list[float | None]:
    """Return the cached share of the tokens of each part of the history."""
    tokens, cached = [0] * bins, [0.0] * bins
    for point in points:
        if point.cached_share is not None:
            place = min(bins - 1, (point.turn - 1) * bins // turns)
            tokens[place] += point.tokens
            cached[place] += point.tokens * point.cached_share
    return [had / all_ if all_ else None for had, all_ in zip(cached, tokens, strict=True)]


def _stack(run: StrategyRun) -> str:
    count = min(MAX_POINTS, len(run.points))
    points = [run.points[place * (len(run.points) - 1) // max(1, count - 1)] for place in range(count)]
    places = [(f"{point.turn:,}", f"T-{point.turn}: {point.tokens:,} tokens") for point in points]
    lines = [
        _line(PART_NAMES[part], part, [point.parts.get(part, 0) for point in points])
        for part in PARTS
        if any(part in point.parts for point in points)
    ]
    return _plot("turn", places, lines, run.budget_tokens)
