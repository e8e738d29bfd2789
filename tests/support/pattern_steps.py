"""Counts the steps that a backtracking matcher takes, so that a test can tell a linear pattern from a quadratic one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from itertools import islice
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

MAX_STEPS = 2_000_000
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    ops.CATEGORY_DIGIT: str.isdecimal,
    ops.CATEGORY_NOT_DIGIT: lambda one: not one.isdecimal(),
    ops.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    ops.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
}
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)


class PatternSteps:
    """A pattern that is searched for in texts, the way `re` does it."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._flags = pattern.flags
        self._nodes = list(parser.parse(pattern.pattern, pattern.flags))
        self.literals = sorted(set(_literals(self._nodes)))
        """The characters that the pattern names."""
        self.is_unbounded = _is_unbounded(self._nodes)
        """Whether anything in it may be repeated without a limit."""
        self.steps = 0

    def count(self, text: str, *, is_anchored: bool = False) -> int:
        """The steps of finding every match in a text, or of matching it from the start."""
        self.steps, start = 0, 0
        folded = text.lower() if self._flags & re.IGNORECASE else text
        if is_anchored:
            for _ in self._match(self._nodes, 0, folded, 0, {}):
                pass
            return self.steps
        while start <= len(folded) and self.steps < MAX_STEPS:
            end = next(self._match(self._nodes, 0, folded, start, {}), None)
            start = end if end is not None and end > start else start + 1
        return self.steps

    def _match(  # noqa: C901, PLR0912 - one branch for each operation of a pattern
        self, nodes: Any, at: int, text: str, place: int, groups: dict[int, str]
    ) -> Iterator[int]:
        if at == len(nodes):
            yield place
            return
        self.steps += 1
        if self.steps >= MAX_STEPS:
            return
        op, argument = nodes[at]
        if op in _REPEATS:
            low, high, body = argument
            yield from self._repeat(nodes, at, text, place, groups, (low, high, list(body), op is ops.MIN_REPEAT))
        elif op is ops.SUBPATTERN:
            for end in self._match(list(argument[3]), 0, text, place, groups):
                inner = {**groups, argument[0]: text[place:end]} if argument[0] else groups
                yield from self._match(nodes, at + 1, text, end, inner)
        elif op is ops.ATOMIC_GROUP:
            for end in islice(self._match(list(argument), 0, text, place, groups), 1):
                yield from self._match(nodes, at + 1, text, end, groups)
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from self._match([*branch, *nodes[at + 1 :]], 0, text, place, groups)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            is_met = self._looks(argument, text, place, groups)
            if is_met == (op is ops.ASSERT):
                yield from self._match(nodes, at + 1, text, place, groups)
        elif op is ops.GROUPREF:
            said = groups.get(argument, "")
            if text.startswith(said, place):
                yield from self._match(nodes, at + 1, text, place + len(said), groups)
        elif op is ops.AT:
            if self._is_at(argument, text, place):
                yield from self._match(nodes, at + 1, text, place, groups)
        elif place < len(text) and self._takes(op, argument, text[place]):
            yield from self._match(nodes, at + 1, text, place + 1, groups)

    def _repeat(  # noqa: PLR0917 - where it is, and what is repeated
        self, nodes: Any, at: int, text: str, place: int, groups: dict[int, str], loop: tuple[Any, Any, Any, bool]
    ) -> Iterator[int]:
        low, high, body, is_lazy = loop
        ends = [place]
        limit = len(text) + 1 if high is ops.MAXREPEAT else int(high)
        if is_lazy:
            while True:
                if len(ends) > low:
                    yield from self._match(nodes, at + 1, text, ends[-1], groups)
                following = next(self._match(body, 0, text, ends[-1], groups), None)
                if following is None or following == ends[-1] or len(ends) > limit:
                    return
                ends.append(following)
        while len(ends) <= limit:
            following = next(self._match(body, 0, text, ends[-1], groups), None)
            if following is None or following == ends[-1]:
                break
            ends.append(following)
        for end in reversed(ends[int(low) :]):
            yield from self._match(nodes, at + 1, text, end, groups)

    def _looks(self, argument: Any, text: str, place: int, groups: dict[int, str]) -> bool:
        direction, body = argument
        if direction > 0:
            return next(self._match(list(body), 0, text, place, groups), None) is not None
        width = body.getwidth()[0]
        found = self._match(list(body), 0, text, place - width, groups) if place >= width else iter(())
        return any(end == place for end in found)

    def _is_at(self, where: Any, text: str, place: int) -> bool:
        is_multiline = bool(self._flags & re.MULTILINE)
        if where is ops.AT_BEGINNING:
            return place == 0 or (is_multiline and text[place - 1] == "\n")
        if where is ops.AT_END:
            return place == len(text) or (is_multiline and text[place] == "\n")
        if where is ops.AT_BEGINNING_STRING:
            return place == 0
        if where is ops.AT_END_STRING:
            return place == len(text)
        is_word = _CATEGORIES[ops.CATEGORY_WORD]
        sides = [0 <= side < len(text) and is_word(text[side]) for side in (place - 1, place)]
        return (sides[0] != sides[1]) == (where is ops.AT_BOUNDARY)

    def _takes(self, op: Any, argument: Any, one: str) -> bool:
        if op is ops.LITERAL:
            return self._same(argument, one)
        if op is ops.NOT_LITERAL:
            return not self._same(argument, one)
        if op is ops.ANY:
            return one != "\n" or bool(self._flags & re.DOTALL)
        assert op is ops.IN, op
        negated = argument[0][0] is ops.NEGATE
        return any(self._within(kind, given, one) for kind, given in argument[negated:]) != negated

    def _within(self, kind: Any, given: Any, one: str) -> bool:
        if kind is ops.RANGE:
            return bool(given[0] <= ord(one) <= given[1])
        return _CATEGORIES[given](one) if kind is ops.CATEGORY else self._same(given, one)

    def _same(self, code: int, one: str) -> bool:
        return chr(code).lower() == one if self._flags & re.IGNORECASE else code == ord(one)


