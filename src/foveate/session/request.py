"""What a context is asked for; its prompt is checked, counted and made to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.additions import without_reminders
from foveate.context.assemble import Order, prompt_messages
from foveate.context.context import Context
from foveate.context.pairs import loose_ends
from foveate.errors import InvalidMessage
from foveate.formats.sizes import SentSizes, has_media
from foveate.session.values import Pin
from foveate.store import SessionRow
from foveate.text import turn_text
from foveate.turn import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a context is asked for."""

    prompt: str | Sequence[Message]
    budget_tokens: int
    system: str
    pins: Sequence[Pin]
    tools_tokens: int
    """Base tokens of the tools that are sent along."""
    history_tools_tokens: int
    """Of these, what is sent only with a history in tags."""
    order: Order
    strategy: str | None = None
    """To look at the session through another than its own, as a preview."""
    recall: bool = True
    """Show again what the prompt brings up."""


def check_prompt(prompt: str | Sequence[Message]) -> None:
    """A call at the end of a prompt has no result yet, and no provider answers one."""
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


def answer_prefix(context: Context) -> str | None:
    """The hash of a context's request, stored with its answer; None while a call waits for its result."""
    return None if context.layout.open_call else context.prefix()
