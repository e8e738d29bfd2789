"""Reports what each message became in a context of the hybrid strategy, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from foveate.plan import Artefact, Block, MessageSize, TurnInfo
from foveate.strategy.build import short_texts
from foveate.strategy.hybrid.build import AGENT_KEY, LEFT_OUT
from foveate.strategy.hybrid.messages import WORTH_TOKENS, Protection, Speaker, protect, speaker_of
from foveate.strategy.hybrid.state import HybridState, Place
from foveate.turn import turn_id

if TYPE_CHECKING:
    from foveate.strategy.hybrid import Hybrid

Form = Literal["whole", "short", "cut", "left out", "sentence", "era", "named"]

SYSTEM = "system messages stay as they are"
NO_DISPLAY: tuple[Form, int, str] = ("left out", 0, "display-only items are in no context")
NO_ROOM: tuple[Form, int, str] = ("named", 0, "the budget is too small for it")
ROLLED = "short messages were not enough: the oldest turns are shown as a sentence or in an era"


@dataclass(frozen=True, slots=True)
class MessageReport:
    """What one message became in a context, and why."""

    turn: str
    position: int
    """Its place in the turn, from 0."""
    speaker: Speaker
    form: Form
    """`named`: the context has only the turn's id."""
    tokens: int
    """Tokens of the message as it was recorded."""
    shown_tokens: int
    """Tokens of its form; 0 if it has no text of its own."""
    why: str
    """Why it has this form; of a short one also what worded it."""


def message_reports(
    settings: Hybrid,
    infos: Sequence[TurnInfo],
    rows: Sequence[Block],
    state: HybridState,
    made: Mapping[str, Artefact],
) -> list[MessageReport]:
    """Report on the messages of turns that a plan's rows show, oldest first."""
    protection = protect(infos, messages=settings.protected_messages, injections=settings.kept_injections)
    reasons = _Reasons(settings, state, protection)
    by_turn: dict[int, list[Block]] = {}
    for row in rows:
        for turn in range(row.first, row.last + 1):
            by_turn.setdefault(turn, []).append(row)
    return [report for info in infos for report in _turn(info, by_turn.get(info.turn, ()), reasons, made)]


@dataclass(frozen=True, slots=True)
class _Reasons:
    settings: Hybrid
    state: HybridState
    protection: Protection

    def whole(self, place: Place, message: MessageSize, *, is_open: bool) -> str:
        """Return the first reason that applies."""
        protection, state = self.protection, self.state
        reasons = (
            (speaker_of(message) == "system", SYSTEM),
            (
                place in protection.talk,
                f"one of the {self.settings.protected_messages} newest messages of user and assistant",
            ),
            (place in protection.prompt, "the newest prompt"),
            (place in protection.unread, "the model has not answered this result yet"),
            (place in protection.injected, "one of the newest injections"),
            (message.tokens <= WORTH_TOKENS, f"too small to shorten: at most {WORTH_TOKENS} tokens"),
            (is_open and place > state.reach, "its turn is in progress"),
            (state.marks(place), "its short form is not smaller"),
            (place in state.spared, "it was protected when older messages were shortened"),
            (state.compressions, "the target was reached before it"),
        )
        return next((why for applies, why in reasons if applies), "the history has room for it")

    def short(self, place: Place, speaker: Speaker, made: Artefact | None) -> str:
        if place in self.state.chosen:
            return "chosen by the compression agent"
        by_agent: Any = made.data.get(AGENT_KEY, ()) if made else ()
        model = made.data.get("model") if made else None
        if place[1] in by_agent:
            return "the history reached the trigger; by the compression agent"
        if speaker == "tool":
            return "the history reached the trigger; by the metadata of the result"
        return f"the history reached the trigger; by {model or 'rules'}"


def _turn(
    info: TurnInfo, rows: Sequence[Block], reasons: _Reasons, made: Mapping[str, Artefact]
) -> Iterator[MessageReport]:
    form: Form
    steps = {message.position: number for number, step in enumerate(info.steps, 1) for message in step}
    for message in info.messages:
        step = steps.get(message.position, 1)
        row = next((row for row in rows if row.level != "A" and _has_step(row, step)), None)
        place = (info.turn, message.position)
        if message.kind == "display":
            form, tokens, why = NO_DISPLAY
        elif speaker_of(message) == "system" and any(row.level == "A" for row in rows):
            form, tokens, why = "whole", message.tokens, SYSTEM
        elif row is None:
            form, tokens, why = NO_ROOM
        elif row.level not in ("R", "M"):
            form, tokens, why = "era" if row.level == "E" else "sentence", 0, ROLLED
        elif message.position in row.short:
            form, tokens, why = _short(place, speaker_of(message), made.get(row.artefact), reasons)
        elif row.is_cut:
            form, tokens, why = "cut", min(message.tokens, row.tokens), "the newest turn alone exceeds its room"
        else:
            form, tokens, why = "whole", message.tokens, reasons.whole(place, message, is_open=info.is_open)
        turn, speaker = turn_id(info.turn), speaker_of(message)
        yield MessageReport(turn, message.position, speaker, form, message.tokens, tokens, why)


def _has_step(row: Block, step: int) -> bool:
    return not row.first_step or row.first_step <= step <= row.last_step


def _short(place: Place, speaker: Speaker, made: Artefact | None, reasons: _Reasons) -> tuple[Form, int, str]:
    text = short_texts(made).get(place[1], "") if made else None
    tokens = made.sizes.get(place[1], 0) if made else 0
    if text is not None and (not text or LEFT_OUT in text):
        return "left out", tokens, "the protected messages alone nearly fill the window"
    if place in reasons.state.cut:
        return "cut", tokens, "the protected messages alone exceed the window"
    return "short", tokens, reasons.short(place, speaker, made)
