"""Standing orders: what a person tells a model to do from now on."""

from __future__ import annotations

import pytest

from foveate.compress.orders import has_standing_order


@pytest.mark.parametrize(
    "text",
    [
        "Always use SI units when I ask about distances.",
        "That is all. Please never touch the public API.",
        "From now on, answer in French.",
        "Bitte antworte immer auf Deutsch.",
    ],
)
def test_a_sentence_that_orders_for_the_future_is_found(text: str) -> None:
    assert has_standing_order(text)


@pytest.mark.parametrize(
    "text",
    ["I always use SI units.", "Always happy to help!", "Never tried it? It is good.", "Use SI units here.", ""],
)
def test_stories_and_questions_are_no_orders(text: str) -> None:
    assert not has_standing_order(text)
