"""What developers' tools print: test runs, tracebacks, searches, diffs, histories, build logs and service logs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conversation.world import Record, World

_VERBS = ("returns", "keeps", "refuses", "accepts", "counts", "ignores", "merges", "sorts", "reports", "restores")
_THINGS = (
    "empty_list", "stay_of_one_night", "past_date", "second_harbour", "unknown_berth", "leap_day", "large_vessel",
    "cancelled_booking", "missing_tide", "null_island", "two_guests", "expired_hold", "long_name", "staff_discount",
    "winter_tariff", "summer_tariff", "closed_pontoon", "shore_power", "day_visitor", "duplicate_event",
)  # fmt: skip
_SUBJECTS = (
    "Name the berth in the conflict message", "Round once, at the end", "Drop the unused season cache",
    "Show the tide in local time", "Move the price breakdown to its own page", "Log the job id with every retry",
    "Make the map usable with the keyboard", "Limit the size of an upload", "Add a check for holes in the seasons",
    "Send receipts through the outbox", "Read the gauge list from the table", "Sort arrivals by pontoon",
    "Explain the holding time on the payment page", "Remove the second spelling of harbour master",
    "Keep the filter when the list is reloaded", "Reject lengths below two metres", "Cache the berth list by version",
    "Test the digest with a busy day", "Use one builder for bookings in tests", "Document the error format",
)  # fmt: skip

_BODIES = (
    "    stay = harbour.stay(berth=7, nights=3)\n    assert harbour.outcome(stay) == stay.expected",
    "    before = harbour.snapshot()\n    harbour.advance(clock.tick())\n    assert harbour.changes(before) == []",
    "    guest = harbour.guest('Vos')\n    result = guest.try_it(at=clock.noon)\n    assert result == guest.wanted",
    "    with harbour.two_workers() as pair:\n        seen = pair.run_all()\n    assert seen == harbour.expected",
    "    rows = harbour.load('fixtures/case.json')\n    assert list(harbour.process(rows)) == rows.expected",
)


def code_of_test(w: World, name: str) -> str:
    return f"def {name}(harbour, clock):\n" + w.draw("bodies", _BODIES)


_REQUESTS = tuple(
    f"{path} {status}"
    for path in ("/v2/bookings", "/v2/berths", "/v2/tides/today", "/map", "/v2/holds", "/v2/invoices", "/health")
    for status in (200, 200, 201, 304, 404)
)
_USUAL: dict[str, tuple[str, ...]] = {
    "postgres": ("checkpoint complete", "automatic vacuum of table bookings", "connection authorized", "statement"),
    "backup": ("copied part", "verified part", "pruned old run", "waiting for snapshot"),
    "quayside-worker": ("done kind=send_mail", "done kind=render_pdf", "done kind=sync_tides", "leased kind=send_mail"),
    "gate-controller": ("publish pier/north closed", "publish pier/fuel open", "ping ok", "publish pier/south closed"),
}
"""What a service logs on a good day; those that are missing log requests."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """A pytest run; the counts are those in its text."""

    __test__ = False

    text: str
    failed: int
    passed: int
    seconds: float

    @property
    def total(self) -> int:
        return self.failed + self.passed

    def tell(self, story: Record) -> None:
        """Put the counts where the story's phrases find them."""
        story.update(failed=str(self.failed), passed=str(self.passed), total=str(self.total), seconds=str(self.seconds))
        story["others"] = str(self.total - 1)


def names_of_tests(w: World, count: int) -> list[str]:
    every = [f"test_{verb}_{thing}" for verb in _VERBS for thing in _THINGS]
    return sorted(w.rng.sample(every, count))


def pytest_run(
    w: World,
    area: str,
    *,
    failing: dict[str, str],
    passing: int,
    first: str | None = None,
    bodies: dict[str, str] | None = None,
) -> TestRun:
    """A run over an area's tests.

    `failing` maps names to error lines, `bodies` names to code shown before, `first` is a new test that passes.
    """
    names = names_of_tests(w, passing - (first is not None)) + ([first] if first else [])
    rows = sorted([(name, "PASSED") for name in names] + [(name, "FAILED") for name in failing])
    seconds = w.seconds(0.8, 14)
    lines = [
        "=" * 29 + " test session starts " + "=" * 29,
        "platform linux -- Python 3.12.4, pytest-8.3.3, pluggy-1.5.0",
        "rootdir: /home/dev/quayside",
        f"collected {len(rows)} items",
        "",
    ]
    lines += [
        f"tests/{area}/test_{area}.py::{name} {state} [{100 * number // len(rows):3d}%]"
        for number, (name, state) in enumerate(rows, start=1)
    ]
    for name, error in failing.items():
        lines += ["", "=" * 35 + " FAILURES " + "=" * 35, f"{'_' * 20} {name} {'_' * 20}", ""]
        code = (bodies or {}).get(name) or code_of_test(w, name)
        *above, last = code.split("\n")
        lines += [*(f"    {line}" for line in above), f">   {last}", f"E       {error}", ""]
        lines += [f"tests/{area}/test_{area}.py:{w.between(30, 400)}"]
    lines += ["=" * 27 + " short test summary info " + "=" * 28] if failing else []
    lines += [f"FAILED tests/{area}/test_{area}.py::{name} - {error}" for name, error in failing.items()]
    counts = f"{len(failing)} failed, {passing} passed" if failing else f"{passing} passed"
    lines.append(f"{'=' * 20} {counts} in {seconds}s {'=' * 20}")
    return TestRun("\n".join(lines), len(failing), passing, seconds)


