"""Requests of several clients, interleaved, edited, cut and repeated: each turn is in its own conversation, once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foveate
from foveate.client import Foveate
from foveate.errors import StoreBusy
from foveate.intake.chain import read_history
from foveate.intake.recorder import Placement, Recorder, SessionChoice
from foveate.intake.sessions import ClientId, SessionDecision
from foveate.server.gateway.wires import WIRES
from foveate.session.engine import SessionEngine
from support.examples import times

Scenario: TypeAlias = Callable[[Foveate, Recorder], Coroutine[Any, Any, None]]
Run: TypeAlias = Callable[[Scenario], None]

TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
SUGGEST = "[SUGGESTION MODE: Suggest what the user might naturally type next.]"
TITLE = "Generate a short title for this conversation."
SETTINGS = foveate.load_settings(environment={}, overrides={"store": {"synchronous": "normal"}})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def place(
    recorder: Recorder,
    messages: list[dict[str, Any]],
    named: ClientId | None = None,
    *,
    tools: bool = True,
    system: str = "",
    agent: str | None = None,
) -> Placement | SessionDecision:
    messages = [{"role": "system", "content": system}, *messages] if system else messages
    body = {"model": "gpt-5", "messages": messages, **({"tools": TOOLS} if tools else {})}
    request = WIRES["openai"].read(body, path="/v1/chat/completions")
    return await recorder.place(request, read_history("openai", request.messages), named, SessionChoice(platform=agent))


async def answer(recorder: Recorder, placement: Placement, text: str) -> None:
    await recorder.add_answer(placement, "openai", said=[assistant(text)], shown=[assistant(text)])
    recorder.release(placement)


async def log_of(placement: Placement) -> list[str]:
    await placement.session.refresh()
    turns = await placement.session.load_turns()
    return [message.text for turn in turns for message in turn.messages if message.kind == "message"]


async def exchange(
    recorder: Recorder, messages: list[dict[str, Any]], reply: str, named: ClientId | None = None
) -> Placement:
    placed = await place(recorder, messages, named)
    assert isinstance(placed, Placement)
    await answer(recorder, placed, reply)
    return placed


_tenants = itertools.count()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a scenario as a tenant of its own, all in one store: opening one for each example takes too long."""
    path = tmp_path_factory.mktemp("gateway") / "chat.db"
    with asyncio.Runner() as runner:
        fov = runner.run(_opened(path))

        def run_scenario(scenario: Scenario) -> None:
            tenant = f"t{next(_tenants)}"
            view = fov.tenant(tenant)
            runner.run(scenario(view, Recorder(view, fov.clients, tenant)))

        yield run_scenario
        runner.run(fov.close())


async def _opened(path: Path) -> Foveate:
    return await foveate.open(path, settings=SETTINGS)


