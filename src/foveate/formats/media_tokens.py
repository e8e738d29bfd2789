"""Tokens of images, files, audio and video: the provider's documented rule, else an upper bound.

An image's rule depends on the model: OpenAI counts tiles of 512 pixels or patches of 32, Anthropic patches of 28,
Gemini tiles of 768 or a fixed number. Width and height come from the header of a PNG, JPEG, GIF or WebP image.
`docs/lab/tokens.md` has the table.
"""

from __future__ import annotations

import base64
import binascii
import math
import mimetypes
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from foveate.errors import InvalidMessage
from foveate.formats.parse import ContentBlock, Record, media_of
from foveate.formats.providers import anthropic, gemini, openai, openai_responses
from foveate.text import attachment_text, one_line
from foveate.tokens import CLAUDE_4, counter_for
from foveate.turn import Attachment, Part

PDF_PAGE_TEXT_TOKENS: Final = 3_000
"""Anthropic's figure for a dense page; the page also counts as an image."""
PDF_PAGE_PIXELS: Final = (1_275, 1_650)
"""A letter page at 150 dots per inch."""
PDF_PAGE_BYTES: Final = 3_000
"""Bytes per page of a PDF whose page objects can't be read."""
AUDIO_TOKENS_PER_SECOND: Final = 32
"""Gemini's rule, the largest documented one; OpenAI counts 10."""
VIDEO_TOKENS_PER_SECOND: Final = 300
"""Gemini counts 258 for the frame of each second and 32 for the sound."""
AUDIO_BYTES_PER_SECOND: Final = 2_000
"""Compressed sound of 16 kbit/s; at a higher rate the same bytes hold fewer seconds."""
VIDEO_BYTES_PER_SECOND: Final = 12_500
"""A video of 100 kbit/s."""
FILE_BYTES_PER_TOKEN: Final = 3
"""Rule for a file that is neither text nor PDF."""
REFERENCE_TOKENS: Final = 10_000
"""A file, sound or video that is only referenced, by a URI or a provider's file id: its size is unknown."""
MAX_HEADER_CHARS: Final = 350_000
"""Base64 characters that are searched for an image's size: a JPEG may have a long profile before it."""

_TEXT_TYPES: Final = ("application/json", "application/xml", "application/yaml", "application/javascript")
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_JPEG_MARK: Final = 0xFF
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Segments that begin a frame and contain its size."""
_PDF_COUNT: Final = re.compile(rb"/Count\s+(\d{1,6})")

Count = Callable[[str], int]


class Pixels(NamedTuple):
    """An image's width and height."""

    width: int
    height: int


SMALLEST_IMAGE: Final = Pixels(1, 1)
_IMAGE_STARTS: Final = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"\xff\xd8", b"RIFF")


@dataclass(frozen=True, slots=True)
class ImageRule:
    """The rule by which a family of models counts an image."""

    name: str
    of: Callable[[Pixels], int]
    limit: int
    """The maximum for an image; used for an image of unknown size."""

    def tokens(self, pixels: Pixels | None) -> int:
        if pixels is None or min(pixels) < 1:
            return self.limit
        return min(self.of(pixels), self.limit)


def _tiles(base: int, tile: int) -> Callable[[Pixels], int]:
    """OpenAI's older rule: fit into 2,048 pixels square, scale the shorter side to 768, then count tiles of 512."""

    def of(pixels: Pixels) -> int:
        long, short = max(pixels), min(pixels)
        scale = min(1.0, 2_048 / long)
        scale = min(768 / short, 2_048 / long) if short * scale > 1 else scale
        return base + tile * math.ceil(long * scale / 512) * math.ceil(short * scale / 512)

    return of


def _patches(size: int, factor: float = 1.0) -> Callable[[Pixels], int]:
    def of(pixels: Pixels) -> int:
        return math.ceil(math.ceil(pixels.width / size) * math.ceil(pixels.height / size) * factor)

    return of


def _claude(pixels: Pixels) -> int:
    """Count patches of 28 pixels, or the documented width x height / 750, whichever is larger."""
    return max(_patches(28)(pixels), math.ceil(pixels.width * pixels.height / 750))


def _gemini_tiles(pixels: Pixels) -> int:
    if max(pixels) <= 384:  # noqa: PLR2004 - the documented size of one tile
        return 258
    unit = min(768, max(256, int(min(pixels) / 1.5)))
    return 258 * math.ceil(pixels.width / unit) * math.ceil(pixels.height / unit)


