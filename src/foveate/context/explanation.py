"""What a model is told about tags, levels, eras and the way back to the full text."""

from __future__ import annotations

from functools import cache


@cache
def explanation() -> str:
    """The explanation, ending in a newline."""
    from importlib.resources import files  # noqa: PLC0415 - only those who assemble a context pay for it

    return files("foveate.context").joinpath("explanation.md").read_text("utf-8")
