"""The scripted model does what its script says, and counts like a provider."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from foveate.errors import ModelFailed, ModelUnavailable
from foveate.models import Answer, Ask, Model, Purpose
from foveate.models.names import load_model
from foveate.models.settings import ModelsSettings, Price
from foveate.testing.scripted import (
    Behaviour,
    BreaksOff,
    CallsTool,
    Delays,
    Empty,
    Fails,
    Refuses,
    Says,
    SaysJson,
    Script,
    ScriptedModel,
    Stalls,
    Truncates,
    load,
    storm,
)
from foveate.turn import Message, Text, ToolCall, ToolResult, Usage


def ask(*texts: str, purpose: Purpose = "chat", max_output_tokens: int = 1_000) -> Ask:
    messages = tuple(Message("user", (Text(text),)) for text in texts or ("Hello",))
    return Ask(purpose=purpose, messages=messages, max_output_tokens=max_output_tokens, input_tokens=10)


def answers(script: Script, calls: int = 1, asked: Ask | None = None) -> list[Answer]:
    async def run() -> list[Answer]:
        model = ScriptedModel(script)
        return [await model.ask(asked or ask()) for _ in range(calls)]

    return asyncio.run(run())


def test_it_is_a_model() -> None:
    model: Model = ScriptedModel(Says("Yes."))
    assert (model.name, model.provider) == ("scripted:test", "scripted")


def test_a_sequence_is_played_in_order_and_its_last_for_ever() -> None:
    assert [answer.text for answer in answers([Says("1"), Says("2")], 4)] == ["1", "2", "2", "2"]
    assert answers(lambda asked: Says(asked.purpose))[0].text == "chat"
    with pytest.raises(ValueError, match="at least one"):
        ScriptedModel([])


def test_each_answer_ends_as_it_says() -> None:
    script: list[Behaviour] = [
        Says("Yes."),
        SaysJson({"a": 1}),
        CallsTool("f", {"x": 1}),
        Truncates("Half"),
        Refuses(),
        Empty(),
    ]
    found = answers(script, len(script))
    assert [answer.finish for answer in found] == ["stop", "stop", "tool-calls", "length", "refused", "stop"]
    assert [answer.text for answer in found] == ["Yes.", '{"a": 1}', "", "Half", "", ""]
    assert all(answer.message.model == "scripted:test" for answer in found)


def test_tools_are_called_with_ids_of_their_own() -> None:
    script = CallsTool("f", {"x": 1}, text="Let me see.", more=(CallsTool("g"),))
    first, second = answers(script, 2)
    assert first.message.parts == (
        Text("Let me see."),
        ToolCall("f", {"x": 1}, "call_1_1"),
        ToolCall("g", {}, "call_1_2"),
    )
    assert second.message.tool_calls[0].id == "call_2_1"


def test_no_answer_is_longer_than_its_limit() -> None:
    (answer,) = answers(Says("one two three four five"), asked=ask(max_output_tokens=3))
    assert (answer.text, answer.finish, answer.usage.output_tokens) == ("one two three", "length", 3)


def test_the_pieces_of_a_stream_make_up_its_answer() -> None:
    async def run() -> None:
        for script in (Says("  One two\n three. "), Says("abc", pieces=("a", "bc")), SaysJson([1, 2]), Says("")):
            *pieces, answer = [piece async for piece in ScriptedModel(script).stream(ask())]
            assert isinstance(answer, Answer)
            assert "".join(map(str, pieces)) == answer.text

    asyncio.run(run())


def test_failures_are_those_of_the_script() -> None:
    with pytest.raises(ModelFailed) as failed:
        answers(Fails("busy", retry_after_seconds=2))
    assert (failed.value.reason, failed.value.retry_after_seconds) == ("busy", 2)
    with pytest.raises(ModelUnavailable) as unavailable:
        answers(Fails("key", is_permanent=True))
    assert unavailable.value.reason == "key"
    with pytest.raises(ModelFailed) as broken:
        answers(BreaksOff())
    assert broken.value.reason == "broken-off"


def test_a_stream_breaks_off_or_stalls_after_its_pieces() -> None:
    async def run() -> None:
        assert [piece async for piece in ScriptedModel(BreaksOff(2)).stream(ask())] == ["This", " was"]
        model = ScriptedModel(Stalls(1))
        stream = model.stream(ask())
        assert await anext(stream) == "This"
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert model.running == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.running == 0

    asyncio.run(run())


def test_a_delay_is_slept_through() -> None:
    async def run() -> None:
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        model = ScriptedModel(Delays(3, Delays(4, Says("Yes."))), sleep=sleep)
        assert (await model.ask(ask())).text == "Yes."
        assert slept == [3, 4]

    asyncio.run(run())


def test_usage_counts_what_is_sent_and_what_a_cache_would_have() -> None:
    async def run() -> None:
        model = ScriptedModel(Says("Yes."))
        first = (await model.ask(ask("A long beginning.", "And a question?"))).usage
        assert (first.cache_read_tokens, first.output_tokens) == (0, 2)
        longer = (await model.ask(ask("A long beginning.", "And a question?", "More."))).usage
        assert longer.cache_read_tokens == first.input_tokens < longer.input_tokens
        other = (await model.ask(ask("Something else."))).usage
        assert other.cache_read_tokens < other.input_tokens
        again = (await model.ask(ask("A long beginning.", "And a question?"))).usage
        assert again.cache_read_tokens == again.input_tokens
        assert len(model.asks) == 4
        claimed = Usage(input_tokens=7)
        assert (await ScriptedModel(Says("x", usage=claimed)).ask(ask())).usage == claimed

    asyncio.run(run())


def test_tool_results_and_definitions_count_too() -> None:
    async def run() -> None:
        result = Message("tool", (ToolResult("c1", (Text("found " * 100),)),))
        asked = Ask(purpose="chat", messages=(result,), tools=({"name": "f"},), max_output_tokens=9, input_tokens=1)
        assert (await ScriptedModel(Says("x")).ask(asked)).usage.input_tokens > 100

    asyncio.run(run())


def test_a_request_larger_than_the_window_is_refused() -> None:
    async def run() -> None:
        model = ScriptedModel(Says("Yes."), window_tokens=20)
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(ask("word " * 30))
        assert caught.value.reason == "too-long"
        assert (await model.ask(ask())).text == "Yes."

    asyncio.run(run())


def test_a_storm_has_its_shares_and_is_the_same_for_one_seed() -> None:
    kinds = Counter[str]()
    first, second = (storm(3, lambda _: Says("fine")) for _ in range(2))
    for _ in range(2_000):
        behaviour = first(ask())
        assert behaviour == second(ask())
        kind = {Fails: "error", BreaksOff: "error", Stalls: "stall"}.get(type(behaviour), "garbage")
        kinds["fine" if behaviour == Says("fine") else kind] += 1
    assert {kind: round(count / 2_000, 1) for kind, count in kinds.items()} == {
        "fine": 0.5, "error": 0.3, "stall": 0.1, "garbage": 0.1
    }  # fmt: skip


FILE = """
window_tokens = 500
provider = "tests"
price = { input = 1.0, output = 4.0 }

