"""Images and files are counted by the rules that providers document."""

from __future__ import annotations

import base64
import struct

import pytest

from foveate.formats.media_tokens import image_rule, image_size, media_note, media_tokens
from foveate.formats.sizes import SentSizes
from foveate.tokens import O200K
from foveate.turn import Attachment, Message, Text, ToolCall


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(width: int, height: int, size: int = 0) -> str:
    return encoded(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x00" * size)


HEADERS = {
    "png": png(1_920, 1_080),
    "gif": encoded(b"GIF89a" + struct.pack("<HH", 1_920, 1_080)),
    "jpeg": encoded(
        b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\x00" * 10 + b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 1_080, 1_920)
    ),
    "webp lossy": encoded(b"RIFF....WEBPVP8 " + b"." * 10 + struct.pack("<HH", 1_920, 1_080)),
    "webp lossless": encoded(b"RIFF....WEBPVP8L....\x2f" + struct.pack("<I", 1_919 | 1_079 << 14)),
    "webp extended": encoded(
        b"RIFF....WEBPVP8X" + b"." * 8 + (1_919).to_bytes(3, "little") + (1_079).to_bytes(3, "little")
    ),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_width_and_height_come_from_the_header(kind: str) -> None:
    assert image_size(HEADERS[kind]) == (1_920, 1_080)


@pytest.mark.parametrize("data", ["", "!!!", encoded(b"BM"), encoded(b"....ftypheic" + b"." * 40)])
def test_an_image_whose_size_is_unknown_counts_the_most_that_its_model_takes(data: str) -> None:
    image = Attachment("image", data=data, media_type="image/png")
    assert media_tokens(image, image_rule("claude-sonnet-4-5"), O200K.count) == 1_600


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF....WEBP"])
def test_an_image_that_ends_before_its_size_counts_the_least_that_its_model_takes(start: bytes) -> None:
    image = Attachment("image", data=encoded(start), media_type="image/png")
    assert media_tokens(image, image_rule("claude-sonnet-4-5"), O200K.count) == 1


@pytest.mark.parametrize("model", [None, "gpt-4o", "claude-opus-5-5", "gemini-3-pro", "mistral-large", "qwen3"])
def test_an_image_that_is_only_linked_counts_its_maximum_once_whatever_the_factor_of_text(model: str | None) -> None:
    linked = Attachment("image", uri="https://example.com/a.png")
    sizes = SentSizes.of(model)
    counted = sizes.counter.scale(sizes.extra_tokens([Message("user", (linked,))]))
    assert image_rule(model).limit <= counted <= image_rule(model).limit + 2 * sizes.counter.count(linked.uri or "") + 9


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("gpt-4o", 1_024, 1_024, 765),
        ("gpt-4o", 2_048, 4_096, 1_105),
        ("gpt-4.1-mini", 1_024, 1_024, 1_659),
        ("gpt-6", 4_032, 3_024, 14_364),
        ("claude-sonnet-4-5", 1_092, 1_092, 1_590),
        ("claude-opus-5-5", 1_920, 1_080, 2_765),
        ("claude-opus-5-5", 4_032, 3_024, 4_784),
        ("gemini-2.5-flash", 384, 384, 258),
        ("gemini-2.5-flash", 1_024, 1_024, 1_032),
        ("gemini-3-pro", 4_032, 3_024, 1_120),
        (None, 64, 64, 1_120),
    ],
)
def test_an_image_counts_by_the_rule_of_its_model(model: str | None, width: int, height: int, tokens: int) -> None:
    image = Attachment("image", data=png(width, height), media_type="image/png")
    assert media_tokens(image, image_rule(model), O200K.count) == tokens


def test_a_text_file_counts_its_text_and_a_pdf_its_pages() -> None:
    rule = image_rule("gpt-4o")
    text = Attachment("file", data=encoded(b"one two three"), media_type="text/plain")
    pages = Attachment("file", data=encoded(b"%PDF /Type /Page /Type/Page /Type /Pages"), media_type="application/pdf")
    assert media_tokens(text, rule, O200K.count) == 3
    assert media_tokens(pages, rule, O200K.count) == 2 * (3_000 + 85 + 4 * 170)


def test_sound_counts_its_seconds() -> None:
    wave = b"RIFF....WAVEfmt " + b"\x00" * 12 + struct.pack("<I", 32_000)
    sound = Attachment("audio", data=encoded(wave + b"\x00" * (63_999 - len(wave))), media_type="audio/wav")
    assert media_tokens(sound, image_rule(None), O200K.count) == 64


def test_a_note_says_the_size_and_the_way_to_get_it() -> None:
    image = Attachment("image", data=png(640, 480, 9_000), media_type="image/png", name="plan.png")
    note = media_note(image, 425)
    assert all(word in note for word in ("plan.png", "640x480", "bytes", "425 tokens", "send it again"))


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "claude-opus-5", "unheard-of"])
def test_a_note_tells_the_count_of_the_models_rule_and_never_replaces_less_than_itself(model: str) -> None:
    sizes = SentSizes.of(model)
    large, tiny = (Attachment("image", data=png(*pixels), media_type="image/png") for pixels in ((900, 700), (1, 1)))
    (note,) = sizes.without_media(Message("user", (large,))).parts
    assert isinstance(note, Text)
    assert f"{media_tokens(large, image_rule(model), O200K.count):,} tokens" in note.text
    small = Message("user", (Text("Look."), tiny))
    assert (sizes.without_media(small) is small) == (sizes.extra_tokens([small]) < 40)


def test_a_text_is_counted_once_however_many_formats_send_it(monkeypatch: pytest.MonkeyPatch) -> None:
    call = ToolCall("read", {"path": "harbour.md", "lines": [1, 20]}, id="c1")
    counted: list[str] = []

    def noted(text: str, *_: object) -> int:
        counted.append(text)
        return len(text)

    monkeypatch.setattr("foveate.tokens.count_tokens", noted)
    SentSizes.of(None).extra_tokens([Message("assistant", (call,))])
    assert counted
    assert len(counted) == len(set(counted))
