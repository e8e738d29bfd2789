"""A comparison as one page that needs nothing else: a table, plots, and each strategy in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from foveate.replay.plots import PlotLine, StackLayer, Tick, Tip, line_plot, stack_plot, strip_plot
from foveate.replay.report import ABSENT, FIDELITY
from foveate.session import picture
from foveate.text import amount

if TYPE_CHECKING:
    from foveate.replay.report import Comparison, Point, StrategyRun

MAX_POINTS = 120
"""Prompts of a run that are drawn; of a longer run, this many at even distances."""
MAX_BINS = 16
X_TICKS = 4
PARTS = ("fixed", "documents", "E", "T", "A", "C", "U", "S", "M", "R", "board")
"""From the bottom of a stack to its top, as a prompt has them, from the oldest to the newest."""
PART_NAMES: Mapping[str, str] = {
    "fixed": "system, explanation, framing",
    "documents": "pins, goals, epic, tasks",
    "board": "board",
    **{str(level): name for level, name in picture.LEVEL_NAMES.items()},
}
LEVEL_NAMES: Mapping[str, str] = {**{level: picture.LEVEL_NAMES[level] for level in FIDELITY}, ABSENT: "absent"}


def write_page(name: str, compared: Comparison) -> str:
    """The page, with its style and script in it."""
    template = _file("page.html")
    places = {
        "title": escape(f"{name}: strategies compared"),
        "style": _file("report.css"),
        "script": _file("report.js"),
        "report": write_report(name, compared),
    }
    for place, text in places.items():
        template = template.replace(f"<!-- {place} -->", text)
    return template


def write_report(name: str, compared: Comparison) -> str:
    """The contents of the page, which `report.css` and `report.js` belong to."""
    tabs = "".join(
        f'<button type="button" data-budget="{budget}">{budget:,} tokens</button>' for budget in compared.budgets
    )
    sections = "\n".join(_section(compared, budget) for budget in compared.budgets)
    head = f'<header>\n{_head(name, compared)}\n<nav aria-label="Budget">{tabs}</nav>\n</header>'
    return f"{head}\n<main>\n{sections}\n</main>\n{_file('how_to_read.html')}"


def _file(name: str) -> str:
    return files("foveate.replay").joinpath(name).read_text("utf-8")


def _head(name: str, compared: Comparison) -> str:
    title = f"{name}: {compared.title}" if compared.title and compared.title != name else name
    said = (
        f"{compared.turns:,} turns, {compared.raw_tokens:,} tokens, {compared.facts:,} facts. "
        f"Played call by call: {compared.sampled()}. It took {compared.seconds:.0f} seconds."
    )
    return f"<h1>{escape(title)}</h1><p>{escape(said)}</p>"


def _section(compared: Comparison, budget: int) -> str:
    runs = compared.at(budget)
    plots = [
        _figure("What each turn is shown as, at the end", _strips(runs), _key(LEVEL_NAMES, _levels_in(runs))),
        _figure("Facts kept, by how many turns ago they were said last", _facts(compared, runs), ""),
        _figure("Share of each prompt that a prefix cache has", _cached(compared, runs), ""),
    ]
    stacks = [_figure(f"{run.strategy}: tokens of each prompt, by part", _stack(run), "") for run in runs]
    parts = _key(
        PART_NAMES, [part for part in PARTS if any(part in point.parts for run in runs for point in run.points)]
    )
    return f"""<section data-budget="{budget}">
