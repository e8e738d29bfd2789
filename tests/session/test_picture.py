"""The picture of a context: cells of turns, hollow where it says nothing of them."""

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

import foveate.sync as foveate
from conversation import make_conversation
from foveate.context.context import Segment
from foveate.context.render import Layout
from foveate.errors import TurnNotFound
from foveate.plan import ShownLevel
from foveate.session.picture import (
    IN_PART,
    Cell,
    ShownTurn,
    bands_of,
    cells_of,
    joined,
    keep_row,
    past_picture,
    picture_of,
    silent_turns,
)
from foveate.session.values import Context
from foveate.settings import strategy_names

SAID = "Ingrid moved the mooring invoices to Lindesnes harbour"
"""A line that speaks for eight turns."""


def part(level: ShownLevel, first: int, last: int, text: str = "", levels: str = "") -> Segment:
    return Segment("history", 9, is_stable=True, first=first, last=last, level=level, text=text, levels=levels)


SEGMENTS = (part("E", 1, 32, f"T-9 {SAID}"), part("C", 33, 36, levels="C--T"), part("R", 37, 37))
CELLS = [
    Cell(1, 8, "E", is_cached=True, is_hollow=True),
    Cell(9, 16, "E", is_cached=True),
    Cell(17, 32, "E", is_cached=True, is_hollow=True),
    Cell(33, 33, "C", is_cached=True),
    Cell(34, 35, "E", is_cached=True, is_hollow=True),
    Cell(36, 36, "T", is_cached=True),
    Cell(37, 37, "R", is_cached=True),
]


def test_turns_without_words_are_hollow_cells() -> None:
    assert list(cells_of(SEGMENTS)) == CELLS
    assert CELLS[0].name == "T-1 to T-8: without words, cached"


def test_turns_that_a_context_leaves_out_are_hollow_too() -> None:
    cells = list(cells_of([part("R", 3, 3), part("R", 5, 5)]))
    assert [(cell.first, cell.last, cell.is_hollow) for cell in cells] == [
        (1, 2, True), (3, 3, False), (4, 4, True), (5, 5, False)
    ]  # fmt: skip


def test_hollow_cells_are_joined_with_hollow_ones_alone() -> None:
    cells = [Cell(1, 1, "E", is_hollow=True), Cell(2, 2, "E", is_hollow=True), Cell(3, 9, "E")]
    assert list(joined(cells)) == [Cell(1, 2, "E", is_hollow=True), Cell(3, 9, "E")]


def test_a_stored_picture_keeps_its_hollow_cells() -> None:
    context = Context("", 1, 2, SEGMENTS, "", "", Layout())
    stored = past_picture(keep_row(context, 37))
    assert [(cell.first, cell.last, cell.level, cell.is_hollow) for cell in stored.cells] == [
        (cell.first, cell.last, cell.level, cell.is_hollow) for cell in CELLS
    ]


def test_the_number_of_turns_without_words_is_named() -> None:
    assert [silent_turns(turns) for turns in (0, 1, 1_200)] == ["", "1 turn without words", "1,200 turns without words"]


def test_the_bands_of_a_mixed_block_share_its_tokens_and_its_era_counts() -> None:
    text = f"<T-1-through-4-E>\nT-2 {SAID}\n</T-1-through-4-E>\n<T-1-through-4-C>\nTurn 1: {SAID}\nTurn 4: {SAID}\n</T>"
    segments = (part("C", 1, 4, text, levels="C--T"), part("R", 5, 6))
    bands = bands_of(Context("", 1, 2, segments, "", "", Layout()))
    assert [(band["level"], band["turns"], band["first"], band["last"]) for band in bands] == [
        ("R", 2, 5, 6), ("C", 1, 1, 1), ("T", 1, 4, 4), ("E", 2, 2, 3)
    ]  # fmt: skip
    assert sum(int(str(band["tokens"])) for band in bands) == 18
    assert bands[0]["share"] == 0.5


def mixed(levels: str, tokens: int = 1_000, first: int = 1) -> Segment:
    """A block of lines, the first words of which are an era if it hides turns."""
    lines = "".join(f"Turn {turn}: {SAID}\n" for turn, level in enumerate(levels, first) if level != "-")
    return Segment("history", tokens, is_stable=True, first=first, last=first + len(levels) - 1, level="C",
                   text=f"<T>\n{lines}</T>\n", levels=levels)  # fmt: skip


def test_the_bar_counts_each_turn_at_its_own_level_and_not_at_that_of_its_block() -> None:
    picture = picture_of([mixed("CTTTTTTT")], 2_000)
    assert [(part.colour, part.turns) for part in picture.parts] == [("T", (2, 3, 4, 5, 6, 7, 8)), ("C", (1,))]
    tiny, compressed = (part.tokens for part in picture.parts)
    assert tiny > 6 * compressed > 0
    assert tiny + compressed == picture.tokens == 1_000


