from __future__ import annotations

import gzip
import hashlib
import math
import re
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator
from importlib.resources import files

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken import Encoding

from foveate import tokens
from foveate.errors import FoveateError
from foveate.tokens import (
    COUNTERS,
    ENCODINGS,
    MAX_CALIBRATION,
    MIN_CALIBRATION,
    MIN_CALIBRATION_TOKENS,
    SHA256,
    EncodingName,
    calibrate,
    count_tokens,
    counter_for,
)
from support.examples import times

# (text, o200k_base, cl100k_base)
GOLDEN = [
    ("", 0, 0),
    ("hello world", 2, 2),
    ("tiktoken is great!", 6, 6),
    ("antidisestablishmentarianism", 6, 6),
    ("2 + 2 = 4", 7, 7),
    ("1234567890", 4, 4),
    ("お誕生日おめでとう", 8, 9),
    ("Привет, мир", 4, 6),
    ("नमस्ते दुनिया", 5, 13),
    ("مرحبا بالعالم", 4, 10),
    ("🎉👩🏾\u200d💻", 9, 13),
    ("def f(x):\n    return x + 1\n", 11, 11),
    ('{"a": [1, 2.5, null]}', 13, 13),
    ("<|endoftext|>", 7, 7),
    ("\x00\x00", 1, 2),
    ("\r\n\r\n  \t x", 3, 3),
    ("don't we'll I'VE", 4, 7),
    ("https://example.com/a?b=c#d", 10, 10),
    (" " * 100, 2, 2),
    ("a" * 100, 13, 13),
]

encodings = st.sampled_from(ENCODINGS)

# Text made of what the patterns tell apart: cases, marks, numbers, contractions, every kind of space and line end.
WORDS = [
    "a",
    "b",
    "Z",
    "word",
    " word",
    "Word",
    "WORD",
    "\xdf",
    "\u01c5",
    "\u02b0",
    "\u4e2d",
    "\u306e",
    "\xe9",
    "e\u0301",
]
NUMBERS = ["1", "x1", "12345", "\u0661", "\xbd", "\u2167", "\U0001d7d7"]
SIGNS = [
    "'",
    "'s",
    "'LL",
    "'\u017f",
    "\u2019",
    "/",
    "//",
    "_",
    "-",
    ".",
    ",",
    "[",
    "<",
    "(",
    "{",
    "^",
    "\u20ac",
    "\u3002",
]
SPACES = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\x85",
    "\xa0",
    "\u2028",
    "\u3000",
]
OTHERS = ["\u0301", "\U0001f389", "\u200d", "\u200b", "\ufeff", "\ufffd", "\x00", "\ud800", "\udc00", "foo.bar(baz)"]
atoms = st.sampled_from([*WORDS, *NUMBERS, *SIGNS, *SPACES, *OTHERS])
texts = st.one_of(st.text(st.characters(exclude_categories=()), max_size=40), st.lists(atoms, max_size=30).map("".join))


@pytest.mark.parametrize(("text", "o200k", "cl100k"), GOLDEN)
def test_counts_are_those_of_openai(text: str, o200k: int, cl100k: int) -> None:
    assert count_tokens(text) == o200k
    assert count_tokens(text, "cl100k_base") == cl100k


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_shipped_vocabularies_are_the_published_ones(name: EncodingName) -> None:
    packed = files("foveate").joinpath("vocabularies", f"{name}.tiktoken.gz").read_bytes()
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == SHA256[name]


def test_a_damaged_vocabulary_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_loaded", {})
    monkeypatch.setitem(SHA256, "cl100k_base", "0" * 64)
    with pytest.raises(FoveateError, match=r"cl100k_base.*install foveate again"):
        count_tokens("x", "cl100k_base")