<h2>At {budget:,} tokens</h2>
<ul class="words">{_words(compared, runs)}</ul>
{_table(compared, budget)}
<h3>What is kept</h3>
<div class="toggles">{_toggles(compared)}</div>
<div class="plots">{"".join(plots)}</div>
<h3>What the tokens go to</h3>
<p class="key">{parts}</p>
<div class="plots">{"".join(stacks)}</div>
</section>"""


def _words(compared: Comparison, runs: Sequence[StrategyRun]) -> str:
    return "".join(
        f'<li><b class="s{_colour(compared, run)}">{escape(run.strategy)}</b> {escape(compared.words(run))}</li>'
        for run in runs
    )


def _table(compared: Comparison, budget: int) -> str:
    runs = compared.at(budget)
    heads = "".join(f'<th scope="col">{escape(run.strategy)}</th>' for run in runs)
    rows = []
    for figure in compared.figures:
        won = compared.winners(figure, budget)
        cells = "".join(
            f'<td class="best">{text}</td>' if run.strategy in won else f"<td>{text}</td>"
            for run in runs
            for text in [escape(figure.text(figure.value(run)))]
        )
        rows.append(f'<tr><th scope="row" title="{escape(figure.what)}">{escape(figure.name)}</th>{cells}</tr>')
    for level in (*FIDELITY, ABSENT):
        if not any(level in run.strip or run.levels_on_average.get(level) for run in runs):
            continue
        cells = "".join(f"<td>{_shares(run, level)}</td>" for run in runs)
        rows.append(f'<tr class="level"><th scope="row">{escape(_level_head(level))}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="note">The best of each row is marked. The lower rows have the share of turns at each level: '
        "at the end, and on average over all prompts.</p>"
    )


def _level_head(level: str) -> str:
    return "absent" if level == ABSENT else f"{level} {LEVEL_NAMES[level]}"


def _shares(run: StrategyRun, level: str) -> str:
    at_end, average = run.levels_at_end.get(level, 0.0), run.levels_on_average.get(level, 0.0)
    return f"{at_end:.0%} <small>{average:.0%}</small>" if at_end or average else ""


def _figure(title: str, plot: str, key: str) -> str:
    below = f'<p class="key">{key}</p>' if key else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{plot}{below}</figure>"


def _key(names: Mapping[str, str], shown: Sequence[str]) -> str:
    return " ".join(
        f'<span><i class="p-{"absent" if part == ABSENT else part}"></i>{escape(_coded(part, names[part]))}</span>'
        for part in shown
    )


def _coded(part: str, name: str) -> str:
    return f"{part} {name}" if part in FIDELITY else name


def _toggles(compared: Comparison) -> str:
    return "".join(
        f'<button type="button" class="s{place % 8}" data-strategy="{escape(name)}" aria-pressed="true">'
        f"{escape(name)}</button>"
        for place, name in enumerate(compared.strategies)
    )


def _levels_in(runs: Sequence[StrategyRun]) -> list[str]:
    return [level for level in LEVEL_NAMES if any(level in run.strip for run in runs)]


def _strips(runs: Sequence[StrategyRun]) -> str:
    return strip_plot("Levels of turns", {run.strategy: run.strip for run in runs}, LEVEL_NAMES)


def _facts(compared: Comparison, runs: Sequence[StrategyRun]) -> str:
    ages = [(share.least, share.most) for share in runs[0].facts_by_age] if runs else []
    last = max(1, len(ages) - 1)
    lines = [
        PlotLine(
            run.strategy,
            _colour(compared, run),
            [(place / last, share.kept) for place, share in enumerate(run.facts_by_age)],
        )
        for run in runs
    ]
    ticks = [Tick(place / last, f"{least:,}") for place, (least, _) in enumerate(ages)]
    tips = []
    for place, age in enumerate(ages):
        values = "\n".join(f"{run.strategy} {run.facts_by_age[place].kept:.0%}" for run in runs)
        said = f"{_age(*age)} turns ago, {runs[0].facts_by_age[place].facts:,} facts\n{values}"
        tips.append(Tip(max(0.0, (place - 0.5) / last), min(1.0, (place + 0.5) / last), said))
    return line_plot("Facts kept by age", lines, ticks, "turns ago", tips)


def _age(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least}\u2013{most}"


def _cached(compared: Comparison, runs: Sequence[StrategyRun]) -> str:
    turns = max(1, compared.turns)
    bins = min(MAX_BINS, turns)
    shares = {run.strategy: _binned(run.points, bins, turns) for run in runs}
    lines = [
        PlotLine(
            run.strategy,
            _colour(compared, run),
            [((place + 0.5) / bins, share) for place, share in enumerate(shares[run.strategy])],
        )
        for run in runs
    ]
    tips = []
    for place in range(bins):
        first, last = place * turns // bins + 1, (place + 1) * turns // bins
        values = [f"{name} {found[place]:.0%}" for name, found in shares.items() if found[place] is not None]
        if values:
            where = f"T-{first}" if first >= last else f"T-{first} to T-{last}"
            tips.append(Tip(place / bins, (place + 1) / bins, "\n".join([where, *values])))
    return line_plot("Cached share", lines, _turn_ticks(turns), "turn", tips)


def _binned(points: Sequence[Point], bins: int, turns: int) -> list[float | None]:
    """The cached share of the tokens of each part of the history."""
    tokens, cached = [0] * bins, [0.0] * bins
    for point in points:
        if point.cached_share is not None:
            place = min(bins - 1, (point.turn - 1) * bins // turns)
            tokens[place] += point.tokens
            cached[place] += point.tokens * point.cached_share
    return [had / all_ if all_ else None for had, all_ in zip(cached, tokens, strict=True)]


def _stack(run: StrategyRun) -> str:
    points = _thinned(run.points)
    turns = max(2, run.turns)
    places = [(point.turn - 1) / (turns - 1) for point in points]
    # Several prompts of one turn share its place, side by side.
    places = list(_spread(places, 1 / (turns - 1)))
    layers = [
        StackLayer(part, [point.parts.get(part, 0) / run.budget_tokens for point in points])
        for part in PARTS
        if any(part in point.parts for point in points)
    ]
    ticks = [Tick(share, amount(run.budget_tokens * share)) for share in (0, 0.5, 1)]
    tips = []
    for (left, right), point in zip(pairwise([*places, 1.0]), points, strict=True):
        parts = "\n".join(
            f"{PART_NAMES[part]} {point.parts[part]:,}" for part in reversed(PARTS) if part in point.parts
        )
        tips.append(Tip(left, max(left, right), f"T-{point.turn}: {point.tokens:,} tokens\n{parts}"))
    name = f"Tokens of {run.strategy}"
    return stack_plot(name, places, layers=layers, x_ticks=_turn_ticks(turns), y_ticks=ticks, tips=tips)


def _thinned(points: Sequence[Point]) -> list[Point]:
    if len(points) <= MAX_POINTS:
        return list(points)
    return [points[place * (len(points) - 1) // (MAX_POINTS - 1)] for place in range(MAX_POINTS)]


def _spread(places: Sequence[float], width: float) -> Iterator[float]:
    """The same places, those that are equal apart within the width of one turn."""
    counts = {place: places.count(place) for place in set(places)}
    seen: dict[float, int] = {}
    for place in places:
        yield min(1.0, place + width * seen.get(place, 0) / counts[place])
        seen[place] = seen.get(place, 0) + 1


def _turn_ticks(turns: int) -> list[Tick]:
    """A few turns, the first and the last among them."""
    chosen = sorted({1 + place * (turns - 1) // X_TICKS for place in range(X_TICKS + 1)})
    return [Tick((turn - 1) / max(1, turns - 1), f"{turn:,}") for turn in chosen]


def _colour(compared: Comparison, run: StrategyRun) -> int:
    return compared.strategies.index(run.strategy) % 8
