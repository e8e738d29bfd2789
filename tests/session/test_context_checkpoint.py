"""The checkpoint strategy on real conversations, all the way: recorded, planned, made, written, counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate.context.tags import parse_blocks
from foveate.events import Event
from foveate.text import message_text
from foveate.turn import Message
from support.command_line import Shell
from support.paths import ROOT
from support.transcripts import import_bytes
from support.turns import split_turns

FOLDER = ROOT.parent / "shared" / "data" / "transcripts"
RAW = foveate.load_settings(environment={}, overrides={"compress": {"enabled": False}})
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


needs_transcripts = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the shared test data is not there: {FOLDER}")


@pytest.fixture(scope="module")
def pi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the pi session, an agent's work of 88 turns."""
    store = tmp_path_factory.mktemp("pi") / "pi.db"
    with foveate.open(store) as fov:
        fov.import_file(FOLDER / "pi-large-session.jsonl", session_id="pi")
    return store


def talk(turn: int, answer_words: int = 120) -> list[dict[str, Any]]:
    said = " ".join(f"{WORDS[(turn * 7 + place * place) % 10]}{place}" for place in range(answer_words))
    return [
        {"role": "user", "content": f"Question {turn}: what about {WORDS[turn % 10]} number {turn * 13}?"},
        {"role": "assistant", "content": f"We decided to use option {turn} instead of {turn + 1}. {said}."},
    ]


def user_words(messages: tuple[Message, ...]) -> str:
    return "".join(message_text(message) for message in messages if message.opens_turn)


def shown_users(text: str) -> dict[int, str]:
    """The user's words of each turn as a context has them, verbatim."""
    found: dict[int, str] = {}
    for block in parse_blocks(text):
        if block.level == "U":
            found |= {entry.number: entry.text for entry in block.entries}
        elif block.level == "R" and block.first_step <= 1:
            found |= {block.first if block.first_step else entry.number: entry.text for entry in block.entries}
    return found


def test_a_session_goes_through_its_compressions_and_tells_of_them_in_order(tmp_path: Path) -> None:
    told: list[Event] = []
    with foveate.open(tmp_path / "chat.db") as fov:
        session = fov.session("long", strategy="checkpoint", budget_tokens=8_000)
        subscription = fov.subscribe(told.append)
        for turn in range(1, 41):
            session.record(talk(turn))
            context = session.context("And now?")
            assert context.tokens <= 8_000
            users = shown_users(context.history)
            for number in range(1, turn + 1):
                assert f"Question {number}:" in users[number]
        subscription.drain()
    turns = ("turn-recorded", "compression-failed")
    # Renditions of single turns, made in the background, come at any time.
    kinds = [
        each.kind for each in told if each.kind not in turns and (each.kind != "compressed" or "cause" in each.data)
    ]
    start = kinds.index("context-threshold-reached")
    assert kinds[start - 1] == "message-added"
    assert kinds[start : start + 5] == [
        "context-threshold-reached",
        "compression-triggered",
        "checkpoint-created",
        "budget-recalculated",
        "compressed",
    ]
    again = kinds.index("context-threshold-reached", start + 1)
    assert kinds[again : again + 6] == [
        "context-threshold-reached",
        "compression-triggered",
        "checkpoint-created",
        "checkpoints-aged",
        "budget-recalculated",
        "compressed",
    ]


