"""The `store` and `cabinet` sections of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Storage of the raw log."""

    synchronous: Literal["full", "normal"] = "full"
    """`full`: a turn survives a power cut once `record` returns. `normal`: it survives a crash of the program only."""
    lock_timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Timeout for the lock while other processes write to the same file."""
    compression_level: Annotated[int, Meta(ge=1, le=19)] = 3
    """zstd compression level of stored messages."""
    group_limit: Annotated[int, Meta(ge=1, le=10_000)] = 512
    """Maximum number of queued writes per commit."""
    readers: Annotated[int, Meta(ge=1, le=64)] = 4
    """Number of reader threads, each with its own connection."""


class CabinetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file cabinet: whole tool results and fetched pages, by key."""

    retention_days: Annotated[float, Meta(gt=0, le=36_500)] = 30.0
    """Days until a key expires. Extended while contexts show it. The log keeps the content in any case."""
    note_turns: Annotated[int, Meta(ge=0, le=1_000)] = 10
    """Number of turns for which a new key is listed on the board. 0: not listed."""