def test_appended_turns_are_in_the_legend_and_on_the_timeline() -> None:
    picture = picture_of([mixed("CT"), part("R", 3, 3), part("R", 4, 4)], 2_000)
    raw = next(part for part in picture.parts if part.colour == "R")
    assert (raw.turns, raw.tokens) == ((3, 4), 18)
    assert [column.last for column in picture.columns] == [1, 2, 3, 4]


def test_turns_that_are_left_out_are_hollow_and_no_eras() -> None:
    picture = picture_of([part("E", 1, 20, "(not shown)"), part("R", 21, 21)], 2_000)
    assert [(part.name, len(part.turns)) for part in picture.parts] == [("without words", 20), ("raw", 1)]
    assert {turn.shown_level for column in picture.columns[:-1] for turn in column.turns} == {"-"}
    assert picture.headline == "21 turns in 18 of 2,000 tokens: 1 word for word, 20 without words."


def test_parts_come_in_the_order_in_which_they_are_sent() -> None:
    around = [Segment(name, 5, is_stable=True) for name in ("system", "pins")]
    behind = [Segment(name, 5, is_stable=False) for name in ("memory", "prompt", "framing")]
    picture = picture_of([*around, part("T", 1, 1), part("R", 2, 2), *behind], 100)
    names = [part.name for part in picture.parts]
    assert names == ["system", "pins", "tiny", "raw", "memory", "prompt", "framing"]
    assert (picture.tokens, picture.free_tokens, picture.cached_tokens) == (43, 57, 28)


def test_a_turn_in_progress_comes_behind_memory_and_board() -> None:
    picture = picture_of([part("T", 1, 1), Segment("board", 5, is_stable=True), part("R", 2, 2)], 100)
    assert [part.name for part in picture.parts] == ["tiny", "board", "raw"]


def test_a_picture_of_ten_thousand_turns_has_few_columns() -> None:
    picture = picture_of(
        [mixed("T" * 9_990, 50_000), *(part("R", turn, turn) for turn in range(9_991, 10_001))], 60_000
    )
    assert len(picture.columns) <= 240
    assert (picture.turns, picture.columns[0].first, picture.columns[-1].last) == (10_000, 1, 10_000)
    assert {len(column.turns) for column in picture.columns[picture.ranges :]} == {1}
    assert sum(column.tokens for column in picture.columns) == picture.tokens


def test_segments_without_their_texts_are_drawn_too() -> None:
    bare = Segment("history", 100, is_stable=True, first=1, last=4, level="C", levels="CTTT")
    picture = picture_of([bare], 200)
    assert [(part.colour, part.tokens) for part in picture.parts] == [("T", 75), ("C", 25)]


def test_a_turn_in_steps_has_the_level_of_its_largest_one() -> None:
    short = Segment("history", 50, is_stable=True, first=1, last=1, level="C", text=SAID)
    picture = picture_of([short, part("R", 1, 1), part("R", 2, 2)], 100)
    assert [column.turns[0].level for column in picture.columns] == ["C", "R"]
    assert picture.columns[0].tokens == 59


def test_an_empty_context_has_a_picture() -> None:
    assert picture_of([], 100).headline == "No turns yet; 0 of 100 tokens are used."


