"""A chat: every prompt is kept, every request fits, tools are answered, and whatever fails can be asked again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from foveate import Session
from foveate.agents.calls import MAX_CALLS_PER_ROUND
from foveate.agents.chat import (
    AnswerPiece,
    AnswerSummary,
    Chat,
    Notice,
    RequestSent,
    ToolRequest,
    ToolResponse,
)
from foveate.agents.options import MAX_TOOL_ROUNDS
from foveate.errors import InputError, InvalidMessage, ModelError, ModelFailed, TurnBegun
from foveate.models import Ask
from foveate.testing.scripted import (
    Behaviour,
    BreaksOff,
    CallsTool,
    Delays,
    Empty,
    Fails,
    Refuses,
    Says,
    ScriptedModel,
    Stalls,
)
from foveate.turn import Usage
from support.chats import asked_tokens, events_of, finished, scripted_store, unpaired
from support.engine import assistant, talk, user
from support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
MODEL = "scripted:test"
IMPATIENT = {"stall_seconds": 0.05, "max_retries": 0, "breaker_seconds": 0.001}
FAILURES = {
    "wrong key": Fails("key", is_permanent=True),
    "busy": Fails("busy"),
    "half a stream": BreaksOff(2),
    "a stall": Stalls(2),
    "nothing": Empty(),
    "a refusal": Refuses(),
}


async def roles(session: Session, turn: int = 1) -> list[str]:
    return [message.role for message in (await session.load_turn(turn)).messages]


def test_an_answer_comes_in_pieces_and_is_kept_with_its_model_and_usage(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("The port is 8443."))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL], system="You are terse.")
            *pieces, end = await events_of(chat.say("Which port?"))
            assert all(isinstance(piece, AnswerPiece) for piece in pieces)
            assert "".join(piece.text for piece in pieces if isinstance(piece, AnswerPiece)) == "The port is 8443."
            assert isinstance(end, AnswerSummary)
            assert (end.turn_id, end.text, end.model, end.finish) == ("T-1", "The port is 8443.", MODEL, "stop")
            prompt, answer = (await chat.session.load_turn("T-1")).messages
            assert (prompt.role, prompt.text) == ("user", "Which port?")
            assert (answer.text, answer.model) == ("The port is 8443.", MODEL)
            assert answer.usage == Usage(input_tokens=end.input_tokens, output_tokens=end.output_tokens)
        (ask,) = model.asks
        assert ask.messages[0].role == "system"
        assert ask.messages[0].text.startswith("You are terse.\n")
        assert ask.messages[-1].text == "Which port?"

    asyncio.run(job())


def test_a_request_ends_with_the_prompt_and_has_no_empty_message(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(Says("Yes."))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s", budget_tokens=4_000), fov.caller, [MODEL])
            for number in range(40):
                await finished(chat.say(f"Is {number} a number? {'Think well. ' * 20}"))
        for number, ask in enumerate(model.asks):
            prompt = ask.messages[-1].text.rpartition("</memory>\n")[2].lstrip()
            assert prompt.startswith(f"Is {number} a number?")
            assert all(message.text.strip() for message in ask.messages)
            assert "system" not in [message.role for message in ask.messages[1:]]

    asyncio.run(job())


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_call_keeps_the_prompt_alone_and_can_be_asked_again(tmp_path: Path, failure: Behaviour) -> None:
    async def job() -> None:
        model = ScriptedModel([failure, failure, Says("There you are.")])
        async with scripted_store(tmp_path / "chat.db", model, models=IMPATIENT) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            with pytest.raises(ModelError):
                await events_of(chat.say("Are you there?"))
            assert await roles(chat.session) == ["user"]
            assert await chat.waiting() == "T-1"
            with pytest.raises(ModelError):
                await events_of(chat.answer())
            end = await finished(chat.answer())
            assert (end.turn_id, end.text) == ("T-1", "There you are.")
            assert await roles(chat.session) == ["user", "assistant"]
            assert await chat.waiting() is None
            with pytest.raises(InputError, match="already has an answer"):
                await events_of(chat.answer())
        assert len(model.asks) == 3

    asyncio.run(job())


def test_what_was_said_before_an_interruption_is_kept_and_marked(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel([Stalls(3), Says("Good.")])
        async with scripted_store(tmp_path / "chat.db", model, models={"stall_seconds": 60}) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            seen: list[str] = []
            is_underway = asyncio.Event()

            async def listen() -> None:
                async for event in chat.say("Tell me a story."):
                    if isinstance(event, RequestSent):
                        continue
                    assert isinstance(event, AnswerPiece)
                    seen.append(event.text)
                    if len(seen) == 3:
                        is_underway.set()

            listening = asyncio.create_task(listen())
            await is_underway.wait()
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            _, said, note = (await chat.session.load_turn("T-1")).messages
            assert said.text == "".join(seen) == "This was going"
            assert (note.kind, note.text) == ("display", "(interrupted)")
            assert await chat.waiting() is None
            await finished(chat.say("Never mind."))
        last = model.asks[-1].messages
        assert [message.text for message in last[-3:]] == ["Tell me a story.", "This was going", "Never mind."]

    asyncio.run(job())


def test_an_answer_that_is_closed_early_is_kept_as_far_as_it_went(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(Says("One two three"))) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            events = chat.say("Count.")
            begun = await anext(events)
            assert isinstance(begun, RequestSent)
            assert 0 < begun.tokens <= chat.session.info.budget_tokens
            assert await anext(events) == AnswerPiece("One")
            await events.aclose()
            assert [message.text for message in (await chat.session.load_turn(1)).messages[1:]] == [
                "One",
                "(interrupted)",
            ]

    asyncio.run(job())


def test_an_interruption_before_anything_was_said_leaves_the_turn_open(tmp_path: Path) -> None:
    async def job() -> None:
        is_underway = asyncio.Event()

        def script(_: Ask) -> Behaviour:
            first = not is_underway.is_set()
            is_underway.set()
            return Stalls(0) if first else Says("Here.")

        async with scripted_store(tmp_path / "chat.db", ScriptedModel(script), models={"stall_seconds": 60}) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            asking = asyncio.create_task(events_of(chat.say("Hello?")))
            await is_underway.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await roles(chat.session) == ["user"]
            assert (await finished(chat.answer())).text == "Here."

    asyncio.run(job())


def test_history_tools_are_answered_in_the_loop_and_kept_with_their_calls(tmp_path: Path) -> None:
    async def job() -> None:
        steps: list[Behaviour] = [
            CallsTool(
                "get_turn", {"turn_id": "T-1"}, text="Let me look. ", more=(CallsTool("no_such_tool", {"a": 1}),)
            ),
            CallsTool("search_history", '{"query": '),
            Says("It was 8443."),
        ]
        model = ScriptedModel(steps)
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s")
            await session.record([assistant("The port is 8443.")])
            chat = Chat(session, fov.caller, [MODEL])
            events = await events_of(chat.say("Which port was it?"))
            asked = [event for event in events if isinstance(event, ToolRequest)]
            assert [(event.name, event.arguments) for event in asked] == [
                ("get_turn", {"turn_id": "T-1"}),
                ("no_such_tool", {"a": 1}),
                ("search_history", '{"query": '),
            ]
            assert len([event for event in events if isinstance(event, ToolResponse)]) == 3
            assert isinstance(events[-1], AnswerSummary)
            assert events[-1].calls == 3
            messages = (await session.load_turn("T-2")).messages
            assert [message.role for message in messages] == [
                "user", "assistant", "tool", "tool", "assistant", "tool", "assistant",
            ]  # fmt: skip
            found, unknown, broken = (message.tool_results[0] for message in messages if message.role == "tool")
            assert "The port is 8443." in _text(found)
            assert "there is no tool 'no_such_tool' here; available: context_remaining, get_turn" in _text(unknown)
            assert "the arguments are not JSON" in _text(broken)
            assert [result.is_error for result in (found, unknown, broken)] == [False, True, True]
            assert [entry.name for entry in (await session.board()).retrieved] == ["T-1-R"]
        for ask in model.asks:
            assert unpaired(ask) == []
            assert len(ask.tools) == 5

    asyncio.run(job())


def _text(result: object) -> str:
    return " ".join(part.text for part in result.content)  # type: ignore[attr-defined]


def test_a_model_that_calls_tools_for_ever_is_asked_a_bounded_number_of_times(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel(CallsTool("search_history", {"query": "port"}))
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s")
            await session.record([assistant("Ask me.")])
            chat = Chat(session, fov.caller, [MODEL])
            with pytest.raises(ModelFailed, match="kept calling tools"):
                await events_of(chat.say("Which port?"))
            assert len(model.asks) == MAX_TOOL_ROUNDS + 1
            assert [bool(ask.tools) for ask in model.asks] == [True] * MAX_TOOL_ROUNDS + [False]
            assert (await roles(chat.session, 2))[-1] == "tool"
            assert await chat.waiting() == "T-2"

    asyncio.run(job())


def test_without_tools_left_the_model_answers_in_words_and_sees_its_calls_as_text(tmp_path: Path) -> None:
    def script(ask: Ask) -> Behaviour:
        return CallsTool("search_history", {"query": "port"}) if ask.tools else Says("I don't know.")

    async def job() -> None:
        model = ScriptedModel(script)
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s")
            await session.record([assistant("Ask me.")])
            chat = Chat(session, fov.caller, [MODEL])
            assert (await finished(chat.say("Which port?"))).text == "I don't know."
        last = model.asks[-1]
        assert not any(message.tool_calls or message.tool_results for message in last.messages)
        assert "[call search_history]" in last.messages[-2].text
        assert "[result search_history]" in last.messages[-1].text

    asyncio.run(job())


def test_of_too_many_calls_at_once_the_rest_is_not_executed_but_answered(tmp_path: Path) -> None:
    async def job() -> None:
        many = CallsTool("search_history", {"query": "x"}, more=(CallsTool("get_turn", {"turn_id": "T-1"}),) * 40)
        model = ScriptedModel([many, Says("Enough.")])
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            await finished(chat.say("Look everywhere."))
            results = [m.tool_results[0] for m in (await chat.session.load_turn(1)).messages if m.role == "tool"]
            assert len(results) == 41
            assert sum("Not executed" in _text(result) for result in results) == 41 - MAX_CALLS_PER_ROUND

    asyncio.run(job())


def test_the_board_stands_before_the_prompt_in_one_message(tmp_path: Path) -> None:
    async def job() -> None:
        model = ScriptedModel([CallsTool("get_turn", {"turn_id": "T-1"}), Says("8443."), Says("You're welcome.")])
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s")
            await session.record([user("The port is 8443."), assistant("Noted.")])
            chat = Chat(session, fov.caller, [MODEL])
            await finished(chat.say("Which port?"))
            await finished(chat.say("Thanks."))
        second, third = model.asks[1:]
        assert second.messages[-1].tool_results, "what was just retrieved is in the result, so the board can wait"
        assert "<board>" not in "".join(message.text for message in second.messages)
        assert third.messages[-1].text.startswith("<board>")
        assert third.messages[-1].text.endswith("</board>\n\nThanks.")

    asyncio.run(job())


def test_every_segment_that_is_counted_is_sent(tmp_path: Path) -> None:
    """Recalled memory above all: it is counted while the prompt's turn is in progress."""

    async def job() -> None:
        model = ScriptedModel([CallsTool("get_turn", {"turn_id": "T-9"}), Says("It is 0451."), Says("Welcome.")])
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            session = await fov.session("s", budget_tokens=4_000)
            await session.record([user("The harbour gate code is 0451, and never changes."), assistant("Noted.")])
            await talk(session, 60, words=60)
            await session.pin("Answer in one line.")
            await fov.settle()
            chat = Chat(session, fov.caller, [MODEL], system="You are terse.")
            counted = [
                await chat.context()
                async for event in chat.say("What is the harbour gate code?")
                if isinstance(event, RequestSent)
            ]
        assert len(counted) == len(model.asks) == 2
        for context, ask in zip(counted, model.asks, strict=True):
            sent = "\n".join(message.text for message in ask.messages)
            assert {"system", "pins", "history", "memory"} <= {segment.name for segment in context.segments}
            for segment in context.segments:
                assert segment.is_native or segment.text.strip() in sent, f"{segment.name} is counted and not sent"
            assert all(message.text in sent for message in context.native_messages)

    asyncio.run(job())


