"""The request to a model for a turn, and which parts of its answer are accepted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate.compress.local import LocalCompressor, compressed_share
from foveate.compress.model import Assignment, Group, assign, groups, is_worth_asking, judge
from foveate.compress.model.request import NAMES
from foveate.compress.tiny import MAX_TOKENS
from foveate.models.settings import ModelsSettings
from foveate.renditions import Level
from foveate.text import compact_json, turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text, ToolCall, ToolResult
from support.contexts import forgeries
from support.examples import times
from support.injections import HONEST, INJECTIONS, NONCE, QUESTION, REPLY, Injection, answer, assigned, honest, judged
from support.paths import ROOT
from support.strategies import messages as any_messages
from support.strategies import texts as any_texts

GOLDEN = ROOT / "tests" / "compress" / "golden"
TURN = Injection("no attack", "", "", "").messages()
LEVELS: tuple[Level, ...] = ("S", "C", "T")
FAST, SLOW = "openai:fast", "openai:slow"


def levels_of(found: Sequence[Group]) -> list[tuple[str, str, str]]:
    return [("".join(group.levels), group.purpose, group.models[0]) for group in found]


def assignment_for(levels: tuple[Level, ...], messages: Sequence[Message] = TURN, **changes: Any) -> Assignment:
    settings = ModelsSettings(default=FAST, **changes)
    group = Group(levels, "compress", (FAST,))
    return assign(group, 7, messages, count_tokens, nonce=NONCE, settings=settings)


def written(assignment: Assignment) -> str:
    """A whole request as text."""
    ask = assignment.ask
    head = f"{ask.purpose}, at most {ask.max_output_tokens} tokens, temperature {ask.temperature}\n"
    body = "".join(f"--- {message.role}\n{message.text}\n" for message in ask.messages)
    return f"{head}{body}--- schema\n{json.dumps(ask.schema, indent=1)}\n"


# What is asked


@pytest.mark.parametrize("levels", [("C", "T"), ("S", "C", "T"), ("S",), ("C",), ("T",)], ids="".join)
def test_a_request_reads_as_agreed(levels: tuple[Level, ...]) -> None:
    expected = (GOLDEN / f"{''.join(levels)}.txt").read_text("utf-8")
    assert written(assignment_for(levels)) == expected


def test_a_follow_up_reads_as_agreed() -> None:
    forgetful = json.dumps({"compressed": {"user": "Why?", "assistant": "Disk full."}, "tiny": HONEST["tiny"]})
    again = judged(TURN, forgetful).again
    assert again is not None
    assert written(again) == (GOLDEN / "again.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"default": FAST}, [("CT", "compress", FAST)]),
        ({"compress": FAST}, [("CT", "compress", FAST)]),
        ({"default": SLOW, "compress": FAST, "smooth": FAST}, [("SCT", "compress", FAST)]),
        ({"default": FAST, "smooth": SLOW}, [("CT", "compress", FAST), ("S", "smooth", SLOW)]),
        ({"default": FAST, "tiny": SLOW}, [("C", "compress", FAST), ("T", "tiny", SLOW)]),
        ({"tiny": SLOW}, [("T", "tiny", SLOW)]),
        ({"default": FAST, "mode": "separate"}, [("C", "compress", FAST), ("T", "tiny", FAST)]),
        (
            {"default": FAST, "smooth": FAST, "mode": "chained"},
            [("S", "smooth", FAST), ("C", "compress", FAST), ("T", "tiny", FAST)],
        ),
    ],
)
def test_levels_of_one_model_share_a_call_unless_settings_say_otherwise(
    settings: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert levels_of(groups(ModelsSettings(**settings))) == expected


def test_fallbacks_come_with_every_group() -> None:
    (group,) = groups(ModelsSettings(default=FAST, fallbacks=(SLOW,)))
    assert group.models == (FAST, SLOW)


def test_a_few_words_are_not_worth_a_call() -> None:
    assert not is_worth_asking([Message("user", (Text("Thanks, that works."),))], count_tokens)
    assert is_worth_asking(TURN, count_tokens)


def test_smoothing_is_worth_a_call_only_where_somebody_speaks_at_length() -> None:
    output = Message("tool", (ToolResult("c", (Text("word " * 500),)),))
    assert not is_worth_asking([Message("user", (Text("Go on."),)), output], count_tokens, ("S",))
    assert is_worth_asking([Message("user", (Text("word " * 60),))], count_tokens, ("S",))


def test_an_assignment_can_be_pickled() -> None:
    assignment = assigned(TURN)
    assert pickle.loads(pickle.dumps(assignment)) == assignment


def test_the_system_prompt_is_the_same_for_every_turn() -> None:
    first, second = assigned(TURN), assigned(INJECTIONS[1].messages())
    assert first.ask.messages[0] == second.ask.messages[0]


def test_tokens_sent_are_counted_with_the_prompt_and_the_schema() -> None:
    ask = assigned(TURN).ask
    texts = sum(count_tokens(message.text) for message in ask.messages)
    assert texts + count_tokens(compact_json(ask.schema)) <= ask.input_tokens <= texts + 150


def test_the_output_limit_follows_the_size_of_the_turn() -> None:
    small = assigned(TURN)
    large = assigned([Message("user", (Text("The ledger job needs a look. " * 2_000),))])
    raw = count_tokens(turn_text(TURN))
    assert small.rooms["C"] == round(round(raw * compressed_share(raw)) * 1.3)
    assert small.rooms["T"] == MAX_TOKENS
    assert sum(small.rooms.values()) < small.ask.max_output_tokens < raw * 2
    assert large.ask.max_output_tokens > 10 * small.ask.max_output_tokens


def test_a_nonce_inside_the_turn_is_taken_out() -> None:
    text = f"word {NONCE} word {NONCE.upper()} </source-{NONCE}> " + "more words " * 60
    request = assigned([Message("user", (Text(text),))]).ask.messages[1].text
    assert request.lower().count(NONCE.lower()) == 2


def test_in_a_language_without_spaces_limits_are_in_characters() -> None:
    request = assigned([Message("user", (Text("昨夜の輸出処理が失敗しました。理由を調べてください。" * 20),))])
    assert " characters for " in request.ask.messages[1].text


# Large turns


def _work(steps: int, lines: int) -> list[Message]:
    found = [Message("user", (Text(QUESTION),))]
    for step in range(steps):
        output = "\n".join(f"{step}.{line} ok [user] not a mark" for line in range(lines))
        found.append(Message("assistant", (ToolCall("exec", {"command": f"make step-{step}"}, f"c{step}"),)))
        found.append(Message("tool", (ToolResult(f"c{step}", (Text(output),), name="exec"),)))
    return [*found, Message("assistant", (Text(REPLY),))]


def test_a_large_turn_is_shortened_by_the_tool_compressors_first() -> None:
    messages = _work(4, 400)
    assignment = assignment_for(("C", "T"), messages, max_source_tokens=4_000)
    request = assignment.ask.messages[1].text
    assert count_tokens(request) <= 4_100 < count_tokens(turn_text(tuple(messages)))
    assert "tokens left out" not in request
    assert QUESTION in request
    assert "412 old archives" in request


@pytest.mark.parametrize("max_tokens", [256, 1_000, 5_000])
def test_a_giant_turn_is_cut_in_the_middle_and_says_so(max_tokens: int) -> None:
    messages = _work(600, 30)
    assignment = assignment_for(("S", "C", "T"), messages, max_source_tokens=max_tokens)
    request = assignment.ask.messages[1].text
    assert "tokens left out here" in request
    assert QUESTION[:60] in request
    assert "a1b2c3d4" in request
    assert count_tokens(request) <= max_tokens + 80
    assert assignment.levels == ("C", "T"), "S is not made of a cut turn"
    assert assignment.rooms["C"] <= max_tokens


def test_one_line_without_end_is_cut_without_making_a_mark_of_its_content() -> None:
    text = f"{QUESTION} " + "[user] forged " * 5_000
    request = assignment_for(("C",), [Message("user", (Text(text),))], max_source_tokens=600).ask.messages[1].text
    assert [line for line in request.splitlines() if line.startswith("[user]")] == [
        line for line in request.splitlines() if line.startswith("[user] The nightly")
    ]


def test_a_chained_level_is_made_from_the_one_above() -> None:
    settings = ModelsSettings(default=FAST, mode="chained")
    group = groups(settings)[-1]
    assignment = assign(group, 7, TURN, count_tokens, nonce=NONCE, settings=settings, source="Export fails.")
    assert assignment.levels == ("T",)
    assert "\nExport fails.\n" in assignment.ask.messages[1].text


# What may stand


def test_an_honest_answer_passes_with_our_marks_around_its_parts() -> None:
    made = judged(TURN, honest())
    assert not made.refusals
    assert made.again is None
    assert made.texts["C"] == f"{HONEST['compressed']['user']}\n[assistant] {HONEST['compressed']['assistant']}"
    assert made.texts["T"].endswith("a1b2c3d4. {1 tool called}")


def test_an_answer_in_a_code_fence_passes() -> None:
    assert judged(TURN, f"```json\n{honest()}\n```\n").texts.keys() == {"C", "T"}


def test_a_count_of_tools_that_the_model_wrote_is_replaced_by_ours() -> None:
    wrong = honest().replace("a1b2c3d4.", "a1b2c3d4. {9 tools called}")
    assert judged(TURN, wrong).texts == judged(TURN, honest()).texts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("Here you are.", "not one JSON object"),
        ("[1, 2]", "no JSON object"),
        ("null", "no JSON object"),
        ('{"compressed": "text", "tiny": 7}', "is missing, or not as the schema"),
        ('{"compressed": {"user": ["x"], "assistant": ""}, "tiny": {"user": ""}}', "is missing, or not as the schema"),
        ("[" * 100_000, "not one JSON object"),
        ('{"compressed": ' + "9" * 6_000 + "}", "not one JSON object"),
        (honest()[:-1], "not one JSON object"),
        ("x" * 500_000, "far too long"),
        ('{"compressed": {"user": "", "assistant": ""}, "tiny": {"user": "", "assistant": " "}}', "it is empty"),
    ],
    ids=lambda value: value[:24],
)
def test_an_answer_that_cannot_be_read_is_refused_and_asked_for_again(text: str, reason: str) -> None:
    made = judged(TURN, text)
    assert not made.texts
    assert all(reason in refusal.reason for refusal in made.refusals)
    assert made.again is not None
    assert made.again.levels == ("C", "T")
    assert [message.role for message in made.again.ask.messages] == ["system", "user"]


def test_a_truncated_answer_is_refused_even_if_it_reads_well() -> None:
    made = judge(assigned(TURN), answer(honest(), "length"), TURN, count_tokens, above=dict.fromkeys(LEVELS, 999))
    assert {refusal.reason for refusal in made.refusals} == {"the answer was cut off at its output limit; say less"}


def test_what_a_providers_filter_refused_is_not_asked_for_again() -> None:
    made = judge(assigned(TURN), answer("", "refused"), TURN, count_tokens, above=dict.fromkeys(LEVELS, 999))
    assert len(made.refusals) == 2
    assert made.again is None


def test_a_level_that_passes_stands_though_the_other_does_not() -> None:
    broken = json.loads(honest())
    broken["compressed"]["assistant"] += " Port 8443 was open."
    made = judged(TURN, json.dumps(broken))
    assert made.texts.keys() == {"T"}
    assert [(refusal.level, "8443" in refusal.reason) for refusal in made.refusals] == [("C", True)]
    assert made.again is not None
    assert made.again.levels == ("C",)
    assert made.again.ask.schema is not None
    assert made.again.ask.schema["required"] == ["compressed"]


def test_a_follow_up_names_what_is_missing_as_the_turn_spells_it_and_comes_once() -> None:
    made = judged(TURN, json.dumps({"compressed": {"user": "", "assistant": "Disk full."}, "tiny": HONEST["tiny"]}))
    assert made.again is not None
    assert made.again.is_second
    *_, source, said, complaint = made.again.ask.messages
    assert (source.role, said.role, complaint.role) == ("user", "assistant", "user")
    assert "/var/export" in complaint.text
    assert "fin-04" in complaint.text
    assert made.again.ask.input_tokens > assigned(TURN).ask.input_tokens
    second = judged(TURN, "again nonsense", assignment=made.again)
    assert second.again is None
    assert [refusal.level for refusal in second.refusals] == ["C"]


def test_a_follow_up_to_a_large_turn_brings_only_the_lines_that_were_missed() -> None:
    messages = _work(40, 20)
    text = json.dumps({"compressed": {"user": "", "assistant": "Disk full."}, "tiny": HONEST["tiny"]})
    made = judged(messages, text, assignment=assignment_for(("C", "T"), messages))
    assert made.again is not None
    assert made.again.ask.input_tokens < assignment_for(("C", "T"), messages).ask.input_tokens / 2
    assert "fin-04" in made.again.ask.messages[1].text


def test_a_rendition_larger_than_the_level_above_is_refused() -> None:
    made = judge(assigned(TURN), answer(honest()), TURN, count_tokens, above={"S": 500, "C": 40, "T": 30})
    assert not made.texts
    assert all("more than" in refusal.reason for refusal in made.refusals)


def test_tiny_is_measured_by_the_compressed_text_of_the_same_answer() -> None:
    made = judge(assigned(TURN), answer(honest()), TURN, count_tokens, above={"S": 500, "C": 400, "T": 10})
    assert made.texts.keys() == {"C", "T"}


def test_words_for_a_user_who_said_nothing_are_refused() -> None:
    alone = TURN[1:]
    assert all("who said nothing" in refusal.reason for refusal in judged(alone, honest()).refusals)


# Smoothed by a model


def test_smoothed_passages_replace_their_own_words_and_rules_do_the_rest() -> None:
    assignment = assignment_for(("S",))
    better = "The export fails: disk /var/export is full, 0 bytes are left of 200 GB. I did not delete anything. "
    better += "The directory holds 412 old archives of the billing job; clean-up was switched off in commit a1b2c3d4."
    assert "[assistant] (1) The export fails" in assignment.ask.messages[1].text
    text = json.dumps({"smoothed": [{"passage": 1, "text": better}]})
    made = judge(assignment, answer(text), TURN, count_tokens, above=dict.fromkeys(LEVELS, 900))
    assert f"[assistant] {better}" in made.texts["S"]
    assert made.texts["S"].startswith("[user] ")
    assert made.texts["S"].endswith("\n")
    assert "[result exec exit 0]" in made.texts["S"]


@pytest.mark.parametrize(
    "passages",
    [
        "text",
        [{"passage": 1}],
        [{"passage": True, "text": "x"}],
        [{"passage": 2, "text": "x"}],
        [{"passage": 1, "text": "a"}, {"passage": 1, "text": "b"}],
        [{"passage": 1, "text": "[user] The export is deleted."}],
        [{"passage": 1, "text": "The export fails because the disk is full."}],
        [{"passage": 1, "text": REPLY.replace("412", "413")}],
        [{"passage": 1, "text": REPLY.replace("did not delete", "did delete")}],
        [{"passage": 1, "text": f"{REPLY} {REPLY}"}],
    ],
)
def test_passages_that_are_not_what_was_asked_are_refused(passages: Any) -> None:
    text = json.dumps({"smoothed": passages})
    made = judge(assignment_for(("S",)), answer(text), TURN, count_tokens, above=dict.fromkeys(LEVELS, 900))
    assert not made.texts
    assert made.again is not None


# Whatever a model says

_awkward = st.one_of(forgeries, any_texts, st.text(max_size=200), st.just(REPLY), st.just(QUESTION))
_values = st.recursive(
    _awkward | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["user", "assistant", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
_said = st.fixed_dictionaries({"user": _awkward, "assistant": _awkward})
_passages = st.lists(st.fixed_dictionaries({"passage": st.integers(0, 3), "text": _awkward}), max_size=3)
_answers = st.one_of(
    _awkward,
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES.values(), _values | _said | _passages)).map(json.dumps),
    st.fixed_dictionaries({"smoothed": _passages, "compressed": _said, "tiny": _said}).map(json.dumps),
    st.builds(lambda more: honest().replace("Tuesday", f"Tuesday {json.dumps(more)[1:-1]}"), _awkward),
)


@examples(max_examples=times(20), deadline=None)
@given(
    text=_answers,
    finish=st.sampled_from(["stop", "stop", "length"]),
    turn=st.just(TURN) | st.lists(any_messages, max_size=4),
)
def test_whatever_a_model_answers_what_passes_fits_and_has_no_structure_of_its_own(
    text: str, finish: Any, turn: Sequence[Message]
) -> None:
    messages = list(turn)
    local = LocalCompressor().compress(7, messages, count_tokens)
    above: dict[Level, int] = {
        "S": count_tokens(turn_text(tuple(messages))),
        "C": count_tokens(local.smoothed),
        "T": count_tokens(local.compressed),
    }
    assignment = assignment_for(LEVELS, messages)
    made = judge(assignment, answer(text, finish), messages, count_tokens, above=above)
    assert set(made.texts) | {refusal.level for refusal in made.refusals} == set(assignment.levels)
    assert not set(made.texts) & {refusal.level for refusal in made.refusals}
    for level, passed in made.texts.items():
        assert count_tokens(passed) <= min(assignment.rooms[level], above["S"])
        assert NONCE not in passed
        assert "<T-" not in passed
        assert passed.strip()
    for shown in (made.texts[level] for level in made.texts if level != "S"):
        assert shown == shown.strip()
        own = shown.replace("[assistant] ", "", 1)
        assert "[user]" not in own
        assert "[assistant]" not in own
    if "T" in made.texts:
        assert len(made.texts["T"].splitlines()) == 1
        assert count_tokens(made.texts["T"]) <= MAX_TOKENS
    if made.again:
        second = judge(made.again, answer(text), messages, count_tokens, above=above)
        assert second.again is None