def _tile_rule(name: str, base: int, tile: int) -> ImageRule:
    return ImageRule(name, _tiles(base, tile), base + 8 * tile)


def _patch_rule(name: str, factor: float, most_patches: int) -> ImageRule:
    return ImageRule(name, _patches(32, factor), math.ceil(most_patches * factor))


GENERIC: Final = ImageRule("generic", lambda pixels: max(1_120, _claude(pixels)), 4_784)
"""The rule without a model: at least what GPT-4o, GPT-4.1, GPT-5, Claude and Gemini count by default."""

_RULES: Final[tuple[tuple[str, ImageRule], ...]] = (
    (r"gpt-4o-mini", _tile_rule("gpt-4o-mini", 2_833, 5_667)),
    (r"(?:gpt-4\.1|gpt-5)-mini", _patch_rule("openai-mini", 1.62, 1_536)),
    (r"(?:gpt-4\.1|gpt-5)-nano", _patch_rule("openai-nano", 2.46, 1_536)),
    (r"o4-mini", _patch_rule("o4-mini", 1.72, 1_536)),
    (r"gpt-(?:5\.\d|[6-9]|\d\d)", _patch_rule("openai-patches", 1.2, 16_000)),
    (r"gpt-5|chatgpt", _tile_rule("gpt-5", 70, 140)),
    (r"gpt-4|computer-use", _tile_rule("gpt-4o", 85, 170)),
    (r"(?<![a-z])o[13]", _tile_rule("openai-o", 75, 150)),
    (r"claude", ImageRule("claude", _claude, 4_784)),
    (r"gemini-[12]|gemma", ImageRule("gemini-tiles", _gemini_tiles, 16 * 258)),
    (r"gemini", ImageRule("gemini", lambda _: 1_120, 1_120)),
)


_CLAUDE_4: Final = ImageRule("claude-4", _claude, 1_600)


@lru_cache(maxsize=256)
def image_rule(model: str | None) -> ImageRule:
    """Return the rule of a model's family, by its name; the generic one if the model is unknown."""
    name = (model or "").strip().lower().partition("@http")[0]
    rule = next((rule for pattern, rule in _RULES if re.search(pattern, name)), GENERIC)
    return _CLAUDE_4 if rule.name == "claude" and counter_for(model) == CLAUDE_4 else rule


def media_tokens(attachment: Attachment, rule: ImageRule, count: Count) -> int:
    """Return the tokens of an attachment that is sent; `count` counts the text of a text file."""
    data = attachment.data
    if attachment.media == "image":
        if data and is_broken_image(data):
            return rule.tokens(SMALLEST_IMAGE)
        return rule.tokens(image_size(data) if data else None)
    if data is None:
        return REFERENCE_TOKENS
    match attachment.media:
        case "audio":
            tokens = _sound_seconds(data) * AUDIO_TOKENS_PER_SECOND
        case "video":
            tokens = _bytes_of(data) / VIDEO_BYTES_PER_SECOND * VIDEO_TOKENS_PER_SECOND
        case _:
            text = file_text(attachment)
            tokens = _other_file_tokens(attachment, data, rule) if text is None else count(text)
    return math.ceil(tokens)


def _other_file_tokens(attachment: Attachment, data: str, rule: ImageRule) -> float:
    if attachment.media_type == "application/pdf":
        return _pdf_pages(data) * (PDF_PAGE_TEXT_TOKENS + rule.tokens(Pixels(*PDF_PAGE_PIXELS)))
    return _bytes_of(data) / FILE_BYTES_PER_TOKEN


def media_note(attachment: Attachment, tokens: int) -> str:
    """Return the note that replaces an attachment which does not fit."""
    known = [attachment.name, attachment.media_type, attachment.uri, attachment.file_id]
    about = ", ".join([*(one_line(word) for word in known if word), *_size_words(attachment), f"{tokens:,} tokens"])
    return f"[{attachment.media} left out, it does not fit: {about}; it is stored, ask the user to send it again]"


def attachment_note(attachment: Attachment) -> str:
    """Name an attachment in a text, which can't hold it, with its size and how to get it."""
    note = ", ".join([*_size_words(attachment), "not in this text: ask the user to send it again"])
    return attachment_text(attachment, note)


def _size_words(attachment: Attachment) -> list[str]:
    if not attachment.data:
        return []
    pixels = image_size(attachment.data) if attachment.media == "image" else None
    return [*([f"{pixels.width}x{pixels.height}"] if pixels else []), f"{_bytes_of(attachment.data):,} bytes"]