def test_a_prompt_larger_than_its_room_is_shown_in_part_and_that_is_said(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(Says("Long."))) as fov:
            chat = Chat(await fov.session("s", budget_tokens=2_000), fov.caller, [MODEL])
            first, *_ = await events_of(chat.say("What about port 8443 and the others? " * 600))
            assert isinstance(first, Notice)
            assert first.text.startswith("T-1 does not fit")
            first, *_ = await events_of(chat.say("And now?"))
            assert isinstance(first, AnswerPiece)

    asyncio.run(job())


def test_an_empty_prompt_is_refused_and_not_recorded(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(Says("Hm?"))) as fov:
            chat = Chat(await fov.session("s"), fov.caller, [MODEL])
            with pytest.raises(InvalidMessage):
                await events_of(chat.say(" \n"))
            assert (await chat.session.refresh()).turns == 0
            assert await chat.waiting() is None

    asyncio.run(job())


@pytest.mark.parametrize("fixture", sorted((FIXTURES / "claude_code").glob("*.jsonl")), ids=lambda path: path.stem)
def test_an_imported_session_is_gone_on_with(tmp_path: Path, fixture: Path) -> None:
    async def job() -> None:
        model = ScriptedModel([CallsTool("get_turn", {"turn_id": "T-1"}), Says("As you said at first.")])
        async with scripted_store(tmp_path / "chat.db", model) as fov:
            await fov.import_file(fixture)
            await fov.settle()
            info = next(info for info in await fov.sessions() if info.turns)
            session = await fov.session(info.id, model=MODEL, budget_tokens=8_000)
            end = await finished(Chat(session, fov.caller, [MODEL]).say("What did I say at first?"))
            assert end.turn_id == f"T-{info.turns + 1}"
        for ask in model.asks:
            assert asked_tokens(ask, session) <= 8_000
        assert model.asks[0].messages[-1].text == "What did I say at first?"

    asyncio.run(job())


