"""The `compress` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class CompressSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lower fidelities are made in the background."""

    enabled: bool = True
    """Off: turns stay raw until `foveate compress` is run."""
    processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Processes that compress, so that the program's own threads stay free; 0 does it in a thread."""
    batch_turns: Annotated[int, Meta(ge=1, le=1_000)] = 16
    """Turns that are claimed, made and kept together."""
    lease_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """A turn claimed by a worker that died is free again after this."""
    turn_seconds: Annotated[float, Meta(gt=0, le=3600)] = 120.0
    """Time limit for one turn, the start of its process included; beyond it its rendition is coarse and marked."""
    quiet_seconds: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    """The newest turn gets its levels once nothing was added to it for this long."""
    close_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.5
    """How long `close` goes on compressing what was recorded. The rest is done the next time the store is open."""
