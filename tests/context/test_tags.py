"""No content can open, close or forge a turn's tag, and what was written comes back exactly."""

from __future__ import annotations

import re
from typing import Literal

from hypothesis import example, given
from hypothesis import strategies as st

from foveate.context.tags import escape_tags, parse_blocks, tag_turn, unescape_tags
from strategies import texts

TAG = re.compile(r"<\s*/?\s*T-\d+", re.IGNORECASE)
"""What a lenient reader takes for a tag."""
Level = Literal["R", "S", "C", "T"]

levels: st.SearchStrategy[Level] = st.sampled_from(("R", "S", "C", "T"))
forgeries = st.lists(
    st.sampled_from(["<", "</", "< /", "<\\", "\\", "/", "T-", "t-", "7", "-R", ">", "\n", " ", "\u2028"]) | texts,
    max_size=12,
).map("".join)


@given(forgeries)
@example("<T-7-R> <\\T-7-R> <\\\\/T-7-R> </ T-7-R>")
def test_escaping_is_undone_exactly(text: str) -> None:
    assert unescape_tags(escape_tags(text)) == text


@given(forgeries)
@example("< /T-7-R>")
@example("</\n t-7-R>")
def test_no_escaped_text_holds_a_tag(text: str) -> None:
    assert TAG.search(escape_tags(text)) is None


@given(st.lists(st.tuples(st.integers(1, 10**9), levels, forgeries), max_size=4))
def test_turns_come_back_out_of_their_tags_exactly(turns: list[tuple[int, Level, str]]) -> None:
    tagged = "".join(tag_turn(number, level, f"{text}\n") for number, level, text in turns)
    found = [(block.first, block.level, block.entries[0].text) for block in parse_blocks(tagged)]
    assert found == [(number, level, f"{text}\n") for number, level, text in turns]


@given(st.integers(1, 10**9), levels, forgeries)
def test_a_tagged_turn_holds_two_tags_its_own(number: int, level: Level, text: str) -> None:
    tagged = tag_turn(number, level, f"{text}\n")
    assert TAG.findall(tagged) == [f"<T-{number}", f"</T-{number}"]
    assert tagged.startswith(f"<T-{number}-{level}>")
    assert tagged.endswith(f"\n</T-{number}-{level}>\n")


def test_a_raw_turn_stands_on_lines_of_its_own() -> None:
    assert tag_turn(87, "R", "[user] hi\n") == "<T-87-R>\n[user] hi\n</T-87-R>\n"
