"""A turn is on disk: which turns the messages went to, and the news of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from foveate.events import Event, EventBus
from foveate.store import Draft, Place
from foveate.turn import Json, turn_id


def by_turn(placed: Iterable[tuple[Draft, Place]]) -> dict[int, list[tuple[Draft, Place]]]:
    """What was kept, by the turns it went to."""
    groups: dict[int, list[tuple[Draft, Place]]] = {}
    for draft, place in placed:
        groups.setdefault(place.turn, []).append((draft, place))
    return groups


def announce(events: EventBus, session_id: str, *, drafts: Sequence[Draft], places: Sequence[Place]) -> None:
    """Tell what is durable now; what was there already is no news."""
    now = datetime.now(UTC)
    fresh = [(draft, place) for draft, place in zip(drafts, places, strict=True) if place.is_new]
    for draft, place in fresh:
        data: dict[str, Json] = {"role": draft.role, "position": place.position, "tokens": draft.tokens}
        events.publish(Event("message-added", session_id, now, turn_id(place.turn), data))
    for number, group in by_turn(fresh).items():
        events.publish(Event("turn-recorded", session_id, now, turn_id(number), {"messages": len(group)}))
