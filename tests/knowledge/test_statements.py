"""Statements of users in four languages, plain and sloppy."""

from __future__ import annotations

import pytest

from foveate.knowledge.own_words import own_words
from foveate.knowledge.statements import statements_in

STATED = """
rule|Always write commit messages in the imperative, and never squash merge on the release branch.
rule|Remember: production deploys only on Tuesdays between 10 and 12.
rule|dont ever call the prod database from a notebook
rule|no emojis pls
rule|Every PR needs two approvals.
rule|When you write SQL, use uppercase keywords.
rule|If a test fails twice, stop and ask me.
rule|No deploys on Fridays.
rule|Refunds above 200 EUR need approval from Maria.
rule|Two things for this repo: never push to main.
rule|If the customer mentions water, always tell them to switch off the fuse.
rule|Call me Sam.
preference|i hate long intros
preference|I'm allergic to peanuts.
convention|we use pnpm not npm
decision|We moved from Jenkins to GitHub Actions.
decision|We decided to go with Redis because Memcached has no persistence.
fact|My sister Anna lives in Lisbon.
fact|anna is our dba
fact|Tom owns the billing service.
fact|the standup is at 7:45
fact|standup is at 7:15, not 7:45
fact|our staging server runs on port 8443
fact|My daughter Mia turns 7 on 3 June.
rule|Nie direkt auf main pushen.
rule|Alle PRs brauchen zwei Reviews.
rule|freitags wird nicht deployed
fact|Meine Schwester Lena wohnt in Kiel.
fact|Der Vertrag endet am 30. Juni.
rule|Ne déploie jamais le vendredi.
rule|tjrs répondre en français stp
preference|Je préfère les réponses courtes.
fact|La réunion est à 9h15, pas à 9h45.
rule|no despliegues los viernes
preference|Soy alérgica a las nueces.
convention|Usamos pnpm, no npm.
""".strip().splitlines()
NOT_STATED = """
We spent the summer at the beach where we always went.
the beach where we always went.
When I was a kid we always went to the beach.
Write a short story about a captain who never sleeps.
He always says never trust a cache.
The readme says always run make check.
My boss said never deploy on Fridays.
Should we always pin the image by digest?
should we always use types
If I were rich I would never cook again.
Imagine a customer who says you should never charge for shipping.
Translate: "Always wash your hands."
Use the Spinner instead of the inlined custom spinner.
The staging box is down today, so run everything locally for now.
Don't run it yet.
my code is broken
the build is red
the function returns 3 instead of 4
The error is in orders.py line 12.
you never listen lol
exactly, lol
I'm going to bed now
Früher sind wir immer ans Meer gefahren.
Mein Chef sagt, nie freitags deployen.
Si j'habitais à Oslo, je ne traduirais plus jamais.
Mi jefe dice que nunca despleguemos los viernes.
""".strip().splitlines()


@pytest.mark.parametrize("line", STATED)
def test_what_a_person_states_is_found_in_plain_and_sloppy_words(line: str) -> None:
    kind, _, text = line.partition("|")
    found = statements_in(own_words(text))
    assert found, text
    assert kind in {statement.kind for statement in found}


@pytest.mark.parametrize("text", NOT_STATED)
def test_stories_questions_hearsay_and_orders_for_one_task_state_nothing(text: str) -> None:
    assert statements_in(own_words(text)) == ()


def test_text_that_a_person_asks_to_check_or_translate_is_not_theirs() -> None:
    prompt = "Mr Brandl wrote this, can you check it?\n\nEverybody must change passwords. Never send them by mail."
    assert statements_in(own_words(prompt)) == ()
    kept = "Please fix the export.\n\nAlso: never deploy on Fridays."
    assert [statement.kind for statement in statements_in(own_words(kept))] == ["rule"]


def test_a_correction_and_a_change_are_marked_as_such() -> None:
    texts = ("sorry, not 7:45, 7:15", "we live in York now", "production is on PostgreSQL 16 now", "We use pnpm.")
    assert [[statement.is_change for statement in statements_in(text)] for text in texts[:3]] == [[True]] * 3
    assert [statement.is_change for statement in statements_in(texts[3])] == [False]


def test_two_sentences_make_one_statement_if_the_second_says_what_has_changed() -> None:
    (found,) = statements_in("We also extended the warranty. It's seven years on the compressor.")
    assert "warranty" in found.text
    assert "seven years" in found.text


@pytest.mark.parametrize("text", ["", " ", "\n\n", "?", "…", "`", "never", "a" * 100_000, "never " * 5_000, "«" * 400])
def test_text_without_a_sentence_states_nothing(text: str) -> None:
    assert statements_in(own_words(text)) == ()
