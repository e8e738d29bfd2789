"""The `compress` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class CompressSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Background compression of turns."""

    enabled: bool = True
    """false: turns are compressed only by `foveate store compress`."""
    processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Number of compression processes. 0: a thread of the program is used."""
    batch_turns: Annotated[int, Meta(ge=1, le=1_000)] = 16
    """Number of turns per batch."""
    lease_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Time after which a turn claimed by a crashed worker is released."""
    turn_seconds: Annotated[float, Meta(gt=0, le=3600)] = 120.0
    """Time limit of one turn, including the start of its process. Beyond it the turn gets a coarse rendition,
    marked as incomplete."""
    quiet_seconds: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    """The newest turn is compressed after this time without a new message."""
    close_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.5
    """Time that `close` spends on compression. The rest is done when the store is opened again."""
    compressed_share: Annotated[float, Meta(ge=0.1, le=0.8)] = 0.35
    """Target size of C, as a share of a raw turn of 1,000 tokens. Shorter turns get more of it, longer ones less."""
    tiny_tokens: Annotated[int, Meta(ge=16, le=50)] = 50
    """Maximum size of T, in tokens of the session's model."""
    compressed_facts: Annotated[float, Meta(ge=0, le=1)] = 0.60
    """Share of the weighted facts of a turn that C must keep; otherwise it is rejected."""
    tiny_facts: Annotated[float, Meta(ge=0, le=1)] = 0.25
    """Share of the weighted facts of a turn that T must keep."""
    worth_model: str = ""
    """File of a model of worth made by `bench/train_worth.py`, which chooses the words of turns recorded from then on.
    Default: the model in the package."""
