"""The answer of `context_remaining`: how full a session's context is, and what is compressed next.

It is computed from the stored plan and the turns recorded since, so it builds no context and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from foveate.history.kept_plans import unpack_plan
from foveate.plan import KeptPlan
from foveate.store import SessionRow, Store
from foveate.tokens import Counter
from foveate.turn import turn_id


@dataclass(frozen=True, slots=True)
class Room:
    """The tokens of a session's history, and its oldest turns that are still verbatim."""

    budget_tokens: int
    used_tokens: int
    turns: int
    next_first: int = 0
    """The first and the last of the turns that are compressed next; 0 if there is none."""
    next_last: int = 0

    def __str__(self) -> str:
        free = self.budget_tokens - self.used_tokens
        turns = f" ({_turns(1, self.turns)})" if self.turns else ""
        used = f"Budget: {self.budget_tokens:,} tokens. The history uses {self.used_tokens:,}{turns}"
        when = "when it is full"
        if free < 0:
            lines = [f"{used}; it is full."]
            when = "with the next prompt"
        else:
            lines = [f"{used}; {free:,} are free for the system prompt, tools, recalled passages and new turns."]
        if self.next_first:
            oldest = _turns(self.next_first, self.next_last)
            lines.append(f"Compressed next, {when}: {oldest}, verbatim now, the oldest first.")
        elif self.turns:
            lines.append(f"Compressed next, {when}: the oldest turns, further than now.")
        return "\n".join([*lines, "Every turn stays readable with get_turn.\n"])


async def describe_room(store: Store, session: SessionRow, counter: Counter) -> str:
    """Describe the budget of a session: used, free, and what is compressed next."""
    packed = await store.derived.plan(session.id, session.strategy)
    kept = unpack_plan(packed).plan if packed else None
    planned, reach = (kept.framed_tokens, kept.whole_turns) if kept else (0, 0)
    added = await store.raw_tokens(session.id, reach + 1, session.last_turn) if reach < session.last_turn else 0
    first, last = _verbatim(kept, session.last_turn)
    used = counter.scale(planned + added, session.calibration)
    return str(Room(session.budget_tokens, used, session.last_turn, first, last))


def _verbatim(kept: KeptPlan | None, newest: int) -> tuple[int, int]:
    """Return the first and the last turn of the oldest run that is verbatim; turns behind the plan are."""
    if kept is None:
        return (1, newest) if newest else (0, 0)
    spans = [span for row in kept.rows for span in row.spans() if span.level == "R" and not span.first_step]
    runs = [(span.first, span.last) for span in spans if span.first < newest]
    runs += [(kept.whole_turns + 1, newest)] if kept.whole_turns < newest else []
    if not runs:
        return 0, 0
    first, last = runs[0]
    for start, end in runs[1:]:
        if start != last + 1:
            break
        last = end
    return first, last


def _turns(first: int, last: int) -> str:
    return turn_id(first) if first == last else f"{turn_id(first)} to {turn_id(last)}"
