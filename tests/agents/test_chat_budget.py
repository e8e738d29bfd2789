"""What a chat sends: within the budget and the window, counted as the provider counts, and cached as predicted."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import Foveate
from foveate.agents.chat import AnswerSummary, Chat, Notice
from foveate.errors import InputError, ModelFailed, ModelUnavailable
from foveate.models import Ask
from foveate.models.settings import Price
from foveate.settings import load_settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, CallsTool, Fails, Says, ScriptedModel
from foveate.turn import Usage
from support.chats import FAST, asked_tokens, events_of, finished, scripted_store, unpaired
from support.engine import assistant, talk

MODEL = "scripted:test"


@examples(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(900, 6_000),
    st.lists(st.tuples(st.text(min_size=1).filter(str.strip), st.integers(1, 300)), min_size=1, max_size=8),
    st.sampled_from(["gpt-5", "claude-sonnet-4-5", "smollm2", None]),
)
def test_no_request_is_larger_than_the_budget(
    tmp_path_factory: pytest.TempPathFactory, budget_tokens: int, said: list[tuple[str, int]], name: str | None
) -> None:
    def script(ask: Ask) -> Behaviour:
        number = len(ask.messages)
        if ask.tools and number % 3 == 0:
            return CallsTool("get_turns", {"first": "T-1", "last": "T-9", "level": "R"})
        return Says(f"Well, {number}. " * (number % 40 + 1))

    async def job(path: Path) -> None:
        model = ScriptedModel(script)
        async with scripted_store(path, model) as fov:
            session = await fov.session("s", budget_tokens=budget_tokens, model=name)
            chat = Chat(session, fov.caller, [MODEL])
            for text, times in said:
                await events_of(chat.say(f"{text} " * times))
                for ask in model.asks:
                    assert asked_tokens(ask, session) <= budget_tokens
                    assert ask.input_tokens <= budget_tokens
                    assert unpaired(ask) == []
                model.asks.clear()

    asyncio.run(job(tmp_path_factory.mktemp("chat") / "chat.db"))


@pytest.mark.parametrize(("turns", "learns"), [(1, False), (40, True)])
def test_what_the_provider_reports_tightens_the_counts_once_the_prompt_is_large(
    tmp_path: Path, turns: int, *, learns: bool
) -> None:
    def overcounting(ask: Ask) -> Behaviour:
        return Says("Fine.", usage=Usage(input_tokens=ask.input_tokens * 2, output_tokens=1))

    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(overcounting), allotments={"recall": 0}) as fov:
            session = await fov.session("s", budget_tokens=4_000)
            await talk(session, turns, words=60)
            chat = Chat(session, fov.caller, [MODEL])
            await finished(chat.say("How large is this?"))
            assert session.info.calibration == (pytest.approx(2.0, rel=0.01) if learns else 1.0)

    asyncio.run(job())


def test_a_prompt_too_long_for_the_model_is_asked_again_with_less_and_the_counts_learn(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("Fine."))
        async with scripted_store(tmp_path / "chat.db", model, recall={"enabled": False}) as fov:
            session = await fov.session("s", budget_tokens=4_000)
            await talk(session, 25, words=60)
            chat = Chat(session, fov.caller, [MODEL], has_tools=False)
            model.window_tokens = int((await chat.context()).tokens * 0.85)
            first, *_, end = await events_of(chat.say("Does it fit?"))
            assert isinstance(first, Notice)
            assert isinstance(end, AnswerSummary)
            assert len(model.asks) == 2
            assert end.budget_tokens == int(model.asks[0].input_tokens * 0.75)
            assert session.info.calibration == pytest.approx(4 / 3, rel=0.01)
            for _ in range(4):
                await finished(chat.say("And now?"))
            model.asks.clear()
            await finished(chat.say("And from now on?"))
            assert len(model.asks) == 1

    asyncio.run(job())


def test_a_fallback_that_is_down_does_not_keep_a_prompt_from_being_sent_with_less(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("Fine."), name=MODEL)
        down = ScriptedModel(Fails("network"), name="scripted:down", provider="down")
        given = load_settings(environment={}, overrides={"models": FAST, "recall": {"enabled": False}})
        store = await open_store(str(tmp_path / "chat.db"), given.store)
        fov = Foveate(store, given, load=lambda name, _: model if name == MODEL else down)
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 25, words=60)
        chat = Chat(session, fov.caller, [MODEL, down.name], has_tools=False)
        model.window_tokens = int((await chat.context()).tokens * 0.85)
        first, *_, end = await events_of(chat.say("Does it fit?"))
        assert isinstance(first, Notice)
        assert isinstance(end, AnswerSummary)
        assert (len(model.asks), len(down.asks)) == (2, 1 + given.models.max_retries)
        await fov.close()

    asyncio.run(job())


def test_an_output_limit_that_went_into_reasoning_is_told_after_one_call(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("", finish="length"))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL], max_output_tokens=500)
            with pytest.raises(ModelFailed, match="all of its 500 output tokens went into reasoning"):
                await events_of(chat.say("Think hard."))
            assert len(model.asks) == 1

    asyncio.run(job())


@pytest.mark.parametrize(("turns", "calls"), [(0, 1), (25, 2)])
def test_a_window_far_smaller_than_the_budget_is_an_error_after_two_calls(
    tmp_path: Path, turns: int, calls: int
) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("Fine."), window_tokens=200)
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s", budget_tokens=4_000)
            if turns:
                await talk(session, turns, words=60)
            chat = Chat(session, fov.caller, [MODEL])
            with pytest.raises(ModelUnavailable, match="its window 200") as raised:
                await events_of(chat.say("Does it fit? " * 60))
            assert ("use a smaller budget" in str(raised.value)) is (calls == 2)
            assert len(model.asks) == calls
            assert session.info.calibration == 1.0
            assert await chat.waiting() == f"T-{turns + 1}"

    asyncio.run(job())


def test_a_budget_that_leaves_no_room_for_an_answer_is_refused(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(Says("Fine."))) as fov:
            session = await fov.session("s", budget_tokens=2_000)
            with pytest.raises(InputError, match="use a budget of at most 1,728"):
                Chat(session, fov.caller, [MODEL], max_output_tokens=256, window_tokens=2_048)
            with pytest.raises(InputError, match="fewer output tokens"):
                Chat(session, fov.caller, [MODEL], max_output_tokens=4_000, window_tokens=2_048)
            Chat(session, fov.caller, [MODEL], max_output_tokens=256, window_tokens=2_320)

    asyncio.run(job())


def test_tools_are_not_offered_where_they_would_take_much_of_the_budget(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("Fine."))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            small = Chat(await fov.session("small", budget_tokens=1_200), fov.caller, [MODEL])
            large = Chat(await fov.session("large", budget_tokens=12_000), fov.caller, [MODEL])
            without = Chat(await fov.session("without", budget_tokens=12_000), fov.caller, [MODEL], has_tools=False)
            assert [chat.has_tools for chat in (small, large, without)] == [False, True, False]
            for chat in (small, large, without):
                await chat.session.record([assistant("Good morning.")])
                await finished(chat.say("Hello."))
        assert [len(ask.tools) for ask in model.asks] == [0, 5, 0]

    asyncio.run(job())


def test_a_new_chat_has_no_explanation_and_tools_until_its_first_rebuild(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("That is fine, as it was before. " * 6))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s", budget_tokens=4_000), fov.caller, [MODEL], system="Be brief.")
            rebuilt = []
            for number in range(40):
                await finished(chat.say(f"Number {number}. {'So be it. ' * 15}"))
                rebuilt.append((await chat.context()).planned.cause != "first")
        explained = ["tags" in ask.messages[0].text for ask in model.asks]
        assert [bool(ask.tools) for ask in model.asks] == explained
        assert explained == sorted(explained)
        assert explained[0] is False
        assert explained.index(True) == rebuilt.index(True)

    asyncio.run(job())


def test_the_cached_share_is_predicted_as_a_provider_reports_it(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(lambda ask: Says(f"That is answer {len(ask.messages)}, as you wished. " * 4))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s", budget_tokens=4_000), fov.caller, [MODEL])
            ends = []
            for number in range(40):
                ends.append(await finished(chat.say(f"Thanks {number}. {'So be it. ' * 15}")))
                await fov.settle()  # so that no plan is made twice
        assert ends[0].predicted_cached_share == 0
        predicted = sum(end.predicted_cached_tokens for end in ends) / sum(end.prompt_tokens for end in ends)
        reported = sum(end.cached_tokens for end in ends) / sum(end.input_tokens for end in ends)
        # The scripted model caches prompts only, not its own answers.
        assert reported <= predicted <= reported + 0.05
        assert all(end.tokens <= end.budget_tokens == 4_000 for end in ends)

    asyncio.run(job())


def test_an_answer_tells_what_it_cost(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(
            [CallsTool("search_history", {"query": "x"}), Says("Fine.")], price=Price(input=1.0, output=4.0)
        )
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s")
            end = await finished(Chat(session, fov.caller, [MODEL], costs=fov.costs).say("Hello."))
            assert end.nano_usd == end.input_tokens * 1_000 + end.output_tokens * 4_000
            assert end.usd == pytest.approx(end.nano_usd / 1e9)
            again = await finished(Chat(session, fov.caller, [MODEL], costs=fov.costs).say("Hello."))
            assert 0 < again.nano_usd < end.nano_usd

    asyncio.run(job())
