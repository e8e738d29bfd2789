from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate.context.tags import parse_blocks
from foveate.errors import InputError, InvalidMessage, Refused
from foveate.events import Event
from support.command_line import Shell
from support.paths import ROOT

POTATOES = [
    {"role": "user", "content": "How long do I boil 1 kg of potatoes for a salad?"},
    {"role": "assistant", "content": "About 18 minutes; take waxy ones such as Annabelle."},
]
TESTS = [
    {"role": "user", "content": "New topic: test_parser.py fails on Windows."},
    {"role": "assistant", "content": "Line ends: the fixture has CRLF. I normalised them on reading."},
]
LONG = "The log says so. " * 400


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def test_a_context_has_the_current_topic_past_ones_and_its_size(store: Path) -> None:
    with foveate.open(store) as fov:
        topics = fov.conversation("slack", "#kitchen", budget_tokens=8_000).topics
        for message in (*POTATOES, *TESTS):
            topics.add_message(message)
        context = topics.get_context(prompt="And on macOS?")
        assert [message.text for message in context.current_topic] == [message["content"] for message in TESTS]
        (past,) = context.topics
        assert (past.id, past.first, past.last, past.why) == ("topic-1", "T-1", "T-1", "phrase")
        assert "18 minutes" in past.summary
        assert past.summary in context.context.history
        assert context.bulks == ()
        assert context.total_tokens == context.context.tokens <= 8_000
        assert context.compression_ratio == pytest.approx(1, abs=0.6)


def test_a_topic_is_sealed_when_the_message_that_ends_it_is_added(store: Path) -> None:
    told: list[Event] = []
    with foveate.open(store) as fov:
        topics = fov.conversation("slack", "#kitchen", budget_tokens=8_000).topics
        with fov.subscribe(told.append, ["topic-sealed"]) as subscription:
            for message in (*POTATOES, TESTS[0]):
                topics.add_message(message)
            subscription.drain()
            assert [(event.data["why"], event.data["last"]) for event in told] == [("phrase", 1)]


def test_the_current_topic_has_half_of_the_budget_and_is_sealed_at_60_percent_of_it(store: Path) -> None:
    told: list[Event] = []
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics", budget_tokens=10_000)
        shares: list[Any] = []
        with fov.subscribe(told.append, ["topic-sealed"]) as subscription:
            for number in range(20):
                chat.topics.add_message({"role": "user", "content": f"Question {number}?"})
                chat.topics.add_message({"role": "assistant", "content": "word " * 180})
                shares.append(chat.topics.get_context(prompt="Next?").context.planned.notes["room_tokens"])
            subscription.drain()
        assert {(share["current"], share["past"], share["bulk"]) for share in shares} == {(5_000, 3_000, 2_000)}
        first: Any = told[0].data
        assert first["why"] == "size"
        assert 2_400 <= first["tokens"] <= 3_000


def test_a_topic_is_sealed_by_hand_and_told(store: Path) -> None:
    told: list[Event] = []
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics", budget_tokens=8_000)
        chat.record(POTATOES)
        with fov.subscribe(told.append, ["topic-sealed"]) as subscription:
            sealed = chat.topics.seal_current_topic()
            subscription.drain()
        assert (sealed.id, sealed.why, sealed.first, sealed.last) == ("topic-1", "manual", "T-1", "T-1")
        assert "potatoes" in sealed.title
        assert [event.data["why"] for event in told] == ["manual"]
        assert chat.topics.get_context().current_topic == ()
        chat.record(TESTS)
        assert len(chat.topics.get_context().current_topic) == 2


