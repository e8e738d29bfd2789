"""Replaces a text by a mark in recorded JSON, in each form in which JSON escapes it."""

from __future__ import annotations

import json

from foveate.turn import Json

MARK = "[erased]"
"""What replaces an erased text."""
ESCAPES = 2
"""Arguments of tool calls are JSON in a string, and may hold JSON in a string themselves."""
_SIGNED = "signature"


class Redactor:
    """Finds a text, also where it is escaped, and replaces it."""

    def __init__(self, text: str) -> None:
        forms = {text}
        for _ in range(ESCAPES):
            forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)}
        self._forms = sorted(forms, key=len, reverse=True)
        encoded = forms | {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
        self._bytes = [form.encode("utf-8", "surrogatepass") for form in encoded]

    def is_in(self, data: str | bytes | None) -> bool:
        """Return whether a text, or encoded JSON, contains it."""
        if not data:
            return False
        if isinstance(data, bytes):
            return any(form in data for form in self._bytes)
        return any(form in data for form in self._forms)

    def text(self, value: str) -> str:
        for form in self._forms:
            value = value.replace(form, MARK)
        return value

    def value(self, value: Json) -> Json:
        """Replace it in all strings of a JSON value, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return self._record({self.text(name): self.value(item) for name, item in value.items()}, value)
        return value

    def _record(self, changed: dict[str, Json], before: dict[str, Json]) -> Json:
        """Drop what signs a text that has changed: a provider rejects it."""
        if changed == before:
            return changed
        if before.get("type") == "thinking" and _SIGNED in before:
            return {"type": "text", "text": MARK}
        changed.pop("thoughtSignature", None)
        return changed