def _literals(nodes: Any) -> Iterator[str]:
    for op, argument in nodes:
        if op is ops.LITERAL:
            yield chr(argument).lower()
        elif op is ops.IN:
            yield from (chr(given).lower() for kind, given in argument if kind is ops.LITERAL)
        elif op in _REPEATS:
            yield from _literals(argument[2])
        elif op is ops.SUBPATTERN:
            yield from _literals(argument[3])
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from _literals(branch)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _literals(argument[1])


def _is_unbounded(nodes: Any) -> bool:
    return any(
        (op in _REPEATS and (argument[1] is ops.MAXREPEAT or _is_unbounded(argument[2])))
        or (op is ops.SUBPATTERN and _is_unbounded(argument[3]))
        or (op is ops.BRANCH and any(map(_is_unbounded, argument[1])))
        or (op in (ops.ASSERT, ops.ASSERT_NOT) and _is_unbounded(argument[1]))
        for op, argument in nodes
    )


LENGTH = 24
MOST_GROWTH = 2.6
"""Steps at twice the length: 2 for a linear pattern, 4 for a quadratic one, 8 for a cubic one."""
COMMON = (" ", "\n", "a", "0", "\t", "-")
MAX_LITERALS = 12


def unbounded_patterns(*packages: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The patterns of some packages that repeat something without a limit; the others look at few characters."""
    for package in packages:
        paths = getattr(package, "__path__", [])
        names = [package.__name__, *(found.name for found in pkgutil.walk_packages(paths, f"{package.__name__}."))]
        for module in names:
            for name, value in vars(importlib.import_module(module)).items():
                if isinstance(value, re.Pattern) and PatternSteps(value).is_unbounded:
                    yield f"{module}.{name}".removeprefix("foveate."), value


PAIRS = [False, pytest.param(True, marks=pytest.mark.thorough)]
"""For `is_paired`: single characters find almost every pattern that is not linear, at a fifth of the price."""


def check_growth(pattern: re.Pattern[str], *, is_paired: bool, is_anchored: bool = False) -> None:
    """Fails if twice the text takes much more than twice the steps; `is_paired` tries pairs of characters as well."""
    counter = PatternSteps(pattern)
    around = (("", "x"), ("", ""), ("x (", "x")) if is_paired else (("", "x"), ("x (", "x"))
    for shape in _shapes(counter.literals, is_paired=is_paired):
        for before, behind in around:
            once, twice = (
                counter.count(f"{before}{shape * times}{behind}", is_anchored=is_anchored)
                for times in (LENGTH, 2 * LENGTH)
            )
            assert twice <= MOST_GROWTH * once, f"{once} steps, then {twice}, for {shape!r} before {behind!r}"


def _shapes(literals: list[str], *, is_paired: bool) -> Iterator[str]:
    """What is repeated: characters that a pattern names, and pairs with the common ones."""
    yield from dict.fromkeys([*COMMON, *literals[:MAX_LITERALS]])
    if is_paired:
        yield from (f"{one}{two}" for one in COMMON[:2] for two in literals[:MAX_LITERALS])
