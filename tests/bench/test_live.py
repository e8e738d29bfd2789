"""The bench of running sessions counts what it says it counts."""

from __future__ import annotations

from typing import Any

import pytest

from foveate import Message, Text, Turn
from live import live_settings, sum_up
from live_play import Asking, play_work, questions_due, sittings
from live_score import Transcript, absent_turns, interval, measure_use
from retention import SHARED

here = pytest.mark.skipif(not (SHARED / "eval").is_dir(), reason="the scripts in ../shared/eval are not here")

CHAT: dict[str, Any] = {
    "turns": [{"id": f"t{n}", "who": "Sam", "text": "…", "session": n, "date": ""} for n in range(1, 16)],
    "questions": [
        {"id": "old", "evidence": ["t1", "t2"]},
        {"id": "recent", "evidence": ["t9"]},
        {"id": "newest", "evidence": ["t15"]},
    ],
}


def test_a_question_is_asked_after_its_sitting_ten_sittings_later_and_at_the_end() -> None:
    due = questions_due(CHAT, Asking())
    moments = [(sitting, question["id"], ages) for sitting in sorted(due) for question, ages in due[sitting]]
    assert moments == [
        (2, "old", ("fresh",)),
        (9, "recent", ("fresh",)),
        (12, "old", ("later",)),
        (15, "old", ("end",)),
        (15, "recent", ("end",)),
        (15, "newest", ("fresh", "end")),
    ]


def test_a_prompt_and_its_answer_are_one_turn_and_people_who_chat_have_a_turn_each() -> None:
    said = [("user", "Which colour?"), ("assistant", "Red."), ("Sam", "Hello"), ("Eva", "Hi")]
    turns = [{"id": str(n), "who": who, "text": text, "session": 1, "date": ""} for n, (who, text) in enumerate(said)]
    ((_, exchanges),) = sittings(turns, by_utterance=False)
    assert [each.prompt for each in exchanges] == ["Which colour?", "Sam: Hello", "Eva: Hi"]
    assert [len(each.turn.messages) for each in exchanges] == [2, 1, 1]


def test_the_interval_of_a_mean_is_the_same_in_every_run() -> None:
    groups = [[0.0, 1.0], [1.0], [0.5]]
    found = interval(groups)
    assert found == interval(groups)
    assert found is not None
    assert found.low <= found.mean == 0.625 <= found.high
    assert found.counted == 4


@here
def test_a_list_of_names_has_the_working_set_only_while_lines_are_not_counted() -> None:
    said = Transcript()
    said.add("The retry limit of src/client.py was raised because uploads failed.\n")
    use = measure_use(
        said,
        {"src/client.py"},
        ours="Turn 4: raised retry limit src/client.py",
        newest="Nothing of it.",
        half="Nothing of it.",
    )
    assert (use.plain.ours, use.plain.newest, use.plain.listed) == (1.0, 0.0, 1.0)
    assert use.strict is not None
    assert (use.strict.ours, use.strict.newest, use.strict.listed) == (1.0, 0.0, 0.0)


@here
def test_an_era_counts_for_eight_turns_for_each_line_that_says_something() -> None:
    era = "<T-1-through-40-E>\nSam moved the billing service to Berlin in March.\nAnd then.\n</T-1-through-40-E>\n"
    absent = absent_turns(f"{era}<T-41-through-42-C>\nTurn 41: Fixed.\nTurn 42: Done.\n</T-41-through-42-C>\n", 42)
    assert absent.plain == 0
    assert absent.strict == pytest.approx(32 / 42)


@here
def test_work_by_steps_has_a_call_before_every_message_of_the_assistant() -> None:
    long = " ".join(f"Word{n} of the log_{n}.txt says something new." for n in range(300))
    turn = Turn((
        Message("user", (Text("Read log_1.txt"),)),
        Message("assistant", (Text(f"I read it: {long}"),)),
        Message("assistant", (Text("log_7.txt has the fault"),)),
    ))  # fmt: skip
    played = play_work("work", [turn, turn], 4_000, live_settings([], recalls=True), by_step=True)
    assert len(played.calls) == 4
    assert len(played.uses) == sum_up("pi-steps", 4_000, [played]).working_set["ours"].counted == 1
    assert all(call.tokens <= 4_000 for call in played.calls)