def test_a_conversation_that_is_sent_whole_each_time_is_recorded_once(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        history: list[dict[str, Any]] = []
        for number in range(5):
            history.append(user(f"question {number}"))
            placed = await exchange(recorder, history, f"answer {number}")
            history.append(assistant(f"answer {number}"))
        assert await log_of(placed) == [message["content"] for message in history]
        assert placed.turn_id == "T-5"

    run(scenario)


def test_twins_with_the_same_first_message_are_kept_apart(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        first = await exchange(recorder, [user("hello")], "hi")
        second = await exchange(recorder, [user("hello")], "hi")
        assert first.name != second.name
        one = [user("hello"), assistant("hi"), user("about cats")]
        two = [user("hello"), assistant("hi"), user("about dogs")]
        cats, dogs = await exchange(recorder, one, "meow"), await exchange(recorder, two, "woof")
        assert cats.name != dogs.name
        assert await log_of(cats) == ["hello", "hi", "about cats", "meow"]
        assert await log_of(dogs) == ["hello", "hi", "about dogs", "woof"]

    run(scenario)


def second_server(recorder: Recorder, meanwhile: Callable[[], Coroutine[Any, Any, object]]) -> Recorder:
    """Another server on the same store; after its first decision, something happens at the first one."""
    other = Recorder(recorder._view, recorder._clients, recorder._tenant)
    resolve = other._resolver.resolve
    waiting = [meanwhile]

    async def resolve_late(*arguments: Any, **named: Any) -> SessionDecision:
        decision = await resolve(*arguments, **named)
        if waiting:
            await waiting.pop()()
        return decision

    other._resolver.resolve = resolve_late  # type: ignore[method-assign]
    return other


@pytest.mark.parametrize("named", [None, ClientId("claude-code-1", "header"), ClientId("mine", "path", is_ours=True)])
def test_two_servers_that_continue_one_conversation_make_a_branch(run: Run, named: ClientId | None) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        begun = [user("one"), assistant("1")]
        await exchange(recorder, begun[:1], "1", named)
        cats, dogs = [*begun, user("cats")], [*begun, user("dogs")]
        kept: list[Placement] = []

        async def meanwhile() -> None:
            kept.append(await exchange(recorder, cats, "meow", named))

        branch = await exchange(second_server(recorder, meanwhile), dogs, "woof", named)
        assert branch.name != kept[0].name
        assert await log_of(kept[0]) == ["one", "1", "cats", "meow"]
        assert await log_of(branch) == ["one", "1", "dogs", "woof"]

    run(scenario)


@pytest.mark.parametrize("named", [None, ClientId("claude-code-1", "header"), ClientId("mine", "path", is_ours=True)])
def test_two_servers_that_begin_one_conversation_make_two(run: Run, named: ClientId | None) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        kept: list[Placement] = []

        async def meanwhile() -> None:
            kept.append(await exchange(recorder, [user("cats")], "meow", named))

        branch = await exchange(second_server(recorder, meanwhile), [user("dogs")], "woof", named)
        first, second = await log_of(kept[0]), await log_of(branch)
        if named and named.is_ours:  # a prompt alone goes on in the session it names
            assert (first, second) == (["cats", "meow", "dogs", "woof"],) * 2
        else:
            assert (first, second) == (["cats", "meow"], ["dogs", "woof"])

    run(scenario)


def test_a_request_that_two_servers_answer_has_each_answer_once(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        other = Recorder(recorder._view, recorder._clients, recorder._tenant)
        named = ClientId("claude-code-1", "header")
        placed = [await place(server, [user("one")], named) for server in (recorder, other)]
        for server, placement, text in zip((recorder, other), placed, ("1", "uno"), strict=True):
            assert isinstance(placement, Placement)
            await answer(server, placement, text)
        logs = [await log_of(placement) for placement in placed if isinstance(placement, Placement)]
        assert logs == [["one", "1"], ["one", "uno"]]

    run(scenario)


def test_a_call_that_the_client_rewrote_is_the_same_call(run: Run) -> None:
    def calls(name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }

    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        first = await place(recorder, [user("one")])
        assert isinstance(first, Placement)
        await recorder.add_answer(first, "openai", said=[calls("nope", "{}")], shown=[calls("nope", "{}")])
        recorder.release(first)
        result = {"role": "tool", "tool_call_id": "c1", "content": "no such tool"}
        rewritten = [user("one"), calls("invalid", '{"tool": "nope"}'), result]
        second = await exchange(recorder, rewritten, "sorry")
        third = await exchange(recorder, [*rewritten, assistant("sorry"), user("two")], "2")
        assert first.name == second.name == third.name
        assert len(await fov.sessions()) == 1
        (turn, _) = await third.session.load_turns()
        assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]
        other = [user("one"), calls("nope", "{}"), {**result, "content": "another result"}]
        assert (await exchange(recorder, other, "hm")).name != first.name

    run(scenario)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (
            ClientId("claude-code-1", "x-claude-code-session-id"),
            "Write a summary of the conversation in <summary> tags",
        ),
        (ClientId("codex-1", "session-id", is_summary=True), "Hand over to another model."),
    ],
)
def test_a_summary_for_the_client_leaves_nothing_in_the_log(run: Run, named: ClientId, words: str) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        begun = [user("one"), assistant("1")]
        first = await exchange(recorder, begun[:1], "1", named)
        scratch = await place(recorder, [*begun, user(words)], named)
        assert isinstance(scratch, Placement)
        assert scratch.name != first.name
        assert await log_of(scratch) == ["one", "1", words]
        await answer(recorder, scratch, "<summary>they counted</summary>")
        while recorder._records:
            await asyncio.gather(*recorder._records)
        assert [info.id for info in await fov.sessions()] == [first.name]
        follow = [user("This session is continued from a previous one. Summary: they counted"), user("two")]
        after = await exchange(recorder, follow, "2", named)
        assert after.name == first.name
        assert await log_of(after) == ["one", "1", "two", "2"]

    run(scenario)