def test_a_seal_is_undone_until_the_next_message(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("chat", strategy="topics")
        with pytest.raises(Refused, match="there is no seal to undo"):
            chat.topics.unseal()
        chat.record(POTATOES)
        before = chat.context("And?").text
        chat.topics.seal_current_topic()
        chat.topics.unseal()
        history = chat.topics.get_history()
        assert (history.topics, history.current_first, history.current_turns) == ((), "T-1", 1)
        assert chat.context("And?").text == before
        assert chat.topics.seal_current_topic().id == "topic-1"
        chat.record(TESTS)
        with pytest.raises(Refused, match="a message came after it"):
            chat.topics.unseal()


def test_a_topic_that_was_not_sealed_by_hand_is_not_unsealed(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("chat", strategy="topics")
        chat.record(POTATOES)
        chat.topics.seal_current_topic()
        chat.record([{"role": "user", "content": "And carrots?"}])
        with pytest.raises(Refused, match="there is no seal to undo"):
            chat.topics.unseal()
        assert [topic.why for topic in chat.topics.get_history().topics] == ["manual"]


def test_sealing_an_empty_topic_says_so(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics")
        with pytest.raises(InputError, match="current topic of session 's' is empty: nothing was said yet"):
            chat.topics.seal_current_topic()
        chat.record(POTATOES)
        chat.topics.seal_current_topic()
        with pytest.raises(InputError, match="nothing was said since T-1; there is nothing to seal"):
            chat.topics.seal_current_topic()


def test_a_turn_is_sealed_when_it_is_answered(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics")
        chat.record(POTATOES[:1])
        with pytest.raises(InputError, match="T-1, is not answered yet; seal the topic after the answer"):
            chat.topics.seal_current_topic()
        chat.record(POTATOES[1:])
        assert chat.topics.seal_current_topic().last == "T-1"
        chat.record([{"role": "assistant", "content": "And let them cool."}])
        assert "let them cool" in chat.context("?").history


def test_a_session_of_another_strategy_has_no_topics_until_it_is_changed(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s")
        chat.record(POTATOES)
        for method in (chat.topics.get_context, chat.topics.get_history, chat.topics.seal_current_topic):
            with pytest.raises(
                InputError, match=r"uses the strategy .gradient., which has no topics; change it with: foveate"
            ):
                method()
        chat.use("topics")
        assert chat.topics.get_history().current_turns == 1


def test_a_conversation_is_resumed_by_its_place_with_its_topics(store: Path) -> None:
    with foveate.open(store) as fov:
        talk = fov.conversation("slack", "#kitchen", budget_tokens=8_000)
        talk.record([*POTATOES, *TESTS])
        before = talk.topics.get_history()
        text = talk.context("?").text
        fov.conversation("slack", "#office").record(TESTS)
    with foveate.open(store) as fov:
        talk = fov.conversation("slack", "#kitchen")
        assert (talk.info.turns, talk.info.strategy, talk.info.budget_tokens) == (2, "topics", 8_000)
        assert talk.topics.get_history() == before
        assert talk.context("?").text == text
        assert fov.conversation("slack", "#office").info.turns == 1
        assert len(fov.sessions()) == 2


@pytest.mark.parametrize(("platform", "channel"), [("", "x"), ("slack", " ")])
def test_a_place_has_a_platform_and_a_channel(store: Path, platform: str, channel: str) -> None:
    with foveate.open(store) as fov, pytest.raises(InvalidMessage, match="is empty; a conversation is resumed by"):
        fov.conversation(platform, channel)


def test_long_messages_are_truncated_in_the_context_only(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics", budget_tokens=3_000)
        chat.record([{"role": "user", "content": "What is in the log?"}, {"role": "assistant", "content": LONG}])
        context = chat.topics.get_context()
        shown = context.current_topic[1].text
        assert shown.endswith("… [truncated]")
        assert len(shown) < 2_020
        assert shown in context.context.history
        assert "M" in {block.level for block in parse_blocks(context.context.history)}
        assert chat.get_turn("T-1", "R", format="plain").content.count("The log says so.") == 400


def test_everything_left_out_is_in_the_history_and_can_be_read(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics", budget_tokens=2_500)
        for number in range(40):
            said = f"Order {number} of {number * 7} screws, with {number + 100} washers and a note for the driver."
            answer = f"Booked as A-{number}. " + "The usual terms of delivery and payment apply to this order too. " * 8
            chat.record(
                [{"role": "user", "content": said}, {"role": "assistant", "content": answer}],
                at=f"2026-01-{1 + number // 20:02}T{number % 20:02}:00:00Z",
            )
            context = chat.topics.get_context(prompt="?")
            assert context.total_tokens <= 2_500
        assert context.left_out_bulks > 0
        assert context.compression_ratio > 1
        history = chat.topics.get_history()
        assert len(history.bulks) == len(context.bulks) + context.left_out_bulks
        assert history.bulks[0].first == "T-1"
        assert "Order 0" in history.bulks[0].summary
        assert [topic.why for bulk in history.bulks for topic in bulk.topics] == ["silence"] * 3 * len(history.bulks)
        assert chat.get_turn("T-1").content


def test_a_one_off_context_has_its_own_topics(store: Path) -> None:
    with foveate.open(store) as fov:
        chat = fov.session("s", strategy="topics", budget_tokens=8_000)
        chat.record([*POTATOES, *TESTS])
        before = chat.topics.get_history()
        context = chat.topics.get_context(2_000)
        assert context.total_tokens <= 2_000
        assert [topic.id for topic in context.topics] == ["topic-1"]
        assert chat.topics.get_history() == before


@pytest.fixture
def shell(store: Path) -> Shell:
    with foveate.open(store) as fov:
        fov.session("demo", strategy="topics", budget_tokens=8_000).record([*POTATOES, *TESTS])
    return Shell(store)


def test_the_command_lists_shows_and_seals(shell: Shell) -> None:
    listed = shell("topics", "list", "demo")
    for word in ("topic-1", "phrase", "T-2 to T-2"):
        assert word in listed
    assert "18 minutes" in " ".join(shell("topics", "show", "demo", "topic-1").split())
    assert shell("topics", "seal", "demo").startswith("Sealed topic-2 T-2")
    assert "empty" in shell("topics", "list", "demo")
    assert "CRLF" in shell("topics", "show", "demo")
    assert "is empty" in shell.run("topics", "seal", "demo", code=1).stderr
    assert shell("topics", "unseal", "demo") == "The current topic begins at T-2 again.\n"
    assert "there is no seal to undo" in shell.error("topics", "unseal", "demo")


def test_the_command_answers_in_json(shell: Shell) -> None:
    listed = json.loads(shell("topics", "list", "demo", "--json"))
    assert (listed["topics"][0]["id"], listed["current_first"]) == ("topic-1", "T-2")
    assert json.loads(shell("topics", "show", "demo", "topic-1", "--json"))["why"] == "phrase"
    assert json.loads(shell("topics", "seal", "demo", "--json"))["id"] == "topic-2"


def test_the_command_names_the_topics_there_are(shell: Shell) -> None:
    assert (
        "no topic 'topic-9' in session 'demo'; available: topic-1"
        in shell.run("topics", "show", "demo", "topic-9", code=1).stderr
    )


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "concepts" / "topics.md").read_text("utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/concepts/topics.md", "exec"), {})
