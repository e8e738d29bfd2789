"""Dates before the texts of turns, in UTC: `[4 May 2023]` where the day changes, `[18:30]` hours later on the same day.

A date depends on the times of its turn and of the one before it only, so it stays the same once it is shown. Pure.
"""

from __future__ import annotations

import re
from typing import Literal

from foveate.turn import MONTHS, day_text, from_us

Dates = Literal["auto", "always", "never"]

HOURS_APART = 3
"""Hours between two turns of a day from which on the later one has its time of day."""
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
FIRST_KNOWN_US = 365 * _DAY_US
"""An earlier time means that the time is unknown: some programs write 0."""
LONGEST_DAY = "28 September 2023"
LONGEST_SPAN = f"{LONGEST_DAY} to {LONGEST_DAY}"
_MONTHS = "|".join(MONTHS)
DATE = rf"\d{{1,2}}(?::\d\d| (?:{_MONTHS})(?: \d{{4}})?(?: to \d{{1,2}} (?:{_MONTHS}) \d{{4}})?)"
"""What stands in brackets."""
MARK = re.compile(rf"\[({DATE})\][ \n]")
MARK_START = rf"\[[ \t]*\d{{1,2}}[ \t]*(?::[ \t]*\d\d|(?:{_MONTHS})\b)"
"""The beginning of a text that could be mistaken for a date."""


def is_known(at_us: int) -> bool:
    return at_us >= FIRST_KNOWN_US


def is_other_day(at_us: int, before_us: int) -> bool:
    return at_us // _DAY_US != before_us // _DAY_US


def begins(at_us: int, before_us: int | None) -> bool:
    """Return whether a turn has a date, given the time of the turn before it (None: there is none)."""
    if before_us is None or not is_known(at_us):
        return False
    return is_other_day(at_us, before_us) or at_us - before_us >= HOURS_APART * _HOUR_US


def names_day(text: str, at_us: int) -> bool:
    """Return whether a text names a day in one of the usual forms: 2023-05-04, 4 May 2023, May 4, 2023, 5/4/2023."""
    day = from_us(at_us)
    month = MONTHS[day.month - 1]
    forms = (
        f"{day:%Y-%m-%d}",
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month[:3]} {day.day}, {day.year}",
        f"{day.month}/{day.day}/{day.year}",
        f"{day.day}.{day.month}.{day.year}",
    )
    return any(form in text for form in forms)


def later_text(at_us: int, shown_us: int) -> str:
    """Write the date of a turn behind another one: the day without a year that is the same, or the time of day."""
    day, shown = from_us(at_us), from_us(shown_us)
    if day.year != shown.year:
        return day_text(at_us)
    if is_other_day(at_us, shown_us):
        return f"{day.day} {MONTHS[day.month - 1]}"
    return f"{day:%H:%M}"


def span_text(first_us: int, last_us: int) -> str:
    """Write the days from one to another: 4 May to 3 June 2023."""
    if not is_other_day(first_us, last_us):
        return day_text(first_us)
    first, last = from_us(first_us), from_us(last_us)
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first.day} {MONTHS[first.month - 1]}{year} to {day_text(last_us)}"
