"""Events: published to subscribers after a change is durable.

Each subscriber has a bounded queue and its own thread, so a slow or failing one does not affect others.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from foveate.errors import InputError, contained
from foveate.turn import Json

EventKind = Literal[
    "turn-recorded",
    "message-added",
    "context-threshold-reached",
    "compression-triggered",
    "llm-summarizing",
    "checkpoint-created",
    "checkpoints-aged",
    "topic-sealed",
    "bulk-merged",
    "budget-recalculated",
    "gradient-recalculated",
    "compressed",
    "compression-failed",
    "turn-retrieved",
    "board-expired",
    "context-fallback",
    "session-resolved",
    "gateway-bypassed",
    "pack-switched",
    "tool-called",
    "agent-changed",
    "model-failed",
    "model-held-back",
    "model-recovered",
    "budget-reached",
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)

REQUEST_ID: ContextVar[str] = ContextVar("foveate_request_id", default="")
"""The id of the server's request in progress; empty outside of one."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """A change in a session, published after it is durable. `data` depends on `kind`."""

    kind: EventKind
    session_id: str
    at: datetime
    turn_id: str | None = None
    data: Mapping[str, Json] = field(default_factory=dict)
    request_id: str = field(default_factory=REQUEST_ID.get)
    """The server's request that caused it; empty for background work and outside of a server."""


class Subscription:
    """One subscriber's queue and thread; `close` it, or leave a `with` block, to stop."""

    def __init__(self, bus: EventBus, callback: Callable[[Event], object], kinds: frozenset[str], limit: int) -> None:
        self.dropped = 0
        """Events lost because the subscriber was too far behind."""
        self.failed = 0
        """Events whose callback raised."""
        self._bus = bus
        self._callback = callback
        self._kinds = kinds
        self._queue: deque[Event] = deque(maxlen=limit)
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="foveate-events", daemon=True)
        self._thread.start()

    def offer(self, event: Event) -> None:
        """Queue the event if it is of a subscribed kind; never blocks."""
        if self._kinds and event.kind not in self._kinds:
            return
        with self._changed:
            if self._closed:
                return
            self.dropped += len(self._queue) == self._queue.maxlen
            self._queue.append(event)
            self._changed.notify_all()

    def drain(self, timeout_seconds: float = 10.0) -> bool:
        """Wait until every queued event is delivered; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout_seconds)

    def close(self) -> None:
        """Stop. The thread still delivers queued events."""
        self._bus.remove(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                event = self._queue.popleft()
                self._busy = True
            with contained(_log, "a subscriber failed on %s", event.kind) as outcome:
                self._callback(event)
            self.failed += outcome.error is not None


class EventBus:
    """Delivers each event to every matching subscription."""

    def __init__(self, queue_limit: int, extra_kinds: Collection[str] = ()) -> None:
        """Create a bus; `extra_kinds` are declared by plug-ins."""
        self._queue_limit = queue_limit
        self._extra_kinds = frozenset(extra_kinds)
        self._subscriptions: tuple[Subscription, ...] = ()
        self._lock = threading.Lock()

    def subscribe(self, callback: Callable[[Event], object], kinds: Collection[EventKind] = ()) -> Subscription:
        """Call `callback` in a separate thread with each event of these kinds (default: all)."""
        wanted = frozenset[str]((kinds,) if isinstance(kinds, str) else kinds)
        unknown = wanted - set(EVENT_KINDS) - self._extra_kinds
        if unknown:
            raise InputError(f"no event {', '.join(sorted(unknown))}; available: {', '.join(EVENT_KINDS)}")
        subscription = Subscription(self, callback, wanted, self._queue_limit)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(kept for kept in self._subscriptions if kept is not subscription)

    @property
    def is_watched(self) -> bool:
        return bool(self._subscriptions)

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.offer(event)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()


class EventSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delivery of events."""

    queue_limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    """Queue length per subscriber. Beyond it the oldest events are dropped and counted in `Subscription.dropped`."""
