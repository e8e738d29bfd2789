"""Test runs of pytest, unittest, jest, vitest, mocha, go and cargo: counts, failures, and their reasons."""

# ruff: noqa: RUF001 (the signs that test runners print)

from __future__ import annotations

import re
from collections.abc import Iterator

from foveate.compress.exchange import ToolExchange
from foveate.compress.lines import both_ends, brief, error_lines, first_error, fold, without_blanks
from foveate.compress.tools import generic

tools = ("runtests", "test", "pytest", "jest", "runtest", "runpytest")
MAX_NAMES = 3

_SUMMARY = re.compile(
    r"^=+ .{0,400}\b(?:passed|failed|errors?|no tests ran|skipped)\b.{0,400} =+$"  # pytest
    r"|^\d+ (?:passed|failed|errors?)\b.{0,400} in [\d.]{1,12} ?s\b.*$"
    r"|^[ \t]*(?:Tests|Test Suites|Test Files):? +.*\b(?:passed|failed|total)\b.*$"  # jest, vitest
    r"|^[ \t]*\d+ (?:passing|failing|pending)\b.*$"  # mocha
    r"|^test result: \w+\..*$"  # cargo
    r"|^Ran \d{1,9} tests? in .*$|^FAILED \((?:failures|errors)=.*$"  # unittest
    r"|^(?:ok|FAIL)[ \t]+\S{1,400}/\S{0,400}[ \t]+(?:[\d.]+s|\(cached\)).*$"  # go
    r"|^[#ℹ] (?:pass|fail) \d{1,9}$",  # node
    re.MULTILINE,
)
_FAILED = re.compile(
    r"^(?:FAILED|ERROR) (?P<pytest>[^\s(]\S*)(?: - .*)?$"
    r"|^(?=\S+?::\S)(?P<verbose>\S++) (?:FAILED|ERROR)\b.*$"
    r"|^--- FAIL: (?P<go>\S+).*$"
    r"|^test (?P<cargo>\S+) \.\.\. FAILED$"
    r"|^(?:FAIL|ERROR): (?P<unittest>\w+) \(.*$"
    r"|^[ \t]*● (?P<jest>.+)$"
    r"|^[ \t]*(?:✕|×|✗) (?P<mark>.{1,400}?)(?: \(?\d{1,9} ?ms\)?)?$",
    re.MULTILINE,
)
_COUNT = re.compile(r"(?<!\d)(\d{1,9}) (passed|failed|errors?|skipped|xfailed|passing|failing|deselected)")
_PASSED = re.compile(
    r"^(?=\S+?::\S)\S++ (?:PASSED|SKIPPED|XFAIL)\b|^\S{1,400}\.(?:py|[jt]sx?) [.sx]+ +\[ *\d+%\]$|^test \S+ \.\.\. ok$"
    r"|^\s*(?:✓|√|✔) |^=== (?:RUN|PAUSE|CONT) |^\s*--- PASS: |^PASS(?: |$)|^\w+ \(\S+\)(?: \.\.\. )ok$|^[.sxF]{10,}$"
)


def recognises(exchange: ToolExchange) -> bool:
    return bool(_SUMMARY.search(exchange.output[-6_000:]) or _SUMMARY.search(exchange.output[:2_000]))


def summarise(exchange: ToolExchange) -> str:
    asked = brief(exchange.command, 50) or generic.subject(exchange)
    return f"{asked}: {outcome(exchange)}" if asked else outcome(exchange)


def outcome(exchange: ToolExchange) -> str:
    """Summarise a run: `exit 1, 3 failed, 41 passed: test_login, test_refresh, …`."""
    said = [f"exit {exchange.exit_code}"] if exchange.exit_code is not None else []
    said += [f"{number} {what}" for what, number in counts(exchange.output).items()]
    names = failures(exchange.output)
    text = ", ".join(said)
    if names:
        shown = ", ".join(brief(name.rpartition("::")[2], 60) for name in names[:MAX_NAMES])
        return f"{text}: {shown}{', …' if len(names) > MAX_NAMES else ''}"
    error = first_error(exchange.lines) if exchange.failed else None
    return f"{text}: {brief(error, 80)}" if error else text or generic.outcome(exchange)


def counts(output: str) -> dict[str, int]:
    """Return the counts of failed, passed and other tests; failures first."""
    found: dict[str, int] = {}
    for line in _SUMMARY.findall(output):
        # Jest counts suites too; those are not the tests.
        if "Suites" in line or "Test Files" in line:
            continue
        for number, what in _COUNT.findall(line):
            name = {"passing": "passed", "failing": "failed", "error": "errors"}.get(what, what)
            found[name] = found.get(name, 0) + int(number)
        if ran := re.match(r"Ran (\d{1,9}) tests?", line):
            found["run"] = int(ran[1])
        if noted := re.match(r"[#ℹ] (pass|fail) (\d{1,9})", line):
            found[f"{noted[1]}ed"] = int(noted[2])
    order = ("failed", "errors", "passed", "skipped", "run")
    return {what: found[what] for what in order if found.get(what)}


def failures(output: str) -> list[str]:
    names = (next(name for name in match.groups() if name) for match in _FAILED.finditer(output))
    return list(dict.fromkeys(names))


def key_lines(exchange: ToolExchange) -> list[str]:
    lines = exchange.lines
    telling = [line for line in lines if _SUMMARY.match(line) or _FAILED.match(line)]
    reasons = [line for line in lines if line.startswith(("E  ", ">  "))]
    return [*telling, *reasons[:30], *error_lines(lines)[:10]]


def smooth(exchange: ToolExchange) -> list[str]:
    return both_ends(without_blanks(fold(list(_without_passes(exchange.lines)))), exchange.total_lines)


def _without_passes(lines: list[str]) -> Iterator[str]:
    """Yield all lines except those of passed tests, which are counted."""
    passed = 0
    for line in lines:
        if _PASSED.match(line):
            passed += 1
            continue
        if passed:
            yield f"(… {passed} lines of tests that passed)"
            passed = 0
        yield line
    if passed:
        yield f"(… {passed} lines of tests that passed)"
