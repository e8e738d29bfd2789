from __future__ import annotations

import pytest

from foveate.knowledge.items import item_id, same_words
from foveate.recall.scopes import Scope

SCOPE = Scope("project", "shop")


def test_an_id_is_the_same_in_every_run_and_different_for_each_scope_and_kind() -> None:
    one = item_id(SCOPE, "lesson", "Run make  test")
    assert one == item_id("project:shop", "lesson", "run make test ")
    assert one.startswith("k-")
    assert item_id(SCOPE, "topic", "tests").startswith("t-")
    others = {
        item_id(Scope("project", "web"), "lesson", "Run make test"),
        item_id(SCOPE, "profile", "Run make test"),
        item_id(SCOPE, "lesson", "Run make check"),
    }
    assert len({one, *others}) == 4


@pytest.mark.parametrize(
    ("one", "two", "least", "most"),
    [
        ("Run the tests with `make test`.", "Please run tests with `make test`", 0.7, 1.0),
        ("Always use tabs in Python files.", "Never use tabs in Python files.", 0.0, 0.0),
        ("Keep lines under 100 characters.", "Keep lines under 120 characters.", 0.0, 0.0),
        ("Deploy on Fridays", "The cache is stored in Redis", 0.0, 0.1),
        ("请使用制表符缩进", "请使用制表符缩进。", 0.9, 1.0),
        ("", "", 1.0, 1.0),
        ("…", "!!", 0.0, 0.0),
    ],
)
def test_texts_say_the_same_unless_a_negation_or_a_number_differs(
    one: str, two: str, least: float, most: float
) -> None:
    assert least <= same_words(one, two) <= most
    assert same_words(one, two) == same_words(two, one)
