"""Parts of a clause that order or forbid are found by their form, in words that no list has."""

from __future__ import annotations

import pytest

from foveate.compress.cues import bare
from foveate.compress.urgency import ORDERED, is_plea, urgency


def urgency_of(text: str) -> float:
    words = text.split()
    return urgency(words, [bare(word) for word in words])


@pytest.mark.parametrize(
    "text",
    [
        "Postpone the launch by two weeks.",
        "and then notify the customers",
        "Purge all snapshots.",
        "First drain the queue,",
        "Water the plants on Tuesday.",
        "Prices need to be rounded.",
        "The key is to be returned by noon.",
        "You are not to share the link.",
        "The report is due on Friday.",
        "You'd better test it on staging.",
        "I'd like you to translate the letter.",
        "We want the logo in the corner.",
        "Photos are not permitted.",
        "Bikes aren't allowed here.",
        "The cellar is off limits.",
        "Under no circumstances open the valve.",
        "No changes to the database.",
        "Only admins can delete projects.",
        "Der Bericht soll am Freitag fertig sein.",
        "Verwende nur kleine Buchstaben.",
        "Verwenden Sie keine Abkürzungen.",
        "Auf keinen Fall den Schlüssel weitergeben.",
        "Veuillez envoyer le contrat.",
        "Les fichiers doivent rester privés.",
        "Ne touchez pas la configuration.",
        "Utilisez le modèle bleu.",
        "Hay que cerrar la puerta.",
        "No uses la tarjeta azul.",
    ],
)
def test_orders_are_found_by_their_form(text: str) -> None:
    assert urgency_of(text) == ORDERED


@pytest.mark.parametrize(
    "text",
    [
        "The launch was postponed by two weeks.",
        "Yesterday the printer broke.",
        "Near the station the rain began.",
        "Last the director spoke.",
        "Following the talk a discussion began.",
        "Love the new design.",
        "Like the others they came late.",
        "Two of the files are new.",
        "and Anna the baker came",
        "Der Vertrag kam am Montag.",
        "El informe llegó ayer.",
    ],
)
def test_statements_are_no_orders(text: str) -> None:
    assert urgency_of(text) == 1


def test_denials_and_advice_are_no_orders() -> None:
    assert urgency_of("The printer has no paper.") == 1
    assert urgency_of("It is important that the name stays.") == 1


def test_a_plea_makes_an_order_of_what_follows() -> None:
    assert is_plea(["por", "favor"])
    assert urgency(["envía", "informe"], ["envía", "informe"], after_plea=True) == ORDERED
