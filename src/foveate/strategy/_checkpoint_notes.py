"""What a checkpoint plan tells: its events in the order of the design's timeline, and what a person wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.strategy import Frame, Told
from foveate.strategy._checkpoint_book import Book, Checkpoint
from foveate.strategy._checkpoint_flow import Flow, Happened
from foveate.strategy._checkpoint_rows import Layout
from foveate.strategy.reliability import reliability
from foveate.turn import Json, turn_id

if TYPE_CHECKING:
    from foveate.strategy.checkpoint import Checkpoint as Settings

MAX_TOLD = 64
"""Compressions of one plan that are told of; a long history that is brought in has more."""
TIER_NAMES = ("minimal", "basic", "standard", "structured", "rich")


def tell(flow: Flow, settings: Settings) -> tuple[Told, ...]:
    """The events of what happened, the newest compressions of it."""
    told: list[Told] = []
    newest = flow.happened[-1] if flow.happened else None
    for happened in flow.happened[-MAX_TOLD:]:
        # The last one left the checkpoints that are there now, whose real sizes are known.
        book = flow.book if happened is newest else happened.book
        told += _events(happened, book, flow.room, settings)
    return tuple(told)


def _events(happened: Happened, book: Book, room: int, settings: Settings) -> list[Told]:
    turn = happened.turn
    reached: dict[str, Json] = {
        "used_tokens": happened.used_tokens,
        "trigger_tokens": happened.trigger_tokens,
        "available_tokens": happened.available_tokens,
    }
    told = [
        Told("context-threshold-reached", reached, turn),
        Told("compression-triggered", {"cause": _CAUSES[happened.kind]}, turn),
    ]
    if happened.new:
        new = next((one for one in book.checkpoints if one.id == happened.new.id), happened.new)
        told.append(Told("llm-summarizing", {"checkpoint": new.id, **_range(new)}, turn))
        told.append(Told("checkpoint-created", describe(new), turn))
    if happened.aged or happened.merged:
        data: dict[str, Json] = {"aged": list(happened.aged), "merged": list(happened.merged)}
        told.append(Told("checkpoints-aged", data, turn))
    told.append(Told("budget-recalculated", budget(book, room, settings), turn))
    done: dict[str, Json] = {"cause": _CAUSES[happened.kind], "compressions": book.compressions}
    if happened.kind == "rolled over":
        done |= {"rolled_over": True, "tiny_through": turn_id(book.tiny_through), "message": rolled_over(book)}
    told.append(Told("compressed", done, turn))
    return told


_CAUSES = {"compressed": "threshold", "squeezed": "room", "rolled over": "rollover"}


def budget(book: Book, room: int, settings: Settings) -> dict[str, Json]:
    """What is available now, and when the next compression comes."""
    available = max(0, room - book.checkpoint_tokens)
    trigger = int(available * (settings.trigger if settings.enabled else 1.0))
    return {
        "available_tokens": available,
        "trigger_tokens": trigger,
        "checkpoint_tokens": book.checkpoint_tokens,
        "checkpoints": len(book.checkpoints),
    }


def describe(checkpoint: Checkpoint) -> dict[str, Json]:
    """A checkpoint as it is told and shown."""
    return {
        "id": checkpoint.id,
        "level": checkpoint.level,
        **_range(checkpoint),
        "messages": f"{checkpoint.first_message}-{checkpoint.last_message}",
        "original_tokens": checkpoint.original_tokens,
        "current_tokens": checkpoint.tokens,
        "compression_count": checkpoint.count,
    }


def _range(checkpoint: Checkpoint) -> dict[str, Json]:
    return {"first": turn_id(checkpoint.first), "last": turn_id(checkpoint.last)}


def rolled_over(book: Book) -> str:
    """The clear message of a rollover."""
    last = turn_id(book.tiny_through)
    return (
        "what may not be compressed no longer fitted, so the session rolled over to a snapshot: "
        f"up to {last} each turn is one line, or part of an era; get_turn gives every word back"
    )


def notes_of(flow: Flow, settings: Settings, frame: Frame, layout: Layout) -> dict[str, Json]:
    book = flow.book
    trust = reliability(
        frame.model,
        book.compressions,
        unknown_factor=settings.unknown_model_factor,
        penalty_each=settings.penalty,
        penalty_floor=settings.penalty_floor,
    )
    notes: dict[str, Json] = {
        "tier": book.tier,
        "tier_name": TIER_NAMES[book.tier - 1],
        "compressions": book.compressions,
        "reliability": round(trust.score, 4),
        "reliability_level": trust.level,
        "model_factor": trust.factor.value,
        "model_factor_assumed": trust.factor.is_assumed,
        "used_tokens": flow.used,
        **budget(book, flow.room, settings),
        "checkpoints": [describe(checkpoint) for checkpoint in book.checkpoints],
    }
    if book.rollovers:
        notes |= {"rollovers": book.rollovers, "tiny_through": turn_id(book.tiny_through), "message": rolled_over(book)}
    eras = [row.last for row in layout.rows if row.level == "E" and not row.first_step]
    if eras:
        notes["eras_through"] = turn_id(eras[-1])
    if layout.is_lowered:
        notes["newest"] = "the newest turn is larger than the room that is left, so it is shown in part"
    return notes
