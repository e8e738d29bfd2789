"""Dates are short, unambiguous, and depend on the times of turns alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.costs import date_tokens, overheads
from foveate.context.dates import (
    DATE,
    LONGEST_DAY,
    LONGEST_SPAN,
    MARK_START,
    begins,
    is_known,
    later_text,
    names_day,
    span_text,
)
from foveate.tokens import O200K as COUNTER
from foveate.turn import day_text

MOMENTS = st.datetimes(datetime(1972, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


MAY = us("2023-05-04T09:30")


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ("2023-05-04T20:00", "20:00"),
        ("2023-05-05T00:10", "5 May"),
        ("2023-12-31T10:00", "31 December"),
        ("2024-01-01T10:00", "1 January 2024"),
    ],
)
def test_a_later_date_says_only_what_changed(then: str, text: str) -> None:
    assert later_text(us(then), MAY) == text


def test_a_span_names_both_days_and_a_common_year_once() -> None:
    assert span_text(MAY, us("2023-05-04T20:00")) == "4 May 2023"
    assert span_text(MAY, us("2023-06-03T20:00")) == "4 May to 3 June 2023"
    assert span_text(MAY, us("2024-06-03T20:00")) == "4 May 2023 to 3 June 2024"


def test_a_turn_has_a_date_on_another_day_or_hours_later() -> None:
    assert not begins(us("2023-05-04T11:00"), MAY)
    assert begins(us("2023-05-04T12:30"), MAY)
    assert begins(us("2023-05-05T00:00"), us("2023-05-04T23:59"))
    assert not begins(MAY, None)


def test_an_unknown_time_has_no_date() -> None:
    assert not is_known(0)
    assert not begins(0, MAY)


@given(MOMENTS, MOMENTS)
def test_every_date_is_read_as_one_and_takes_no_more_than_the_longest(one: datetime, two: datetime) -> None:
    first, last = sorted(int(moment.timestamp()) * 1_000_000 for moment in (one, two))
    most = overheads(9, COUNTER, is_dated=True).date
    for text in (day_text(first), later_text(last, first)):
        assert re.fullmatch(DATE, text)
        assert re.match(MARK_START, f"[{text}]")
        assert date_tokens(text, "C", COUNTER, is_range=False) <= most
        assert date_tokens(text, "C", COUNTER, is_range=True) <= most
    span = span_text(first, last)
    assert re.fullmatch(DATE, span)
    assert date_tokens(span, "E", COUNTER, is_range=False) <= date_tokens(LONGEST_SPAN, "E", COUNTER, is_range=False)


def test_a_date_takes_a_handful_of_tokens() -> None:
    assert date_tokens(LONGEST_DAY, "T", COUNTER, is_range=True) <= 8
    assert date_tokens("4 May", "T", COUNTER, is_range=True) <= 5


@pytest.mark.parametrize(
    "text", ["Today's date: 2023-05-04.", "It is May 4, 2023", "Current date 5/4/2023", "Heute ist der 4.5.2023"]
)
def test_a_system_prompt_that_names_the_day_is_found(text: str) -> None:
    assert names_day(text, MAY)
    assert not names_day(text, us("2023-05-05T09:00"))
