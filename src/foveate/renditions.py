"""The lower levels of a turn: smoothed, compressed, tiny, and the units that eras are made of.

    R raw · S smoothed (~60 %) · C compressed (30-40 %) · T tiny, one sentence (at most 50 tokens)

A compressor is a plain function of the messages. The background worker calls it, the guard checks the result, and
everything can be rebuilt from the raw turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from foveate.turn import Message, Part, ToolResult

Level = Literal["R", "S", "C", "T"]
LEVELS: tuple[Level, ...] = ("R", "S", "C", "T")
TINY_TOKENS = 50
"""Maximum tokens of a tiny rendition."""
LINE_TURNS, LINE_WORDS = 8, 5
"""Turns of an era that one of its lines represents at most, and the content words that it needs for that."""
NOTHING = "…"
"""The text of a turn without words."""

Count = Callable[[str], int]
"""Counts the tokens of a text."""


def shape_level(level: Level, text: str) -> str:
    """Shape a text for its level: C and T without white space at either end and never empty, T on one line."""
    if level == "T":
        return " ".join(text.split()) or NOTHING
    if level == "C":
        return text.strip() or NOTHING
    return text


@dataclass(frozen=True, slots=True)
class Unit:
    """A clause with facts that can be used on its own in a summary."""

    turn: int
    text: str
    """One line; begins with a mark such as `[assistant]` unless the user said it."""
    worth: float
    """The weight of its facts, including speaker and cues."""
    facts: frozenset[str]
    """Normal forms of its facts, so that one covered elsewhere is not counted twice."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rendition that the guard rejected, and why."""

    level: Level
    reason: str
    kept_share: float
    lost: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Renditions:
    """The renditions of a turn, made by a compressor.

    `smoothed` is lines with marks as `foveate.text` makes them, ending in a newline. `compressed` and `tiny` are shown
    after `Turn 12: `, so they are shaped (`shape_level`) whoever made them. Unmarked text is the user's.
    """

    smoothed: str
    compressed: str
    tiny: str
    units: tuple[Unit, ...]
    """Units for eras, best first."""
    refusals: tuple[Refusal, ...] = ()
    is_complete: bool = True
    """False if a fallback replaces a level, to be tried again later."""
    brief: str = ""
    """About two thirds of the turn, cut word by word like T: a plan may show it on a line in place of C. Empty: none.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "brief", self.brief.strip())
        object.__setattr__(self, "compressed", shape_level("C", self.compressed))
        object.__setattr__(self, "tiny", shape_level("T", self.tiny))


class Compressor(Protocol):
    """Makes all renditions of a turn. `name` and `version` are stored with the result."""

    name: str
    version: int

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions: ...


HISTORY_TOOLS = frozenset({"get_turn", "get_turns", "get_turns_by_topic", "search_history", "context_remaining"})
"""Tools by which a model reads its history again; `foveate.context.tools` defines them."""
_MCP_TOOL = re.compile(r"(?:.*[_.:/-])?foveate[_.:/-]+(?:search_history|get_turns?|get_context|list_sessions)")
"""Tools of Foveate's MCP server as clients name them, e.g. `mcp__foveate__search_history`."""


def is_history_tool(name: str) -> bool:
    """Return whether a tool reads recorded history: one of Foveate's own, or of its MCP server."""
    return name in HISTORY_TOOLS or _MCP_TOOL.fullmatch(name) is not None


def without_recalled(messages: Sequence[Message]) -> list[Message]:
    """Empty the results of history tools, so that recalled text is never recorded as new."""
    recalls = {call.id for message in messages for call in message.tool_calls if is_history_tool(call.name)}
    return [
        message if not any(_is_recalled(part, recalls) for part in message.parts) else _emptied(message, recalls)
        for message in messages
    ]


def _is_recalled(part: Part, recalls: Collection[str | None]) -> bool:
    if not isinstance(part, ToolResult):
        return False
    return is_history_tool(part.name) if part.name else part.call_id is not None and part.call_id in recalls


def _emptied(message: Message, recalls: Collection[str | None]) -> Message:
    parts = (
        replace(part, content=()) if isinstance(part, ToolResult) and _is_recalled(part, recalls) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts), original=None)
