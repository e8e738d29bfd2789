"""The results of a comparison: figures of each strategy at each budget, including retained facts, and which is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from foveate.compress.facts import find_facts
from foveate.context.context import Segment
from foveate.context.coverage import turns_without_words
from foveate.replay.replay import CallSample
from foveate.session.picture import ABSENT, BOARDS, DOCUMENTS, FIDELITY
from foveate.turn import Json

NOT_SAID = ("system", "explanation", "tools", "framing", "attachments")
"""Parts of a context that do not belong to the history."""
Part = Literal["fixed", "documents", "R", "M", "S", "U", "C", "A", "T", "E", "board"]
"""What the tokens of a prompt are spent on: the levels, and the parts around the history."""


@dataclass(frozen=True, slots=True)
class AgeShare:
    """The share of retained facts, by the number of turns since they were last mentioned; 0 is the newest turn."""

    least: int
    most: int
    facts: int
    kept: float


@dataclass(frozen=True, slots=True)
class FactBook:
    """The facts of a history by their form: the weight of each, and the turns that mention it first and last."""

    weights: Mapping[str, float]
    first: Mapping[str, int]
    last: Mapping[str, int]
    turns: int

    def known_share(self, forms: frozenset[str], turn: int) -> float:
        """Return the share of the facts mentioned up to a turn that these forms contain."""
        return self._share([form for form, mentioned in self.first.items() if mentioned <= turn], forms)

    def aged(self, forms: frozenset[str], least: int, most: int) -> AgeShare:
        """Return the share of the facts last mentioned from `least` to `most` turns ago that these forms contain."""
        own = [form for form, mentioned in self.last.items() if least <= self.turns - mentioned <= most]
        return AgeShare(least, most, len(own), self._share(own, forms))

    def by_age(self, forms: frozenset[str]) -> tuple[AgeShare, ...]:
        """Return the shares for 0, 1, 2 to 3, 4 to 7, … turns ago, if there are facts."""
        shares = []
        least = most = 0
        while least < self.turns:
            share = self.aged(forms, least, min(most, self.turns - 1))
            if share.facts:
                shares.append(share)
            least, most = most + 1, 2 * most + 1
        return tuple(shares)

    def _share(self, own: Sequence[str], forms: frozenset[str]) -> float:
        total = sum(self.weights[form] for form in own)
        return sum(self.weights[form] for form in own if form in forms) / total if total else 1.0


def fact_book(texts: Sequence[str]) -> FactBook:
    """Collect the facts of turns, oldest first."""
    weights: dict[str, float] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for turn, text in enumerate(texts, 1):
        for key, weight in find_facts(text).items():
            form = key[2:]
            weights[form] = max(weight, weights.get(form, 0.0))
            first.setdefault(form, turn)
            last[form] = turn
    return FactBook(weights, first, last, len(texts))


def forms_of(segments: Sequence[Segment]) -> frozenset[str]:
    """Return the forms of the facts in a context."""
    return frozenset(key[2:] for text in said_in(segments) for key in find_facts(text))


def said_in(segments: Sequence[Segment]) -> list[str]:
    """Return the texts of the history in a context, without its explanation."""
    return [segment.text for segment in segments if segment.name not in NOT_SAID]


def plain(text: str) -> str:
    """Normalize case and spaces of a text, to search needles in it."""
    return " ".join(text.casefold().split())


def said_last(texts: Sequence[str], needles: Sequence[str]) -> list[int | None]:
    """Return the last turn that contains each needle; None if none does."""
    normalized = [plain(needle) for needle in needles]
    found: list[int | None] = [None] * len(normalized)
    for turn, text in enumerate(map(plain, texts) if normalized else (), 1):
        for place, needle in enumerate(normalized):
            if needle in text:
                found[place] = turn
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """One prompt of a run."""

    turn: int
    tokens: int
    cached_share: float | None
    """None if the preceding call was not made."""
    parts: Mapping[str, int]
    """Tokens by `Part`."""


@dataclass(frozen=True, slots=True)
class Needle:
    """A text that is searched in the last context."""

    text: str
    turn: int | None
    """The turn that mentions it last; None if none does."""
    is_found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRun:
    """One strategy at one budget. Shares are from 0 to 1."""

    strategy: str
    what: str = ""
    """What the strategy does, in a sentence."""
    budget_tokens: int
    turns: int
    calls_made: int
    mean_tokens: float
    max_tokens: int
    overruns: int
    strip: str
    """The level of each turn at the end, oldest first; `ABSENT` for a turn without one."""
    levels_on_average: Mapping[str, float]
    facts_kept: float
    """Share of all mentioned facts at the end."""
    facts_on_average: float
    """Mean share of the facts of earlier turns, at moments during the replay."""
    old_facts_kept: float
    """Share of the facts that were last mentioned in the older half of the turns."""
    facts_by_age: tuple[AgeShare, ...]
    needles: tuple[Needle, ...]
    cached_share: float
    price: float
    """Price relative to a provider without a cache."""
    model_tokens: int
    """Tokens that models read and wrote for compression."""
    cpu_ms_per_turn: float
    notes: Mapping[str, Json]
    """The strategy's notes on its last plan."""
    points: tuple[Point, ...] = field(repr=False)

    @property
    def levels_at_end(self) -> dict[str, float]:
        return tally(self.strip)

    @property
    def paid_tokens(self) -> float:
        """The price of a call, in tokens of a provider without a cache."""
        return self.mean_tokens * self.price

    @property
    def raw_share(self) -> float:
        return self.strip.count("R") / max(1, self.turns)

    @property
    def seen_share(self) -> float:
        return 1 - self.strip.count(ABSENT) / max(1, self.turns)

    @property
    def needles_found(self) -> int:
        return sum(needle.is_found for needle in self.needles)

    def summary(self) -> dict[str, object]:
        """Return the figures without the single prompts."""
        found = asdict(self)
        del found["points"]
        more = {
            "levels_at_end": self.levels_at_end,
            "paid_tokens": self.paid_tokens,
            "raw_share": self.raw_share,
            "seen_share": self.seen_share,
            "needles_found": self.needles_found,
        }
        return found | more


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: one figure of every run, and whether more or less is better."""

    name: str
    value: Callable[[StrategyRun], float]
    text: Callable[[float], str]
    better: Literal["most", "least"] | None
    what: str
    """The meaning of the figure, in a sentence."""


def _percent(value: float) -> str:
    return f"{value:.1%}" if 0.0005 <= value < 0.0995 else f"{value:.0%}"  # noqa: PLR2004 - a whole percent is coarse


def _number(value: float) -> str:
    return f"{value:,.0f}"


NEEDLES = "needles"
FIGURES: tuple[Figure, ...] = (
    Figure("prompt, mean", lambda run: run.mean_tokens, _number, None, "Tokens of a prompt, on average."),
    Figure("prompt, largest", lambda run: run.max_tokens, _number, None, "Tokens of the largest prompt."),
    Figure("over budget", lambda run: run.overruns, _number, "least", "Prompts that exceeded the budget."),
    Figure("word for word", lambda run: run.raw_share, _percent, "most", "Turns shown raw at the end."),
    Figure("in sight", lambda run: run.seen_share, _percent, "most", "Turns that some text covers at the end."),
    Figure(
        "facts at end",
        lambda run: run.facts_kept,
        _percent,
        "most",
        "Share of the history's weighted facts that the last prompt has.",
    ),
    Figure(
        "facts on average",
        lambda run: run.facts_on_average,
        _percent,
        "most",
        "Mean share of the facts of earlier turns, during the replay.",
    ),
    Figure(
        "older facts",
        lambda run: run.old_facts_kept,
        _percent,
        "most",
        "Share of the facts last mentioned in the older half of the turns, at the end.",
    ),
    Figure(NEEDLES, lambda run: run.needles_found, _number, "most", "Searched texts that were found."),
    Figure("cached", lambda run: run.cached_share, _percent, "most", "Share of the prompts' tokens in a prefix cache."),
    Figure(
        "price", lambda run: run.price, lambda value: f"{value:.2f}", "least", "Relative to a provider without a cache."
    ),
    Figure(
        "paid per call", lambda run: run.paid_tokens, _number, "least", "The mean prompt times its price, in tokens."
    ),
    Figure("model tokens", lambda run: run.model_tokens, _number, "least", "Tokens of models for compression."),
    Figure(
        "CPU per turn",
        lambda run: run.cpu_ms_per_turn,
        lambda value: f"{value:.0f} ms",
        "least",
        "CPU time for all contexts of a turn, without compression.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One history, replayed through strategies at budgets."""

    title: str
    turns: int
    raw_tokens: int
    calls: int
    sampling: CallSample
    facts: int
    runs: tuple[StrategyRun, ...]
    compress_seconds: float
    seconds: float
    processes: int

    @property
    def budgets(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(run.budget_tokens for run in self.runs))

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.strategy for run in self.runs))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The rows of the table."""
        needles = len(self.runs[0].needles) if self.runs else 0
        named = {NEEDLES: f"{NEEDLES} (of {needles:,})"}
        shown = (figure for figure in FIGURES if needles or figure.name != NEEDLES)
        return tuple(replace(figure, name=named.get(figure.name, figure.name)) for figure in shown)

    def differing(self, budget_tokens: int) -> tuple[Figure, ...]:
        """Return the rows whose values differ between the strategies, as they are displayed."""
        runs = self.at(budget_tokens)
        if len(runs) < 2:  # noqa: PLR2004 - nothing to compare with
            return self.figures
        return tuple(one for one in self.figures if len({one.text(one.value(run)) for run in runs}) > 1)

    def alike(self, budget_tokens: int) -> str:
        """Name the rows that are the same for all strategies, with their values; empty if there are none."""
        runs, shown = self.at(budget_tokens), self.differing(budget_tokens)
        same = [f"{one.name} {one.text(one.value(runs[0]))}" for one in self.figures if one not in shown]
        return f"The same for all: {', '.join(same)}." if same else ""

    @property
    def recommendation(self) -> str:
        """Recommend a strategy for each budget with the figures that decide, or say that none is clearly better."""
        if not self.runs:
            return ""
        if len(self.strategies) == 1:
            return f"No recommendation: only {self.strategies[0]} was replayed."
        if all(set(run.strip) == {"R"} for run in self.runs):
            return (
                "No recommendation: every strategy shows every turn word for word. Compare at a budget below the "
                f"conversation's {self.raw_tokens:,} tokens."
            )
        return " ".join(self.verdict(budget) for budget in self.budgets)

    def recommended(self, budget_tokens: int) -> StrategyRun | None:
        """Return the cheapest of the runs that keep the most facts on average, as displayed; None if it is a tie.

        It is also none if a cheaper run saves a larger share of the price than it loses of the facts.
        """
        fitting = self._fitting(budget_tokens)
        best = _most_facts(fitting)
        if not best or self._rival(best[0], fitting) or _number(best[0].paid_tokens) in map(_paid, best[1:]):
            return None
        return best[0]

    def verdict(self, budget_tokens: int) -> str:
        """Say which strategy is recommended at a budget and why, or why none is."""
        fitting = self._fitting(budget_tokens)
        if not fitting:
            return f"No recommendation at {budget_tokens:,} tokens: every strategy exceeded it."
        best = _most_facts(fitting)
        first, kept = best[0], _percent(best[0].facts_on_average)
        if rival := self._rival(first, fitting):
            return (
                f"No strategy is clearly better at {budget_tokens:,} tokens: {first.strategy} keeps the most facts on "
                f"average ({kept}); {rival.strategy} keeps {_percent(rival.facts_on_average)} and costs "
                f"{_percent(1 - rival.paid_tokens / first.paid_tokens)} less per call ({_paid(rival)} tokens, "
                f"{first.strategy} {_paid(first)})."
            )
        names = " and ".join(run.strategy for run in best)
        if not self.recommended(budget_tokens):
            return (
                f"No strategy is clearly better at {budget_tokens:,} tokens: {names} keep the most facts on average "
                f"({kept}), and a call costs {_paid(first)} tokens."
            )
        others = ", ".join(f"{run.strategy} {_paid(run)}" for run in best[1:])
        why = f"it keeps the most facts on average ({kept})" + (
            f", like {' and '.join(run.strategy for run in best[1:])}, and costs the least of these per call "
            f"({_paid(first)} tokens, {others})"
            if others
            else f", for {_paid(first)} tokens per call"
        )
        return f"Recommended at {budget_tokens:,} tokens: {first.strategy}, because {why}.{_at_the_end(first, fitting)}"

    def _fitting(self, budget_tokens: int) -> list[StrategyRun]:
        """Return the runs that kept the budget."""
        return [run for run in self.at(budget_tokens) if not run.overruns]

    @staticmethod
    def _rival(best: StrategyRun, runs: Sequence[StrategyRun]) -> StrategyRun | None:
        """Return the cheaper run with the most facts that saves a larger share of the price than it loses of them."""
        cheaper = [
            run
            for run in runs
            if run.paid_tokens < best.paid_tokens
            and run.facts_on_average * best.paid_tokens > best.facts_on_average * run.paid_tokens
        ]
        return max(cheaper, key=lambda run: (run.facts_on_average, -run.paid_tokens), default=None)

    def at(self, budget_tokens: int) -> tuple[StrategyRun, ...]:
        return tuple(run for run in self.runs if run.budget_tokens == budget_tokens)

    def winners(self, figure: Figure, budget_tokens: int) -> frozenset[str]:
        """Return the strategies that are best at a figure, by its displayed text; none if all are."""
        runs = self.at(budget_tokens)
        if figure.better is None or not runs:
            return frozenset()
        best = (max if figure.better == "most" else min)(map(figure.value, runs))
        won = frozenset(run.strategy for run in runs if figure.text(figure.value(run)) == figure.text(best))
        return won if len(won) < len(runs) else frozenset()

    def words(self, run: StrategyRun) -> str:
        """Describe a run in one line, for a person who chooses."""
        raw, absent = run.strip.count("R"), run.strip.count(ABSENT)
        others = (
            f"{absent:,} out of sight" if absent else "the others shorter" if raw < run.turns else "nothing left out"
        )
        line = (
            f"{raw:,} of {run.turns:,} turns word for word, {others}; "
            f"{_percent(run.facts_kept)} of the facts at the end, {_percent(run.facts_on_average)} on average; "
            f"a call costs what {_number(run.paid_tokens)} uncached tokens do."
        )
        won = self.best_at(run)
        over = f"{run.overruns:,} prompts exceeded the budget! " if run.overruns else ""
        return over + line + (f" Best at: {', '.join(won)}." if won else "")

    def sampled(self) -> str:
        """Describe which calls were made."""
        if self.sampling.every == 1:
            return f"all {self.calls:,} calls"
        newest = min(self.sampling.newest, self.calls)
        return (
            f"one call in {self.sampling.every} of {self.calls:,}, and the newest {newest:,} one by one; cached share "
            "and price are of those"
        )

    def best_at(self, run: StrategyRun) -> list[str]:
        """Return the figures at which no strategy is better at this budget."""
        return [figure.name for figure in self.figures if run.strategy in self.winners(figure, run.budget_tokens)]

    def summary(self) -> dict[str, object]:
        """Return the figures, for a program."""
        found = asdict(replace(self, runs=()))
        del found["runs"]
        runs = [run.summary() | {"words": self.words(run), "best_at": self.best_at(run)} for run in self.runs]
        return found | {"recommendation": self.recommendation, "runs": runs}


def _paid(run: StrategyRun) -> str:
    return _number(run.paid_tokens)


def _most_facts(runs: Sequence[StrategyRun]) -> list[StrategyRun]:
    """Return the runs that keep the most facts on average, as displayed; the cheapest first."""
    most = _percent(max((run.facts_on_average for run in runs), default=0.0))
    return sorted((run for run in runs if _percent(run.facts_on_average) == most), key=lambda run: run.paid_tokens)


def _at_the_end(first: StrategyRun, runs: Sequence[StrategyRun]) -> str:
    """Name the run that keeps more facts at the end, as displayed; empty if there is none."""
    most = max(runs, key=lambda run: run.facts_kept)
    more, own = _percent(most.facts_kept), _percent(first.facts_kept)
    return "" if more == own else f" At the end {most.strategy} keeps more ({more}, {first.strategy} {own})."


def strip_of(segments: Sequence[Segment], turns: int) -> str:
    """Return the level of each turn in a context, oldest first; `ABSENT` for turns without words."""
    strip: list[str] = [ABSENT] * turns
    for level in reversed(FIDELITY):
        for part in segments:
            if part.level == level and part.first and part.last:
                last = min(part.last, turns)
                strip[part.first - 1 : last] = [level] * (last - part.first + 1)
    for run in turns_without_words(segments):
        strip[run.start - 1 : run.stop - 1] = [ABSENT] * len(run)
    return "".join(strip[:turns])


def tally(strip: str) -> dict[str, float]:
    """Return the share of turns at each level."""
    return {level: strip.count(level) / len(strip) for level in (*FIDELITY, ABSENT) if level in strip}


def parts_of(segments: Sequence[Segment]) -> dict[str, int]:
    """Return the tokens of a context by part."""
    parts: dict[str, int] = {}
    for segment in segments:
        part = segment.level or (
            "documents" if segment.name in DOCUMENTS else "board" if segment.name in BOARDS else "fixed"
        )
        parts[part] = parts.get(part, 0) + segment.tokens
    return parts
