"""JSON keeps its values and loses its punctuation."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from foveate.turn import Json
from support.exchanges import smoothed, summary

FLIGHTS = [{"flight": f"HAT{n}", "day": "2024-05-20", "price": {"economy": n, "business": 2 * n}} for n in range(3)]
scalars = st.integers(0, 10_000) | st.sampled_from(("JFK", "SEA", "no", "on time", "a: b", "x, y", "2024-05-20"))
rows = st.fixed_dictionaries({"id": scalars, "state": scalars})
data = st.one_of(
    st.lists(rows, max_size=5),
    st.dictionaries(st.sampled_from("abcdef"), scalars | rows | st.lists(rows | scalars, max_size=4), max_size=6),
    st.lists(st.lists(rows, min_size=1, max_size=3), max_size=3),
)


def leaves(value: Json) -> set[str]:
    if isinstance(value, dict):
        return {leaf for child in value.values() for leaf in leaves(child)}
    if isinstance(value, list):
        return {leaf for child in value for leaf in leaves(child)}
    return {str(value)}


def test_an_object_is_told_by_its_telling_values() -> None:
    user: Json = {"name": {"first": "Mia"}, "status": "active", "user_id": "mia_li", "note": "x"}
    assert summary("get_user", {"user_id": "mia_li"}, json.dumps(user)) == "{get_user mia_li: status active, note x}"


def test_a_list_is_told_by_its_length_and_keys() -> None:
    said = summary("search_flights", {"origin": "JFK", "to": "SEA"}, json.dumps(FLIGHTS))
    assert said == "{search_flights JFK SEA: 3 items of flight, day, price}"


def test_records_make_a_table_and_what_they_share_is_said_once() -> None:
    assert smoothed("search_flights", {}, json.dumps(FLIGHTS)) == [
        "all: day: 2024-05-20",
        "flight | price economy/business",
        "HAT0 | 0/0",
        "HAT1 | 1/2",
        "HAT2 | 2/4",
    ]


@given(data)
def test_every_value_of_ordinary_data_survives(value: Json) -> None:
    shown = re.sub(r"\s+", " ", " ".join(smoothed("tool", {}, json.dumps(value))))
    assert all(leaf in shown for leaf in leaves(value))


def test_what_the_call_asked_with_is_not_repeated() -> None:
    assert smoothed("get", {"id": "A1"}, '{"id": "A1", "state": "open"}') == ["state: open"]
