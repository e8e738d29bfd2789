"""Made-up conversations for the hybrid strategy, and a driver that makes short messages of the sizes it promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from foveate.plan import Artefact, ArtefactSpec, Ledger, MessageSize, Overheads, Plan, TurnInfo
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.hybrid.blocks import HIDDEN_TOKENS
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive, item_of, step_items
from foveate.turn import Kind, Role

SHORT_TOKENS = 12
LEDGER = Ledger(budget_tokens=1_000_000)


def said(position: int, who: str, tokens: int) -> MessageSize:
    """A message by a letter for who speaks: u, a, t(ool), s(ystem), i(njected), d(isplayed)."""
    role: Role = {"u": "user", "a": "assistant", "t": "tool", "s": "system", "i": "user", "d": "system"}[who]  # type: ignore[assignment]
    kinds: dict[str, Kind] = {"i": "injection", "d": "display"}
    return MessageSize(position, role, kinds.get(who, "message"), 0 if who == "d" else tokens, is_result=who == "t")


def turns_of(*spoken: str, tokens: int = 400, is_open: bool = False) -> list[TurnInfo]:
    """Turns as letters: `turns_of("ua", "uata")`."""
    infos = [
        TurnInfo(
            number, tuple(said(place, who, tokens) for place, who in enumerate(letters)), number, number, is_open=False
        )
        for number, letters in enumerate(spoken, 1)
    ]
    if infos and is_open:
        infos[-1] = replace(infos[-1], is_open=True)
    return infos


def snapshot_of(infos: Sequence[TurnInfo], *, in_steps: bool = False, ledger: Ledger = LEDGER) -> ListedSnapshot:
    items = [item_of(info) for info in infos]
    if in_steps:
        items[-1:] = step_items(infos[-1])
    return ListedSnapshot(infos, ledger, items=items)


def made_up(wanted: ArtefactSpec, snapshot: ListedSnapshot, short_tokens: int = SHORT_TOKENS) -> Artefact:
    """Short messages as their maker would make them."""
    (info,) = snapshot.infos(wanted.last, wanted.last)
    data: Any = wanted.data
    if data.get("system"):
        return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, _system_tokens(info), "as it was")
    first, last = data.get("positions") or (0, len(info.messages) - 1)
    sizes = {
        message.position: min(message.tokens, short_tokens)
        for message in info.messages
        if first <= message.position <= last and message.kind != "display" and message.role != "system"
    }
    if hidden := data.get("hidden"):
        sizes |= dict.fromkeys(range(hidden[0], hidden[1] + 1), 0)
        sizes[hidden[0]] = HIDDEN_TOKENS
    sizes |= {int(position): tokens for position, tokens in data.get("cuts", {}).items()}
    return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, sizes=sizes)


def _system_tokens(info: TurnInfo) -> int:
    return sum(message.tokens for message in info.messages if message.role == "system" and message.kind == "message")


def planned(
    snapshot: ListedSnapshot,
    room_tokens: int,
    strategy: Hybrid | None = None,
    overheads: Overheads = USUAL_OVERHEADS,
    *,
    short_tokens: int = SHORT_TOKENS,
) -> tuple[Plan, ListedSnapshot]:
    """The plan once everything it wants is made, and the snapshot with its state."""
    make = partial(made_up, short_tokens=short_tokens)
    plan, snapshot = drive(strategy or Hybrid(), replace(snapshot, overheads=overheads), room_tokens, make)
    assert not [wanted for wanted in plan.wants if wanted.name not in snapshot.made], "something is still wanted"
    return plan, snapshot


def short_places(plan: Plan) -> set[tuple[int, int]]:
    return {(row.first, position) for row in plan.rows for position in row.short}
