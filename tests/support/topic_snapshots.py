"""Made-up conversations for the topics strategy, and a driver that lives through them turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from foveate.plan import Artefact, ArtefactSpec, Ledger, Overheads, Plan, TurnInfo
from foveate.strategy import Strategy
from foveate.strategy.topics import Topics
from foveate.strategy.topics.subjects import Gist
from foveate.testing.histories import ListedSnapshot, drive, exchange
from foveate.turn import Json

MINUTE_US = 60_000_000
FREE = Overheads(line=0, tag=0, range=0, cut_note=12)
TRUNCATED_TOKENS = 500
"""What a message that was truncated takes here."""


def said(turn: int, *tokens: int, after_minutes: float = 1, before: TurnInfo | None = None) -> TurnInfo:
    """A turn that begins so long after the one before it ended."""
    start = (before.ended_us if before else 0) + int(after_minutes * MINUTE_US)
    return exchange(turn, *tokens, started_us=start)


def talk(count: int, *tokens: int, pauses: Mapping[int, float] | None = None) -> list[TurnInfo]:
    """So many turns of these sizes, a minute apart; `pauses` has the minutes before some of them."""
    turns: list[TurnInfo] = []
    for turn in range(1, count + 1):
        minutes = (pauses or {}).get(turn, 1)
        turns.append(said(turn, *tokens, after_minutes=minutes, before=turns[-1] if turns else None))
    return turns


def made_for(signals: Mapping[int, Mapping[str, Json]], wanted: ArtefactSpec, snapshot: ListedSnapshot) -> Artefact:
    """Summaries as large as they may be; what tells of boundaries as it is given, by turn."""
    if wanted.kind == "boundary":
        return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, data=signals.get(wanted.last, {}))
    if wanted.kind == "truncated":
        (info,) = snapshot.infos(wanted.first, wanted.last)
        long = {one.position: TRUNCATED_TOKENS for one in info.messages if one.tokens > TRUNCATED_TOKENS}
        return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, sizes=long)
    return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, tokens=wanted.tokens, text="…")


def settled(
    settings: Topics,
    snapshot: ListedSnapshot,
    room_tokens: int,
    *,
    overheads: Overheads = FREE,
    signals: Mapping[int, Mapping[str, Json]] | None = None,
) -> tuple[Plan, ListedSnapshot]:
    """The plan once everything it wants is made, and the snapshot with its state."""
    make = partial(made_for, signals or {})
    plan, snapshot = drive(cast("Strategy", settings), replace(snapshot, overheads=overheads), room_tokens, make)
    assert not [wanted for wanted in plan.wants if wanted.name not in snapshot.made], "something is still wanted"
    return plan, snapshot


def lived_through(
    settings: Topics,
    turns: Sequence[TurnInfo],
    room_tokens: int,
    *,
    overheads: Overheads = FREE,
    signals: Mapping[int, Mapping[str, Json]] | None = None,
) -> list[Plan]:
    """The plan after each turn, as a session has them that asks for a context every time."""
    snapshot = ListedSnapshot((), Ledger(budget_tokens=room_tokens))
    plans: list[Plan] = []
    for count in range(1, len(turns) + 1):
        snapshot = replace(snapshot, turns=turns[:count])
        plan, snapshot = settled(settings, snapshot, room_tokens, overheads=overheads, signals=signals)
        plans.append(plan)
    return plans


def rows_of(plan: Plan) -> list[tuple[int, int, str]]:
    return [(row.first, row.last, row.level) for row in plan.rows]


def about(word: int, direction: tuple[int, ...]) -> dict[str, Json]:
    """The gist of a text that points somewhere, of twenty words of its own."""
    return Gist(direction, {word * 100 + place: 1.0 for place in range(20)}).as_json()
