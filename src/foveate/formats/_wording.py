"""The words that stand in a message for what its format has no form for, so that nothing goes missing unsaid."""

from __future__ import annotations

from collections.abc import Mapping

from foveate.turn import Attachment, Opaque, ToolResult

NO_RESULT = "[No result of this call was recorded.]"


def note_of(part: Attachment | Opaque) -> str:
    """One line that says what stood here."""
    if isinstance(part, Opaque):
        kind = part.data.get("type") if isinstance(part.data, Mapping) else None
        return f"[{kind if isinstance(kind, str) else 'A block'} of {part.format}, not readable here]"
    told = [part.name, part.uri, part.file_id and f"file id {part.file_id}", part.media_type]
    details = ", ".join(detail for detail in told if detail) or "inline"
    return f"[{part.media}: {details}]"


def stray_result(result: ToolResult) -> str:
    """The heading of a result whose call is not there."""
    of = " ".join(word for word in (result.name, result.call_id) if word)
    return f"[Result of a tool call that is not part of this conversation{of and ': '}{of}]"


def wrap_system(text: str) -> str:
    """System text where messages have no system role."""
    return f"<system>\n{text}\n</system>"