def test_nothing_of_the_full_record_changes(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        session = fov.session("long", strategy="checkpoint", budget_tokens=4_000)
        for turn in range(1, 31):
            session.record(talk(turn))
        before = [session.get_turn(turn, "R", "plain").content for turn in range(1, 31)]
        exported = "".join(session.export("json"))
        for _ in range(3):
            session.context("And now?")
        assert [session.get_turn(turn, "R", "plain").content for turn in range(1, 31)] == before
        assert "".join(session.export("json")) == exported


def test_a_one_off_changes_nothing_and_keeps_the_sessions_checkpoints(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        session = fov.session("long", strategy="checkpoint", budget_tokens=8_000)
        for turn in range(1, 61):
            session.record(talk(turn))
        own = session.context("And now?")
        wide = session.context("And now?", budget_tokens=100_000)
        assert re.findall(r"<T-[\w-]+-A>", wide.history) == re.findall(r"<T-[\w-]+-A>", own.history) != []
        assert session.context("And now?").text == own.text


def loaded(format_: str, name: str) -> list[list[Message]]:
    """The conversations of a real transcript."""
    return list(import_bytes(format_, (FOLDER / name).read_bytes(), name).sessions.values())


def check(session: foveate.Session, budget_tokens: int) -> None:
    """The context fits, names every turn, and has every word of the user where the session did not roll over."""
    context = session.context("And now?", budget_tokens=budget_tokens, strategy="checkpoint")
    notes = context.planned.notes
    assert context.tokens <= budget_tokens
    assert "fallback" not in notes
    shown = parse_blocks(context.history)
    turns = session.load_turns()
    assert {turn for block in shown for turn in range(block.first, block.last + 1)} == {turn.number for turn in turns}
    rolled = int(str(notes.get("tiny_through", "T-0")).removeprefix("T-"))
    users = shown_users(context.history)
    for turn in turns:
        if turn.number > rolled and not ("newest" in notes and turn is turns[-1]):
            assert user_words(turn.messages) in users[turn.number]


@needs_transcripts
@pytest.mark.parametrize("budget_tokens", [2_000, pytest.param(16_000, marks=pytest.mark.thorough)])
def test_the_pi_session_never_exceeds_and_keeps_every_word_of_the_user(pi: Path, budget_tokens: int) -> None:
    with foveate.open(pi) as fov:
        check(fov.find_session("pi"), budget_tokens)


@pytest.mark.thorough
@needs_transcripts
def test_three_hundred_turns_with_aider_never_exceed_and_keep_every_word_of_the_user(tmp_path: Path) -> None:
    (messages,) = loaded("aider", "aider-chat-history.md")
    talks = split_turns(messages)[:300]
    with foveate.open(tmp_path / "aider.db", settings=RAW) as fov:
        session = fov.session("aider")
        session.record_all([message for turn in talks for message in turn])
        for budget in (4_000, 16_000, 64_000):
            check(session, budget)


@pytest.mark.thorough
@needs_transcripts
def test_tau_bench_runs_never_exceed_and_keep_every_word_of_the_user(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "tau.db", settings=RAW) as fov:
        for number, messages in enumerate(loaded("tau-bench", "tau-airline.json")[:20]):
            session = fov.session(f"run-{number}", budget_tokens=4_000)
            session.record_all(messages)
            check(session, 3_000)
            check(session, 9_000)


def test_at_16k_with_a_system_prompt_of_1000_tokens_what_is_available_is_as_designed(tmp_path: Path) -> None:
    system = " careful" * 1_000
    seen: dict[int, int] = {}
    with foveate.open(tmp_path / "chat.db", settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=16_000)
        assert chat.counter.base(system) == 1_000
        for turn in range(60):
            chat.record(talk(turn, 400))
            context = chat.context(prompt="What about alpha number 13?", system=system)
            notes: Any = context.planned.notes
            assert context.tokens <= 16_000
            assert "rollovers" not in notes
            seen.setdefault(notes["compressions"], notes["available_tokens"])
            if notes["compressions"] > 3:
                break
    assert [seen[compressions] for compressions in range(5)] == [12_600, 11_400, 10_800, 10_500, 10_500]


@pytest.mark.parametrize(
    "budget_tokens",
    [8_000, *(pytest.param(other, marks=pytest.mark.thorough) for other in (3_000, 16_000, 32_000))],
)
def test_architecture_decisions_and_user_words_stay_in_every_tier(tmp_path: Path, budget_tokens: int) -> None:
    decided = [f"We decided to use PostgreSQL table t{number} with a primary key." for number in range(3)]
    with foveate.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=budget_tokens)
        for turn in range(budget_tokens // 250):
            question, answer = talk(turn, 100)
            if turn < 3:
                answer["content"] = f"{decided[turn]} {answer['content']}"
            chat.record([question, answer])
            if turn % 3 == 0:
                context = chat.context()
                if context.planned.notes.get("rollovers"):
                    break
                assert set(shown_users(context.history)) == set(range(1, turn + 2))
                assert [text for text in decided[: turn + 1] if text.rstrip(".") not in context.text] == []
        assert turn > 10
        assert context.planned.notes["compressions"]


def test_checkpoints_are_values_and_a_command_lists_them_with_a_status_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with foveate.open(path, settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=16_000, model="llama-3.3-70b")
        for turn in range(40):
            question, answer = talk(turn, 400)
            chat.record([question, {**answer, "content": answer["content"].replace(". ", ".\n\n", 1)}])
            if turn % 4 == 0:
                chat.context()
        found, status = chat.checkpoints.list(), chat.checkpoints.status()
        notes: Any = chat.context().planned.notes
        assert [one.id for one in found] == [noted["id"] for noted in notes["checkpoints"]]
        assert [(one.level, one.compression_count) for one in found][-1] == (3, 1)
        assert all(one.key_decisions for one in found)
        assert all(one.text.startswith(("Detailed", "Moderate", "Compact")) for one in found)
        assert found[-1].summary
        assert all(one.original_tokens > one.current_tokens > 0 for one in found)
        assert (found[0].first, found[0].first_message) == ("T-1", 1)
        assert status.tier_name == "standard"
        assert status.line.endswith(
            f"tier 3 standard · reliability {status.reliability:.1%} {status.reliability_level}"
        )
        fov.session("other")
        with pytest.raises(foveate.FoveateError, match="has no checkpoints"):
            fov.open_session("other").checkpoints.list()
    shell = Shell(path)
    listed = shell.json("checkpoints", "s")
    assert [one["id"] for one in listed["checkpoints"]] == [one.id for one in found]
    assert listed["status"]["line"] == status.line
    assert status.line.split(" · ")[0] in shell("checkpoints", "s")


def test_no_event_says_that_a_model_summarises_where_none_is_asked(tmp_path: Path) -> None:
    told: list[Event] = []
    with foveate.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=8_000)
        with fov.subscribe(told.append, ["llm-summarizing", "checkpoint-created"]) as subscription:
            for turn in range(20):
                chat.record(talk(turn, 300))
                chat.context()
            subscription.drain()
    assert {event.kind for event in told} == {"checkpoint-created"}


def test_the_status_has_its_tier_and_room_before_the_first_context_and_before_the_first_turn(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db", settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=16_000, model="gpt-5-mini")
        empty = chat.checkpoints.status()
        assert (empty.used_tokens, empty.available_tokens, empty.tier_name) == (0, 13_600, "standard")
        assert empty.line == "0 of 13,600 tokens · tier 3 standard · reliability 85.0% high"
        chat.record(talk(1))
        assert chat.checkpoints.status().used_tokens > 0


def test_the_status_counts_the_system_prompt_of_the_contexts_and_changes_nothing(tmp_path: Path) -> None:
    system = " careful" * 1_000
    with foveate.open(tmp_path / "chat.db", settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=16_000)
        for turn in range(30):
            chat.record(talk(turn, 400))
            before: Any = chat.context(system=system).planned.notes
            status = chat.checkpoints.status()
            assert (status.used_tokens, status.available_tokens) == (before["used_tokens"], before["available_tokens"])
            assert chat.context(system=system).planned.notes == before
        assert before["compressions"]


def test_listed_checkpoints_have_the_tokens_of_the_plan_in_the_models_own_encoding(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db", settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=8_000, model="llama-3.3-70b")
        for turn in range(20):
            chat.record(talk(turn, 400))
        noted: Any = chat.context().planned.notes["checkpoints"]
        listed = chat.checkpoints.list()
    assert [(one.original_tokens, one.current_tokens) for one in listed] == [
        (one["original_tokens"], one["current_tokens"]) for one in noted
    ]
    assert listed


def test_a_critical_reliability_is_shown_with_the_commands_that_help(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with foveate.open(path, settings=RAW) as fov:
        chat = fov.session("s", strategy="checkpoint", budget_tokens=8_000, model="llama-3.1-8b")
        chat.record(talk(1))
        status = chat.checkpoints.status()
        assert status.reliability_level == "low"
        assert "foveate chat --new" in status.advice
        assert "foveate chat s --budget 16000" in status.advice
        fov.session("good", strategy="checkpoint", budget_tokens=8_000, model="llama-3.3-70b")
        assert fov.open_session("good").checkpoints.status().advice == ""
    shell = Shell(path)
    for shown in (shell("checkpoints", "s"), shell("stats", "s")):
        assert "foveate chat s --budget 16000" in " ".join(shown.split())
    assert shell.json("checkpoints", "s")["status"]["advice"] == status.advice
