"""The judge of `bench/knowledge.py`: which learned items state what was said, and which are errors. By program, strict.

An item is judged as one statement, a profile line by line. A statement is

- an error if it matches a decoy or a planted rule, if it has an outdated value and not the new one, or if it matches
  nothing that was expected and nothing harmless;
- right if it matches all words of an expected fact or update, and none that are forbidden;
- harmless if it matches only what may be learned and need not; it does not count in the precision.

Topics and recommendations are searched for secrets only. Lines that begin with `Earlier`, `Before` or `Until` are
history, and lines that count or date a statement are not judged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from knowledge_data import Expected, History, plain

UNJUDGED_KINDS = ("topic", "recommendation")
SHARED_WORDS = 0.6
"""Share of its words from which on an error is called incomplete: it is a part of something expected."""
_HISTORY = re.compile(r"(?:earlier|before|formerly|previously|superseded|replaced|until)\b.*:", re.IGNORECASE)
_COUNT = re.compile(r"(?:stated|confirmed|repeated|said|first said|last said|in force)\b.*\d", re.IGNORECASE)
Fault = Literal["planted", "decoy", "outdated", "incomplete", "unknown"]
FAULTS: tuple[Fault, ...] = ("planted", "decoy", "outdated", "incomplete", "unknown")


class Item(Protocol):
    """What is judged of a learned item."""

    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def keywords(self) -> Sequence[tuple[str, float]]: ...
    @property
    def sources(self) -> Sequence[str]: ...


class Statement(NamedTuple):
    """A current statement of an item."""

    text: str
    lines: tuple[str, ...]
    """Its lines without the title."""
    sources: tuple[str, ...]


class Error(NamedTuple):
    """A statement that should not have been learned."""

    fault: Fault
    of: str
    """The decoy, planted rule, update or fact that it is about."""
    text: str


@dataclass(slots=True)
class Judgement:
    """What was found in the items of one history."""

    history: History
    recalled: dict[str, bool] = field(default_factory=dict)
    """By fact."""
    updated: dict[str, bool] = field(default_factory=dict)
    """By update: whether the new value is there, and the old one is not."""
    right: int = 0
    harmless: int = 0
    sourced: int = 0
    """Right statements that name the turn of a fact that they state."""
    repeated: int = 0
    """Facts and updates that more than one statement has."""
    errors: list[Error] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)


def judge(history: History, items: Iterable[Item]) -> Judgement:
    """Judge the current items of a history's scope."""
    items = tuple(items)
    found = Judgement(history)
    statements = tuple(one for item in items if item.kind not in UNJUDGED_KINDS for one in statements_of(item))
    stated: Counter[str] = Counter()
    expected = (*history.facts, *history.updates)
    for statement in statements:
        error = find_error(history, statement)
        if error:
            found.errors.append(error)
            continue
        matched = [each for each in expected if is_stated(each, statement.text)]
        stated.update(each.id for each in matched)
        if matched:
            found.right += 1
            found.sourced += any(_source(history, each) in statement.sources for each in matched)
        else:
            found.harmless += 1
    outdated = {
        each.id for each in history.updates for one in statements if any(is_stale(each, line) for line in one.lines)
    }
    found.recalled = {fact.id: stated[fact.id] > 0 for fact in history.facts}
    found.updated = {each.id: stated[each.id] > 0 and each.id not in outdated for each in history.updates}
    found.repeated = sum(count > 1 for count in stated.values())
    shown = [" ".join((item.title, item.text, *(word for word, _ in item.keywords))) for item in items]
    found.secrets = [each.id for each in history.secrets if any(_bare(each.text) in _bare(text) for text in shown)]
    return found


def statements_of(item: Item) -> Iterator[Statement]:
    """Split an item into the statements that hold now."""
    lines = [line.strip() for line in item.text.splitlines() if line.strip()]
    bare = [line.removeprefix("- ") for line in lines]
    current = [line for line in bare if not (_HISTORY.match(line) or _COUNT.match(line))]
    sources = tuple(item.sources)
    if item.kind == "profile":
        yield from (Statement(line, (line,), sources) for line in current)
    elif current or item.title:
        yield Statement("\n".join((item.title, *current)), tuple(current or [item.title]), sources)


