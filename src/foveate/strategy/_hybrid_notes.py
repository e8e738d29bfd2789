"""What a hybrid plan says of itself: counts by kind, whether the target was reached, and events in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.strategy import Told
from foveate.strategy._hybrid_book import Book
from foveate.strategy._hybrid_messages import speaker_of
from foveate.strategy._hybrid_rows import Draft, Layout
from foveate.turn import Json, turn_id

if TYPE_CHECKING:
    from foveate.strategy._hybrid_planner import Planner


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision and what shows it."""

    book: Book
    draft: Draft
    layout: Layout
    compressed_from: int | None = None
    """What the history took before more of it was made short; None if nothing was."""


def notes_of(outcome: Outcome, planner: Planner) -> dict[str, Json]:
    """Statistics by kind, for people; of the turns that are shown by their messages."""
    book, layout = outcome.book, outcome.layout
    notes: dict[str, Json] = {
        "window_tokens": planner.window,
        "history_tokens": layout.tokens,
        "used_share": round(layout.tokens / max(1, planner.window), 3),
        "compressions": book.compressions,
        **_statistics(outcome, planner),
    }
    if book.rolled:
        notes["rolled_through"] = turn_id(book.rolled)
    if outcome.draft.cut:
        notes["cut"] = [f"{turn_id(turn)} message {position}" for turn, position in outcome.draft.cut]
    if problem := _problem(outcome, planner):
        notes["message"] = problem
    return notes


def events_of(outcome: Outcome, planner: Planner) -> Iterator[Told]:
    """That the threshold was reached, what was done, and which protected messages had to be cut."""
    before = Book.from_json(planner.story.state).cut if planner.story.state else frozenset()
    sizes = {place: message.tokens for section in outcome.draft.sections for place, message in section.places()}
    if outcome.compressed_from is not None:
        reached: dict[str, Json] = {"tokens": outcome.compressed_from, "window_tokens": planner.window}
        yield Told("context-threshold-reached", {**reached, "share": planner.settings.trigger})
        yield Told("compression-triggered", {"strategy": "hybrid", "target_tokens": planner.target})
    for turn, position in outcome.draft.cut:
        if (turn, position) not in before:
            kept = outcome.draft.short.get((turn, position), outcome.draft.prompt_tokens or 0)
            data: dict[str, Json] = {"cut": "protected", "position": position, "tokens": sizes[turn, position]}
            yield Told("compressed", {**data, "kept_tokens": kept}, turn)
    if outcome.compressed_from is not None:
        tokens = outcome.layout.tokens
        data = {"tokens": tokens, "target_tokens": planner.target, "is_target_reached": tokens <= planner.target}
        if problem := _problem(outcome, planner):
            data["message"] = problem
        yield Told("compressed", {**data, **_statistics(outcome, planner)})


def _statistics(outcome: Outcome, planner: Planner) -> dict[str, Json]:
    short: Counter[str] = Counter()
    original = compressed = removed = 0
    for section in outcome.draft.sections:
        for place, message in section.places():
            speaker = speaker_of(message)
            removed += speaker == "display"
            if place in outcome.draft.short:
                short[speaker] += 1
                original += message.tokens
                compressed += outcome.draft.short[place]
    return {
        "tool_results_short": short["tool"],
        "user_messages_short": short["user"],
        "assistant_messages_short": short["assistant"],
        "injections_short": short["injection"],
        "display_removed": removed,
        "protected": len(planner.protection.talk),
        "original_tokens": original,
        "short_tokens": compressed,
        "ratio": round(compressed / original, 3) if original else 1.0,
    }


def _problem(outcome: Outcome, planner: Planner) -> str:
    """What a person should know of it."""
    if outcome.draft.cut:
        return f"the newest messages alone exceed {planner.window:,} tokens: the oldest of them are cut"
    tokens = outcome.layout.tokens
    is_full = tokens > planner.trigger or outcome.compressed_from is not None
    if is_full and tokens > planner.target and not planner.story.frame.is_one_off:
        return f"the target of {planner.target:,} tokens can't be reached: {tokens:,} are left"
    return ""
