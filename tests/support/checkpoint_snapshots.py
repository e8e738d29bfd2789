"""Made-up conversations for the checkpoint strategy, and a driver that has made whatever is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from foveate.plan import Artefact, ArtefactSpec, Ledger, Overheads, Plan, TurnSizes
from foveate.strategy.checkpoint import Checkpoint
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive, exchange


@dataclass(frozen=True, slots=True)
class Talk:
    """A turn: what the user said, and what came of it, in tokens."""

    user: int
    rest: tuple[int, ...] = ()


def snapshot_of(
    talks: Sequence[Talk],
    ledger: Ledger,
    *,
    is_running: bool = False,
    has_renditions: bool = True,
    era_tokens: int | None = 100,
    model: str | None = "llama-13b",
) -> ListedSnapshot:
    """A snapshot of turns of these sizes; the newest in steps if it is in progress."""
    return grown(
        ListedSnapshot((), ledger, era_tokens=era_tokens, model=model),
        talks,
        is_running=is_running,
        has_renditions=has_renditions,
    )


def grown(
    snapshot: ListedSnapshot, talks: Sequence[Talk], *, is_running: bool = False, has_renditions: bool = True
) -> ListedSnapshot:
    """The snapshot once these were said."""
    turns = [
        exchange(turn, talk.user, *talk.rest, started_us=0, is_open=turn == len(talks))
        for turn, talk in enumerate(talks, 1)
    ]
    items = [_item(info.turn, 0, info.tokens, has_renditions=has_renditions) for info in turns]
    if is_running and talks:
        sizes = (talks[-1].user, *talks[-1].rest)
        items[-1:] = [
            replace(_item(len(talks), step, raw, has_renditions=has_renditions), is_kept=step == 1)
            for step, raw in enumerate(sizes, 1)
        ]
    return replace(snapshot, turns=turns, items=items)


def _item(turn: int, step: int, raw: int, *, has_renditions: bool) -> TurnSizes:
    if not has_renditions:
        return TurnSizes(turn, step, raw, None, None, None)
    return TurnSizes(turn, step, raw, raw * 6 // 10, raw * 35 // 100, min(45, raw * 35 // 100))


def made_full(wanted: ArtefactSpec, _snapshot: ListedSnapshot, *, share: float = 1.0) -> Artefact:
    """Something that takes what it may, its architecture decisions not counted, which there are where it takes more."""
    if wanted.kind == "architecture":
        found = Artefact(wanted.name, wanted.kind, wanted.first, wanted.last)
        tokens = wanted.tokens // 4
        return replace(found, tokens=tokens, text="…", data={"preserved_tokens": tokens}) if share > 1 else found
    extra = wanted.data["architecture_tokens"]
    assert isinstance(extra, int)
    own = wanted.tokens - extra
    preserved = extra // 4 if share > 1 else 0
    made = Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, tokens=int(own * min(1.0, share)), text="…")
    return replace(made, tokens=made.tokens + preserved, data={"preserved_tokens": preserved})


def settled(
    strategy: Checkpoint,
    snapshot: ListedSnapshot,
    room_tokens: int,
    overheads: Overheads = USUAL_OVERHEADS,
    *,
    share: float = 1.0,
) -> tuple[Plan, ListedSnapshot]:
    """The plan once everything it wants is made, and the snapshot with its state."""
    make = partial(made_full, share=share)
    plan, snapshot = drive(strategy, replace(snapshot, overheads=overheads), room_tokens, make)
    assert not [wanted for wanted in plan.wants if wanted.name not in snapshot.made], "something is still wanted"
    return plan, snapshot


def lived_through(
    strategy: Checkpoint,
    talks: Sequence[Talk],
    ledger: Ledger,
    room_tokens: int,
    overheads: Overheads = USUAL_OVERHEADS,
) -> list[Plan]:
    """The plan after each turn, as a session has them that asks for a context every time."""
    snapshot = snapshot_of((), ledger)
    plans = []
    for count in range(1, len(talks) + 1):
        plan, snapshot = settled(strategy, grown(snapshot, talks[:count]), room_tokens, overheads)
        plans.append(plan)
    return plans