def test_each_strategy_has_a_picture_whose_tokens_add_up(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        for strategy in strategy_names():
            session = fov.session(strategy, strategy=strategy, budget_tokens=3_000)
            session.pin("The port is 8443.")
            for turn in make_conversation(40, 42).turns:
                session.record(turn)
            fov.settle(session_id=session.id)
            context = session.context("Which port?")
            picture = session.picture(context)
            assert picture.tokens == context.tokens == sum(part.tokens for part in picture.parts), strategy
            history = sum(segment.tokens for segment in context.segments if segment.level)
            assert sum(column.tokens for column in picture.columns) == history, strategy
            assert [column.first for column in picture.columns] == list(range(1, 41)), strategy
            assert picture.hollow_turns == context.planned.turns_without_words, strategy
            assert all(tick.at for tick in picture.ticks), strategy


def test_targets_are_shown_for_plans_by_shares_only(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        targets = {}
        for bands in ("optimised", "documented"):
            session = fov.session(bands, budget_tokens=3_000, strategy_settings={"bands": bands})
            for turn in make_conversation(40, 42).turns:
                session.record(turn)
            fov.settle(session_id=session.id)
            found = bands_of(session.context())
            targets[bands] = {band["level"]: band["target_share"] for band in found if band["target_share"]}
    assert targets["optimised"] == {"R": 0.25}  # the share of the newest turns; the others are chosen by worth
    assert targets["documented"].items() >= {"R": 0.4, "C": 0.3}.items()


def test_a_turn_is_explained_by_its_place_in_the_plan(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        session = fov.session("s", budget_tokens=3_000)
        for turn in make_conversation(40, 42).turns:
            session.record(turn)
        fov.settle()
        session.context()
        session.record([{"role": "user", "content": "And the pier?"}, {"role": "assistant", "content": "Closed."}])
        context = session.context()
        newest = session.explain_turn("T-41", context)
        assert newest.why.startswith("It came after the last plan")
        assert (newest.level, newest.displaced, newest.raise_by) == ("R", "", ())
        oldest = session.explain_turn(1, context)
        assert "The plan was made at T-40" in oldest.why
        assert oldest.tokens < oldest.raw_tokens
        assert "40 newer turns take" in oldest.displaced
        with pytest.raises(TurnNotFound):
            session.explain_turn("T-99", context)


def test_a_turn_that_is_too_large_is_not_called_word_for_word(tmp_path: Path) -> None:
    sizes: tuple[tuple[ShownLevel, int], ...] = (("S", 20), ("R", 60), ("C", 40))
    steps = [Segment("history", size, is_stable=False, first=2, last=2, level=level) for level, size in sizes]
    picture = picture_of([part("R", 1, 1), *steps], 200)
    assert [turn.level for column in picture.columns for turn in column.turns] == ["R", "M"]
    assert picture.headline == "2 turns in 129 of 200 tokens: 1 word for word, 1 shorter."
    assert [(one.colour, one.turns, one.steps_of) for one in picture.parts] == [
        ("C", (), (2,)), ("S", (), (2,)), ("R", (1,), (2,))
    ]  # fmt: skip
    assert [cell.level for cell in cells_of([part("R", 1, 1), *steps])] == ["R", "M"]
    large: list[dict[str, object]] = [{"role": "user", "content": "Read the logs."}]
    for place in range(12):
        call = {"id": f"c{place}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        large.append({"role": "assistant", "content": None, "tool_calls": [call]})
        lines = "\n".join(f"{place}.{line} the pump of harbour {line * 7} reports pressure" for line in range(40))
        large.append({"role": "tool", "tool_call_id": f"c{place}", "content": lines})
    with foveate.open(tmp_path / "a.db") as fov:
        session = fov.session("s", budget_tokens=6_000)
        session.record(large)
        fov.settle()
        context = session.context()
        reason = session.explain_turn(1, context)
        assert reason.level == "M"
        assert "of them word for word" in reason.meaning
        assert "too large" in reason.why
        assert "0 word for word" not in session.picture(context).headline
        assert reason.tokens < reason.raw_tokens


def test_an_erased_turn_is_hollow_and_explained_as_erased(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        session = fov.session("s")
        for turn in make_conversation(6, 42).turns:
            session.record(turn)
        session.erase("T-3", by="a test", dry_run=False)
        picture = session.picture()
        assert picture.columns[2].height == 0
        assert "T-3: erased or pruned" in picture.columns[2].name
        assert picture.headline.endswith(": 5 word for word, 1 erased or pruned.")
        reason = session.explain_turn("T-3")
        assert (reason.level, reason.raise_by) == ("-", ())
        assert reason.name.startswith("erased on 20")
        assert "word for word" not in f"{reason.meaning} {reason.why}"


def test_a_turn_on_the_board_is_marked_and_not_to_be_retrieved_again(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        session = fov.session("s", budget_tokens=3_000)
        for turn in make_conversation(40, 42).turns:
            session.record(turn)
        fov.settle()
        session.context()
        session.call_tool("get_turn", {"turn_id": "T-3", "level": "R"})
        assert session.picture().columns[2].name.endswith(", on the board")
        reason = session.explain_turn("T-3")
        assert reason.on_board == "T-3-R"
        assert not [way for way in reason.raise_by if way.startswith("Retrieve")]


def test_a_turn_that_is_word_for_word_in_part_has_a_level_of_its_own() -> None:
    steps = (part("T", 5, 5, "Turn 5: agreed."), replace(part("R", 5, 5), tokens=20))
    cells = list(cells_of((part("E", 1, 4, SAID), *steps, part("R", 6, 6))))
    assert [(cell.first, cell.level) for cell in cells if cell.first > 4] == [(5, IN_PART), (6, "R")]


def test_the_picture_of_a_context_takes_no_more_work_where_its_eras_have_more_turns() -> None:
    def made(turns: int) -> int:
        """How many turns are described, of a context whose era has this many."""
        created = 0

        def trace(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal created
            owner = frame.f_locals.get("self")
            created += event == "call" and frame.f_code.co_name == "__init__" and type(owner) is ShownTurn

        before = sys.getprofile()
        sys.setprofile(trace)
        try:
            history = (part("E", 1, turns, SAID), part("C", turns + 1, turns + 2, levels="CC"))
            list(cells_of((*history, part("R", turns + 2, turns + 2), part("R", turns + 3, turns + 3))))
        finally:
            sys.setprofile(before)
        return created

    assert 0 < made(100) == made(10_000)
