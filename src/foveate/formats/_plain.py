"""Parts of a message in words, for transcript formats that have no other form for them."""

from __future__ import annotations

from collections.abc import Iterable

from foveate.formats._wording import note_of
from foveate.turn import Attachment, Opaque, Part, Text, ToolResult


def said_in(parts: Iterable[Part]) -> list[str]:
    """The texts, and a note for each attachment and unknown block; reasoning, calls and results are left out."""
    said = (part for part in parts if isinstance(part, Text | Attachment | Opaque))
    return [part.text if isinstance(part, Text) else note_of(part) for part in said]


def result_text(result: ToolResult) -> str:
    return "\n".join(said_in(result.content))
