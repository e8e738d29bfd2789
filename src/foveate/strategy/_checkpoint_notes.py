"""What a checkpoint plan tells: its events in the order of the design's timeline, and what a person wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.strategy import Frame, Told
from foveate.strategy._checkpoint_book import Book, Checkpoint
from foveate.strategy._checkpoint_flow import Flow, Happened
from foveate.strategy._checkpoint_rows import Layout
from foveate.turn import Json, turn_id

if TYPE_CHECKING:
    from foveate.strategy.checkpoint import Checkpoint as Settings

MAX_TOLD = 64
"""Compressions of one plan that are told of; a long history that is brought in has more."""
TIER_NAMES = ("minimal", "basic", "standard", "structured", "rich")
_CAUSES = {"compressed": "threshold", "squeezed": "room", "rolled over": "rollover"}


@dataclass(frozen=True, slots=True)
class Teller:
    """Says what a plan came to; all tokens are the model's own."""

    flow: Flow
    settings: Settings
    frame: Frame

    def events(self) -> tuple[Told, ...]:
        """What happened, the newest compressions of it."""
        return tuple(told for happened in self.flow.happened[-MAX_TOLD:] for told in self._events(happened))

    def notes(self, layout: Layout) -> dict[str, Json]:
        book = self.flow.book
        trust = self.settings.reliability(self.frame.model, book.as_json())
        notes: dict[str, Json] = {
            "tier": book.tier,
            "tier_name": TIER_NAMES[book.tier - 1],
            "compressions": book.compressions,
            "reliability": round(trust.score, 4),
            "reliability_level": trust.level,
            "model_factor": trust.factor.value,
            "model_factor_assumed": trust.factor.is_assumed,
            "used_tokens": self._scaled(self.flow.used),
            **self._budget(book),
            "checkpoints": [self._described(checkpoint) for checkpoint in book.checkpoints],
        }
        if book.rollovers:
            notes |= {"rollovers": book.rollovers, "tiny_through": turn_id(book.tiny_through)}
            notes["message"] = rolled_over(book)
        eras = [row.last for row in layout.rows if row.level == "E" and not row.first_step]
        if eras:
            notes["eras_through"] = turn_id(eras[-1])
        if layout.is_lowered:
            notes["newest"] = "the newest turn is larger than the room that is left, so it is shown in part"
        return notes

    def _events(self, happened: Happened) -> Iterator[Told]:
        turn = happened.turn
        # The last one left the checkpoints that are there now, whose real sizes are known.
        book = self.flow.book if happened is self.flow.happened[-1] else happened.book
        reached: dict[str, Json] = {
            "used_tokens": self._scaled(happened.used_tokens),
            "trigger_tokens": self._scaled(happened.trigger_tokens),
            "available_tokens": self._scaled(happened.available_tokens),
        }
        cause = _CAUSES[happened.kind]
        yield Told("context-threshold-reached", reached, turn)
        yield Told("compression-triggered", {"cause": cause}, turn)
        if happened.new:
            new = next((one for one in book.checkpoints if one.id == happened.new.id), happened.new)
            yield Told("llm-summarizing", {"checkpoint": new.id, **_range(new)}, turn)
            yield Told("checkpoint-created", self._described(new), turn)
        if happened.aged or happened.merged:
            yield Told("checkpoints-aged", {"aged": list(happened.aged), "merged": list(happened.merged)}, turn)
        yield Told("budget-recalculated", self._budget(book), turn)
        done: dict[str, Json] = {"cause": cause, "compressions": book.compressions}
        if happened.kind == "rolled over":
            done |= {"rolled_over": True, "tiny_through": turn_id(book.tiny_through), "message": rolled_over(book)}
        yield Told("compressed", done, turn)

    def _budget(self, book: Book) -> dict[str, Json]:
        """What is available now, and when the next compression comes."""
        available = max(0, self.flow.room - book.checkpoint_tokens)
        trigger = int(available * (self.settings.trigger if self.settings.enabled else 1.0))
        return {
            "available_tokens": self._scaled(available),
            "trigger_tokens": self._scaled(trigger),
            "checkpoint_tokens": self._scaled(book.checkpoint_tokens),
        }

    def _described(self, checkpoint: Checkpoint) -> dict[str, Json]:
        return {
            "id": checkpoint.id,
            "level": checkpoint.level,
            **_range(checkpoint),
            "messages": f"{checkpoint.first_message}-{checkpoint.last_message}",
            "original_tokens": self._scaled(checkpoint.original_tokens),
            "current_tokens": self._scaled(checkpoint.tokens),
            "compression_count": checkpoint.count,
        }

    def _scaled(self, tokens: int) -> int:
        """Plans count in tokens of the session's encoding; a model's own may be larger or smaller."""
        asked, nominal = self.frame.asked_tokens, self.frame.nominal_tokens
        return round(tokens * asked / nominal) if asked and nominal else tokens


def _range(checkpoint: Checkpoint) -> dict[str, Json]:
    return {"first": turn_id(checkpoint.first), "last": turn_id(checkpoint.last)}


def rolled_over(book: Book) -> str:
    """The clear message of a rollover."""
    last = turn_id(book.tiny_through)
    return (
        "what may not be compressed no longer fitted, so the session rolled over to a snapshot: "
        f"up to {last} each turn is one line, or part of an era; get_turn gives every word back"
    )
