"""When a server learns: from a session's statements once it has gone quiet, from everything at scheduled times.

The schedule is a cron expression in a time zone, with a random delay, and optionally only when idle.

Missed runs, because the program was not running or the computer was asleep, are combined into one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from foveate.client import Foveate
from foveate.errors import RunInProgress, SettingsError, contained
from foveate.knowledge.settings import KnowledgeSettings
from foveate.store.knowledge import QUICK

if TYPE_CHECKING:
    from foveate.knowledge.report import LearnReport

TWICE_A_DAY = "0 3,15 * * *"
"""The schedule of `on`."""
OFF = "off"
LOOKED_BACK = 1_000
"""Runs that are searched for the last one that read everything."""
CORE_SHARE = 0.1
"""Maximum share of one core that learning from quiet sessions takes."""
QUIET_TURNS = 200
"""Turns that one such run reads at most; a long history, e.g. an imported one, takes several."""
MAX_DAYS = 366 * 8 + 1
"""Maximum distance of the next time: a date that does not occur within it, such as 31 February, never does; 29 February
does."""
POLL_SECONDS = 60.0
"""Interval for checking the clock: it may be set, and a computer may sleep."""
KEY = "knowledge.schedule"
UNREADABLE = "the schedule can't read the store; retrying in a minute"
MICROSECONDS = 1_000_000

_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
_WEEKDAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),
)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "on": TWICE_A_DAY,
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CronTimes:
    """The times of a cron expression. If both kinds of days are restricted, a day of either kind matches, as in
    cron."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    is_either: bool
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> CronTimes:
        """Parse five fields: minute, hour, day of the month, month, day of the week; or `@daily`, `on` and the like."""
        fields = _SHORT.get(text.strip().lower(), text).split()
        if len(fields) != len(_FIELDS):
            raise SettingsError(KEY, f"{text[:80]!r} is not a cron expression: 5 fields, e.g. '{TWICE_A_DAY}', or 'on'")
        minutes, hours, days, months, weekdays = (
            _numbers(field, *kind) for field, kind in zip(fields, _FIELDS, strict=True)
        )
        found = cls(
            minutes=tuple(sorted(minutes)),
            hours=tuple(sorted(hours)),
            days=frozenset(days),
            months=frozenset(months),
            weekdays=frozenset(day % 7 for day in weekdays),
            is_either=not (fields[2].startswith("*") or fields[4].startswith("*")),
            zone=_zone(zone),
        )
        if found.after(datetime(2026, 1, 1, tzinfo=UTC)) is None:
            raise SettingsError(KEY, f"{text!r} never occurs: no month has such a day")
        return found

    def after(self, moment: datetime) -> datetime | None:
        """Return the next time after a moment, in UTC; None if there is none.

        A time skipped by a clock change occurs right after the change; a repeated one occurs once.
        """
        first = moment.astimezone(self.zone).date()
        for offset in range(MAX_DAYS):
            day = first + timedelta(days=offset)
            if self._has(day):
                local = (
                    datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                    for hour in self.hours
                    for minute in self.minutes
                )
                if found := [time for time in (each.astimezone(UTC) for each in local) if time > moment]:
                    return min(found)
        return None

    def _has(self, day: date) -> bool:
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (is_day or is_weekday if self.is_either else is_day and is_weekday)


def _numbers(text: str, name: str, low: int, high: int, names: Mapping[str, int]) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        last = "7" if last == "sun" else last  # at the end of a range
        try:
            start = low if span == "*" else names.get(first) if first in names else int(first)
            end = (names.get(last) if last in names else int(last)) if dash else high if span == "*" or slash else start
            every = int(step) if slash else 1
        except ValueError:
            start = end = every = None
        if start is None or end is None or every is None or not low <= start <= end <= high or every < 1:
            raise SettingsError(KEY, f"{part!r} is not a {name} from {low} to {high}, e.g. 3, 1-5 or */2")
        found.update(range(start, end + 1, every))
    return found


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingsError("knowledge.time_zone", f"{name[:80]!r} is not known here; e.g. Europe/Berlin") from error


def read_schedule(settings: KnowledgeSettings) -> CronTimes | None:
    """Return the times of the settings; None if the schedule is off. Raise `SettingsError` for an invalid one."""
    is_off = settings.schedule.strip().lower() in ("", OFF)
    return None if is_off else CronTimes.parse(settings.schedule, settings.time_zone)


async def learn(fov: Foveate) -> LearnReport:
    """Learn from everything. Its modules are imported at the first run, so that a server starts quickly."""
    from foveate.knowledge.run import learn as learn_all  # noqa: PLC0415

    return await learn_all(fov)