def test_a_pruned_session_can_be_gone_on_with(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", ScriptedModel(Says("Fine."))) as fov:
            session = await fov.session("s")
            await session.record([user("Old."), assistant("Yes.")], at="2020-01-01T00:00:00Z")
            await fov.prune("s", before="2021-01-01T00:00:00Z", dry_run=False)
            chat = Chat(session, fov.caller, [MODEL])
            assert await chat.waiting() is None
            assert (await finished(chat.say("New."))).turn_id == "T-2"

    asyncio.run(job())


def test_two_models_are_tried_in_order(tmp_path: Path) -> None:
    async def job() -> None:
        first = ScriptedModel(Fails("key", is_permanent=True))
        async with scripted_store(tmp_path / "chat.db", first) as fov:
            loads: dict[str, Callable[[], ScriptedModel]] = {
                "a": lambda: first,
                "b": lambda: ScriptedModel(Says("Second.")),
            }
            fov.caller._load = lambda name, _: loads[name]()
            chat = Chat(await fov.session("s"), fov.caller, ["a", "b"])
            assert (await finished(chat.say("Hello."))).text == "Second."

    asyncio.run(job())


def test_two_programs_in_one_session_do_not_mix_up_their_answers(tmp_path: Path) -> None:
    async def run() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def sleep(_: float) -> None:
            asked.set()
            await go_on.wait()

        slow = ScriptedModel(Delays(1, Says("The first answer.")), sleep=sleep)
        async with scripted_store(tmp_path / "chat.db", slow) as fov:
            session = await fov.session("s")
            chat = Chat(session, fov.caller, ["scripted:slow"])
            first = asyncio.create_task(finished(chat.say("The first prompt?")))
            await asked.wait()
            other = await fov.open_session("s")
            await other.record({"role": "user", "content": "The second prompt?"})
            go_on.set()
            with pytest.raises(TurnBegun, match="T-2 began in session 's' before T-1 was answered"):
                await first
            await other.record({"role": "assistant", "content": "The second answer."}, turn="T-2")
            said = [[(m.kind, m.text) for m in turn.messages] for turn in await session.load_turns(1, 2)]
            late = ("display", "(an answer to T-1 that came too late)\n[assistant] The first answer.")
            assert said == [
                [("message", "The first prompt?")],
                [("message", "The second prompt?"), late, ("message", "The second answer.")],
            ]
            assert "The first answer." not in (await session.context()).text

    asyncio.run(run())


def test_a_prompt_without_an_answer_is_answered_in_a_fork(tmp_path: Path) -> None:
    async def run() -> None:
        script: list[Behaviour] = [
            Fails("key", is_permanent=True),
            CallsTool("get_turn", {"turn_id": "T-1"}),
            Says("8443."),
        ]
        model = ScriptedModel(script)
        async with scripted_store(tmp_path / "chat.db", model, models={**IMPATIENT, "backoff_seconds": 0}) as fov:
            session = await fov.session("s", budget_tokens=16_000)
            with pytest.raises(ModelError):
                await events_of(Chat(session, fov.caller, [MODEL]).say("Which port?"))
            await asyncio.sleep(0.01)
            chat = Chat(await session.fork("f"), fov.caller, [MODEL])
            end = await finished(chat.answer())
            assert (end.text, end.turn_id) == ("8443.", "T-2")
            assert await roles(chat.session, 2) == ["assistant", "tool", "assistant"]

    asyncio.run(run())
