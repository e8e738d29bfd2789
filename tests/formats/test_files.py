"""A JSON list is read element by element, exactly, and as far as it goes."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.formats import TranscriptProblem
from foveate.formats import files as _arrays
from foveate.formats.files import array_elements
from foveate.turn import MAX_NESTING, Json
from support.transcripts import deep

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Dripping(io.BytesIO):
    """A stream that gives as little at a time as it pleases."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size)


def elements(content: bytes, size: int = 65_536) -> list[Json | TranscriptProblem]:
    return [
        item if isinstance(item, TranscriptProblem) else item[1]
        for item in array_elements(Dripping(content, size), "record")
    ]


@given(st.lists(any_json, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_any_list_is_read_exactly_however_the_bytes_arrive(
    values: list[Json], size: int, indent: int | None, ascii_only: bool
) -> None:
    try:
        content = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8, only an escape
        content = json.dumps(values, indent=indent).encode()
    assert elements(content, size) == values


def test_a_lone_surrogate_stays_what_it_is() -> None:
    assert elements(rb'["\ud83d", "\ud83d\ude00"]', 3) == ["\ud83d", "😀"]


def test_numbers_are_as_python_reads_them_and_none_is_cut_in_two() -> None:
    values = elements(b"[12345, -1.5e3, 0, NaN, -Infinity]", 1)
    assert values[:3] == [12345, -1500.0, 0]
    assert isinstance(values[3], float)
    assert math.isnan(values[3])


@given(st.integers(0, 60), st.integers(1, 20))
def test_of_a_cut_off_file_the_elements_before_the_cut_are_read_and_the_cut_is_reported(cut: int, size: int) -> None:
    content = json.dumps([{"a": 1}, "text", [True, None], {"b": "long enough to be cut"}]).encode()
    items = elements(content[:cut], size)
    assert isinstance(items[-1], TranscriptProblem)
    assert "cut off" in items[-1].reason
    assert items[:-1] == json.loads(content)[: len(items) - 1]


def test_elements_before_invalid_utf8_are_read_and_the_byte_is_named() -> None:
    content = b'[{"a": 1}, {"b": "x\xff"}, {"c": 3}]'
    for size in (1, 7, 1000):
        first, problem = elements(content, size)
        assert first == {"a": 1}
        assert isinstance(problem, TranscriptProblem)
        assert problem.place == "record 2"
        assert f"invalid UTF-8 at byte {content.index(0xFF)}" in problem.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut off"),
        (b"  \n", "cut off"),
        (b"[", "cut off"),
        (b'{"a": 1}', "not a JSON list"),
        (b"[1 2]", "a comma was expected"),
        (b"[1,]", "a value was expected"),
        (b'[{"a" 1, "and": "much more text after it"}]', "invalid JSON"),
        (b"[1] 2", "more text follows"),
        (b"[1]\xff", "more text follows"),
        (b"[" + b"9" * 5000 + b"]", "invalid JSON"),
        (f"[{deep(100_000)}]".encode(), "nested too deeply"),
    ],
)
def test_what_is_no_list_is_a_problem(content: bytes, reason: str) -> None:
    problem = elements(content)[-1]
    assert isinstance(problem, TranscriptProblem)
    assert reason in problem.reason


def test_an_element_nested_too_deeply_for_the_store_is_passed_over() -> None:
    first, problem, last = elements(f"[1, {deep(MAX_NESTING + 2)}, 3]".encode())
    assert (first, last) == (1, 3)
    assert problem == TranscriptProblem("record 2", "nested too deeply")


def test_an_element_beyond_the_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "MAX_ELEMENT_CHARACTERS", 1000)
    first, problem = elements(json.dumps(["a", "b" * 9000]).encode(), 100)
    assert first == "a"
    assert isinstance(problem, TranscriptProblem)
    assert "longer than 1,000 characters" in problem.reason


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert elements(b"\xef\xbb\xbf[1]", 1) == [1]


class Endless(io.BytesIO):
    """A list without an end, and how much of it was asked for."""

    def __init__(self, element: bytes) -> None:
        super().__init__()
        self._element = element
        self.asked_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        begins = self.asked_bytes == 0
        self.asked_bytes += len(self._element)
        return (b"[" if begins else b"") + self._element


def test_no_more_is_read_than_the_next_element_needs() -> None:
    stream = Endless(b'{"a": "b"},' * 100)
    items = array_elements(stream, "record")
    for _ in range(1000):
        next(items)
    assert stream.asked_bytes < 12 * 1200
