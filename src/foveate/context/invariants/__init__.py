"""The invariants of every context, one per file. `problem` describes a violation, or returns None.

Invariants of the text are checked when a context is assembled, those of messages when they are rendered, so that no
context that breaks one is returned. `check` runs all of them, in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foveate.context.invariants import (
    fits_budget,
    pins_verbatim,
    reasoning_with_call,
    tags_balanced,
    tool_pairs_whole,
)
from foveate.errors import InvariantBroken
from foveate.formats import PROVIDER_FORMATS
from foveate.plan import Block
from foveate.turn import Json, Message

if TYPE_CHECKING:
    from foveate.context.context import Context
    from foveate.context.pins import ShownPin


def check(context: Context, *, pins: Sequence[ShownPin], rows: Sequence[Block]) -> None:
    """Check all invariants; `InvariantBroken` names the first that does not hold."""
    check_text(context, pins=pins, rows=rows)
    for name in PROVIDER_FORMATS:
        context.messages(name)


def check_text(context: Context, *, pins: Sequence[ShownPin], rows: Sequence[Block]) -> None:
    """Check the invariants of the text."""
    _demand("fits_budget", fits_budget.problem(context))
    if pins:
        _demand("pins_verbatim", pins_verbatim.problem(context, pins))
    _demand("tags_balanced", tags_balanced.problem(context, rows))


def check_messages(name: str, rendered: Sequence[Json], native: Sequence[Message]) -> None:
    """Check the invariants of the messages in one format; `native` are those that were recorded."""
    _demand("tool_pairs_whole", tool_pairs_whole.problem(name, rendered))
    _demand("reasoning_with_call", reasoning_with_call.problem(name, rendered, native))


def _demand(invariant: str, problem: str | None) -> None:
    if problem is not None:
        raise InvariantBroken(invariant, problem)
