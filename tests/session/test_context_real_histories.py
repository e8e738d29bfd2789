"""Six strategies on one log: each visibly its own, and none does what no strategy may do.

The full sweep over every call is `python bench/six_strategies.py`; this looks at some of them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foveate.sync as foveate
from conversation import make_conversation
from foveate.context.context import Context
from foveate.context.tags import TagBlock, parse_blocks
from foveate.history.blocks import user_text
from foveate.replay.replay import CallSample
from foveate.replay.script import prepare
from foveate.text import message_text, turn_text
from six_strategies import TRANSCRIPTS, Stage, histories, unread, watched
from support.engine import settings

SIX = ("checkpoint", "gradient", "hybrid", "oneshot", "standard", "topics")
TURNS = make_conversation(70).turns
BUDGET_TOKENS = 16_000
EPIC = "Every berth can be booked by phone before the season begins."
HISTORIES = 8
"""Of the real conversations, two long ones and six short ones."""
TASKS = "- [x] read the tariff\n- [ ] answer the phone"

needs_transcripts = pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason=f"the transcripts are not at {TRANSCRIPTS}")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Context]:
    """One history as each strategy shows it, followed from turn to turn."""
    raw = settings(recall={"enabled": False})
    contexts = {}
    with foveate.open(tmp_path_factory.mktemp("six") / "chat.db", settings=raw) as fov:
        for name in SIX:
            given = {"subject_distance": 0.25, "past": 0.05, "current": 0.75} if name == "topics" else None
            session = fov.session(name, strategy=name, strategy_settings=given, budget_tokens=BUDGET_TOKENS)
            session.documents.give("epic", EPIC)
            session.documents.give("tasks", TASKS)
            for number, turn in enumerate(TURNS, 1):
                session.record(turn)
                if number % 14 == 0:
                    fov.settle(session_id=name)
                    session.context()
            contexts[name] = session.context()
    return contexts


def blocks_of(context: Context) -> list[TagBlock]:
    return parse_blocks(context.history)


def test_no_two_strategies_show_the_same_history_alike(shown: dict[str, Context]) -> None:
    assert all(context.tokens <= BUDGET_TOKENS for context in shown.values())
    texts = [context.text for context in shown.values()]
    assert len(set(texts)) == len(SIX)
    pictures = {
        name: tuple((block.first, block.last, block.level) for block in blocks_of(context))
        for name, context in shown.items()
        if name != "oneshot"  # its log is a gradient: what differs is around it
    }
    assert len(set(pictures.values())) == len(pictures)


def test_standard_shows_whole_turns_and_names_the_rest(shown: dict[str, Context]) -> None:
    first, *others = blocks_of(shown["standard"])
    assert (first.level, first.first, first.last) == ("E", 1, others[0].first - 1)
    assert [block.level for block in others] == ["R"] * len(others)
    assert [block.first for block in others] == list(range(others[0].first, len(TURNS) + 1))
    for block in others:
        assert block.entries[0].text == turn_text(TURNS[block.first - 1].messages)


def test_the_gradient_shows_turns_of_all_ages_and_the_newest_verbatim(shown: dict[str, Context]) -> None:
    blocks = blocks_of(shown["gradient"])
    entries = [entry.number for block in blocks if block.level in "CT" for entry in block.entries]
    assert blocks[0].first == 1
    assert min(entries) <= len(TURNS) // 5  # those before are in an era
    assert (blocks[-1].level, blocks[-1].last) == ("R", len(TURNS))


def test_checkpoint_has_every_word_of_the_user_and_summaries_of_the_rest(shown: dict[str, Context]) -> None:
    blocks = blocks_of(shown["checkpoint"])
    words = {entry.number: entry.text for block in blocks if block.level in "UR" for entry in block.entries}
    assert "tiny_through" not in shown["checkpoint"].planned.notes
    for number, turn in enumerate(TURNS, 1):
        assert user_text(turn.messages) in words[number]
    assert {"A", "U", "R"} <= {block.level for block in blocks}


def test_topics_stand_in_three_tiers(shown: dict[str, Context]) -> None:
    notes = shown["topics"].planned.notes
    assert notes["bulks"]
    assert notes["topics"]
    current = notes["current"]
    assert isinstance(current, dict)
    assert current["last"] == len(TURNS)
    blocks = blocks_of(shown["topics"])
    sums = [(block.first, block.last) for block in blocks if block.level == "A"]
    for tier in (notes["bulks"], notes["topics"]):
        assert isinstance(tier, list)
        for part in tier:
            assert isinstance(part, dict)
            assert (part["first"], part["last"]) in sums
    assert blocks[-1].level in ("R", "M")
    assert blocks[-1].last == len(TURNS)


def test_hybrid_leaves_the_last_five_messages_untouched_and_makes_older_ones_short(shown: dict[str, Context]) -> None:
    blocks = blocks_of(shown["hybrid"])
    messages = [one for turn in TURNS[-6:] for one in turn.messages]
    spoken = [one for one in messages if one.role in ("user", "assistant") and one.kind == "message"]
    text = "".join(entry.text for block in blocks for entry in block.entries)
    for one in spoken[-5:]:
        assert message_text(one) in text
    short = [block for block in blocks if block.level == "M"]
    assert short
    assert any(block.entries[0].text != turn_text(TURNS[block.first - 1].messages) for block in short)


def test_oneshot_has_epic_tasks_and_log(shown: dict[str, Context]) -> None:
    context = shown["oneshot"]
    assert f"<epic>\n{EPIC}\n</epic>\n" in context.system
    assert context.text.count(f"<tasks>\n{TASKS}\n</tasks>\n") == 1
    assert TASKS not in context.system
    assert blocks_of(context)[-1].last == len(TURNS)
    assert not any(EPIC in other.text for name, other in shown.items() if name != "oneshot")


@pytest.fixture(scope="module")
def stages() -> list[tuple[Stage, int]]:
    """Parts of real conversations with the budget they are played at, and how many calls apart they are looked at."""
    chosen = settings(recall={"enabled": False})
    ready = []
    for name, turns in list(histories().items())[:HISTORIES]:
        some, budget, every = (turns, 3_000, 16) if name.startswith("tau") else (turns[:5], 8_000, 60)
        script = asyncio.run(prepare(some, settings=chosen))
        ready.append((Stage(script, some, CallSample(every), chosen), budget))
    return ready


@needs_transcripts
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in ("oneshot", "standard"))) for name in SIX]
)
def test_nothing_forbidden_happens_in_real_conversations(
    name: str, stages: list[tuple[Stage, int]], tmp_path: Path
) -> None:
    faults, prompts = [], 0
    for stage, budget in stages:
        watch = asyncio.run(watched(stage, name, budget))
        faults += watch.faults
        prompts += watch.prompts
    longest = max(stages, key=lambda one: one[0].script.raw_tokens)[0]
    faults += asyncio.run(unread(tmp_path / "chat.db", longest, name, budget_tokens=4_000, every=40))
    assert faults == []
    assert prompts > len(stages)


def test_the_watch_notices_what_may_not_happen() -> None:
    """Not a strategy's test: a look that finds nothing must be able to."""
    stage = Stage(asyncio.run(prepare(TURNS[:3], settings=settings())), TURNS[1:4], CallSample(), settings())
    watch = asyncio.run(watched(stage, "standard", 4_000))
    assert any("not shown as it was said" in fault for fault in watch.faults)
