"""One value is set and taken out again, in any file: the other bytes stay."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from foveate.connections import jsonc
from foveate.connections.changes import Change, apply, undo

KEYS = st.text(alphabet='ab"\\é/ ', min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\/*,{}[]', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
BLANKS = st.sampled_from(["", " ", "\n  ", " // a, {b}\n ", '/* "x": 1, */', "\r\n\t"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Objects in any layout, with comments and trailing commas."""

    def write(value: object) -> str:
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}{draw(BLANKS)}:{draw(BLANKS)}{write(one)}" for key, one in value.items()]
            return wrap("{", items, "}")
        if isinstance(value, list):
            return wrap("[", [write(one) for one in value], "]")
        return json.dumps(value)

    def wrap(opening: str, items: list[str], closing: str) -> str:
        has_comma: bool = draw(st.booleans())
        parts = [f"{draw(BLANKS)}{item}{draw(BLANKS)}" for item in items]
        comma = "," if parts and has_comma else ""
        return opening + ",".join(parts) + comma + draw(BLANKS) + closing

    return draw(BLANKS) + write(draw(st.dictionaries(KEYS, VALUES, max_size=4))) + draw(BLANKS)


@given(texts(), VALUES, st.booleans())
def test_a_value_set_and_undone_in_any_json_leaves_the_data_and_its_comments(
    text: str, value: object, appends: bool
) -> None:
    change = Change(("own key", "inner"), value, appends)  # type: ignore[arg-type]
    changed, applied = apply(jsonc, text, change)
    assert applied is not None
    kept = [line.strip() for line in text.splitlines() if line.strip().startswith("//")]
    assert all(line in changed for line in kept)
    undone = undo(jsonc, changed, [applied]).text
    assert jsonc.parse(undone) == jsonc.parse(text)
    assert all(line in undone for line in kept)


def test_the_last_of_two_equal_keys_is_the_one_that_programs_read() -> None:
    assert jsonc.parse(jsonc.set_value('{"a": 1, "a": 2}', ("a",), 3)) == {"a": 3}
