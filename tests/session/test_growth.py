"""Whatever a page of text consists of, each surface that reads it takes work in proportion to its length.

The lines of Python that run are counted, and so are the characters whose tokens are counted; patterns are counted one
by one, since a pattern is a single line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import foveate.agents
import foveate.formats
import foveate.history
import foveate.intake
import foveate.knowledge
import foveate.models
import foveate.recall
import foveate.renditions
import foveate.secrets
import foveate.server
import foveate.session
import foveate.tools
from foveate.additions import typed_by_person, without_added
from foveate.compress.local import LocalCompressor
from foveate.context.cut import cut_text
from foveate.context.pages import paginate, parts_line
from foveate.context.tags import TagBlock, TagEntry, parse_blocks, write_block
from foveate.recall.passages import cut_turn
from foveate.recall.words import extra_words, gist, query_phrases, snippet
from foveate.session.export import _markdown_blocks
from foveate.text import escape_marks, for_terminal, turn_text, unescape_marks
from foveate.turn import Message, Text, ToolCall, ToolResult
from support.pattern_steps import PAIRS, check_growth, unbounded_patterns

UNITS = {
    "backslashes": "\\",
    "flags": "\U0001f1e9\U0001f1ea",
    "combining marks": "\u0301",
    "joiners": "\u200d",
    "joined emoji": "\U0001f469\u200d",
    "backticks": "`",
    "fences": "```\n",
    "tildes": "~",
    "square brackets": "[",
    "angle brackets": "<",
    "parentheses": "(",
    "braces": '{"a":',
    "spaces": " ",
    "newlines": "\n",
    "quotes": '"',
    "apostrophes": "a'",
    "guillemets": "\xab",
    "soft hyphens": "\xad",
    "list items": "- a\n",
    "numbers": "1 ",
    "sentences": "Ab c. ",
    "letters": "a",
    "reminders": "<system-reminder>",
}
CHARS = 1_000
TIMES = 4
COMPRESSED_CHARS = 4_000
"""From here on the compressor compares a clause with the most others that it ever does."""
MOST_GROWTH = 8
"""Work at four times the length; it is about 16 where something is quadratic."""
FIXED_STEPS = 3_000
"""Work that does not depend on the length, such as imports at the first call."""
Surface = Callable[[str, "Work"], object]


class Work:
    """Counts the lines of Python that run, and the characters that are given to a tokenizer."""

    def __init__(self) -> None:
        self.steps = 0

    def count(self, text: str) -> int:
        self.steps += len(text)
        return len(text) // 4 + 1

    def of(self, surface: Surface, text: str) -> int:
        def trace(_frame: FrameType, event: str, _argument: object) -> Any:
            self.steps += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            surface(text, self)
        finally:
            sys.settrace(before)
        return self.steps


def _turn(text: str) -> tuple[Message, ...]:
    call = ToolCall("bash", {"command": text}, id="c")
    result = Message("tool", (ToolResult("c", (Text(text),)),))
    return (Message("user", (Text(text),)), Message("assistant", (call,)), result, Message("assistant", (Text(text),)))


def _block(text: str) -> TagBlock:
    return TagBlock(1, 1, "R", (TagEntry(1, f"[user]\n{text}\n"),))


SURFACES: dict[str, Surface] = {
    "tags": lambda text, _: parse_blocks(write_block(_block(text))),
    "pages": lambda text, work: parts_line(paginate([_block(text)], 300, work.count)),
    "cut": lambda text, work: cut_text(text, len(text) // 8, work.count, 9),
    "compression": lambda text, work: LocalCompressor().compress(1, _turn(text), work.count),
    "passages": lambda text, _: cut_turn(_turn(text)),
    "index": lambda text, _: extra_words(text),
    "queries": lambda text, _: query_phrases(text),
    "snippets": lambda text, _: (snippet(text, "ab c", 200), gist(text, "ab c", 200)),
    "text": lambda text, _: (unescape_marks(escape_marks(text)), for_terminal(text), turn_text(_turn(text))),
    "exports": lambda text, _: [block for message in _turn(text) for block in _markdown_blocks(message)],
    "injections": lambda text, _: (typed_by_person(text), without_added(_turn(text))),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("surface", SURFACES)
def test_four_times_the_text_takes_no_more_than_its_share_of_work(surface: str, unit: str) -> None:
    chars = COMPRESSED_CHARS if surface == "compression" else CHARS
    once, often = (UNITS[unit] * (size // len(UNITS[unit])) for size in (chars, TIMES * chars))
    Work().of(SURFACES[surface], once)  # compiles and loads what the first call needs
    less, more = (Work().of(SURFACES[surface], text) for text in (once, often))
    assert more <= MOST_GROWTH * less + FIXED_STEPS, f"{less:,} steps, then {more:,}"


ANCHORED = {
    "recall.replies.NAME_AT_START",
    "session.found.NAME_AT_START",
    "knowledge.markdown._ESCAPED",
    "renditions._MCP_TOOL",
    "agents.signals._STATUS",
    "agents.signals._TASKS",
    "agents.signals._LISTED",
    "agents.tasks._ITEM",
    "models.failures._RESET_SPAN",
    "models.names._ENDPOINT",
    "tools.builtin.grep._PLACE",
    "tools.web.fetch._TYPE",
    "tools.web.guard._NUMBER",
}
"""Patterns that are only matched from the start of a text."""
BOUNDED = {"knowledge.own_words._ENCODED"}
"""Patterns that look at no more than some dozens of characters before they match or give up."""
PATTERNS: dict[str, re.Pattern[str]] = dict(
    unbounded_patterns(
        foveate.agents,
        foveate.formats,
        foveate.history,
        foveate.intake,
        foveate.knowledge,
        foveate.models,
        foveate.recall,
        foveate.renditions,
        foveate.secrets,
        foveate.server,
        foveate.session,
        foveate.tools,
    )
)


@pytest.mark.parametrize("is_paired", PAIRS)
@pytest.mark.parametrize("name", sorted(PATTERNS.keys() - BOUNDED))
def test_a_pattern_takes_twice_the_steps_for_twice_the_text(name: str, *, is_paired: bool) -> None:
    check_growth(PATTERNS[name], is_paired=is_paired, is_anchored=name in ANCHORED)
