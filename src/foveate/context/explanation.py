"""What a model is told about tags, levels, eras and the way back to the full text."""

from __future__ import annotations

from functools import cache


@cache
def explanation(strategy: str = "gradient") -> str:
    """The explanation, ending in a newline: the strategy's own (`explanation-NAME.md`), or the one for all."""
    from importlib.resources import files  # noqa: PLC0415 - only those who assemble a context pay for it

    folder = files("foveate.context")
    own = folder.joinpath(f"explanation-{strategy}.md")
    found = own if strategy.replace("-", "").isalnum() and own.is_file() else folder.joinpath("explanation.md")
    return found.read_text("utf-8")
