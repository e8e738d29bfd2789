"""A text is found and replaced in every form in which JSON can write it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from foveate.store.redaction import MARK, Redactor
from foveate.turn import Json, Message, Opaque

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


@given(texts, texts, st.integers(0, 3), st.integers(1, 80))
def test_a_long_text_is_replaced_as_a_short_one(beginning: str, ending: str, levels: int, times: int) -> None:
    written = f"zz{beginning * times}{ending}zz"
    for _ in range(levels):
        written = json.dumps(written)
    redactor = Redactor(beginning * times + ending)
    assert redactor.is_in(written.encode())
    assert MARK in redactor.text(written)
    assert not redactor.is_in(redactor.text(written))


def test_a_text_of_a_megabyte_is_found_and_another_with_its_beginning_is_not() -> None:
    text = "\n".join(f'{number}: "Mr Müller" \\ line' for number in range(40_000))
    redactor = Redactor(text)
    assert redactor.text(json.dumps({"said": text})) == json.dumps({"said": MARK})
    assert not redactor.is_in(json.dumps({"said": text[:-1]}).encode())


def test_a_field_of_a_format_is_replaced_unless_it_is_one_word() -> None:
    redactor = Redactor("search")
    item: Json = {"type": "search", "status": "the search failed", "detail": [{"msg": "search"}]}
    (part,) = redactor.message(Message("assistant", (Opaque("openai-responses", item),))).parts
    replaced: Json = {"type": "search", "status": f"the {MARK} failed", "detail": [{"msg": MARK}]}
    assert part == Opaque("openai-responses", replaced)
    assert redactor.value(item) == replaced
    assert redactor.is_said({"status": "the search failed"})
    assert not redactor.is_said({"type": "search"})
