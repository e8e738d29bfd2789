# ruff: noqa: RUF001 (punctuation of many languages)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.strategy.topics.phrases import find_phrase, languages, load_phrases

ALL = load_phrases()


@pytest.mark.parametrize("language", languages())
def test_each_phrase_of_a_language_ends_a_topic_alone_and_before_more(language: str) -> None:
    phrases = load_phrases((language,))
    assert phrases.phrases
    for phrase in phrases.phrases:
        assert find_phrase(phrase.capitalize(), phrases), phrase
        assert find_phrase(f"{phrase}: something", phrases), phrase
        assert find_phrase(f"Hm! {phrase}, something.", phrases), phrase


@pytest.mark.parametrize(
    "text",
    [
        "New topic: taxes",
        "ok, thanks! Let’s move on.",
        "Great. And now, different question: why?",
        "**New topic**: taxes",
        "Perfecto. Cambiando de tema, ¿qué tal?",
        "好的。换个话题，你好吗？",
        "ありがとうございます。話は変わりますが、確定申告です。",
        "شكرا. موضوع جديد: الضرائب",
        "ठीक है। नया विषय: कर",
    ],
)
def test_what_a_user_says_of_a_new_topic_is_heard(text: str) -> None:
    assert find_phrase(text, ALL)


@pytest.mark.parametrize(
    "text",
    [
        "Let's move on to the next test in this file.",
        "New topic branch created",
        "The new topic is invoices.",
        'She said "let\'s change the subject" and left.',
        "```\nnew topic: x\n```\nWhy does this fail?",
        "> New topic: x\nHe wrote this.",
        "    new topic: x",
        "Does `new topic` match?",
        "“换个话题吧。”请翻译。",
        "One. Two. Three. Four. New topic: too late.",
        "",
    ],
)
def test_what_is_quoted_code_or_part_of_a_sentence_is_not(text: str) -> None:
    assert not find_phrase(text, ALL)


def test_languages_can_be_chosen_and_phrases_added() -> None:
    german = load_phrases(("de",))
    assert find_phrase("Neues Thema: Katzen", german)
    assert not find_phrase("New topic: cats", german)
    own = load_phrases((), ("Scene change",))
    assert find_phrase("scene change! Night.", own) == "scene change"
    assert not find_phrase("New topic: cats", own)


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(find_phrase(text, ALL), str)
