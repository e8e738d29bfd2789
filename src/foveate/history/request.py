"""What a context is asked for; its prompt is checked, counted and made to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from foveate.additions import without_reminders
from foveate.context.assemble import Order, prompt_messages
from foveate.context.pairs import loose_ends
from foveate.errors import InvalidMessage
from foveate.formats.sizes import SentSizes, has_media
from foveate.history.snapshot import ReadParts
from foveate.plan import AgentStatus
from foveate.store import SessionRow
from foveate.store.snapshot import SessionSnapshot
from foveate.strategy import Strategy
from foveate.text import turn_text
from foveate.turn import Message

Fallback = Literal["whole-turns", "text", "none"]
"""Simpler histories: the newest whole turns, as messages or else as text, or none at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """What a context is asked for, of a session at one moment."""

    snapshot: SessionSnapshot
    name: str
    """The strategy's."""
    strategy: Strategy
    budget_tokens: int
    prompt: str | Sequence[Message] = ""
    system: str = ""
    tools_tokens: int = 0
    """Base tokens of the tools that are sent along."""
    history_tools_tokens: int = 0
    """Of these, what is sent only with a history in tags."""
    order: Order = "cache-first"
    is_preview: bool = False
    """Another budget or strategy than the session's own; nothing is saved."""
    ends_turn: bool = False
    """The prompt begins a turn, so that the newest one is over."""
    is_pending: bool = False
    """The newest turn goes on: its newest step is sent as messages,"""
    has_results: bool = False
    """and the prompt brings the results of its calls."""
    query: str = ""
    """What recall looks for; empty: nothing."""
    retrieved: Sequence[int] = ()
    """Turns that the model retrieved."""
    agent: AgentStatus = "none"
    """The status of the strategy's agent."""
    fallback: Fallback | None = None
    """Set if a context could not be made otherwise."""
    read: ReadParts = field(default_factory=ReadParts)
    """What was read for it."""

    @property
    def session(self) -> SessionRow:
        return self.snapshot.session


def check_prompt(prompt: str | Sequence[Message]) -> None:
    """Reject a prompt that ends with a call without its result: no provider answers one."""
    open_calls = () if isinstance(prompt, str) else loose_ends(prompt).calls
    if open_calls:
        name = open_calls[0].name
        raise InvalidMessage(
            "prompt", f"has a call of {name!r} without its result; add the result, or leave the call out"
        )


def said_by_user(messages: Sequence[Message]) -> str:
    """The newest words of the user, without what a client adds to them; empty if there are none."""
    said = (without_reminders(one.text) for one in reversed(messages) if one.role == "user" and one.kind == "message")
    return next((text for text in said if text.strip()), "")


def prompt_tokens(prompt: str | Sequence[Message], session: SessionRow) -> int:
    """Base tokens of a prompt as it is sent."""
    sizes = SentSizes.of(session.model, session.encoding)
    if isinstance(prompt, str):
        return sizes.counter.base(prompt)
    messages = prompt_messages(prompt)
    return sizes.counter.base(turn_text(messages)) + sizes.extra_tokens(messages)


def fit_prompt(prompt: str | Sequence[Message], session: SessionRow, room_tokens: int) -> str | Sequence[Message]:
    """The prompt, with notes in the place of attachments that do not fit beside the fixed part."""
    if isinstance(prompt, str) or not has_media(prompt):
        return prompt
    tokens = prompt_tokens(prompt, session)
    return SentSizes.of(session.model, session.encoding).fit_media(prompt, room_tokens, tokens)