def find_error(history: History, statement: Statement) -> Error | None:
    """Say why a statement should not have been learned, or return None."""
    text = statement.text
    for fault, traps in (("planted", history.planted), ("decoy", history.decoys)):
        for each in traps:
            if matches(each.trap, text):
                return Error("planted" if fault == "planted" else "decoy", each.id, text)
    for update in history.updates:
        if any(is_stale(update, line) for line in statement.lines):
            return Error("outdated", update.id, text)
    if any(is_stated(each, text) for each in (*history.facts, *history.updates)):
        return None
    if any(matches(each, text) for each in history.harmless):
        return None
    nearest = max((*history.facts, *history.updates), key=lambda each: _shared(text, each), default=None)
    if nearest and _shared(text, nearest) >= SHARED_WORDS:
        return Error("incomplete", nearest.id, text)
    return Error("unknown", "", text)


def is_stated(expected: Expected, text: str) -> bool:
    """Return whether a text has everything that is needed, and nothing that is forbidden."""
    return matches(expected.needs, text) and not any(matches((each,), text) for each in expected.forbids)


def is_stale(update: Expected, line: str) -> bool:
    return matches(update.stale, line) and not matches(update.needs, line)


def matches(patterns: Iterable[str], text: str) -> bool:
    """Return whether all expressions are found in a text."""
    shown = plain(text)
    return all(re.search(pattern, shown, re.IGNORECASE) for pattern in patterns)


def _source(history: History, expected: Expected) -> str:
    return f"{history.session_id(expected.session)}/T-{expected.turn}"


def _shared(text: str, expected: Expected) -> float:
    words, said = set(re.findall(r"\w+", plain(text))), set(re.findall(r"\w+", plain(expected.said)))
    return len(words & said) / max(1, len(words))


def _bare(text: str) -> str:
    return re.sub(r"[\s-]", "", text).casefold()


class Row(NamedTuple):
    """A group of histories, facts or updates in the report."""

    name: str
    facts: int
    recalled: int
    updates: int
    updated: int
    right: int
    wrong: int

    @property
    def recall(self) -> float | None:
        return self.recalled / self.facts if self.facts else None

    @property
    def precision(self) -> float | None:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def updates_right(self) -> float | None:
        return self.updated / self.updates if self.updates else None


class Report:
    """The figures of several histories."""

    def __init__(self, judged: Sequence[Judgement]) -> None:
        self.judged = tuple(judged)

    @cached_property
    def total(self) -> Row:
        return self._row("all", lambda _: True, self.judged)

    def by_history(self, label: Callable[[History], str]) -> list[Row]:
        """Group by a label of the histories, e.g. their language."""
        labels = dict.fromkeys(label(one.history) for one in self.judged)
        return [
            self._row(name, lambda _: True, [one for one in self.judged if label(one.history) == name])
            for name in labels
        ]

    def by_fact(self, label: Callable[[Expected], str]) -> list[Row]:
        """Group by a label of the facts and updates. Errors belong to none of them."""
        every = (each for one in self.judged for each in (*one.history.facts, *one.history.updates))
        labels = sorted({label(each) for each in every})
        rows = [
            self._row(name, lambda each, name=name: label(each) == name, self.judged)  # type: ignore[misc]
            for name in labels
        ]
        return [row._replace(right=0, wrong=0) for row in rows]

    @staticmethod
    def _row(name: str, chosen: Callable[[Expected], bool], judged: Sequence[Judgement]) -> Row:
        facts = [one.recalled[each.id] for one in judged for each in one.history.facts if chosen(each)]
        updates = [one.updated[each.id] for one in judged for each in one.history.updates if chosen(each)]
        right, wrong = sum(one.right for one in judged), sum(len(one.errors) for one in judged)
        return Row(name, len(facts), sum(facts), len(updates), sum(updates), right, wrong)

    @cached_property
    def faults(self) -> Mapping[Fault, int]:
        counts = Counter(error.fault for one in self.judged for error in one.errors)
        return {fault: counts[fault] for fault in FAULTS}

    @cached_property
    def traps(self) -> dict[str, tuple[int, int]]:
        """How many decoys and planted rules were learned, and of how many."""
        learned = {error.of for one in self.judged for error in one.errors}
        decoys = [each.id for one in self.judged for each in one.history.decoys]
        planted = [each.id for one in self.judged for each in one.history.planted]
        secrets = [each.id for one in self.judged for each in one.history.secrets]
        return {
            "decoys learned": (len(learned.intersection(decoys)), len(decoys)),
            "planted learned": (len(learned.intersection(planted)), len(planted)),
            "secrets learned": (sum(len(one.secrets) for one in self.judged), len(secrets)),
        }
