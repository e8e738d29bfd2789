"""How attachments are written inline: data URIs, media types, the audio formats OpenAI names."""

from __future__ import annotations

import re
from typing import Literal

from foveate.formats._reading import Record, record_in, text_in
from foveate.turn import Attachment

Media = Literal["image", "audio", "video", "file"]

_DATA_URI = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def media_of(media_type: str | None) -> Media:
    match (media_type or "").partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
    return "file"


def from_uri(media: Media, uri: str, name: str | None = None) -> Attachment:
    """An attachment whose URI may hold its bytes."""
    if match := _DATA_URI.fullmatch(uri):
        return Attachment(media, data=match[2], media_type=match[1], name=name)
    return Attachment(media, uri=uri, name=name)


def data_uri(attachment: Attachment) -> str | None:
    """The inline bytes as a URI; None if there are none, or nobody knows what they are."""
    if attachment.data is None or attachment.media_type is None:
        return None
    return f"data:{attachment.media_type};base64,{attachment.data}"


def parse_input_audio(data: Record, path: str) -> Attachment:
    """OpenAI's `input_audio` block, which both its APIs have."""
    audio = record_in(data, "input_audio", path)
    audio_format = text_in(audio, "format", f"{path}.input_audio")
    media_type = next((known for known, name in _AUDIO_FORMATS.items() if name == audio_format), None)
    return Attachment(
        "audio",
        data=text_in(audio, "data", f"{path}.input_audio"),
        media_type=media_type or f"audio/{audio_format}",
    )


def render_input_audio(attachment: Attachment) -> Record | None:
    """OpenAI's `input_audio` block; None where it has no name for the audio's format."""
    audio_format = _AUDIO_FORMATS.get(attachment.media_type or "")
    if attachment.data is None or audio_format is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": attachment.data, "format": audio_format}}
