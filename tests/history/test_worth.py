from __future__ import annotations

import numpy as np

from foveate.history.worth import (
    LINE_WORTH,
    MAX_WORDS,
    OF_WORK,
    SETTLED_TABLES,
    WORD_BYTES,
    WordTable,
    WorthCache,
    is_of_work,
    pack_words,
    weigh,
)
from foveate.plan import TurnSizes, WordWeights
from foveate.turn import Message, Text, ToolCall, ToolResult


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def item(turn: int, words: bytes) -> TurnSizes:
    return TurnSizes(turn, 0, 40, 38, 20, 9, words=words, brief=27)


USUAL, EQUAL = WordWeights(answers=0.3), WordWeights()


def worths(items: list[TurnSizes], by: WordWeights = EQUAL) -> np.ndarray:
    return weigh([WordTable.of(items)], len(items), by).worths - LINE_WORTH


def test_a_level_tells_the_words_that_it_keeps() -> None:
    said = "harbour Lindesnes kestrel"
    words = pack_words([user(said)], said, "harbour kestrel", "harbour", "Lindesnes kestrel")
    ((raw, smoothed, compressed, tiny, brief),) = worths([item(1, words)])
    assert raw == smoothed > compressed == brief > tiny > 0
    assert np.isclose(tiny * 3, raw)


def test_rare_words_count_more_than_those_of_many_turns() -> None:
    items = [item(turn, pack_words([user("harbour")], "", "", "")) for turn in range(1, 9)]
    items.append(item(9, pack_words([user("kestrel")], "", "", "")))
    found = worths(items[::-1])
    assert found[0, 0] > 3 * found[1, 0]


def test_a_word_that_a_newer_turn_has_too_counts_by_its_own_weight() -> None:
    items = [item(turn, pack_words([user("harbour")], "", "", "")) for turn in (2, 1)]
    newer, older = worths(items, WordWeights(repeated=0.25))[:, 0]
    assert newer == worths(items)[0, 0]
    assert np.isclose(older, 0.25 * newer)


def test_a_word_of_no_newer_turn_counts_fully() -> None:
    items = [item(2, pack_words([user("kestrel")], "", "", "")), item(1, pack_words([user("harbour")], "", "", ""))]
    assert np.array_equal(worths(items, WordWeights(repeated=0.0)), worths(items))


def test_a_word_is_repeated_in_an_older_table_too() -> None:
    items = [item(turn, pack_words([user("harbour")], "", "", "")) for turn in (3, 2, 1)]
    parts = weigh([WordTable.of(items[:1]), WordTable.of(items[1:])], 3, WordWeights(repeated=0.25))
    assert np.array_equal(parts.worths, weigh([WordTable.of(items)], 3, WordWeights(repeated=0.25)).worths)


def worked(path: str, output: str) -> list[Message]:
    call = Message("assistant", (ToolCall("cat", {"path": path, "range": [1, 8000]}, id="c"),))
    return [user("Read it"), call, Message("tool", (ToolResult("c", (Text(output),)),))]


def test_calls_and_results_of_tools_count_like_the_assistants_words() -> None:
    said = worths([item(1, pack_words([user("Read it")], "", "", ""))], WordWeights(answers=0.5))[0, 0]
    of_tools = worths(
        [item(1, pack_words(worked("src/tides/mooring.py", "kestrel"), "", "", ""))], WordWeights(answers=0.5)
    )[0, 0]
    answered = [user("Read it"), Message("assistant", (Text("harbour kestrel ledger pier crane buoy quay rope"),))]
    assert of_tools > said
    assert of_tools == worths([item(1, pack_words(answered, "", "", ""))], WordWeights(answers=0.5))[0, 0]


def test_a_level_keeps_a_path_of_a_tool_call_whole() -> None:
    words = pack_words(worked("src/tides/mooring.py", ""), "cat src/tides/mooring.py", "src tides", "", "")
    without = pack_words(worked("src/tides/mooring.py", ""), "src tides mooring py", "src tides", "", "")
    assert worths([item(1, words)])[0, 1] > worths([item(1, without)])[0, 1]


def test_the_users_words_come_before_the_output_of_tools() -> None:
    output = " ".join(f"name_{number}" for number in range(2 * MAX_WORDS))
    words = pack_words(worked("src/tides/mooring.py", output), "", "", "")
    assert len(words) == MAX_WORDS * WORD_BYTES
    assert words.startswith(pack_words([user("Read it")], "", "", ""))


