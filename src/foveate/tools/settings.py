"""The `tools` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class ToolsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that `foveate run`, `foveate chat`, agents and `foveate tools` can use."""

    packs: dict[str, tuple[str, ...]] = {}
    """Your own packs: names of tools and of other packs, by the pack's name."""
    allow_exec: bool = False
    """Offer and execute `exec`, in a sandbox."""
    max_file_bytes: Annotated[int, Meta(ge=1)] = 10_000_000
    """Largest file that a tool reads whole. A range of a larger text file can still be read."""
    script_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    """Execution time of a script, without the time its tools take."""
    script_memory_bytes: Annotated[int, Meta(ge=1_000_000)] = 100_000_000
    """Memory of a script."""
    script_calls: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Tool calls of one script."""
