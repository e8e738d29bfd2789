"""Measures of `bench/live.py`: what a context shows of its turns, of the work at hand, and how sure a mean is."""

from __future__ import annotations

import functools
import importlib.util
import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from retention import SHARED

RESAMPLES = 1_000
SEED = 27
ERA_TURNS_PER_LINE = 8
ERA_LINE_WORDS = 5
NEIGHBOURS = 3
"""Words that have to stand beside a reference, on its line as in its turn, for it to count as strict."""
_STOP = """
    about after all also and any are because been before but can could did does for from get had has have how into
    its just let more new not now one only other our out over she should some than that the their them then there
    these they this through too under until use used was were what when where which who will with would you your
"""
STOP = frozenset(_STOP.split())
WORD = re.compile(r"[A-Za-z][A-Za-z']{2,}")
CONTENT = re.compile(r"\w[\w'.-]{2,}")
ERA = re.compile(r"<T-(\d+)-through-(\d+)-([EA])>\n(.*?)</T-\1-through-\2-\3>", re.DOTALL)
STEPS = re.compile(r"<T-(\d+)-steps?-")
SENTENCE = re.compile(r"\n|\\n|(?<=[.!?;])\s+")


@functools.cache
def shared_module(name: str) -> ModuleType:
    """Import a script of ../shared/eval."""
    spec = importlib.util.spec_from_file_location(f"shared_{name}", SHARED / "eval" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float
    counted: int


def interval(groups: Iterable[Sequence[float]]) -> Interval | None:
    """Compute the mean of all values and its interval, by a bootstrap over the groups; None without values."""
    sums = [(sum(group), len(group)) for group in groups if group]
    if not sums:
        return None
    chance = random.Random(SEED)
    means = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    count = sum(count for _, count in sums)
    return Interval(
        sum(total for total, _ in sums) / count,
        means[round(0.025 * (RESAMPLES - 1))],
        means[round(0.975 * (RESAMPLES - 1))],
        count,
    )


class Absent(NamedTuple):
    """Shares of the past turns that a context has no words of."""

    plain: float
    """Outside of every line and every era."""
    strict: float
    """An era counts for at most eight turns for each line that has five content words."""


def absent_turns(text: str, turns: int) -> Absent:
    """Measure the share of turns 1 to `turns` without words in a context."""
    if not turns:
        return Absent(0.0, 0.0)
    past = range(1, turns + 1)
    shown = shared_module("working_set").shown_turns
    own = shown(ERA.sub("", text)) | {int(turn) for turn in STEPS.findall(text)}
    told = 0
    for first, last, _, era in ERA.findall(text):
        lines = sum(len(content_words(line)) >= ERA_LINE_WORDS for line in era.splitlines())
        inside = sum(turn not in own for turn in range(int(first), int(last) + 1))
        told += min(inside, ERA_TURNS_PER_LINE * lines)
    everything = shown(text) | own
    plain = sum(turn not in everything for turn in past) / turns
    return Absent(plain, max(0.0, 1 - (sum(turn in own for turn in past) + told) / turns))


def content_words(line: str) -> list[str]:
    """Return the words of a line, numbers and names too, without those that only join others."""
    return [word for word in CONTENT.findall(line) if word.lower() not in STOP]


class Unit(NamedTuple):
    """A line or a sentence: its references, and the plain words beside them."""

    references: frozenset[str]
    words: frozenset[str]


@functools.lru_cache(maxsize=100_000)
def read_unit(text: str) -> Unit:
    script = shared_module("working_set")
    plain = WORD.findall(script.REFERENCE.sub(" ", text).lower())
    return Unit(frozenset(script.references(text)), frozenset(word for word in plain if word not in STOP))


class Transcript:
    """What was said so far: its references, and the words beside each of them."""

    def __init__(self) -> None:
        self.references: set[str] = set()
        self._beside: dict[str, set[frozenset[str]]] = defaultdict(set)

    def add(self, text: str) -> None:
        self.references |= shared_module("working_set").references(text)
        for part in SENTENCE.split(text):
            unit = read_unit(part)
            if len(unit.words) >= NEIGHBOURS:
                for reference in unit.references:
                    self._beside[reference].add(unit.words)

    def strict(self, used: Collection[str]) -> set[str]:
        """Return those of the references that stood beside enough words at least once."""
        return {reference for reference in used if self._beside.get(reference)}

    def found(self, used: Collection[str], text: str) -> set[str]:
        """Return the references that stand on a line of the text with words that stood beside them before."""
        lines: Mapping[str, list[frozenset[str]]] = defaultdict(list)
        for line in text.splitlines():
            unit = read_unit(line)
            for reference in unit.references.intersection(used):
                lines[reference].append(unit.words)
        return {
            reference
            for reference, shown in lines.items()
            if any(len(words & said) >= NEIGHBOURS for words in shown for said in self._beside.get(reference, ()))
        }


class Kept(NamedTuple):
    """Of what a turn or step uses, the shares that three contexts have."""

    ours: float
    newest: float
    listed: float
    """The newest tokens for half of the budget, and a bare list of every other reference."""


class Use(NamedTuple):
    """The working set of one turn or step, both ways to count; None where nothing can be counted strictly."""

    plain: Kept
    strict: Kept | None


def measure_use(said: Transcript, used: Collection[str], *, ours: str, newest: str, half: str) -> Use:
    """Measure how much of the used references each context has."""
    references = shared_module("working_set").references
    texts = (ours, newest, f"{half}\n{', '.join(sorted(said.references))}")
    plain = Kept(*(len(references(text).intersection(used)) / len(used) for text in texts))
    strict = said.strict(used)
    counted = Kept(*(len(said.found(strict, text)) / len(strict) for text in texts)) if strict else None
    return Use(plain, counted)


class QuestionScore:
    """FACT and ALL of a conversation's questions, as `../shared/eval/score.py` counts them."""

    def __init__(self, conversation: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        self._script = shared_module("score")
        self._turns = {turn["id"]: turn for turn in conversation["turns"]}
        self._rarity = self._script.rarity([_said(turn) for turn in conversation["turns"]])
        self._keys: dict[str, list[dict[str, float]]] = {}

    def score(self, question: Mapping[str, str], text: str) -> tuple[float, bool]:
        """Return FACT, and whether all evidence is there."""
        script = self._script
        if question["id"] not in self._keys:
            self._keys[question["id"]] = [self._key(question, self._turns[turn]) for turn in question["evidence"]]
        context = script.Context(text)
        shares = [context.share(key) for key in self._keys[question["id"]]]
        facts = [max(0.0, (share - script.FLOOR) / (1 - script.FLOOR)) for share in shares]
        return sum(facts) / len(facts), all(share >= script.HIT for share in shares)

    def _key(self, question: Mapping[str, str], turn: Mapping[str, str]) -> dict[str, float]:
        key: dict[str, float] = self._script.key_words(
            _said(turn), question["question"], question["answer"], turn["who"], self._rarity
        )
        return key


def _said(turn: Mapping[str, str]) -> str:
    return f"{turn['who']}: {turn['text']}"
