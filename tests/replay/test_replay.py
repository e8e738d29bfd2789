"""A conversation played again: what each prompt shares with the one before it, and that none is too large."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from conversation import make_conversation
from foveate.context.context import Context
from foveate.replay.replay import ReplayCall, ReplayReport, replay
from foveate.replay.script import Script, prepare
from foveate.settings import Settings, load_settings
from foveate.turn import Message, Text, ToolCall, ToolResult, Turn

BUDGET = 6_000


@pytest.fixture(scope="module")
def script() -> Script:
    import asyncio

    return asyncio.run(prepare(make_conversation(40, 42).turns))


def played(script: Script | Sequence[Turn], budget: int = BUDGET, **options: object) -> ReplayReport:
    import asyncio

    return asyncio.run(replay(script, budget_tokens=budget, **options))  # type: ignore[arg-type]


def scheduled(schedule: str) -> Settings:
    return load_settings().with_strategy("gradient", schedule=schedule)


def test_no_prompt_of_a_replay_is_larger_than_its_budget(script: Script) -> None:
    report = played(script)
    assert report.overruns == 0
    assert max(call.tokens for call in report.calls) <= BUDGET
    assert report.rebuilds["full"] > 1


def test_there_is_a_call_before_every_assistant_message(script: Script) -> None:
    answers = [draft for turn in script.turns for draft in turn.drafts if draft.role == "assistant"]
    report = played(script)
    assert len(report.calls) == len(answers)
    assert report.turns == 40
    assert report.raw_tokens == sum(draft.tokens for turn in script.turns for draft in turn.drafts)


def test_the_watermark_keeps_more_cached_than_the_interval(script: Script) -> None:
    often = load_settings().with_strategy("gradient", schedule="interval", interval_turns=2)
    watermark, interval = played(script, 24_000), played(script, 24_000, settings=often)
    assert 0 <= interval.cached_share < watermark.cached_share <= 1
    assert watermark.price < interval.price
    assert sum(watermark.rebuilds.values()) < sum(interval.rebuilds.values())


def test_the_documented_order_loses_the_cache_while_something_is_on_the_board(script: Script) -> None:
    settings = load_settings()
    shares = [
        played(
            script,
            settings=replace(settings, context=replace(settings.context, order=order)),
            retrieve_every_turns=10,
        ).cached_share
        for order in ("cache-first", "documented")
    ]
    assert shares[0] > shares[1]


def test_a_replay_of_what_fits_is_never_rebuilt_and_almost_all_cached() -> None:
    turns = [
        Turn((Message("user", (Text(f"Question {n}?"),)), Message("assistant", (Text("Yes."),)))) for n in range(40)
    ]
    report = played(turns, 50_000)
    assert report.rebuilds == {"first": 1}
    assert report.cached_share > 0.9
    assert (report.mean_use, report.fewest_turns_shown) == (None, None)


def test_a_replay_tells_its_progress_and_shows_its_contexts() -> None:
    seen: list[tuple[ReplayCall, Context]] = []
    told: list[int] = []
    call = ToolCall("ls", {}, id="c1")
    turn = Turn(
        (
            Message("user", (Text("List it"),)),
            Message("assistant", (call,)),
            Message("tool", (ToolResult("c1", (Text("a b c"),)),)),
            Message("assistant", (Text("Three files."),)),
        )
    )
    played([turn], 5_000, progress=told.append, observe=lambda *pair: seen.append(pair))
    assert told == [1]
    (_, first), (then, second) = seen
    assert "List it" in first.text
    assert "a b c" not in first.text
    assert "a b c" in second.text
    assert then.cached_tokens > first.tokens / 2


def test_an_empty_conversation_has_a_report_too() -> None:
    report = played([])
    assert (report.cached_share, report.overruns, report.calls) == (0, 0, ())
    assert report.summary()["rebuilds"] == {}


def test_a_replay_recalls_what_a_prompt_asks_for() -> None:
    def turn(said: str, answer: str) -> Turn:
        return Turn((Message("user", (Text(said),)), Message("assistant", (Text(answer),))))

    talk = [turn(f"The sea was calm on day {number}, nothing of note. " * 12, "I see.") for number in range(20)]
    fact = turn("The spare key of the boat shed hangs on hook KH-731, behind the blue barrel.", "Noted.")
    question = turn("On which hook hangs the spare key of the boat shed?", "KH-731.")
    shown: list[str] = []
    given = load_settings(overrides={"recall": {"deadline_seconds": None}})
    played([fact, *talk, question], 2_000, settings=given, observe=lambda _, context: shown.append(context.text))
    assert "<memory>" in shown[-1]
    assert "KH-731" in shown[-1]
