"""Short messages worded by a model: the request, and which of its words are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from foveate.context.cut import cut_text
from foveate.models import Answer
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact, ArtefactSpec
from foveate.strategy.build import Material, SourceTurn, WordingReport, short_texts
from foveate.strategy.hybrid.build import AGENT_KEY, Shortener, make_short
from foveate.strategy.hybrid.model_summary import WORDING
from foveate.text import compact_json
from foveate.tokens import O200K
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

NONCE = "abcdef0123456789"
COUNT = O200K.base
RULE = "Move the backup of db-7 to 04:30 and never touch the weekly job."
DONE = "I moved the backup of db-7 to 04:30 in ops/cron/db-7.toml; the weekly job is not touched."
MORE = " Everybody was told about it in the morning, and nobody had anything to add to that."


def turn() -> tuple[Message, ...]:
    return (
        Message("user", (Text(f"{RULE}{MORE * 4}"),)),
        Message("assistant", (Text("I look."), ToolCall("exec", {"cmd": "ls"}, id="c1"))),
        Message("tool", (ToolResult("c1", (Text("a\n" * 200),), name="exec"),)),
        Message("assistant", (Text(f"{DONE}{MORE * 20}"),)),
    )


def material(messages: Sequence[Message] | None = None, data: Mapping[str, Json] | None = None) -> Material:
    wanted = ArtefactSpec("short-3", "short", 3, 3, data=data or {})
    source = SourceTurn(3, tuple(turn() if messages is None else messages), (), "")
    return Material(wanted, [source], COUNT, lambda text, most: cut_text(text, most, COUNT, COUNT(text)))


def answered(value: Json, material: Material, before: Artefact | None = None) -> WordingReport:
    assignment = WORDING.request(material, nonce=NONCE, settings=ModelsSettings())
    assert assignment
    answer = Answer(Message("assistant", (Text(compact_json(value)),), model="m"), "stop")
    return WORDING.judge(assignment, answer, material, before or make_short(material))


def said(*messages: tuple[int, str]) -> Json:
    return {"messages": [{"message": number, "text": text} for number, text in messages]}


def test_the_long_messages_of_user_and_assistant_are_asked_for_and_no_tool_result() -> None:
    assignment = WORDING.request(material(), nonce=NONCE, settings=ModelsSettings())
    assert assignment
    asked = assignment.ask.messages[-1].text
    assert f"1. [user] {RULE}" in asked
    assert f"4. [assistant] {DONE}" in asked
    assert "2. " not in asked
    assert "a\na\n" not in asked
    assert asked.endswith(
        "At most 22 words for each message of the user and 112 words for each message of the assistant."
    )


def test_short_messages_are_not_asked_for() -> None:
    messages = [Message("user", (Text("Hello"),)), Message("assistant", (Text("Hi, what can I do?"),))]
    assert WORDING.request(material(messages), nonce=NONCE, settings=ModelsSettings()) is None


@pytest.mark.parametrize("data", [{"system": True}, {"positions": [1, 2]}, {"hidden": [0, 3]}])
def test_messages_that_are_not_shown_short_are_not_asked_for(data: dict[str, Json]) -> None:
    assert WORDING.request(material(data=data), nonce=NONCE, settings=ModelsSettings()) is None


def test_words_that_pass_replace_those_of_rules_within_the_limits() -> None:
    made = answered(said((1, RULE), (4, DONE)), material()).made
    assert made is not None
    texts = short_texts(made)
    assert texts[0] == f"[user] {RULE} (short T-3)\n"
    assert texts[3] == f"[assistant] {DONE} (short T-3)\n"
    assert (COUNT(texts[0]) <= 50, COUNT(texts[3]) <= 200) == (True, True)
    assert made.data["model"] == "m"
    assert {place: texts[place] for place in (1, 2)} == {
        place: short_texts(make_short(material()))[place] for place in (1, 2)
    }


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Move the backup of db-9 to 05:15.",
        "Move the backup of db-7 to 04:30 and touch the weekly job.",
        f"{RULE}{MORE * 4}",
        f"[assistant] {RULE}",
        f"{RULE} {NONCE}",
        "Everybody was told.",
    ],
    ids=["empty", "invented", "turned round", "too long", "a mark", "the random word", "without its facts"],
)
def test_words_that_do_not_pass_leave_the_message_as_rules_made_it(words: str) -> None:
    by_rules = short_texts(make_short(material()))
    made = answered(said((1, words), (4, DONE)), material()).made
    assert made is not None
    assert short_texts(made)[0] == by_rules[0]
    assert short_texts(made)[3] != by_rules[3]


@pytest.mark.parametrize("value", [{}, [], {"messages": "no"}, said((2, "I look.")), said((9, RULE)), said()])
def test_an_answer_of_which_nothing_passes_changes_nothing(value: Json) -> None:
    assert answered(value, material()).made is None


def test_the_agents_words_stay() -> None:
    made = make_short(material())
    kept = Artefact(made.name, made.kind, 3, 3, data={**made.data, AGENT_KEY: [0]})
    reworded = answered(said((1, RULE), (4, DONE)), material(), kept).made
    assert reworded is not None
    assert short_texts(reworded)[0] == short_texts(made)[0]
    assert DONE in short_texts(reworded)[3]


def test_a_message_that_can_not_be_shortened_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ValueError("a defect")

    monkeypatch.setattr(Shortener, "message", fail)
    texts = short_texts(make_short(material()))
    assert set(texts) == {0, 1, 2, 3}
    assert texts[0].startswith("[user] Move the backup of db-7")
    assert [COUNT(texts[place]) <= limit + 12 for place, limit in ((0, 50), (2, 60), (3, 200))] == [True] * 3
