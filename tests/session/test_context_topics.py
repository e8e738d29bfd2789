"""The topics strategy on real conversations, all the way: recorded, planned, made, written, counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate.context.context import Context
from foveate.context.tags import parse_blocks
from foveate.text import turn_text
from support.paths import ROOT
from support.transcripts import import_bytes
from support.turns import split_turns

FOLDER = ROOT.parent / "shared" / "data" / "transcripts"
RAW = foveate.load_settings(environment={}, overrides={"compress": {"enabled": False}})

needs_transcripts = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the shared test data is not there: {FOLDER}")


def check(session: foveate.Session, context: Context, budget_tokens: int) -> None:
    """The context fits, names every turn, has its tiers in order, and the current topic word for word."""
    notes: Any = context.planned.notes
    assert context.tokens <= budget_tokens
    assert "fallback" not in notes
    blocks = parse_blocks(context.history)
    turns = session.load_turns()
    assert {turn for block in blocks for turn in range(block.first, block.last + 1)} == {turn.number for turn in turns}
    tiers = ["AE".find(block.level) >= 0 for block in blocks]
    assert notes.get("is_cut") or tiers == sorted(tiers, reverse=True)
    for block in blocks:
        if block.level == "R" and not block.first_step and not notes.get("is_cut"):
            assert block.entries[0].text == turn_text(turns[block.first - 1].messages)
    for topic in (*notes.get("topics", ()), *notes.get("bulks", ())):
        assert any(
            (block.first, block.last) == (topic["first"], topic["last"]) or block.level != "A" for block in blocks
        )


@needs_transcripts
@pytest.mark.parametrize("budget_tokens", [pytest.param(2_000, marks=pytest.mark.thorough), 16_000])
def test_the_pi_session_never_exceeds_its_budget(pi: Path, budget_tokens: int) -> None:
    with foveate.open(pi) as fov:
        session = fov.find_session("pi")
        check(session, session.context("And now?", budget_tokens=budget_tokens, strategy="topics"), budget_tokens)


@pytest.fixture(scope="module")
def pi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the pi session, an agent's work of 88 turns."""
    store = tmp_path_factory.mktemp("pi") / "pi.db"
    with foveate.open(store) as fov:
        fov.import_file(FOLDER / "pi-large-session.jsonl", session_id="pi")
    return store


@needs_transcripts
def test_three_hundred_turns_with_aider_show_three_tiers_and_never_exceed(tmp_path: Path) -> None:
    (messages,) = import_bytes(
        "aider", (FOLDER / "aider-chat-history.md").read_bytes(), "aider-chat-history.md"
    ).sessions.values()
    talks = split_turns(messages)[:300]
    with foveate.open(tmp_path / "aider.db", settings=RAW) as fov:
        session = fov.session(
            "aider", strategy="topics", strategy_settings={"subject_distance": 0.25}, budget_tokens=12_000
        )
        for start in range(0, 300, 100):
            session.record_all([message for turn in talks[start : start + 100] for message in turn])
            context = session.topics.get_context(prompt="And now?")
            check(session, context.context, 12_000)
        for tier in (context.current_topic, context.topics, context.bulks):
            assert tier
        assert context.compression_ratio > 2
        for budget in (4_000, 64_000):
            check(session, session.context("?", budget_tokens=budget), budget)


@pytest.mark.thorough
@needs_transcripts
def test_tau_bench_runs_never_exceed_their_budget(tmp_path: Path) -> None:
    runs = import_bytes("tau-bench", (FOLDER / "tau-airline.json").read_bytes(), "tau-airline.json").sessions
    with foveate.open(tmp_path / "tau.db", settings=RAW) as fov:
        for number, messages in enumerate(list(runs.values())[:20]):
            session = fov.session(f"run-{number}", strategy="topics", budget_tokens=4_000)
            session.record_all(messages)
            for budget in (3_000, 4_000, 9_000):
                check(session, session.context("And now?", budget_tokens=budget), budget)