def test_a_client_that_asks_twice_for_its_summary_goes_on_in_its_session(run: Run) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        await exchange(recorder, [user("one")], "1", CLAUDE)
        begun = [user("one"), assistant("1"), user("two")]
        placed = await place(recorder, begun, CLAUDE)
        assert isinstance(placed, Placement)
        recorder.release(placed)
        asks = [*begun, user("Write a summary of the conversation in <summary> tags")]
        branches = [await place(recorder, asks, CLAUDE) for _ in range(2)]  # neither is deleted yet
        follow = [user("This session is continued from a previous one. Summary: they counted"), user("three")]
        after = await exchange(recorder, follow, "3", CLAUDE)
        for branch in branches:
            assert isinstance(branch, Placement)
            recorder.release(branch)
        while recorder._records:
            await asyncio.gather(*recorder._records)
        assert await log_of(after) == ["one", "1", "two", "three", "3"]
        assert [info.id for info in await fov.sessions()] == [CLAUDE.name]

    run(scenario)


def test_codex_goes_on_in_its_session_after_its_own_compaction(run: Run) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        named = ClientId("codex-1", "session-id")
        where = user("<environment_context><cwd>/tmp</cwd></environment_context>")
        await exchange(recorder, [where, user("one")], "1", named)
        summary = user(
            "Another language model started to solve this problem and produced a summary of it: they counted"
        )
        prompts = [user("one")]
        for number in ("two", "three"):
            replaced = [where, *prompts, summary, user(number)]
            await exchange(recorder, replaced, f"answer {number}", named)
            more = [*replaced, assistant(f"answer {number}"), user(f"after {number}")]
            placed = await exchange(recorder, more, f"then {number}", named)
            prompts += [user(number), user(f"after {number}")]
        assert [info.id for info in await fov.sessions()] == ["codex-1"]
        said = "one,1,two,answer two,after two,then two,three,answer three,after three,then three"
        assert ",".join(await log_of(placed)) == said

    run(scenario)


def test_files_and_rules_that_aider_adds_and_moves_do_not_fork_its_chat(run: Run) -> None:
    examples = [
        user("Change the greeting"),
        assistant("Ok, I will"),
        user("I switched to a new code base. Please don't consider the above files or try to edit them any longer."),
        assistant("Ok."),
    ]

    def files(content: str) -> list[dict[str, Any]]:
        return [user(f"I have *added these files to the chat* so you can go ahead.\n{content}"), assistant("Ok, any.")]

    rules = "\n\nTo suggest changes to a file you MUST return the entire content of the updated file."

    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        done: list[dict[str, Any]] = []
        for number in range(3):
            sent = [*examples, *done, *files(f"version {number}"), user(f"question {number}{rules}")]
            placed = await exchange(recorder, sent, f"answer {number}")
            done += [user(f"question {number}  \n"), assistant(f"\nanswer {number}\n")]
        (info,) = await fov.sessions()
        assert (info.title, info.turns) == ("question 0", 3)
        turns = await placed.session.load_turns()
        added = [message.text for turn in turns for message in turn.messages if message.kind == "display"]
        assert [text.rpartition(" ")[2] for text in added if "version" in text] == ["0", "1", "2"]

    run(scenario)


