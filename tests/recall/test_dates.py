"""Times that a question names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.dates import MAX_SPANS, spans_in

NOW = datetime(2023, 6, 14, 15, 0, tzinfo=UTC)  # a Wednesday


def days(question: str) -> list[tuple[date, date]]:
    """Each span's first and last day."""
    found = spans_in(question, NOW)
    first = [datetime.fromtimestamp(span.first_us / 1e6, UTC).date() for span in found]
    last = [(datetime.fromtimestamp(span.end_us / 1e6, UTC) - timedelta(days=1)).date() for span in found]
    return list(zip(first, last, strict=True))


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did we do on 8 May 2023?", (2023, 5, 8), (2023, 5, 8)),
        ("What happened on May 8th, 2023?", (2023, 5, 8), (2023, 5, 8)),
        ("And on 2023-05-08?", (2023, 5, 8), (2023, 5, 8)),
        ("Where was she on the 3rd of June?", (2023, 6, 3), (2023, 6, 3)),
        ("What did Jon buy in October?", (2022, 10, 1), (2022, 10, 31)),
        ("What did Jon buy in February 2023?", (2023, 2, 1), (2023, 2, 28)),
        ("Which trips were in 2022?", (2022, 1, 1), (2022, 12, 31)),
        ("What did I say yesterday?", (2023, 6, 13), (2023, 6, 13)),
        ("What did I say last week?", (2023, 6, 5), (2023, 6, 11)),
        ("What did I plan last month?", (2023, 5, 1), (2023, 5, 31)),
        ("What about last Friday?", (2023, 6, 9), (2023, 6, 9)),
        ("Who called two weeks ago?", (2023, 5, 28), (2023, 6, 3)),
    ],
)
def test_a_question_names_its_time(question: str, first: tuple[int, int, int], last: tuple[int, int, int]) -> None:
    assert days(question) == [(date(*first), date(*last))]


@pytest.mark.parametrize("question", ["May I ask?", "What is the port?", "31 February 2023", "", "version 2023.1"])
def test_what_is_no_time_names_none(question: str) -> None:
    assert spans_in(question, NOW) == []


@given(st.text(max_size=300), st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 12, 1)))
def test_any_question_at_any_time_is_read(question: str, now: datetime) -> None:
    asked = f"{question} 900 years ago, last year, last month, in May 1999, on 8 May, since 2001"
    found = spans_in(asked, now.replace(tzinfo=UTC))
    assert len(found) <= MAX_SPANS
    assert all(span.first_us < span.end_us for span in found)
