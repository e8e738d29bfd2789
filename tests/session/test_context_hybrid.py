"""The hybrid strategy on real conversations, all the way: recorded, planned, made, written, counted, expanded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import foveate
import foveate.sync
from foveate.agents.shrink import expand
from foveate.context.tags import parse_blocks
from foveate.errors import InputError
from foveate.events import Event
from foveate.formats import TranscriptMessage, load_transcript
from foveate.text import message_text
from foveate.turn import Message
from support.docs_examples import python_examples, run_example
from support.paths import ROOT

TRANSCRIPTS = ROOT.parent / "shared" / "data" / "transcripts"
needs_transcripts = pytest.mark.skipif(not TRANSCRIPTS.exists(), reason="the real transcripts are not here")
FILLER = "The parser reads each line, keeps the number, and never drops the sign. "


def work(number: int, words: int = 60) -> list[dict[str, Any]]:
    """A turn of an agent: a file read, a change, and a word about it."""
    lines = "\n".join(f"def part_{number}_{line}(): return {line}" for line in range(words))
    read = {
        "id": f"r{number}",
        "type": "function",
        "function": {"name": "read_file", "arguments": f'{{"path": "src/f{number}.py"}}'},
    }
    return [
        {"role": "user", "content": f"Question {number}: what does f{number}.py do? {FILLER * 2}"},
        {"role": "assistant", "content": f"I look at f{number}.py. {FILLER}", "tool_calls": [read]},
        {"role": "tool", "tool_call_id": f"r{number}", "content": lines},
        {"role": "assistant", "content": f"Answer {number}: it has {words} parts. {FILLER * 4}"},
    ]


def histories(kind: str) -> Sequence[tuple[str, list[Message]]]:
    """Real conversations by name."""
    paths = {
        "tau-bench": [TRANSCRIPTS / "tau-airline.json"],
        "swe-agent": sorted((TRANSCRIPTS / "swe-agent").glob("*")),
    }
    found: dict[str, list[Message]] = {}
    for path in paths[kind]:
        with path.open("rb") as file:
            for item in load_transcript(kind).read(file, path.name):
                if isinstance(item, TranscriptMessage):
                    found.setdefault(f"{path.stem}/{item.session}", []).append(item.message)
    return list(found.items())


def test_a_session_reaches_its_target_and_tells_so(tmp_path: Path) -> None:
    told: list[Event] = []
    with foveate.sync.open(tmp_path / "chat.db") as fov:
        session = fov.session("s", strategy="hybrid", budget_tokens=16_000)
        with fov.subscribe(told.append) as subscription:
            for number in range(1, 31):
                session.record(work(number))
                context = session.context("And now?")
                assert context.tokens <= 16_000
                assert f"Question {number}:" in context.text
            subscription.drain()
    ends = [event.data for event in told if event.kind == "compressed" and "is_target_reached" in event.data]
    assert len(ends) >= 2
    assert ends[0]["is_target_reached"]
    assert all(data["is_target_reached"] or "can't be reached" in str(data["message"]) for data in ends)
    assert all(data["tool_results_short"] for data in ends)


def test_the_prefix_stays_the_same_between_compressions(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "chat.db") as fov:
        session = fov.session("s", strategy="hybrid", budget_tokens=16_000)
        before, compressions = "", 0
        for number in range(1, 40):
            session.record(work(number))
            fov.settle()  # a sentence that is made later stands in place of a cut
            context = session.context("And now?")
            now = int(str(context.planned.notes["compressions"]))
            if now == compressions:
                assert context.history.startswith(before), f"the prefix changed at turn {number}"
            before, compressions = context.history, now
        assert compressions >= 2


def test_a_context_shows_short_results_beside_their_calls_and_the_newest_as_they_were(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "chat.db") as fov:
        session = fov.session("s", strategy="hybrid", budget_tokens=20_000)
        for number in range(1, 26):
            session.record(work(number))
        context = session.context("And now?")
    blocks = parse_blocks(context.history)
    mixed = [block for block in blocks if block.level == "M"]
    assert mixed
    for block in mixed:
        (entry,) = block.entries
        assert entry.text.count("[call read_file]") == entry.text.count("[result") == 1
    assert re.search(
        r"\[result read_file\] src/f\d+\.py: 60 lines, sha256 [0-9a-f]{8}\. .*\(short T-\d+\)", context.history
    )
    assert blocks[-1].level == "R"
    native = context.messages("openai")
    assert any(isinstance(message, dict) and message.get("tool_calls") for message in native)


def test_every_short_message_expands_to_its_original(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s", strategy="hybrid", budget_tokens=12_000)
            for number in range(1, 26):
                await session.record(work(number))
            context = await session.context("And now?")
            short = re.findall(r"\(short (T-\d+)\)", context.history)
            assert short
            for turn in set(short):
                whole = (await session.get_turn(turn, "R", format="plain")).content
                messages = [await expand(session, turn, position) for position in range(4)]
                assert "".join(map(message_text, messages)) == whole
                assert [message.original for message in messages if message.original]
            with pytest.raises(InputError, match="messages 0 to 3"):
                await expand(session, "T-1", 9)

    asyncio.run(run())


def test_the_pages_example_runs(tmp_path: Path) -> None:
    example, agent = python_examples(ROOT / "docs" / "concepts" / "hybrid.md")
    assert run_example(example, tmp_path).split()[-1] == "2"
    compile(agent, "docs/concepts/hybrid.md", "exec")


@needs_transcripts
@pytest.mark.parametrize(("kind", "share"), [("tau-bench", 4), ("swe-agent", 6)])
def test_real_histories_fit_keep_pairs_and_expand_exactly(tmp_path: Path, kind: str, share: int) -> None:
    with foveate.sync.open(tmp_path / "real.db") as fov:
        for name, messages in histories(kind)[:share]:
            session = fov.session(
                name, strategy="hybrid", strategy_settings={"window_tokens": 4_000}, budget_tokens=9_000
            )
            session.record(list(messages))
            context = session.context("And now?")
            assert context.tokens <= 9_000
            recorded = [message for turn in session.load_turns(1) for message in turn.messages]
            assert [(one.role, one.parts, one.original) for one in recorded] == [
                (one.role, one.parts, one.original) for one in messages
            ]
            for format_name in ("openai", "anthropic", "gemini"):
                assert context.messages(format_name)
            newest = [message for message in messages if message.role in ("user", "assistant")][-1]
            if "cut" not in context.planned.notes and newest.text:
                assert message_text(newest).strip() in context.text.replace("\\", "") or "\\" in context.text


@needs_transcripts
@pytest.mark.thorough  # the shorter ones above, and those of every strategy, are in each run
@pytest.mark.parametrize("name", ["aider-chat-history.md", "pi-large-session.jsonl"])
def test_a_long_real_session_never_exceeds_and_names_every_turn(tmp_path: Path, name: str) -> None:
    with foveate.sync.open(tmp_path / "real.db") as fov:
        fov.import_file(TRANSCRIPTS / name)
        longest = max(fov.sessions(), key=lambda info: info.turns)
        session = fov.session(longest.id, strategy="hybrid", budget_tokens=16_000)
        for budget in (None, 2_000, 64_000):
            context = session.context("And now?", budget_tokens=budget)
            assert context.tokens <= (budget or 16_000)
            blocks = [block for block in parse_blocks(context.history) if block.level != "A"]
            named = {turn for block in blocks for turn in range(block.first, block.last + 1)}
            assert named == set(range(1, longest.turns + 1))


def test_a_report_says_what_each_message_became_and_why(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("work", strategy="hybrid", budget_tokens=10_000)
        for number in range(1, 13):
            chat.record(work(number))
        fov.settle(session_id="work")
        context = chat.context()
        fov.settle(session_id="work")
        reports = chat.message_reports(chat.context())
    found = {(one.turn, one.position): one for one in reports}
    assert len(found) == 12 * 4
    first, newest = found["T-5", 2], found["T-12", 3]
    assert (first.form, first.why) == ("short", "the history reached the trigger; by the metadata of the result")
    assert 0 < first.shown_tokens < first.tokens
    assert (found["T-5", 3].form, found["T-5", 3].why) == ("whole", "its short form is not smaller")
    assert (newest.form, newest.why) == ("whole", "one of the 5 newest messages of user and assistant")
    assert newest.shown_tokens == newest.tokens
    shown = sum(one.shown_tokens for one in reports)
    assert shown <= sum(part.tokens for part in context.segments if part.level)


def test_a_session_of_another_strategy_has_no_report_of_messages(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("talk")
        chat.record(work(1))
        with pytest.raises(InputError, match="talk uses gradient, which shortens turns, not messages"):
            chat.message_reports()
