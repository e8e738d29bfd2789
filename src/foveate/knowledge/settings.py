"""The `knowledge` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class KnowledgeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learning from past sessions."""

    model: str | None = None
    """Model that finds and words lessons. None: `models.default`; without either, rules alone."""
    max_context_tokens: Annotated[int, Meta(ge=1_000, le=2_000_000)] = 1_000_000
    """Maximum number of tokens that a model reads in one run. Of more, the oldest turns are read at level T."""
    chunk_tokens: Annotated[int, Meta(ge=1_000, le=2_000_000)] = 100_000
    """Maximum size of one request, reduced to the model's window."""
    max_output_tokens: Annotated[int, Meta(ge=256, le=100_000)] = 8_000
    """Maximum size of one answer."""
    recent_turns: Annotated[int, Meta(ge=0, le=100)] = 20
    """Newest turns of each session that are read at level S."""
    run_usd: Annotated[float, Meta(ge=0, le=100_000)] = 1.0
    """Maximum cost of one run. What was learned until then is kept, and the next run reads the rest."""
    daily_usd: Annotated[float, Meta(ge=0, le=100_000)] = 2.0
    """Maximum cost of all runs of a day (UTC), in addition to `models.daily_usd`."""
    batch: bool = False
    """Use the provider's batch endpoint if it has one: half the price, an answer within a day."""
    similar: Annotated[float, Meta(gt=0, le=1)] = 0.75
    """Items of one kind that share this much of their words are merged."""
    stale_days: Annotated[int, Meta(ge=1, le=10_000)] = 60
    """The weight of an item that was neither seen nor used for this long is halved; one that would get less than 0.2 is
    retired. Counted up to the newest turn, so that a pause makes nothing stale."""
    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 120.0
    """A run that has not renewed its lease for this long is resumed by the next one."""
    schedule: str = "on"
    """When `foveate serve` learns from everything, with the model if one is configured, as a cron expression, e.g.
    `0 3 * * *`. `on`: twice a day, at 03:00 and 15:00. `off`: never."""
    time_zone: str = "UTC"
    """The time zone of `schedule`, e.g. `Europe/Berlin`."""
    jitter_minutes: Annotated[float, Meta(ge=0, le=1_440)] = 10.0
    """A scheduled run starts up to this much later, so that many servers do not start at once."""
    idle_minutes: Annotated[float, Meta(ge=0, le=1_440)] = 5.0
    """A scheduled run waits until no turn was recorded for this long. 0: it does not wait."""
    quiet_minutes: Annotated[float, Meta(ge=0, le=1_440)] = 5.0
    """`foveate serve` learns what was stated in a session once no turn was recorded in it for this long, without a
    model and in at most a tenth of one core. 0: never."""
