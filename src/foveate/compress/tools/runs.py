"""Builds, checks and test runs of programs that no other compressor knows, by the form of their output: the counts that
a summary line states, or those of its lines, and the first error with its place."""

# ruff: noqa: RUF001 (the signs that test runners print)

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from foveate.compress.exchange import ToolExchange
from foveate.compress.lexicon import as_words
from foveate.compress.lines import (
    LINE_CHARS,
    both_ends,
    brief,
    error_lines,
    fold,
    placed_error,
    warning_lines,
    without_blanks,
)
from foveate.compress.tools import generic

tools: tuple[str, ...] = ("build", "check", "lint", "runbuild", "runcheck", "runchecks", "runlint", "typecheck")
ERROR_CHARS = 90
"""Maximum length of the first error, with its place before it."""
SUMMARY_LINES, NEAR_LINES = 24, 4
"""Last lines among which a summary is searched, and those before it that may complete it."""
MAX_WORDS = 2
"""A line with more words other than those of summaries is prose."""
MIN_PASSED = 2
"""Minimum number of lines of passed checks that count as a run."""

_WORDS = {
    "failed": "fail failed fails failing failure failures broken",
    "errors": "error errors",
    "passed": "pass passed passes passing succeeded succeeds successful ok",
    "warnings": "warning warnings",
    "skipped": "skip skipped skips ignored pending disabled todo",
    "run": "tests test examples specs checks cases",
}
"""The counts, in the order in which they are shown, and the words that state them."""
_KIND = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_STATED = "|".join(sorted(_KIND, key=len, reverse=True))
_COUNT = re.compile(rf"(?i)(?<![\w.:/-])(\d{{1,7}})(?:/\d{{1,7}})? (?:[a-z]{{1,12}} )?({_STATED})\b")
"""`3 passed`, `3/4 tests passed`, `1 test FAILED`."""
_NAMED = re.compile(rf"(?i)(?<![\w-])({_STATED}|tests run)\s{{0,8}}[:=]\s{{0,8}}(\d{{1,7}})(?![\w.:/-]| [a-z])")
"""`Failures: 2`, `ok=14`."""
_WORD = re.compile(r"(?<!\S)[^\w\s]{0,4}([^\W\d_]{2,20})[^\w\s]{0,4}(?!\S)")
"""A word on its own: no part of a path or an address."""
_USUAL = as_words(
    """actions all and assertions build builds by case check checked compilation completed done due duration elapsed
    emitted executed expected file files finished for found generated in info locally of ms no number out overall
    previous problem problems ran report result results run sec seconds source step steps suite suites summary target
    targets tasks the time to total unexpected were with"""
).union(_KIND)
"""Words of summaries."""
_STATUS = re.compile(
    r"^[ \t]{0,20}(?:(?P<fail>not ok\b|FAIL(?:ED)?\b|[✗✘×✖❌]|\[ {0,3}FAIL(?:ED)? {0,3}\])"
    r"|(?P<ok>ok\b|PASS(?:ED)?\b|[✓✔√✅]|\[ {0,3}(?:OK|PASS(?:ED)?) {0,3}\]))[ :]",
    re.MULTILINE,
)
_DIAGNOSTIC = re.compile(r"^\S{1,300}?[:(]\d[\d:,.)-]{0,20}:? (?:fatal )?(error|warning)\b", re.MULTILINE)


def recognises(exchange: ToolExchange) -> bool:
    return bool(counts(exchange))


def summarise(exchange: ToolExchange) -> str:
    asked = brief(exchange.command, 50) or generic.subject(exchange)
    return f"{asked}: {outcome(exchange)}" if asked else outcome(exchange)


def outcome(exchange: ToolExchange) -> str:
    """Summarise a run: `exit 1, 1 failed, 3 passed: error: 'parses a date' failed (src/main.zig:25)`."""
    found = counts(exchange)
    if not found:
        return generic.outcome(exchange)
    said = [f"exit {exchange.exit_code}"] if exchange.exit_code is not None else []
    said += [f"{number} {kind.removesuffix('s') if number == 1 else kind}" for kind, number in _shown(found)]
    is_bad = exchange.failed or bool(found["failed"] or found["errors"])
    error = placed_error(exchange.lines, ERROR_CHARS, skip=_stated) if is_bad else None
    return f"{', '.join(said)}: {error}" if error else ", ".join(said)


def key_lines(exchange: ToolExchange) -> list[str]:
    lines = exchange.lines
    stated = [line for line in lines[-SUMMARY_LINES:] if _stated(line)]
    failed = [line for line in lines if (status := _STATUS.match(line)) and status["fail"]]
    return [*stated, *failed[:20], *error_lines(lines)[:20], *warning_lines(lines)[:6], *lines[-8:]]


def smooth(exchange: ToolExchange) -> list[str]:
    return both_ends(without_blanks(fold(exchange.lines)), exchange.total_lines)


def counts(exchange: ToolExchange) -> Counter[str]:
    """Return what a summary at the end states; else the number of lines that report an error, a failure or a pass."""
    stated: Counter[str] = Counter()
    last = None
    lines = [line for line in exchange.lines[-SUMMARY_LINES:] if line]
    for place in range(len(lines) - 1, -1, -1):
        if last is not None and last - place > NEAR_LINES:
            break
        if found := _stated(lines[place]):
            last = place
            stated = Counter({**found, **stated})
    if stated.keys() - {"run"}:
        return stated
    marks = Counter("failed" if found["fail"] else "passed" for found in _STATUS.finditer(exchange.output))
    marks += Counter(f"{found[1]}s" for found in _DIAGNOSTIC.finditer(exchange.output))
    return marks if marks.keys() - {"passed"} or marks["passed"] >= MIN_PASSED else Counter()


def _stated(line: str) -> dict[str, int]:
    """Return the counts of a summary line; of two of a kind, the last."""
    if not any(map(str.isdigit, line)) or len(line) > LINE_CHARS // 2:
        return {}
    if sum(word.lower() not in _USUAL for word in _WORD.findall(line)) > MAX_WORDS:
        return {}
    named = {_KIND.get(found[1].lower(), "run"): int(found[2]) for found in _NAMED.finditer(line)}
    return named or {_KIND[found[2].lower()]: int(found[1]) for found in _COUNT.finditer(line)}


def _shown(found: Counter[str]) -> Iterator[tuple[str, int]]:
    """Yield the counts that tell something: those above 0; if there are none, all."""
    kinds = [kind for kind in _WORDS if kind in found and (kind != "run" or "passed" not in found)]
    return ((kind, found[kind]) for kind in [kind for kind in kinds if found[kind]] or kinds)