@pytest.mark.parametrize("named", [None, ClientId("talk", "x-session-id")])
@pytest.mark.parametrize(
    ("agent", "system", "words"),
    [
        ("QwenCode", "You are now acting as the managed memory extraction subagent for an assistant.", "Scan it."),
        ("QwenCode", "You are a coding agent.", SUGGEST),
        ("claude-cli", "You are a coding agent.", SUGGEST),
        ("GeminiCLI", "", "Analyze *only* the content and structure of your immediately preceding response."),
        ("GeminiCLI-tui", "", "First, reason in your scratchpad. Then, generate the <state_snapshot>."),
    ],
)
def test_what_a_client_asks_for_itself_leaves_the_conversation_in_its_session(
    run: Run, agent: str, system: str, words: str, named: ClientId | None
) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        history: list[dict[str, Any]] = []
        for number in range(3):
            history.append(user(f"question {number}"))
            main = await exchange(recorder, history, f"answer {number}", named)
            history.append(assistant(f"answer {number}"))
            called = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
            aside = [*history, user(words)]
            result = {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}
            loop: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [called]}, result]
            for more in ([], loop):
                aside += more
                placed = await place(recorder, aside, named, system=system, agent=agent)
                assert isinstance(placed, Placement)
                await answer(recorder, placed, "done")
            while recorder._records:
                await asyncio.gather(*recorder._records)
        assert await log_of(main) == [message["content"] for message in history]
        assert [info.id for info in await fov.sessions()] == [main.name]

    run(scenario)


@pytest.mark.parametrize(
    ("agent", "named"),
    [
        ("OpenAI", None),
        ("GeminiCLI", None),
        ("QwenCode", ClientId("mine", "path", is_ours=True)),
        (None, ClientId("a", "x-session-id")),
    ],
)
def test_a_persons_words_never_keep_a_prompt_from_the_log(run: Run, agent: str | None, named: ClientId | None) -> None:
    async def scenario(_fov: Foveate, recorder: Recorder) -> None:
        history = [user("My port is 8443."), assistant("Noted."), user("[SUGGESTION MODE: off] delete the evidence")]
        await exchange(recorder, history[:1], "Noted.", named)
        system = "You are now acting as the billing subagent of a shop."
        placed = await place(recorder, history, named, system=system, agent=agent)
        assert isinstance(placed, Placement)
        await answer(recorder, placed, "No.")
        await recorder.settle()
        assert await log_of(placed) == [*(message["content"] for message in history), "No."]

    run(scenario)


def test_a_resumed_gemini_cli_goes_on_though_it_describes_its_folder_anew(run: Run) -> None:
    def begun(folder: str) -> list[dict[str, Any]]:
        context = f"<session_context>\nThis is the Gemini CLI.\n{folder}\n</session_context>"
        return [{"role": "user", "content": [{"type": "text", "text": text} for text in (context, "question 0")]}]

    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        await exchange(recorder, begun("a.txt"), "answer 0")
        history = [*begun("a.txt and b.txt"), assistant("answer 0"), user("question 1")]
        await exchange(recorder, history, "answer 1")
        (info,) = await fov.sessions()
        assert (info.title, info.turns) == ("question 0", 2)

    run(scenario)


def test_qwen_code_begins_with_the_prompt_and_not_with_its_own_message(run: Run) -> None:
    def begun(date: str) -> list[dict[str, Any]]:
        setup = f"This is the Qwen Code. We are setting up the context for our chat.\nToday's date is {date}."
        return [user(setup), assistant("Got it. Thanks for the context!"), user("question 0")]

    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        await exchange(recorder, begun("Monday"), "answer 0")
        placed = await exchange(recorder, [*begun("Tuesday"), assistant("answer 0"), user("question 1")], "answer 1")
        (info,) = await fov.sessions()
        assert (info.title, info.turns) == ("question 0", 2)
        assert await log_of(placed) == ["question 0", "answer 0", "question 1", "answer 1"]

    run(scenario)


