"""The request for a context; checks, counts and fits its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from foveate.additions import without_reminders
from foveate.context.assemble import MESSAGE_TOKENS, Order, prompt_extra_tokens, prompt_messages
from foveate.context.pairs import loose_ends, provider_message_count
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
"""Simpler histories: the newest whole turns as messages, the same as text, or no history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """A request for a context of a session at one moment."""

    snapshot: SessionSnapshot
    name: str
    """The name of the strategy."""
    strategy: Strategy
    budget_tokens: int
    prompt: str | Sequence[Message] = ""
    system: str = ""
    tools_tokens: int = 0
    """Base tokens of the tools in the request."""
    history_tools_tokens: int = 0
    """The part of `tools_tokens` for history tools that are sent only if there is a history in tags."""
    order: Order = "cache-first"
    is_preview: bool = False
    is_display: bool = False
    """No answer is expected from the context."""
    """Budget or strategy differ from the session's own; nothing is saved."""
    ends_turn: bool = False
    """The prompt begins a new turn and ends the newest one."""
    is_pending: bool = False
    """The newest turn continues; its newest step is sent as messages."""
    has_results: bool = False
    """The prompt begins with results of calls in the newest turn."""
    query: str = ""
    """The query for recall; empty for no recall."""
    retrieved: Sequence[int] = ()
    """Turns that the model has retrieved."""
    agent: AgentStatus = "none"
    """The status of the strategy's agent."""
    fallback: Fallback | None = None
    """The simpler history to use, after the requested context failed."""
    read: ReadParts = field(default_factory=ReadParts)
    """Data that was read for its plans."""

    @property
    def session(self) -> SessionRow:
        return self.snapshot.session


PROMPT_MESSAGES = 2
"""Messages of a prompt whose framing is part of every context's reserve."""


def check_prompt(prompt: str | Sequence[Message]) -> None:
    """Reject a prompt with a call that lacks its result: no provider accepts it."""
    open_calls = () if isinstance(prompt, str) else loose_ends(prompt).calls
    if open_calls:
        name = open_calls[0].name
        raise InvalidMessage(
            "prompt", f"has a call of {name!r} without its result; add the result, or leave the call out"
        )


def said_by_user(messages: Sequence[Message]) -> str:
    """Return the newest text of the user, without additions by clients; empty if there is none."""
    said = (without_reminders(one.text) for one in reversed(messages) if one.role == "user" and one.kind == "message")
    return next((text for text in said if text.strip()), "")


def prompt_tokens(prompt: str | Sequence[Message], session: SessionRow) -> int:
    """Count the base tokens of a prompt as it is sent, with the framing of its messages beyond the first two."""
    sizes = SentSizes.of(session.model, session.encoding)
    if isinstance(prompt, str):
        return sizes.counter.base(prompt)
    messages = prompt_messages(prompt)
    framing = MESSAGE_TOKENS * max(0, provider_message_count(messages) - PROMPT_MESSAGES)
    return sizes.counter.base(turn_text(messages)) + prompt_extra_tokens(messages, sizes) + framing


def fit_prompt(prompt: str | Sequence[Message], session: SessionRow, room_tokens: int) -> str | Sequence[Message]:
    """Replace attachments of the prompt that do not fit the room by notes."""
    if isinstance(prompt, str) or not has_media(prompt):
        return prompt
    tokens = prompt_tokens(prompt, session)
    return SentSizes.of(session.model, session.encoding).fit_media(prompt, room_tokens, tokens)