def traceback(w: World, *, path: str, func: str, line: int, code: str, error: str) -> str:
    """What the service logs when `func` fails on its first line of `code`."""
    route = w.rng.choice(("views/book.py", "views/office.py", "jobs/runner.py", "api/v2.py"))
    entry = w.rng.choice(("post", "handle", "run_one", "dispatch"))
    lines = ["Traceback (most recent call last):"]
    lines += [
        f'  File "/app/quayside/{route}", line {w.between(20, 310)}, in {entry}',
        f"    return traced({func})(request)",
    ]
    lines += ['  File "/app/quayside/core/calls.py", line 44, in inner', "    return call(*args, **kwargs)"]
    lines += [f'  File "/app/{path}", line {line}, in {func}', f"    {code.strip()}"]
    return "\n".join([*lines, error])


def grep(w: World, func: str, *, path: str, line: int, hits: int) -> str:
    """`hits` places that name the function; the one in `path` is its definition."""
    folders = ("views", "jobs", "api", "core", "reports", "admin", "commands")
    files = ("arrivals", "office", "kiosk", "checkin", "ledger", "billing", "moves", "calendar", "audit", "nightly")
    rows = [f"{path}:{line}:def {func}("]
    for _ in range(hits - 1):
        file = f"quayside/{w.rng.choice(folders)}/{w.rng.choice(files)}.py"
        use = w.rng.choice(("    {f}(session, stay)", "    result = {f}(request.form)", "from quayside import {f}"))
        rows.append(f"{file}:{w.between(4, 380)}:{use.format(f=func)}")
    return "\n".join(rows)


def diff(w: World, path: str, before: str, after: str, *, line: int) -> str:
    old, new = before.strip("\n").split("\n"), after.strip("\n").split("\n")
    lines = [f"diff --git a/{path} b/{path}", f"index {w.hex(7)}..{w.hex(7)} 100644", f"--- a/{path}", f"+++ b/{path}"]
    lines += [f"@@ -{line},{len(old)} +{line},{len(new)} @@"]
    return "\n".join(lines + [f"-{text}" for text in old] + [f"+{text}" for text in new])


def git_log(w: World, count: int) -> tuple[str, list[str]]:
    """A one-line history, newest first, and its subjects."""
    subjects = [w.draw("subjects", _SUBJECTS) for _ in range(count)]
    rows = [f"{w.hex(7)} QS-{w.between(1020, 1170)}: {subject}" for subject in subjects]
    return "\n".join(rows), subjects


def service_log(w: World, service: str, error: str, *, lines: int) -> tuple[str, int]:
    """The last lines of a service's log, and how many of them are the error."""
    moment = w.now - timedelta(seconds=lines * 4)
    rows: list[str] = []
    errors = 0
    for _ in range(lines):
        moment += timedelta(seconds=w.between(1, 6), milliseconds=w.between(0, 999))
        stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if w.chance(0.3):
            errors += 1
            rows.append(f"{stamp} ERROR {service} request={w.hex(8)} {error}")
        else:
            usual = w.rng.choice(_USUAL.get(service, _REQUESTS))
            rows.append(f"{stamp} INFO  {service} {usual} {w.between(3, 900)}ms id={w.hex(8)}")
    return "\n".join(rows), errors


def build_log(w: World, job: str, error: str) -> str:
    steps = ("Set up job", "Check out", "Restore cache", "Install dependencies", "Build image", "Start services")
    rows = [f"##[group]{steps[0]}", f"Runner: build-{w.between(1, 9)}", "##[endgroup]"]
    for step in steps[1:]:
        rows += [f"##[group]{step}"]
        rows += [f"  {w.between(1, 99):3d} % {w.rng.choice(('fetch', 'unpack', 'verify', 'link'))} {w.hex(10)}"
                 for _ in range(w.between(2, 9))]  # fmt: skip
        rows += [f"  done in {w.seconds(0.4, 40)} s", "##[endgroup]"]
    rows += [f"##[group]Run {job}", error, "##[error]Process completed with exit code 1."]
    return "\n".join(rows)