def test_importing_loads_neither_tiktoken_nor_its_dependencies() -> None:
    program = "import sys, foveate.tokens; print(*{'tiktoken', 'regex', 'requests', 'gzip'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_counting_opens_no_connection() -> None:
    program = (
        "import socket\n"
        "def refuse(*args, **kwargs): raise AssertionError('a connection was tried')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from foveate.tokens import count_tokens, counter_for\n"
        "print(count_tokens('hello world'), count_tokens('hello world', 'cl100k_base'), counter_for('gpt-5').name)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["2", "2", "o200k_base"]


def test_threads_that_count_first_at_once_load_a_vocabulary_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = tokens._load

    def noted_load(name: EncodingName) -> Encoding:
        loads.append(name)
        return load(name)

    monkeypatch.setattr(tokens, "_loaded", {})
    monkeypatch.setattr(tokens, "_load", noted_load)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(count_tokens("hello world"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] * 8
    assert loads == ["o200k_base"]


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800", "x\ud83d"])
def test_a_lone_surrogate_counts_as_a_replacement_character(text: str, name: EncodingName) -> None:
    replaced = "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
    assert count_tokens(text, name) == count_tokens(replaced, name)


@settings(max_examples=times(50), deadline=None)
@given(left=texts, right=texts, start=st.sampled_from("[<aZ09") | st.characters(exclude_categories=()), name=encodings)
@example(left="a !\r", right="", start="[", name="o200k_base")
@example(left="x  \n \t\u3000", right="/", start="<", name="cl100k_base")
def test_counts_add_up_after_a_line_end_before_anything_but_a_space_or_slash(
    left: str, right: str, start: str, name: EncodingName
) -> None:
    if start.isspace() or start == "/":
        start = "["
    before, after = left + "\n", start + right
    assert count_tokens(before, name) + count_tokens(after, name) == count_tokens(before + after, name)


def test_counts_do_not_add_up_before_a_space_or_a_slash() -> None:
    assert count_tokens("x\n") + count_tokens("\nx") != count_tokens("x\n\nx")
    assert count_tokens("x,\n") + count_tokens("//x") != count_tokens("x,\n//x")


def _cuts(text: str) -> Iterator[int]:
    return (place.end() for place in re.finditer(tokens._PIECE_END, text))


@settings(max_examples=times(50), deadline=None)
@given(text=texts, name=encodings)
def test_counts_add_up_wherever_long_text_may_be_cut(text: str, name: EncodingName) -> None:
    whole = count_tokens(text, name)
    for cut in _cuts(text):
        assert count_tokens(text[:cut], name) + count_tokens(text[cut:], name) == whole


@settings(max_examples=times(40), deadline=None)
@given(words=st.lists(texts.map(lambda text: text[:12]), min_size=4, max_size=60), name=encodings)
def test_a_text_counted_in_chunks_counts_as_one(words: list[str], name: EncodingName) -> None:
    text = "".join(f"{word}x y" for word in words)
    assert count_tokens(text, name, chunk_chars=16) == count_tokens(text, name)


@settings(max_examples=times(40), deadline=None)
@given(
    unit=st.sampled_from(["a", "A", "中", "^", "=", "1", "\u0301", "🎉", " ", "\n", "\t", "\r\n"]),
    length=st.integers(0, 3000),
)
def test_an_unbroken_run_is_off_by_at_most_two_tokens_a_cut(unit: str, length: int) -> None:
    text = unit * length
    for name in ENCODINGS:
        cuts = sum(1 for _ in tokens._chunks(text, 100)) - 1
        assert abs(count_tokens(text, name, chunk_chars=100) - count_tokens(text, name)) <= 2 * cuts


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("unit", ["a", "A", " ", "\n", "^", "1", "\u0301", "中", " \n", "\ud800"])
def test_many_of_one_character_neither_crashes_nor_loses_count(unit: str, name: EncodingName) -> None:
    one = count_tokens(unit * 10_000, name)
    assert count_tokens(unit * 200_000, name) == pytest.approx(20 * one, rel=0.02)


def test_what_python_takes_for_a_letter_or_number_is_one_to_the_patterns() -> None:
    alike = {unicodedata.category(char)[0] for char in map(chr, range(sys.maxunicode + 1)) if char.isalnum()}
    assert alike == {"L", "N"}


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("o200k_base", "gpt-5 gpt-5.1-codex gpt-4o gpt-4o-mini gpt-4.1 gpt-4.5 o1 o3-mini o4 o4-mini chatgpt-4o"),
        ("o200k_base", "openai:gpt-5 openai/gpt-4o gpt-oss:20b openai.gpt-oss-120b-1:0 ft:gpt-4o:x::y GPT-5"),
        ("cl100k_base", "gpt-4 gpt-4-turbo gpt-3.5-turbo gpt-3.5-turbo-16k azure/gpt-35-turbo text-embedding-3-small"),
        ("claude-4", "claude-sonnet-4-5 anthropic/claude-opus-4.6 claude-sonnet-4-20250514 claude-opus-4-1-20250805"),
        ("claude-4", "us.anthropic.claude-3-5-sonnet-20241022-v2:0 claude-opus-4@20250514 claude-2.1 claude-sonnet-4"),
        ("claude", "claude claude-opus-4-7 claude-opus-4.8 claude-opus-4-10 anthropic:claude-sonnet-5"),
        ("gemini", "google/gemini-2.5-pro models/gemini-3 gemma-3-27b"),
        ("llama3", "meta-llama/Llama-3.1-8B llama3:8b accounts/fireworks/models/llama-v3p1-8b llama-4-scout"),
        ("mistral", "mistral-large mistralai/Mixtral-8x7B codestral devstral open-mixtral-8x7b"),
        ("qwen", "Qwen/Qwen3-32B qwen-max QwQ-32B qwen3@https://llm.example.com/v1 local:/models/qwen3.gguf"),
        ("deepseek", "deepseek-chat deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
        ("smollm", "HuggingFaceTB/SmolLM2-135M-Instruct smollm2@http://127.0.0.1:8080/v1 local local:2048"),
        ("generic", "grok-4 llama-2-7b codellama davinci gpt-6 some-model /"),
    ],
)
def test_a_model_name_finds_the_counter_of_its_family(name: str, models: str) -> None:
    assert {model: counter_for(model).name for model in models.split()} == dict.fromkeys(models.split(), name)


def test_without_a_model_counts_are_those_of_o200k() -> None:
    assert counter_for(None).name == "o200k_base"
    assert counter_for(None).exact
    assert counter_for("").name == "generic"


@given(st.text())
def test_any_model_name_has_a_counter(model: str) -> None:
    assert counter_for(model) in COUNTERS


def test_an_unknown_model_gets_the_largest_factor() -> None:
    assert counter_for("unheard-of").factor == max(counter.factor for counter in COUNTERS)


def test_every_counter_states_its_error_and_only_exact_ones_have_factor_one() -> None:
    for counter in COUNTERS:
        assert counter.factor >= 1
        assert (counter.factor == 1) == counter.exact
        assert len(counter.measured) > 20
    assert len({counter.name for counter in COUNTERS}) == len(COUNTERS)


@given(base=st.integers(0, 2**50))
def test_an_exact_counter_scales_nothing(base: int) -> None:
    assert counter_for("gpt-5").scale(base) == base


@given(
    counter=st.sampled_from(COUNTERS),
    parts=st.lists(st.integers(0, 10**7), min_size=1),
    calibration=st.floats(1, MAX_CALIBRATION),
)
def test_scaling_never_goes_below_the_base_and_parts_never_below_their_sum(
    counter: tokens.Counter, parts: list[int], calibration: float
) -> None:
    whole = counter.scale(sum(parts), calibration)
    assert whole >= sum(parts)
    assert whole <= sum(counter.scale(part, calibration) for part in parts)


def test_scaling_rounds_up_but_not_for_a_rounding_error() -> None:
    llama = counter_for("llama3")
    assert [llama.scale(base) for base in (0, 1, 10, 100, 101)] == [0, 2, 11, 110, 112]
    assert llama.count("hello world") == 3


@given(
    factor=st.floats(),
    counted=st.integers(-10, 10**6),
    reported=st.integers(-10, 10**7),
)
def test_calibration_stays_in_its_bounds(factor: float, counted: int, reported: int) -> None:
    exact = calibrate(factor, counted_tokens=counted, reported_tokens=reported)
    assert 1 <= exact <= MAX_CALIBRATION
    estimated = calibrate(factor, counted_tokens=counted, reported_tokens=reported, is_exact=False)
    assert MIN_CALIBRATION <= estimated <= MAX_CALIBRATION


def test_calibration_tightens_at_once_and_loosens_slowly_to_a_margin() -> None:
    factor = calibrate(1.0, counted_tokens=1_000, reported_tokens=2_000, is_exact=False)
    assert factor == 2
    once = calibrate(factor, counted_tokens=1_000, reported_tokens=600, is_exact=False)
    assert 1.9 < once < 2
    for _ in range(300):
        factor = calibrate(factor, counted_tokens=1_000, reported_tokens=600, is_exact=False)
    assert factor == pytest.approx(0.66, abs=0.01)
    assert calibrate(factor, counted_tokens=1_000, reported_tokens=700, is_exact=False) == 0.7


@given(factor=st.floats(1, MAX_CALIBRATION), counted=st.integers(MIN_CALIBRATION_TOKENS, 10**6), ratio=st.floats(1, 3))
def test_a_calibrated_count_covers_what_was_reported(factor: float, counted: int, ratio: float) -> None:
    reported = int(counted * ratio)
    new = calibrate(factor, counted_tokens=counted, reported_tokens=reported)
    assert math.ceil(round(counted * new, 6)) >= reported


@pytest.mark.parametrize(("counted", "reported"), [(0, 100), (-5, 100), (1000, 0), (1000, -1), (10, 25)])
def test_a_nonsense_report_and_a_tiny_prompt_change_nothing(counted: int, reported: int) -> None:
    assert calibrate(1.2, counted_tokens=counted, reported_tokens=reported) == 1.2


def test_an_upper_bound_is_exact_for_what_a_model_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The tide table lists berth 17 with a depth of 9 metres.\n" * 5_000
    exact = tokens.O200K.base(text)
    assert tokens.O200K.upper_bound(text) == exact
    monkeypatch.setattr("foveate.tokens.MAX_COUNTED_TOKENS", 1_000)
    assert tokens.O200K.upper_bound(text) > exact
    assert tokens.O200K.upper_bound("é" * 100_000) >= tokens.O200K.base("é" * 100_000)
