"""A turn is cut where nothing changes its meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.compress.clauses import MAX_CLAUSES, cut_text, sentences, split_clauses
from foveate.compress.cues import estimate_tokens


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3.5 seconds.",
        "See https://example.org/a. b for more, e.g. the list.",
        "Dr. Meyer comes at 3 p.m. tomorrow",
        'He said "Stop. Go home. Now." and left.',
        "Run `a. B. C` first.",
        "Sie zieht am 1. Oktober um.",
        "Open src/a.b/c.py and look.",
    ],
)
def test_nothing_is_cut_inside_numbers_paths_quotes_and_abbreviations(text: str) -> None:
    assert sentences(text) == [text]


def test_sentences_are_cut_also_where_nobody_writes_capitals() -> None:
    assert sentences("we need a queue. nobody knows rabbit. losing a job is bad") == [
        "we need a queue.",
        "nobody knows rabbit.",
        "losing a job is bad",
    ]


def test_languages_without_spaces_are_cut_at_their_own_stops() -> None:
    assert sentences("今日は雨です。明日は晴れます。") == ["今日は雨です。", "明日は晴れます。"]


@pytest.mark.parametrize(
    "text",
    [
        "Deploy on Monday. Unless the tests fail.",
        "Use the cache. Otherwise it is slow.",
        "We ship today. But not the app.",
        "Is it safe? No.",
    ],
)
def test_a_sentence_that_depends_on_the_one_before_stays_with_it(text: str) -> None:
    assert len(sentences(text)) == 1 or text.endswith("No.")


@pytest.mark.parametrize(
    "sentence",
    [
        "If the disk is full and the job is still running, stop the job at once, and the nightly run is skipped too.",
        "We could move everything to Redis this week with little trouble, but the team said no, and that is it.",
        "The service was not restarted by the operator on Monday evening, and the cache was cleared by nobody at all.",
    ],
)
def test_a_sentence_is_not_cut_where_a_condition_contrast_or_negation_reaches_over(sentence: str) -> None:
    assert split_clauses(sentence) == [sentence]


def test_a_long_sentence_is_cut_at_safe_places() -> None:
    sentence = (
        "The first batch of 2,400 parts leaves on Monday from the harbour, and the second one follows in July by train."
    )
    assert len(split_clauses(sentence)) == 2


def test_a_list_stays_with_the_negation_before_it() -> None:
    clauses = cut_text("Never do these:\n- push to main\n- delete a branch\n\nThe rest is fine.")
    assert [clause.text for clause in clauses] == ["Never do these: push to main, delete a branch", "The rest is fine."]


def test_code_rows_items_and_headings_are_told_apart() -> None:
    text = "# Plan\n\n- one thing\n\n```\nx = 1\n```\n| a | b |\n| --- | --- |\n| 1 | 2 |\nDone."
    assert [(clause.kind, clause.text) for clause in cut_text(text)] == [
        ("heading", "Plan"),
        ("item", "one thing"),
        ("code", "x = 1"),
        ("row", "a | b"),
        ("row", "1 | 2"),
        ("prose", "Done."),
    ]


def test_a_wrapped_paragraph_is_put_together_again() -> None:
    assert [clause.text for clause in cut_text("The job runs\nevery night.")] == ["The job runs every night."]


def test_ten_thousand_lines_are_bounded() -> None:
    assert len(cut_text("\n".join(f"Line {place}." for place in range(10_000)))) <= MAX_CLAUSES


@given(st.text(max_size=400))
def test_every_clause_is_one_line_of_words(text: str) -> None:
    for clause in cut_text(text):
        assert clause.text.strip()
        assert len(clause.text.splitlines()) == 1


@given(st.text(max_size=200))
def test_the_estimate_is_never_negative_and_grows_with_the_text(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= estimate_tokens(text + " word")


def test_a_unit_ends_a_sentence_where_the_same_letters_as_a_title_do_not() -> None:
    assert sentences("It takes 150 ms. Move the call.") == ["It takes 150 ms.", "Move the call."]
    assert sentences("Ask Ms. Okafor first.") == ["Ask Ms. Okafor first."]
