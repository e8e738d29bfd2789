"""A text is found and replaced in every form in which JSON can write it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from foveate.store.redaction import MARK, Redactor

texts = st.text(st.sampled_from('a"\\/\nné😀<u0'), min_size=1, max_size=8)


@given(texts, st.lists(st.booleans(), max_size=3))
def test_a_text_is_found_inside_strings_of_json_inside_strings_of_json(text: str, levels: list[bool]) -> None:
    written = f"zz{text}zz"
    for is_ascii in levels:
        written = json.dumps(written, ensure_ascii=is_ascii)
    redactor = Redactor(text)
    assert redactor.is_in(written)
    assert redactor.is_in(written.encode())
    assert MARK in redactor.text(written)


@given(texts.filter(lambda text: "z" not in text))
def test_the_rest_of_a_text_stays(text: str) -> None:
    assert Redactor(text).text(f"zz{text}zz") == f"zz{MARK}zz"