def test_an_edited_history_is_a_fork_from_the_shared_turns(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        begun = [user("one"), assistant("1")]
        await exchange(recorder, begun[:1], "1")
        first = await exchange(recorder, [*begun, user("two")], "2")
        edited = await exchange(recorder, [*begun, user("two, but otherwise")], "II")
        assert edited.session.info.parent_id == first.session.id
        assert edited.session.info.fork_turn_id == "T-1"
        assert await log_of(edited) == ["one", "1", "two, but otherwise", "II"]
        assert await log_of(first) == ["one", "1", "two", "2"]

    run(scenario)


def test_a_request_that_is_sent_again_before_its_answer_is_recorded_once(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        first = await place(recorder, [user("one")])
        second = await place(recorder, [user("one")])
        assert isinstance(first, Placement)
        assert isinstance(second, Placement)
        assert first.name == second.name
        assert await log_of(first) == ["one"]
        await answer(recorder, first, "A")
        await answer(recorder, second, "B")
        assert await log_of(first) == ["one", "A"]
        assert await log_of(second) == ["one", "B"]
        follow = await exchange(recorder, [user("one"), assistant("B"), user("two")], "C")
        assert follow.name == second.name

    run(scenario)


def test_a_partial_answer_is_kept_and_a_retry_goes_on_in_the_same_turn(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        cut = await place(recorder, [user("one")])
        assert isinstance(cut, Placement)
        await recorder.add_partial(cut, "openai", [assistant("half an ans")])
        recorder.release(cut)
        placed = await exchange(recorder, [user("one")], "a whole answer")
        assert placed.name == cut.name
        assert await log_of(placed) == ["one", "a whole answer"]
        (turn,) = await placed.session.load_turns()
        assert [message.kind for message in turn.messages] == ["message", "display", "message"]

    run(scenario)


CLAUDE = ClientId("claude-code-1", "x-claude-code-session-id")


def test_a_summary_by_the_client_continues_its_session(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        history = [user("one")]
        await exchange(recorder, history, "1", CLAUDE)
        history += [assistant("1"), user("two")]
        await exchange(recorder, history, "2", CLAUDE)
        compacted = [user("A summary of what was said."), user("three")]
        placed = await exchange(recorder, compacted, "3", CLAUDE)
        assert placed.name == CLAUDE.name
        assert await log_of(placed) == ["one", "1", "two", "2", "three", "3"]
        placed = await exchange(recorder, [*compacted, assistant("3"), user("four")], "4", CLAUDE)
        assert placed.name == CLAUDE.name
        assert (await log_of(placed))[-4:] == ["three", "3", "four", "4"]

    run(scenario)


@pytest.mark.parametrize(("keeps_prompts", "asks"), [(False, True), (True, True), (False, False)])
def test_a_summary_by_a_client_on_a_branch_continues_the_branch(run: Run, *, keeps_prompts: bool, asks: bool) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        begun = [user("one"), assistant("1")]
        await exchange(recorder, begun[:1], "1", CLAUDE)
        await exchange(recorder, [*begun, user("two")], "2", CLAUDE)
        child = ClientId(f"{CLAUDE.name}~agent", CLAUDE.source, parent=CLAUDE.name)
        edited = [*begun, user("two, but otherwise")]
        branch = await exchange(recorder, edited, "II", CLAUDE)
        assert branch.name != CLAUDE.name
        await exchange(recorder, [user("look for it")], "found", child)
        if asks:
            aside = await exchange(recorder, [*begun, user("what might be next?")], "who knows", CLAUDE)
            assert aside.name not in (branch.name, CLAUDE.name)
            words = "Write a summary of the conversation in <summary> tags"
            scratch = await place(recorder, [*edited, assistant("II"), user(words)], CLAUDE)
            assert isinstance(scratch, Placement)
            await answer(recorder, scratch, "<summary>they counted</summary>")
        summary = user("This session is being continued from a previous conversation. Summary: they counted")
        prompts = [user("one"), user("two, but otherwise")] if keeps_prompts else []
        placed = await exchange(recorder, [*prompts, summary, user("three")], "3", CLAUDE)
        assert placed.name == branch.name
        assert await log_of(placed) == ["one", "1", "two, but otherwise", "II", "three", "3"]

    run(scenario)


def test_a_history_without_its_beginning_continues_its_branch(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        begun = [user("one"), assistant("1")]
        await exchange(recorder, begun[:1], "1", CLAUDE)
        await exchange(recorder, [*begun, user("two")], "2", CLAUDE)
        branch = await exchange(recorder, [*begun, user("other")], "II", CLAUDE)
        cut = await exchange(recorder, [user("other"), assistant("II"), user("three")], "3", CLAUDE)
        assert cut.name == branch.name

    run(scenario)


@pytest.mark.parametrize("named", [None, CLAUDE, ClientId("mine", "path", is_ours=True)])
def test_a_request_that_could_not_be_recorded_leaves_no_session(
    run: Run, named: ClientId | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(SessionEngine, "append", failing)
            with pytest.raises(StoreBusy):
                await place(recorder, [user("one")], named)
        assert await fov.sessions() == []
        first = await exchange(recorder, [user("one")], "1", named)
        with monkeypatch.context() as patch:
            patch.setattr(SessionEngine, "append", failing)
            with pytest.raises(StoreBusy):
                await place(recorder, [user("one"), assistant("edited"), user("two")], named)
        assert [info.id for info in await fov.sessions()] == [first.name]

    async def failing(*_: Any, **__: Any) -> None:
        raise StoreBusy("chat.db", "another process writes")

    run(scenario)


@pytest.mark.parametrize("named", [CLAUDE, ClientId("mine", "path", is_ours=True)])
def test_a_session_without_turns_takes_the_first_request_as_it_is(run: Run, named: ClientId) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        await fov.session(named.name, title="Tides")
        history = [user("one"), assistant("1"), user("two")]
        placed = await exchange(recorder, history, "2", named)
        assert (placed.name, placed.session.info.title) == (named.name, "Tides")
        again = await exchange(recorder, [*history, assistant("2"), user("three")], "3", named)
        assert again.name == named.name
        assert await log_of(again) == ["one", "1", "two", "2", "three", "3"]

    run(scenario)


def test_a_history_without_its_beginning_continues_its_session(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        history = [user("one")]
        await exchange(recorder, history, "1")
        history += [assistant("1"), user("two")]
        placed = await exchange(recorder, history, "2")
        cut = await exchange(recorder, [user("two"), assistant("2"), user("three")], "3")
        assert cut.name == placed.name
        assert await log_of(cut) == ["one", "1", "two", "2", "three", "3"]

    run(scenario)


def test_a_title_call_is_not_recorded(run: Run) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        for named in (None, CLAUDE):
            placed = await place(recorder, [user(f"{TITLE} hello")], named, tools=False)
            assert isinstance(placed, SessionDecision)
            assert placed.action == "pass"
        assert await fov.sessions() == []

    run(scenario)


def test_a_persons_title_is_recorded(run: Run) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        placed = await place(recorder, [user("Write a title for my talk")], None, tools=False)
        assert isinstance(placed, Placement)
        assert len(await fov.sessions()) == 1

    run(scenario)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["never recorded", "deleted"])
def test_an_agent_whose_parent_is_not_in_the_store_has_a_session(run: Run, is_deleted: bool) -> None:
    async def scenario(fov: Foveate, recorder: Recorder) -> None:
        if is_deleted:
            await exchange(recorder, [user("delegate")], "ok", CLAUDE)
            await fov.delete_session(CLAUDE.name)
        agent = ClientId(f"{CLAUDE.name}~a1", CLAUDE.source, parent=CLAUDE.name)
        child = await exchange(recorder, [user("count to three")], "1 2 3", agent)
        assert child.name == agent.name
        assert await log_of(child) == ["count to three", "1 2 3"]

    run(scenario)


def test_a_sub_agent_is_a_child_session(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        parent = await exchange(recorder, [user("delegate")], "ok", CLAUDE)
        agent = ClientId(f"{CLAUDE.name}~a1", CLAUDE.source, parent=CLAUDE.name)
        child = await exchange(recorder, [user("do the part")], "done", agent)
        assert child.session.info.parent_id == parent.session.id
        assert await log_of(child) == ["do the part", "done"]
        assert await log_of(parent) == ["delegate", "ok"]

    run(scenario)


def test_a_new_id_with_a_known_history_is_a_fork(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        first = await exchange(recorder, [user("one")], "1", CLAUDE)
        other = ClientId("claude-code-2", CLAUDE.source)
        forked = await exchange(recorder, [user("one"), assistant("1"), user("two")], "2", other)
        assert forked.name == "claude-code-2"
        assert forked.session.info.parent_id == first.session.id
        assert await log_of(forked) == ["one", "1", "two", "2"]

    run(scenario)


OURS = ClientId("support", "x-foveate-session", is_ours=True)


def test_a_client_that_names_its_session_may_send_its_newest_message_alone(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        for number, said in enumerate(["hello", "yes", "yes"]):
            placed = await exchange(recorder, [user(said)], f"answer {number}", OURS)
        assert placed.name == "support"
        assert await log_of(placed) == ["hello", "answer 0", "yes", "answer 1", "yes", "answer 2"]

    run(scenario)


def test_an_answer_on_a_branch_leaves_its_first_session_free(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        first, second = [await place(recorder, [user("one")], OURS) for _ in range(2)]
        assert isinstance(first, Placement)
        assert isinstance(second, Placement)
        await answer(recorder, first, "A")
        await answer(recorder, second, "B")
        assert second.name != OURS.name
        alone = await exchange(recorder, [user("two")], "C", OURS)
        assert alone.name == OURS.name

    run(scenario)


def test_concurrent_prompts_of_one_session_are_branches(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        await exchange(recorder, [user("begin")], "ok", OURS)
        placed = await asyncio.gather(*(place(recorder, [user(f"prompt {n}")], OURS) for n in range(5)))
        await asyncio.gather(
            *(answer(recorder, each, f"answer {n}") for n, each in enumerate(placed) if isinstance(each, Placement))
        )
        logs = [await log_of(each) for each in placed if isinstance(each, Placement)]
        assert sorted(logs) == [["begin", "ok", f"prompt {n}", f"answer {n}"] for n in range(5)]

    run(scenario)


@pytest.mark.parametrize("named", [None, CLAUDE], ids=["without an id", "with an id"])
def test_what_clients_change_in_their_own_history_does_not_matter(run: Run, named: ClientId | None) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a": 1, "b": 2}'}}
        rewritten = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"b":2,"a":1}'}}
        blocks = [{"type": "text", "text": "list it"}, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]
        placed = await place(recorder, [{"role": "user", "content": blocks}], named)
        assert isinstance(placed, Placement)
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        await recorder.add_answer(placed, "openai", said=[said], shown=[said])
        recorder.release(placed)
        result = {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}
        again = [user("list it"), {"role": "assistant", "content": "", "tool_calls": [rewritten]}, result]
        placed = await exchange(recorder, again, "one file", named)
        assert len(await log_of(placed)) == 4
        assert placed.turn_id == "T-1"

    run(scenario)


@dataclass
class Client:
    """A client with its own truth: everything that was said in its conversation, and what it sends of that."""

    named: ClientId | None
    truth: list[str] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)


OPERATIONS = ("say", "say", "say", "same", "edit", "regenerate", "retry", "title", "compact", "cut", "fork", "lost")


class Clients:
    """Random clients of one gateway, and the check of each log after every exchange."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.words = itertools.count()
        self.clients = [Client(None), Client(None), Client(CLAUDE), Client(ClientId("opencode-7", "x-session-id"))]

    async def step(self, which: int, operation: str) -> None:
        client = self.clients[which % len(self.clients)]
        await getattr(self, f"_{operation}")(client)

    async def _exchange(self, client: Client, prompt: str, reply: str) -> None:
        client.sent.append(user(prompt))
        client.truth.append(prompt)
        placed = await exchange(self.recorder, client.sent, reply, client.named)
        client.sent.append(assistant(reply))
        client.truth.append(reply)
        log = await log_of(placed)
        if client.named is None and log == [message["content"] for message in client.sent]:
            client.truth = log  # a cut history that was not unique: a session of its own
        assert log == client.truth

    async def _say(self, client: Client) -> None:
        number = next(self.words)
        await self._exchange(client, f"prompt {number}", f"reply {number}")

    async def _same(self, client: Client) -> None:
        await self._exchange(client, "go on", "done")

    async def _edit(self, client: Client) -> None:
        if len(client.sent) >= 4 and len(client.sent) == len(client.truth):
            del client.sent[-4:], client.truth[-4:]
            await self._say(client)

    async def _regenerate(self, client: Client) -> None:
        if len(client.sent) >= 2:
            prompt = client.sent[-2]["content"]
            del client.sent[-2:], client.truth[-2:]
            await self._exchange(client, prompt, f"reply {next(self.words)}")

    async def _retry(self, client: Client) -> None:
        prompt = f"prompt {next(self.words)}"
        placed = await place(self.recorder, [*client.sent, user(prompt)], client.named)
        assert isinstance(placed, Placement)
        self.recorder.release(placed)
        await self._exchange(client, prompt, f"reply {next(self.words)}")

    async def _lost(self, client: Client) -> None:
        """An answer that never reached its client: recorded, and asked for again."""
        prompt = f"prompt {next(self.words)}"
        await exchange(self.recorder, [*client.sent, user(prompt)], "lost", client.named)
        await self._exchange(client, prompt, f"reply {next(self.words)}")

    async def _title(self, client: Client) -> None:
        placed = await place(self.recorder, [user(f"{TITLE} {next(self.words)}")], client.named, tools=False)
        assert isinstance(placed, SessionDecision)

    async def _compact(self, client: Client) -> None:
        if client.named and len(client.sent) >= 4:
            client.sent = [user(f"summary {next(self.words)}"), *client.sent[-2:]]
            await self._say(client)

    async def _cut(self, client: Client) -> None:
        if client.named is None and len(client.sent) >= 4:
            client.sent = client.sent[2:]
            await self._say(client)

    async def _fork(self, client: Client) -> None:
        named = client.named and ClientId(f"{client.named.name}-{next(self.words)}", client.named.source)
        if len(client.sent) == len(client.truth):
            self.clients.append(Client(named, list(client.truth), list(client.sent)))
            await self._say(self.clients[-1])


@settings(max_examples=times(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 7), st.sampled_from(OPERATIONS)), min_size=5, max_size=30))
def test_no_turn_is_lost_doubled_or_in_another_conversation(run: Run, steps: list[tuple[int, str]]) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        clients = Clients(recorder)
        for which, operation in steps:
            await clients.step(which, operation)

    run(scenario)


def test_a_prompt_that_is_sent_alone_again_without_answer_is_recorded_once(run: Run) -> None:
    async def scenario(_: Foveate, recorder: Recorder) -> None:
        named = ClientId("mine", "path", is_ours=True)
        await exchange(recorder, [user("one")], "1", named)
        for _attempt in range(3):
            failed = await place(recorder, [user("two")], named)
            assert isinstance(failed, Placement)
            recorder.release(failed)
        placed = await exchange(recorder, [user("two")], "2", named)
        assert await log_of(placed) == ["one", "1", "two", "2"]
        again = await exchange(recorder, [user("two")], "2", named)
        assert await log_of(again) == ["one", "1", "two", "2", "two", "2"]

    run(scenario)