def file_text(attachment: Attachment) -> str | None:
    """Return the text of an inline text file."""
    kind = (attachment.media_type or "").partition(";")[0]
    if attachment.data is None or not (kind.startswith("text/") or kind in _TEXT_TYPES):
        return None
    try:
        return base64.b64decode(attachment.data, validate=True).decode(errors="replace")
    except ValueError:
        return None


def block_media(block: Record) -> Attachment | None:
    """Return the attachment in a content block of any of the four providers' formats; None if there is none."""
    kind = str(block.get("type"))
    if kind not in _PARSERS:
        return _google_media(block) if not _GOOGLE_KEYS.isdisjoint(block) else None
    try:
        part = _PARSERS[kind](ContentBlock(kind, block, kind))
    except InvalidMessage:  # it counts as an image of unknown size
        if kind == "input_audio":
            return Attachment("audio", data="")
        is_known = kind not in ("image", "document") or isinstance(block.get("source"), Mapping)
        return Attachment("image" if kind in _IMAGES else "file", uri="") if is_known else None
    return part if isinstance(part, Attachment) else None


def _google_media(block: Record) -> Attachment | None:
    try:
        part = gemini.parse_part(block, "part")
    except InvalidMessage:
        return None
    if isinstance(part, Attachment) and part.uri and part.media_type is None:
        return replace(part, media=media_of(mimetypes.guess_type(part.uri.partition("?")[0])[0]))
    return part if isinstance(part, Attachment) else None


_PARSERS: Final[Mapping[str, Callable[[ContentBlock], Part]]] = {
    **dict.fromkeys(("image_url", "file", "input_audio"), openai.parse_block),
    **dict.fromkeys(("input_image", "computer_screenshot", "input_file"), openai_responses.parse_block),
    **dict.fromkeys(("image", "document"), anthropic.parse_shown),
}
_IMAGES: Final = ("image", "image_url", "input_image", "computer_screenshot")
_GOOGLE_KEYS: Final = frozenset({"inlineData", "inline_data", "fileData", "file_data"})


def _bytes_of(data: str) -> int:
    return len(data) * 3 // 4


def image_size(data: str) -> Pixels | None:
    """Return width and height of a base64 image, from its header; None if its kind is unknown."""
    return _header_size(data[:MAX_HEADER_CHARS])


@lru_cache(maxsize=64)
def _header_size(data: str) -> Pixels | None:
    head = _decoded(data)
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return Pixels(*struct.unpack_from(">II", head, 16))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return Pixels(*struct.unpack_from("<HH", head, 6))
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp_size(head)
    except struct.error:
        return None
    return None


def is_broken_image(data: str) -> bool:
    """Check whether a base64 image ends before the size in its header: no provider can read it."""
    is_whole = len(data) <= MAX_HEADER_CHARS
    return is_whole and _decoded(data[:16]).startswith(_IMAGE_STARTS) and image_size(data) is None


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _jpeg_size(head: bytes) -> Pixels | None:
    for kind, start in _jpeg_segments(head):
        if kind in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", head, start + 3)
            return Pixels(width, height)
    return None


def _jpeg_segments(head: bytes) -> Iterator[tuple[int, int]]:
    """Yield the kind of each segment and the position of its length."""
    place = 2
    while place + 4 <= len(head) and head[place] == _JPEG_MARK:
        kind = head[place + 1]
        if kind == _JPEG_MARK:
            place += 1
            continue
        yield kind, place + 2
        (length,) = struct.unpack_from(">H", head, place + 2)
        place += 2 + max(2, length)


def _webp_size(head: bytes) -> Pixels | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return Pixels(width & 0x3FFF, height & 0x3FFF)
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return Pixels((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            width, height = (int.from_bytes(head[place : place + 3], "little") + 1 for place in (24, 27))
            return Pixels(width, height)
    return None


def _sound_seconds(data: str) -> float:
    head = _decoded(data[:400])
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and len(head) >= 32:  # noqa: PLR2004 - up to the byte rate
        return _bytes_of(data) / max(1, int.from_bytes(head[28:32], "little"))
    return _bytes_of(data) / AUDIO_BYTES_PER_SECOND


@lru_cache(maxsize=64)
def _pdf_pages(data: str) -> int:
    raw = _decoded(data)
    counted = max((int(found) for found in _PDF_COUNT.findall(raw)), default=0)
    pages = max(counted, len(_PDF_PAGE.findall(raw)))
    return pages or max(1, len(raw) // PDF_PAGE_BYTES)