def test_scripts_without_spaces_have_words_too() -> None:
    words = pack_words([user("\u6e2f\u306e\u4e88\u5b9a\u306f\u91d1\u66dc\u65e5")], "", "", "")
    assert len(words) // WORD_BYTES > 3


def test_unknown_words_are_estimated_from_the_size() -> None:
    ((raw, smoothed, compressed, tiny, brief),) = worths([item(1, b"")])
    assert raw > smoothed > brief > compressed > tiny > 0


def test_a_table_is_the_same_in_parts() -> None:
    items = [item(turn, pack_words([user(f"word{turn} harbour")], "", "harbour", "")) for turn in range(20, 0, -1)]
    whole = weigh([WordTable.of(items)], 12, USUAL)
    parts = weigh([WordTable.of([item(99, b""), *items[:7]]).behind(1), WordTable.of(items[7:])], 12, USUAL)
    assert np.array_equal(whole.turns, parts.turns)
    assert np.array_equal(whole.worths, parts.worths)


def settled_tables(turns_each: int = 6) -> list[WordTable]:
    tables = []
    for number in range(SETTLED_TABLES + 1, 0, -1):
        turns = range(number * turns_each, (number - 1) * turns_each, -1)
        tables.append(
            WordTable.of([item(turn, pack_words([user(f"word{turn % 7} harbour")], "", "", "")) for turn in turns])
        )
    return tables


def test_a_plan_reads_the_words_of_older_tables_once() -> None:
    tables, cache = settled_tables(), WorthCache()
    weigh(tables, 100, USUAL, cache)
    counted = cache.counted
    newest = WordTable.of([item(99, pack_words([user("kestrel")], "", "", ""))])
    weigh([newest, *tables[1:]], 100, USUAL, cache)
    assert cache.counted is counted


def test_worths_do_not_depend_on_what_is_cached() -> None:
    tables, cache = settled_tables(), WorthCache()
    weigh(tables[:-1], 100, USUAL, cache)
    weigh(tables, 100, WordWeights(answers=0.5), cache)
    assert np.array_equal(weigh(tables, 100, USUAL, cache).worths, weigh(tables, 100, USUAL).worths)


def test_older_tables_change_when_one_of_them_does() -> None:
    tables, cache = settled_tables(), WorthCache()
    before = weigh(tables, 100, USUAL, cache).worths
    tables[2] = WordTable.of([item(turn, pack_words([user("kestrel")], "", "", "")) for turn in range(18, 12, -1)])
    after = weigh(tables, 100, USUAL, cache).worths
    assert not np.array_equal(before, after)
    assert np.array_equal(after, weigh(tables, 100, USUAL).worths)


def test_words_of_the_newest_table_are_weighed_by_all_turns() -> None:
    tables = settled_tables()
    kestrel = WordTable.of([item(99, pack_words([user("kestrel")], "", "", ""))])
    harbour = WordTable.of([item(99, pack_words([user("harbour")], "", "", ""))])
    rare, common = (weigh([newest, *tables[1:]], 100, USUAL).worths[0, 0] for newest in (kestrel, harbour))
    assert rare > 3 * common


def test_no_turns_have_no_worths() -> None:
    assert weigh([], 10, USUAL).worths.shape == weigh([WordTable.of(())], 10, USUAL).worths.shape == (0, 5)


def test_a_turn_about_code_is_of_work_and_a_chat_is_not() -> None:
    observed = "src/tides/mooring.py:12 raises KeyError in load_buoys(); see tests/test_mooring.py and buoyTable"
    chatted = "We took the well-known path/trail by the U.S. border, and she/he met us there at half past nine."
    link = "I saw this and thought of you, it is about the old harbour: https://harbour.example/kestrel"
    assert is_of_work(pack_words([user(observed)], "", "", ""))
    assert not is_of_work(pack_words([user(chatted)], "", "", ""))
    assert not is_of_work(pack_words([user(link)], "", "", ""))
    assert not is_of_work(b"")


def test_the_mark_of_work_does_not_change_the_worth_of_words() -> None:
    text = "src/tides/mooring.py load_buoys buoyTable kestrel"
    marked = pack_words([user(text)], text, "kestrel", "")
    first = int.from_bytes(marked[:WORD_BYTES], "little") & ~OF_WORK
    plain = first.to_bytes(WORD_BYTES, "little") + marked[WORD_BYTES:]
    assert marked != plain
    assert np.array_equal(worths([item(1, marked)]), worths([item(1, plain)]))
