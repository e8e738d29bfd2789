"""Rows written out: counted to the token, cut to their place, user's words and short messages where they belong."""

from hypothesis import given
from hypothesis import strategies as st

from foveate.context.costs import overheads
from foveate.context.tags import SUMS, TagEntry, block_of, parse_blocks, write_block
from foveate.history.blocks import ONLY_NAMED, artefact_entry, log_text, mixed_text, user_text, write_text
from foveate.history.sizes import split_steps
from foveate.plan import ArtefactSpec, Block, ShownLevel
from foveate.strategy.build import made_of, made_short
from foveate.text import message_text, turn_text
from foveate.tokens import Counter
from foveate.turn import Message, Text, ToolResult
from support.contexts import counters, forgeries, marked
from support.engine import assistant, tool_step, user
from support.strategies import conversations

levels: st.SearchStrategy[ShownLevel] = st.sampled_from(["R", "U", "M", "A", "C", "T"])


@given(forgeries, levels, st.integers(1, 400), st.booleans(), counters)
def test_a_row_costs_what_it_is_counted_at_and_a_cut_one_no_more_than_planned(
    text: str, level: ShownLevel, room: int, is_cut: bool, counter: Counter
) -> None:
    costs = overheads(7, counter)
    frame = costs.range if level in SUMS else costs.tag
    row = Block(7, 7, level, frame + costs.cut_note + room, is_cut=is_cut)
    entry = TagEntry(7, marked(text * 9, level))
    written = write_text(row, [entry], counter, costs)
    assert counter.base(written.text) == written.tokens
    (block,) = parse_blocks(written.text)
    assert write_block(block) == written.text
    if is_cut:
        assert written.tokens <= row.tokens
    else:
        assert block == block_of(row, [entry])


@given(conversations())
def test_the_users_words_are_verbatim_and_all_of_them(spoken: list[Message]) -> None:
    text = user_text(spoken)
    assert "[result" not in text.replace("\\[result", "")
    for message in spoken:
        if message.role == "user" and not message.tool_results:
            assert message_text(message) in text


def test_what_is_said_beside_a_tool_result_is_the_users_too() -> None:
    result = ToolResult("c1", (Text("output"),), name="ls")
    assert user_text([Message("user", (result, Text("and do hurry"))), Message("user", (result,))]) == (
        "[user] and do hurry\n"
    )


@given(conversations(), st.data())
def test_messages_that_are_not_short_are_word_for_word(spoken: list[Message], data: st.DataObject) -> None:
    places = data.draw(st.sets(st.sampled_from(range(len(spoken)))) if spoken else st.just(set()))
    short = {place: f"[{spoken[place].role}] …\n" for place in places}
    assert mixed_text(spoken, short, ()) == mixed_text(spoken, {}, places) == turn_text(tuple(spoken))
    expected = [short.get(place) or message_text(message) for place, message in enumerate(spoken)]
    assert mixed_text(spoken, short, places) == "".join(expected)


def test_a_steps_short_messages_are_found_by_their_position_in_the_turn() -> None:
    messages = (user("Go"), *tool_step(1, "one"), *tool_step(2, "two"), assistant("Done."))
    made = made_short(ArtefactSpec("s", "short", 3, 3), {2: "[result exec] 1\n", 4: "[result exec] 2\n"})
    row = Block(3, 3, "M", 100, artefact="s", short=(2, 4), first_step=2, last_step=4, is_range=True)
    steps = split_steps(messages)
    shown = [log_text(row, step.messages, {"s": made}, step=step) for step in steps]
    assert [text.splitlines()[-1] for text in shown] == [
        "[user] Go",
        "[result exec] 1",
        "[result exec] 2",
        "[assistant] Done.",
    ]


def test_what_is_not_made_yet_says_so() -> None:
    row = Block(1, 4, "A", 100, artefact="a")
    made = made_of(ArtefactSpec("a", "topic", 1, 4), "Harbour.")
    assert artefact_entry(row, {}).text == ONLY_NAMED
    assert artefact_entry(row, {"a": made}).text == "Harbour."