class Scheduler:
    """Learns from everything at the scheduled times."""

    def __init__(
        self,
        fov: Foveate,
        times: CronTimes,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        delay: Callable[[], float] = random.random,
    ) -> None:
        self._fov = fov
        self._settings: KnowledgeSettings = fov.settings.knowledge
        self._times = times
        self._now = now
        self._sleep = sleep
        self._delay = delay

    async def run(self) -> None:
        """Wait for each time and learn, until cancelled."""
        last = None
        while last is None:
            with contained(_log, UNREADABLE):
                last = await self._last_run()
            if last is None:
                await self._sleep(POLL_SECONDS)
        while True:
            await self._wait(last)
            last = self._now()
            with contained(_log, "the scheduled run failed; the next one runs on schedule"):
                self._note(await learn(self._fov))

    async def _last_run(self) -> float:
        """Return when the last run started; before the first run, when the first session did."""
        runs = await self._fov.store.knowledge.list_runs(None, limit=LOOKED_BACK)
        started = (run.started_us for run in runs if not run.prompt_version.startswith(QUICK))
        if last_us := next(started, None):
            return last_us / MICROSECONDS
        created = [row.created_us / MICROSECONDS for row in await self._fov.store.list_sessions()]
        return min(created, default=self._now())

    async def _wait(self, last: float) -> None:
        """Wait until the first time after the last run, plus the delay, and until no session is active."""
        delay = self._delay() * self._settings.jitter_minutes * 60
        while True:
            # A clock that was set back does not delay the next run.
            last = min(last, self._now())
            due = self._times.after(datetime.fromtimestamp(last, UTC))
            assert due is not None, "checked when it was parsed"
            left = due.timestamp() + delay - self._now()
            if left <= 0 and await self._is_idle():
                return
            await self._sleep(min(POLL_SECONDS, left) if left > 0 else POLL_SECONDS)

    async def _is_idle(self) -> bool:
        if not self._settings.idle_minutes:
            return True
        now = self._now()
        with contained(_log, UNREADABLE) as reading:
            rows = await self._fov.store.list_sessions()
        if reading.error:
            return False
        # A session with a time in the future is ignored.
        used = (row.updated_us / MICROSECONDS for row in rows)
        newest = max((moment for moment in used if moment <= now), default=0.0)
        return now - newest >= self._settings.idle_minutes * 60

    @staticmethod
    def _note(report: LearnReport) -> None:
        for each in report.scopes:
            if each.outcome == "learned":
                _log.info("learned from %s: %d new, %d changed", each.scope, each.count("new"), each.count("changed"))


class QuietLearner:
    """Learns what was stated in sessions that have gone quiet."""

    def __init__(
        self,
        fov: Foveate,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._fov = fov
        self._quiet_seconds = fov.settings.knowledge.quiet_minutes * 60
        self._now = now
        self._sleep = sleep
        self._learned: dict[tuple[str, str], int] = {}
        """The newest change of a tenant's sessions in a scope that was learned from."""

    async def run(self) -> None:
        """Learn until cancelled."""
        pause = POLL_SECONDS
        while True:
            await self._sleep(pause)
            began = time.monotonic()
            has_more = False
            with contained(_log, "learning from quiet sessions failed; it is tried again"):
                has_more = await self.learn_once()
            busy_seconds = (time.monotonic() - began) * (1 / CORE_SHARE - 1)
            pause = max(1.0, busy_seconds) if has_more else max(POLL_SECONDS, busy_seconds)

    async def learn_once(self) -> bool:
        """Learn from the first scope with new turns in a quiet session; return whether there may be more."""
        waiting = await self._waiting()
        for (tenant, scope), changed_us in sorted(waiting.items()):
            from foveate.knowledge.run import learn as learn_scope  # noqa: PLC0415

            view = self._fov.tenant(tenant) if tenant else self._fov
            try:
                (report,) = (await learn_scope(view, scope, quick=True, most_turns=QUIET_TURNS)).scopes
            except RunInProgress:
                continue
            if report.turns < QUIET_TURNS:
                self._learned[tenant, scope] = changed_us
            return len(waiting) > 1 or report.turns >= QUIET_TURNS
        return False

    async def _waiting(self) -> dict[tuple[str, str], int]:
        """Return the scopes with a quiet session that has changed since, with the time of the change."""
        from foveate.knowledge.gather import scopes_of_session  # noqa: PLC0415

        found: dict[tuple[str, str], int] = {}
        before_us = int((self._now() - self._quiet_seconds) * MICROSECONDS)
        for row in await self._fov.store.list_sessions():
            if not row.last_turn or row.updated_us > before_us:
                continue
            for scope in scopes_of_session(row):
                key = (row.tenant, str(scope))
                if row.updated_us > self._learned.get(key, 0):
                    found[key] = max(found.get(key, 0), row.updated_us)
        return found


@asynccontextmanager
async def scheduled(fov: Foveate) -> AsyncIterator[None]:
    """Learn at the scheduled times and from quiet sessions while the block runs; an ended run is resumed later."""
    times = read_schedule(fov.settings.knowledge)
    tasks = [asyncio.create_task(Scheduler(fov, times).run())] if times else []
    if fov.settings.knowledge.quiet_minutes:
        tasks.append(asyncio.create_task(QuietLearner(fov).run()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
