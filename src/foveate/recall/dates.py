"""Times that a question names, as spans: "on 8 May 2023", "in June", "two weeks ago", "2023-05-08". In English.

Relative ones are counted from the newest turn, so that the same session gives the same answer tomorrow. Also the
moments of a search filter: `7d`, `yesterday`. Pure.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from foveate.errors import InvalidMessage
from foveate.turn import parse_time

MAX_SPANS = 4
MAX_CHARS = 4_000
"""As much of a question is read."""
MONTHS = [name.lower() for name in calendar.month_name]
DAYS = [name.lower() for name in calendar.day_name]
COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "couple of": 2}
BACK_HOURS = {"min": 1 / 60, "h": 1, "d": 24, "w": 168, "hour": 1, "day": 24, "week": 168, "month": 720, "year": 8760}
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

_MONTH = "(" + "|".join(name for name in MONTHS if name) + r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"((?:19|20)\d\d)"
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_DAY_MONTH = re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b(?:,?\s+{_YEAR})?")
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?:,?\s+{_YEAR})?")
_MONTH_YEAR = re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b")
_IN_MONTH = re.compile(rf"\b(?:in|during|since|of|last|this)\s+{_MONTH}(?!\s*\d)\b")
_IN_YEAR = re.compile(rf"\b(?:in|during|since|of)\s+{_YEAR}\b")
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(COUNTS)})\s+(day|week|month|year)s?\s+ago\b")
_LAST = re.compile(rf"\b(last|this|past)\s+(week|month|year|weekend|night|{'|'.join(DAYS)})\b")
_BACK = re.compile(r"(\d{1,6})\s*(min|h|d|w|hour|day|week|month|year)(?:ute)?s?(?:\s+ago)?")
_NEAR = re.compile(r"\b(today|yesterday|this morning|tonight)\b")
TIME_WORD = re.compile(
    rf"\d|\b(?:in|during|since|of|last|this)\s+{_MONTH}|\bago\b|{_LAST.pattern}|{_NEAR.pattern}", re.IGNORECASE
)
"""Whatever names a time has one of these."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From a moment up to another, in microseconds since 1970."""

    first_us: int
    end_us: int


def spans_in(question: str, now: datetime) -> list[TimeSpan]:
    """The times that a question names, as seen from `now`."""
    text = question[:MAX_CHARS].lower()
    found: dict[tuple[date, date], None] = {}
    for first, last in _named(text, now.date()):
        found.setdefault((first, last))
    return [TimeSpan(_us(first), _us(last + timedelta(days=1))) for first, last in list(found)[:MAX_SPANS]]


def parse_moment(value: str | float | datetime, now: datetime, *, path: str) -> datetime:
    """A moment from what `parse_time` takes, or relative to `now`: `7d`, `12 hours ago`, `yesterday`, `last week`.

    A day, week, month or year means its beginning (UTC). `InvalidMessage` names `path`.
    """
    if isinstance(value, str):
        text = value.strip().lower()
        if match := _BACK.fullmatch(text):
            hours = int(match[1]) * BACK_HOURS[match[2]]
            if hours < (now - datetime.min.replace(tzinfo=UTC)) / timedelta(hours=1):
                return now - timedelta(hours=hours)
        if _NEAR.fullmatch(text) or _LAST.fullmatch(text):
            (first, _), *_ = _relative(text, now.date())
            return datetime(first.year, first.month, first.day, tzinfo=UTC)
    try:
        return parse_time(value, path=path)
    except InvalidMessage as error:
        problem = f"{value!r} is not a time; use 2026-11-15, 2026-11-15T10:00:00Z, 7d, 12h or yesterday"
        raise InvalidMessage(path, problem) from error


def _named(text: str, today: date) -> Iterator[tuple[date, date]]:
    for year, month, day in _ISO.findall(text):
        yield from _on(int(year), int(month), int(day))
    taken: set[int] = set()
    for match in _DAY_MONTH.finditer(text):
        taken.add(match.start(2))
        month = _month(match[2])
        yield from _on(int(match[3] or _year(month, today)), month, int(match[1]))
    for match in _MONTH_DAY.finditer(text):
        if match.start(1) not in taken:
            taken.add(match.start(1))
            month = _month(match[1])
            yield from _on(int(match[3] or _year(month, today)), month, int(match[2]))
    for pattern in (_MONTH_YEAR, _IN_MONTH):
        for match in pattern.finditer(text):
            if match.start(1) not in taken:
                taken.add(match.start(1))
                month = _month(match[1])
                yield _whole_month(int(match[2]) if pattern is _MONTH_YEAR else _year(month, today), month)
    for match in _IN_YEAR.finditer(text):
        yield date(int(match[1]), 1, 1), date(int(match[1]), 12, 31)
    yield from _relative(text, today)


def _relative(text: str, today: date) -> Iterator[tuple[date, date]]:
    for count, unit in _AGO.findall(text):
        days = UNIT_DAYS[unit] * (int(count) if count.isdigit() else COUNTS[count])
        if days < (today - date.min).days:
            slack = timedelta(days=UNIT_DAYS[unit] // 2)
            middle = today - timedelta(days=days)
            if middle - date.min > slack:
                yield middle - slack, min(today, middle + slack)
    for which, unit in _LAST.findall(text):
        yield _last(which, unit, today)
    for word in _NEAR.findall(text):
        day = today - timedelta(days=word == "yesterday")
        yield day, day


def _last(which: str, unit: str, today: date) -> tuple[date, date]:
    monday = today - timedelta(days=today.weekday())
    before = which != "this"
    match unit:
        case "week":
            first = monday - timedelta(days=7 * before)
            return first, today if which == "past" else first + timedelta(days=6)
        case "weekend":
            first = monday - timedelta(days=2) if before else monday + timedelta(days=5)
            return first, first + timedelta(days=1)
        case "month":
            return _whole_month(*_months_before(today, int(before)))
        case "year":
            return date(today.year - before, 1, 1), date(today.year - before, 12, 31)
        case "night":
            return today - timedelta(days=1), today
    back = (today.weekday() - DAYS.index(unit)) % 7 or 7
    day = today - timedelta(days=back)
    return day, day


def _on(year: int, month: int, day: int) -> Iterator[tuple[date, date]]:
    try:
        found = date(year, month, day)
    except ValueError:
        return
    yield found, found


def _whole_month(year: int, month: int) -> tuple[date, date]:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _months_before(today: date, months: int) -> tuple[int, int]:
    index = today.year * 12 + today.month - 1 - months
    return index // 12, index % 12 + 1


def _month(name: str) -> int:
    return next(number for number, full in enumerate(MONTHS) if full and full.startswith(name[:3]))


def _year(month: int, today: date) -> int:
    """Without a year it is the last time that the month was."""
    return today.year if month <= today.month else today.year - 1


def _us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
