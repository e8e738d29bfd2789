"""No content can open, close or forge a turn's tag, and what was written comes back exactly."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from foveate.context.tags import escape_tags, tag_turn, unescape_tags
from strategies import texts

TAG = re.compile(r"<\s*/?\s*T-\d+", re.IGNORECASE)
"""What a lenient reader takes for a tag."""
STRICT = re.compile(r"\A<(T-\d+-[A-Z])>\n(.*)</\1>\n\Z", re.DOTALL)

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


@given(st.lists(st.tuples(st.integers(1, 10**9), forgeries), max_size=4))
def test_turns_come_back_out_of_their_tags_exactly(turns: list[tuple[int, str]]) -> None:
    tagged = "".join(tag_turn(number, "R", f"{text}\n") for number, text in turns)
    found = re.findall(r"<T-(\d+)-R>\n(.*?)</T-\1-R>\n", tagged, re.DOTALL)
    assert [(int(number), unescape_tags(text)) for number, text in found] == [(n, f"{t}\n") for n, t in turns]


@given(st.integers(1, 10**9), st.sampled_from("RSCT"), forgeries)
def test_a_tagged_turn_holds_two_tags_its_own(number: int, level: str, text: str) -> None:
    tagged = tag_turn(number, level, f"{text}\n")
    assert len(TAG.findall(tagged)) == 2
    found = STRICT.match(tagged)
    assert found
    assert found[1] == f"T-{number}-{level}"


def test_a_tag_stands_on_lines_of_its_own() -> None:
    assert tag_turn(87, "R", "[user] hi\n") == "<T-87-R>\n[user] hi\n</T-87-R>\n"
