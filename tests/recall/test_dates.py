"""Times that a question names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import InvalidMessage
from foveate.recall.dates import LANGUAGES, MAX_SPANS, _load, names_only_time, parse_span, spans_in

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


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did I say in the first week of June?", (2023, 6, 1), (2023, 6, 7)),
        ("What happened in the last week of May 2022?", (2022, 5, 25), (2022, 5, 31)),
        ("What did I plan in early March?", (2023, 3, 1), (2023, 3, 10)),
        ("And at the end of April 2023?", (2023, 4, 21), (2023, 4, 30)),
        ("Where was I last May?", (2023, 5, 1), (2023, 5, 31)),
        ("What did we plan last summer?", (2022, 6, 1), (2022, 8, 31)),
        ("Where were we in the spring of 2022?", (2022, 3, 1), (2022, 5, 31)),
        ("What did I buy on Monday?", (2023, 6, 12), (2023, 6, 12)),
        ("Was war Mitte August 2022?", (2022, 8, 11), (2022, 8, 20)),
        ("Was haben wir letzten Winter gemacht?", (2022, 12, 1), (2023, 2, 28)),
        ("¿Qué hicimos el verano pasado?", (2022, 6, 1), (2022, 8, 31)),
        ("And in 2023-05?", (2023, 5, 1), (2023, 5, 31)),
        ("Was habe ich am 8. Mai 2023 gesagt?", (2023, 5, 8), (2023, 5, 8)),
        ("Was habe ich am 8.5.2023 gesagt?", (2023, 5, 8), (2023, 5, 8)),
        ("Was war im März?", (2023, 3, 1), (2023, 3, 31)),
        ("Was habe ich letzten Mai gesagt?", (2023, 5, 1), (2023, 5, 31)),
        ("Was war in der ersten Juniwoche?", (2023, 6, 1), (2023, 6, 7)),
        ("Was habe ich dir vor zwei Wochen erzählt?", (2023, 5, 28), (2023, 6, 3)),
        ("Was habe ich letzte Woche gesagt?", (2023, 6, 5), (2023, 6, 11)),
        ("Was habe ich vorgestern gekauft?", (2023, 6, 12), (2023, 6, 12)),
        ("Qu'est-ce que j'ai dit le 1er mars ?", (2023, 3, 1), (2023, 3, 1)),
        ("Qu'est-ce que je t'ai dit en août 2022 ?", (2022, 8, 1), (2022, 8, 31)),
        ("Qu'est-ce que j'ai dit le mois dernier ?", (2023, 5, 1), (2023, 5, 31)),
        ("Que s'est-il passé il y a trois jours ?", (2023, 6, 11), (2023, 6, 11)),
        ("Qu'est-ce que je t'ai dit hier ?", (2023, 6, 13), (2023, 6, 13)),
        ("¿Qué dije el 8 de mayo de 2023?", (2023, 5, 8), (2023, 5, 8)),
        ("¿Qué te dije en septiembre de 2022?", (2022, 9, 1), (2022, 9, 30)),
        ("¿Qué te dije la semana pasada?", (2023, 6, 5), (2023, 6, 11)),
        ("¿Qué compré hace dos semanas?", (2023, 5, 28), (2023, 6, 3)),
        ("¿Qué hice el viernes pasado?", (2023, 6, 9), (2023, 6, 9)),
    ],
)
def test_a_question_names_its_time_in_four_languages(
    question: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    assert days(question) == [(date(*first), date(*last))]


@pytest.mark.parametrize("name", LANGUAGES)
def test_each_language_has_all_months_weekdays_and_units(name: str) -> None:
    language = _load(name)
    assert set(language.months.values()) == set(range(1, 13))
    assert set(language.weekdays.values()) == set(range(7))
    assert set(language.units.values()) == {"day", "week", "month", "year", "weekend", "night"}
    assert set(language.ordinals.values()) == {1, 2, 3, 4, 5}
    assert set(language.near.values()) == {0, 1, 2}
    assert set(language.seasons.values()) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2023-05-08", (2023, 5, 8), (2023, 5, 8)),
        ("September", (2022, 9, 1), (2022, 9, 30)),
        ("2022", (2022, 1, 1), (2022, 12, 31)),
        ("Mai", (2023, 5, 1), (2023, 5, 31)),
        ("août", (2022, 8, 1), (2022, 8, 31)),
        ("enero de 2023", (2023, 1, 1), (2023, 1, 31)),
        ("hier", (2023, 6, 13), (2023, 6, 13)),
        ("two weeks ago", (2023, 5, 31), (2023, 5, 31)),
        ("hace una semana", (2023, 6, 7), (2023, 6, 7)),
    ],
)
def test_a_filter_takes_a_time_alone_in_any_language(
    text: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    span = parse_span(text, NOW, path="after")
    assert datetime.fromtimestamp(span.first_us / 1e6, UTC).date() == date(*first)
    assert datetime.fromtimestamp(span.end_us / 1e6 - 1, UTC).date() == date(*last)


@pytest.mark.parametrize("text", ["someday", "the day we met", "May " * 100, "mañana quizás", "32 Mai 2023"])
def test_what_is_no_time_is_rejected_with_examples(text: str) -> None:
    with pytest.raises(InvalidMessage, match="is not a time; use 2026-11-15, 7d, yesterday, last May"):
        parse_span(text, NOW, path="after")


@pytest.mark.parametrize("question", ["Was steht hier?", "Was ist hier los?", "We watched the Mars 2020 rover land."])
def test_a_word_of_another_language_names_no_time(question: str) -> None:
    assert spans_in(question, NOW) == []


def test_a_text_that_names_a_time_and_nothing_else_is_told_apart() -> None:
    for text in ("last May", "September 2022", "what did I say 2 weeks ago?", "letzten Mai", "la semana pasada"):
        assert names_only_time(text), text
    for text in ("roses last May", "the budget for September 2022"):
        assert not names_only_time(text), text


@pytest.mark.parametrize("question", ["May I ask?", "What is the port?", "31 February 2023", "", "version 2023.1"])
def test_what_is_no_time_names_none(question: str) -> None:
    assert spans_in(question, NOW) == []


@given(st.text(max_size=300), st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 12, 1)))
def test_any_question_at_any_time_is_read(question: str, now: datetime) -> None:
    asked = f"{question} 900 years ago, last year, last month, in May 1999, on 8 May, since 2001"
    found = spans_in(asked, now.replace(tzinfo=UTC))
    assert len(found) <= MAX_SPANS
    assert all(span.first_us < span.end_us for span in found)
