"""What a context still has of a history: facts by age, and needles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foveate.context.context import Segment
from foveate.replay.report import fact_book, forms_of, plain, said_last

TALK = [
    "[user] The proxy listens on port 8443.\n",
    "[user] We call the release Skerry.\n",
    "[user] Is the proxy on port 8443 still?\n",
    "[user] Delete tariff_old.csv now.\n",
]


def shown(*texts: str) -> list[Segment]:
    return [Segment("history", 1, is_stable=True, level="R", first=1, last=1, text=text) for text in texts]


def test_a_fact_counts_once_where_it_was_said_last() -> None:
    book = fact_book(TALK)
    assert (book.first["8443"], book.last["8443"]) == (1, 3)
    assert book.last["skerry"] == 2
    assert [share.least for share in book.by_age(forms_of([]))] == [0, 1, 2]


def test_all_facts_of_what_is_shown_are_kept_and_none_of_what_is_not() -> None:
    book = fact_book(TALK)
    assert book.known_share(forms_of(shown(*TALK)), 4) == 1.0
    assert book.known_share(forms_of([]), 4) == 0.0
    newest = forms_of(shown(TALK[3]))
    assert [share.kept for share in book.by_age(newest)] == [1.0, 0.0, 0.0]


def test_facts_that_are_not_said_yet_are_not_missed() -> None:
    book = fact_book(TALK)
    forms = forms_of(shown(TALK[0]))
    assert book.known_share(forms, 1) == 1.0
    assert book.known_share(forms, 4) < 1.0


def test_the_explanation_says_nothing_of_the_history() -> None:
    explained = [Segment("explanation", 1, is_stable=True, text="port 8443")]
    assert forms_of(explained) == frozenset()


def test_a_history_without_facts_has_lost_none() -> None:
    assert fact_book([]).known_share(frozenset(), 0) == 1.0
    assert fact_book([]).by_age(frozenset()) == ()


@given(st.lists(st.lists(st.sampled_from(["port_1", "Skerry", "8443", "/etc/x/y", "tariff"]), max_size=4), max_size=40))
def test_ages_cover_every_fact_exactly_once(turns: list[list[str]]) -> None:
    book = fact_book([" ".join(words) for words in turns])
    shares = book.by_age(frozenset(book.weights))
    assert sum(share.facts for share in shares) == len(book.weights)
    assert all(share.kept == 1.0 for share in shares)
    bounds = [bound for share in shares for bound in (share.least, share.most)]
    assert bounds == sorted(bounds)


def test_a_needle_is_found_whatever_its_case_and_its_spaces() -> None:
    assert said_last(["[user] The  Port\nis 8443", "x"], ["the port is", "8444"]) == [1, None]
    assert plain(" A\tb ") == "a b"