[[reply]]
says = "Answer {n} to: {prompt}"

[[reply]]
contains = "weather"
calls_tool = "search_history"
arguments = { query = "{prompt}", limit = 3 }

[[reply]]
purpose = "compress"
says_json = { c = ["{n}"] }

[[reply]]
every = 4
fails = "busy"
retry_after_seconds = 0.5

[[reply]]
truncates = "Half of"
"""


def test_a_script_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text(FILE)

    async def run() -> None:
        name = f"scripted:{tmp_path / 'script.toml'}"
        model = load_model(name, ModelsSettings())
        assert isinstance(model, ScriptedModel)
        assert (model.name, model.provider, model.window_tokens) == (name, "tests", 500)
        assert model.price == Price(input=1.0, output=4.0)
        assert (await model.ask(ask("Hi {n}"))).text == "Answer 1 to: Hi {n}"
        (call,) = (await model.ask(ask("The Weather?"))).message.tool_calls
        assert call.arguments == {"query": "The Weather?", "limit": 3}
        assert (await model.ask(ask(purpose="compress"))).text == '{"c": ["3"]}'
        with pytest.raises(ModelFailed):
            await model.ask(ask())
        assert [(await model.ask(ask())).finish for _ in range(2)] == ["length", "length"]

    asyncio.run(run())


def test_a_script_can_be_json_with_every_behaviour(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(
        '{"reply": [{"refuses": true, "delay_seconds": 0.001}, {"empty": true}, {"breaks_off": 1},'
        ' {"call": 4, "stalls": 0}]}'
    )

    async def run() -> None:
        model = load(f"scripted:{path}", ModelsSettings())
        assert [(await model.ask(ask())).finish for _ in range(2)] == ["refused", "stop"]
        with pytest.raises(ModelFailed):
            await model.ask(ask())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model.ask(ask()), 0.01)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "missing required field `reply`"),
        ("reply = []", "length >= 1"),
        ('[[reply]]\nsays = "a"\nempty = true', "exactly one of says"),
        ("[[reply]]\nsay = 1", "unknown field `say`"),
        ("[[reply]\n", "is invalid"),
    ],
)
def test_a_script_that_can_not_be_followed_says_why(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ModelUnavailable) as caught:
        load(f"scripted:{tmp_path / 'bad.toml'}", ModelsSettings())
    assert problem in str(caught.value)
    assert caught.value.reason == "name"


def test_a_script_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="the script can't be read: No such file"):
        load(f"scripted:{tmp_path / 'none.toml'}", ModelsSettings())
