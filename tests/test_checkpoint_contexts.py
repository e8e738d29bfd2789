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
from foveate.tokens import O200K
from foveate.turn import Message

TRANSCRIPTS = Path("/work/shared/data/transcripts")
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


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
    kinds = [event.kind for event in told if event.kind not in ("turn-recorded", "compression-failed")]
    start = kinds.index("context-threshold-reached")
    assert kinds[start - 1] == "message-added"
    assert kinds[start : start + 6] == [
        "context-threshold-reached",
        "compression-triggered",
        "llm-summarizing",
        "checkpoint-created",
        "budget-recalculated",
        "compressed",
    ]
    again = kinds.index("context-threshold-reached", start + 1)
    assert kinds[again : again + 7] == [
        "context-threshold-reached",
        "compression-triggered",
        "llm-summarizing",
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


@pytest.mark.skipif(not TRANSCRIPTS.exists(), reason="the real transcripts are not here")
@pytest.mark.parametrize(
    ("name", "budgets"),
    [("pi-large-session.jsonl", (2_000, 8_000, 16_000, 64_000)), ("aider-chat-history.md", (4_000, 16_000, 64_000))],
)
def test_a_real_session_never_exceeds_and_keeps_every_word_of_the_user(
    tmp_path: Path, name: str, budgets: tuple[int, ...]
) -> None:
    with foveate.open(tmp_path / "real.db") as fov:
        fov.import_file(TRANSCRIPTS / name)
        session = fov.find_session(max(fov.sessions(), key=lambda info: info.turns).id)
        turns = session.load_turns(1, session.info.turns)
        for budget in budgets:
            context = session.context("And now?", budget_tokens=budget, strategy="checkpoint")
            assert context.tokens <= budget
            assert O200K.base(context.history) <= budget
            notes = context.planned.notes
            rolled = int(str(notes.get("tiny_through", "T-0")).removeprefix("T-"))
            users = shown_users(context.history)
            named = {turn for block in parse_blocks(context.history) for turn in range(block.first, block.last + 1)}
            assert named == set(range(1, len(turns) + 1))
            for turn in turns:
                if turn.number > rolled and "newest" not in notes:
                    assert user_words(turn.messages) in users[turn.number]
