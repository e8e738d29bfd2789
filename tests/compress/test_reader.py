"""Chats keep who said what: names stay, captions come last, small talk goes first."""

from __future__ import annotations

import pytest

from foveate.compress.local import LocalCompressor
from foveate.compress.reader import split_label
from foveate.renditions import Renditions
from foveate.tokens import count_tokens
from foveate.turn import Attachment, Message, Text

CHAT = (
    "Thanks, Olga! That sounds great. Last Tuesday I sold the blue canoe to my neighbour for 340 euros, and now I'm "
    "looking for a used trailer in Lübeck. [shared photo: a picture of two wooden boats near a jetty with red flags]"
)


def compressed(*texts: str) -> Renditions:
    return LocalCompressor().compress(1, [Message("user", (Text(text),)) for text in texts], count_tokens)


@pytest.mark.parametrize("name", ["Anna", "Tim", "Sam", "Mark", "Jean-Luc"])
def test_every_rendition_begins_with_the_speaker(name: str) -> None:
    made = compressed(f"{name}: {CHAT}")
    assert all(text.startswith(f"{name}: ") for text in (made.compressed, made.tiny, made.brief))
    assert all(unit.text.startswith(f"{name}: ") for unit in made.units)


@pytest.mark.parametrize("text", ["Anna:  I'm here", "Anna:\nI'm here", "Will: I'm here!"])
def test_a_name_before_speech_is_the_speaker(text: str) -> None:
    label, said = split_label(text)
    assert (label, said[:3]) == (f"{text.partition(':')[0]}: ", "I'm")


@pytest.mark.parametrize("text", ["Deadline: 5 May", "Note: the server is down", "see: I told you", "Result: 3 failed"])
def test_an_entry_has_no_speaker(text: str) -> None:
    assert split_label(text) == ("", text)


def test_a_heading_of_an_answer_is_not_a_speaker() -> None:
    assert split_label("Plan: We deploy it on Monday.", is_answer=True)[0] == ""


def test_each_speaker_of_a_pasted_chat_keeps_the_own_words() -> None:
    made = compressed("Ingrid: I'm loving the harbour museum!\nTom: I prefer the planetarium near the old brewery.")
    assert made.compressed.splitlines()[-1].startswith("Tom: ")
    assert made.smoothed.index("Ingrid: ") < made.smoothed.index("Tom: ")
    two = compressed("Ingrid: I repaired the harbour crane yesterday.", "Petra: I painted the brewery gate in March.")
    assert "Petra: " in two.tiny
    assert two.tiny.index("Petra: ") < two.tiny.index("brewery")


def test_captions_come_after_what_was_said() -> None:
    made = compressed(f"Anna: {CHAT}")
    for text in (made.compressed, made.tiny):
        assert "canoe" in text
        assert "340 euros" in text
        assert "jetty" not in text
    assert "jetty" in compressed("Anna: Look! [shared photo: two boats near a jetty]").compressed


def test_a_caption_that_is_shown_in_part_keeps_its_brackets() -> None:
    caption = "[image: a narrow street with lanterns and a fountain in front of an abandoned theatre in the evening]"
    made = compressed(f"Anna: Here is where I grew up. {caption}")
    assert "[" in made.tiny
    assert made.tiny.count("[") == made.tiny.count("]")


def test_an_attachment_comes_after_what_was_said() -> None:
    parts = (Attachment("image", name="holiday-pictures-of-the-whole-family-2019.png"), Text(f"Anna: {CHAT}"))
    made = LocalCompressor().compress(1, [Message("user", parts)], count_tokens)
    assert "holiday" not in made.tiny


def test_small_talk_goes_before_a_statement() -> None:
    made = compressed(f"Anna: {CHAT}")
    for text in (made.compressed, made.tiny, made.brief):
        assert "Thanks" not in text
        assert "Olga" not in text
        assert "sounds great" not in text
    assert "Thanks" in compressed("Anna: Thanks, Olga!").compressed


def test_what_is_said_of_the_second_name_does_not_move_to_the_first() -> None:
    made = compressed(
        "I'm upgrading everything to the latest stable versions, specifically Flask 2.3.1, SQLAlchemy 2.0.19 and "
        "Chart.js 4.3.0, and wonder whether anyone has experience with this combination on a server without internet."
    )
    for text in (made.compressed, made.tiny, made.brief):
        assert "Flask 2.0" not in text
        assert "2.0.19" not in text or "SQLAlchemy 2.0.19" in text


def test_no_rendition_says_of_a_name_what_was_said_of_another_thing() -> None:
    made = compressed(
        "The card of Sunniva is broken. It is a 64 GB card, formatted in the camera on the 3rd, and 212 new pictures "
        "were taken after that. Thanks, I hope you had a lovely weekend with all of the family at the lake!"
    )
    assert "(Sunniva)" not in "".join((made.compressed, made.tiny, made.brief, *(unit.text for unit in made.units)))


def test_a_courtesy_is_a_unit_only_if_a_turn_has_nothing_else() -> None:
    both = compressed("Anna: On Monday we moved 104 crates of herring from Bergen to Stavanger. It was fun!")
    assert [unit.text for unit in both.units if "fun" in unit.text] == []
    assert [unit.text for unit in compressed("Anna: It was fun!").units] == ["Anna: It was fun!"]
