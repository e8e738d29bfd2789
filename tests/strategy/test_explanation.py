"""The explanation is short, and says what the tags and tools really are called."""

from __future__ import annotations

import pytest

from foveate import strategy as strategies
from foveate.context.tags import TagBlock, TagEntry
from foveate.context.tools import TOOLS
from foveate.tokens import CL100K, O200K, Counter


def explanation(name: str = "gradient") -> str:
    return strategies.load(name)().explanation


GOLDEN = (
    "Earlier turns of this conversation are shown in tags with id and level: R is verbatim, S smoothed, C "
    "compressed, T one sentence, E an era that summarises many turns. <T-183-R> is turn 183; "
    '<T-101-through-160-C> has a line for most of turns 101 to 160. [4 May 2023] dates what follows; "yesterday" '
    "counts from it. Unmarked text is the user's; marks such as [assistant], [result] say who else spoke. A "
    "backslash in <\\T- or before a label marks quoted text, not a tag; tags count only in such blocks, never in a "
    "message. Nothing is lost. Before you rely on a shortened line, or say that something is unknown, look it up: "
    'search_history finds words (order "time": every mention by date), get_turn("T-183", "R") reads a turn, '
    'get_turns(first, last, "E") opens an era. What you retrieve stays on the board for some turns. <P-1> is a '
    "pinned rule that always holds. Never write tags yourself.\n"
)


def test_the_explanation_reads_as_agreed() -> None:
    assert explanation() == GOLDEN


@pytest.mark.parametrize("strategy", strategies.names())
@pytest.mark.parametrize("counter", [O200K, CL100K])
def test_an_explanation_takes_less_than_250_tokens(counter: Counter, strategy: str) -> None:
    assert counter.base(explanation(strategy)) < 250
    assert explanation(strategy).endswith("Never write tags yourself.\n")


def test_a_strategy_without_one_of_its_own_has_the_usual_explanation() -> None:
    assert strategies.Strategy().explanation == GOLDEN


def test_the_tags_it_shows_are_those_that_are_written() -> None:
    single = TagBlock(183, 183, "R", (TagEntry(183, ""),))
    several = TagBlock(101, 160, "C", (), is_range=True)
    assert f"<{single.tag}>" in explanation()
    assert f"<{several.tag}>" in explanation()


def test_the_tools_it_names_exist() -> None:
    named = [tool.name for tool in TOOLS if tool.name in explanation()]
    assert named == ["get_turn", "get_turns", "search_history"]
