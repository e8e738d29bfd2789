"""The parts of an open store that its sessions share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

from foveate.cache import BoundedCache
from foveate.events import EventBus
from foveate.history.late_writes import LateWrites
from foveate.models.caller import Caller
from foveate.recall.search import Searcher
from foveate.session.cabinet import KeyRenewals
from foveate.session.uses import KnowledgeUses
from foveate.settings import Settings
from foveate.store import Store
from foveate.worker.loop import Worker

if TYPE_CHECKING:
    from foveate.client import Foveate

MAX_ASKED = 256
"""Maximum number of sessions whose last request is remembered until its answer is recorded."""
PrefixSource: TypeAlias = Callable[[], str | None]
"""Computes the hash of a request; see `foveate.context.signatures`."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts of an open store that its sessions share."""

    store: Store
    events: EventBus
    settings: Settings
    worker: Worker
    caller: Caller
    searcher: Searcher
    renewals: KeyRenewals
    uses: KnowledgeUses
    writes: LateWrites
    """Writes that contexts start and do not wait for."""
    view: Callable[[str], Foveate]
    """Returns the store as a tenant sees it; for the empty name, as the owner sees it."""
    turn_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """A lock for each session that has a turn of `Session.turn` in progress."""
    asked: BoundedCache[str, PrefixSource] = field(default_factory=lambda: BoundedCache(MAX_ASKED))
    """The last request of each session, by any handle: the next recorded answer came from it."""
