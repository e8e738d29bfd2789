"""Options of a chat or a run: how it talks to its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from foveate.agents.calls import OwnTool
from foveate.store.agents import CallLimit
from foveate.store.rows import CostRow
from foveate.tools import Toolbox

if TYPE_CHECKING:
    from foveate.client import Foveate

MAX_TOOL_ROUNDS = 8
"""Limit of tool rounds for one prompt without a toolbox; then the model is called once more, without tools."""
DEFAULT_MAX_OUTPUT_TOKENS = 4_096

Costs: TypeAlias = Callable[[str], Awaitable[Sequence[CostRow]]]
"""Returns the costs of the calls for a session, as `Foveate.costs` does."""
Admit: TypeAlias = Callable[[], Awaitable[None]]
"""Checks that a chat may continue; an error ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of a chat and of a run."""

    system: str = ""
    max_output_tokens: int = DEFAULT_MAX_OUTPUT_TOKENS
    window_tokens: int | None = None
    """The model's window, checked against the budget and the output limit."""
    has_tools: bool = True
    toolbox: Toolbox | None = None
    own_tools: Sequence[OwnTool] = ()
    """Tools of the calling program."""
    max_tool_rounds: int = MAX_TOOL_ROUNDS
    temperature: float | None = None
    costs: Costs | None = None
    """Returns the cost of an answer; without it, costs are 0."""
    keeps_partial: bool = True
    """Record the part of an interrupted answer that was received."""
    admit: Admit | None = None
    """Awaited before each call of the model and each tool call; an error ends the answer."""
    within: CallLimit | None = None
    """Limits of the calls of an agent."""

    @classmethod
    def of(cls, fov: Foveate, toolbox: Toolbox | None = None, **given: Any) -> ChatOptions:
        """Make options with the costs of a store and its limit of tool rounds, and the passed ones."""
        rounds = fov.settings.agents.max_tool_rounds if toolbox else MAX_TOOL_ROUNDS
        return cls(costs=fov.costs, toolbox=toolbox, max_tool_rounds=rounds, **given)
