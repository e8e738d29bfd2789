"""Agents: durable, claimed once, cancelled as a tree, and within the limits of their tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.agents.execution import StoredApprover
from foveate.agents.toolboxes import ToolChoice, open_toolbox
from foveate.agents.worker import AgentWorker
from foveate.cli.ui.tool_options import TerminalApprover
from foveate.errors import AgentNotFound, ClaimLost, InputError, LimitReached, Refused
from foveate.events import Event
from foveate.models import Ask
from foveate.models.settings import Price
from foveate.session.subagents import PendingApproval, PendingQuestion
from foveate.store.agents import AgentRow, ClaimRequest
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel, Stalls
from foveate.tools import Toolbox, Workspace, registry, tool
from foveate.tools.toolbox import Approver
from foveate.turn import Text
from support.chats import scripted_store
from support.patience import PATIENCE_SECONDS

MODEL = "scripted:test"
QUICK = {"poll_seconds": 0.01}
DONE = CallsTool("finish", {"summary": "It stands."}, id="f")


@asynccontextmanager
async def store(
    path: Path, script: Behaviour | list[Behaviour] | Callable[[Ask], Behaviour], **agents: float
) -> AsyncIterator[Foveate]:
    model = ScriptedModel(script, name=MODEL, price=Price(input=1.0, output=1.0))
    parts: dict[str, Mapping[str, object]] = {
        "store": {"synchronous": "normal"},
        "session": {"model": MODEL},
        "tools": {"packs": {"mine": ["deploy"]}},
    }
    async with scripted_store(path, model, agents={**QUICK, **agents}, **parts) as fov:
        yield fov


def working(test: Callable[[], object]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def drained(fov: Foveate) -> AgentWorker:
    worker = AgentWorker(fov)
    await worker.run(drain=True)
    return worker


def claim(owner: str, **given: float) -> ClaimRequest:
    return replace(ClaimRequest(owner=owner, limit=1, lease_seconds=60.0, max_attempts=3), **given)  # type: ignore[arg-type]


def test_a_spawned_agent_is_run_by_a_worker_and_its_result_is_stored_before_it_is_told(tmp_path: Path) -> None:
    events: list[tuple[str, object]] = []

    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            session = await fov.session("boss")
            await session.record([{"role": "user", "content": "Build."}])

            def note(event: Event) -> None:
                events.append((event.session_id, event.data["state"]))

            with fov.subscribe(note, ["agent-changed"]) as subscription:
                agent = await fov.agents.spawn("Build a house.", parent="boss", model=MODEL)
                assert (agent.state, agent.depth, agent.tree) == ("queued", 1, "boss")
                assert (await drained(fov)).ended == 1
                subscription.drain()
            ended = await fov.agents.wait(agent.id)
            assert (ended.state, ended.result) == ("done", "It stands.")
            context = await session.context("And?")
            assert f"Agent ({agent.id} done): done: It stands." in context.text
            own = await fov.open_session(agent.id)
            assert own.info.parent_id == "boss"
            assert (await session.refresh()).turns == 1
        assert events == [("boss", "queued"), ("boss", "running"), ("boss", "done")]

    working(test)


def test_a_heartbeat_does_not_interrupt_the_note_about_an_agent_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            session = await fov.session("boss")
            agent = await fov.agents.spawn("Build a house.", parent="boss", model=MODEL)
            worker = AgentWorker(fov)
            tell = worker._publish

            async def slow(row: AgentRow) -> None:
                if row.state == "done":
                    await asyncio.sleep(20 * QUICK["poll_seconds"])
                await tell(row)

            monkeypatch.setattr(worker, "_publish", slow)
            await worker.run(drain=True)
            assert f"Agent ({agent.id} done)" in (await session.context("And?")).text

    working(test)


def test_a_call_is_one_prompt_and_a_fork_sees_the_turns_before_it(tmp_path: Path) -> None:
    asks: list[Ask] = []

    def reply(ask: Ask) -> Behaviour:
        asks.append(ask)
        return Says("8443")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply) as fov:
            session = await fov.session("boss")
            await session.record([{"role": "user", "content": "The port is 8443."}])
            agent = await fov.agents.call("Which port?", parent="boss", fork=True)
            assert (agent.state, agent.kind, agent.result) == ("done", "call", "8443")
        assert "The port is 8443." in [message.text for message in asks[0].messages]

    working(test)


def test_a_call_takes_a_stored_prompt_with_its_variables(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", Says("Fine.")) as fov:
            await fov.prompts.set("review", "Review this: {code}")
            agent = await fov.agents.call(prompt_key="review", variables={"code": "x = 1"}, model=MODEL)
            assert (agent.task, agent.result) == ("Review this: x = 1\n", "Fine.")
            with pytest.raises(InputError, match="either a prompt or the key"):
                await fov.agents.call("Hello", prompt_key="review")

    working(test)


def test_after_a_kill_another_worker_goes_on_and_only_the_newest_claim_can_end_an_agent(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            rows = fov.agents.rows
            agent = await fov.agents.spawn("Build.", model=MODEL)
            (dead,) = await rows.claim(claim("dead", lease_seconds=-1.0))
            (newest,) = await rows.claim(claim("x", lease_seconds=60.0))
            with pytest.raises(ClaimLost):
                await rows.finish(dead, "done", result="twice")
            await fov.store.leases.release("agent", newest.owner)
            await drained(fov)
            assert (await fov.agents.get(agent.id)).result == "It stands."

    working(test)


def test_an_agent_whose_workers_keep_dying_is_lost(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE, max_attempts=3) as fov:
            agent = await fov.agents.spawn("Build.", model=MODEL)
            for _ in range(3):
                assert await fov.agents.rows.claim(claim("dead", lease_seconds=-1.0))
            await drained(fov)
            lost = await fov.agents.get(agent.id)
            assert (lost.state, lost.problem) == ("lost", "its worker ended 3 times without finishing it")

    working(test)


def test_a_cancel_ends_the_whole_tree_and_interrupts_a_call_in_progress(tmp_path: Path) -> None:
    async def test() -> None:
        started = asyncio.Event()
        asks: list[Ask] = []

        def stall(ask: Ask) -> Behaviour:
            asks.append(ask)
            if len(asks) == 2:
                started.set()
            return Stalls()

        async with store(tmp_path / "a.db", stall) as fov:
            top = await fov.agents.spawn("Build.", model=MODEL)
            child = await fov.agents.spawn("Dig.", parent=top.id, model=MODEL)
            assert (child.parent, child.depth, child.tree) == (top.id, 2, top.id)
            worker = AgentWorker(fov)
            running = asyncio.create_task(worker.run(drain=True))
            await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
            cancelled = await fov.agents.cancel(top.id)
            assert {agent.id for agent in cancelled} == {top.id, child.id}
            await asyncio.wait_for(running, PATIENCE_SECONDS)
            assert {agent.state for agent in await fov.agents.list()} == {"cancelled"}
            assert await fov.agents.cancel(top.id) == []

    working(test)


def test_the_limits_of_a_tree_hold_for_depth_and_count(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE, max_depth=2, max_agents=2) as fov:
            top = await fov.agents.spawn("Build.", model=MODEL)
            child = await fov.agents.spawn("Dig.", parent=top.id)
            with pytest.raises(LimitReached, match="2 agents have not ended"):
                await fov.agents.spawn("Paint.", parent=top.id)
            await fov.agents.cancel(child.id)
            with pytest.raises(LimitReached, match="level 3 is too deep"):
                await fov.agents.spawn("Deeper.", parent=child.id)
            assert len(await fov.sessions()) == 2  # nothing is left of those that were refused

    working(test)


@pytest.mark.parametrize("limit", [{"tokens": 6_000}, {"usd": 0.006}], ids=["tokens", "usd"])
def test_no_call_is_made_that_may_exceed_the_tokens_or_the_money_of_a_tree(
    tmp_path: Path, limit: dict[str, float]
) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", Says("Working.")) as fov:
            agent = await fov.agents.spawn("Build.", model=MODEL, limits=limit, max_output_tokens=1_000)
            await drained(fov)
            ended = await fov.agents.get(agent.id)
            assert ended.state == "failed"
            assert "the limit of the agents" in str(ended.problem)
            totals = await fov.agents.totals(agent.id)
            assert 0 < totals.tokens <= 6_000
            assert 0 < totals.nano_usd <= 6_000_000

    working(test)


def test_an_agent_waits_for_an_approval_and_goes_on_with_it(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(approval="ask")
    async def deploy(place: str) -> str:
        """Deploy."""
        done.append(place)
        return "Deployed."

    def reply(ask: Ask) -> Behaviour:
        results = [result for message in ask.messages for result in message.tool_results]
        return DONE if len(results) == 2 else CallsTool("deploy", {"place": str(len(results))}, id=f"c{len(results)}")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply) as fov:
            agent = await fov.agents.spawn("Deploy it.", model=MODEL, packs=["mine"])
            await drained(fov)
            waiting = await fov.agents.get(agent.id)
            assert waiting.state == "waiting"
            assert waiting.waits == PendingApproval(tool="deploy", arguments={"place": "0"})
            assert done == []
            await fov.agents.approve(agent.id, for_session=True)
            with pytest.raises(Refused):
                await fov.agents.approve(agent.id)
            await drained(fov)
            assert (await fov.agents.get(agent.id)).state == "done"
            assert done == ["0", "1"]

    registry.register(deploy)
    try:
        working(test)
    finally:
        registry.unregister("deploy")


def test_an_agent_waits_for_an_answer_and_goes_on_with_it(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        is_answered = any("The left one" in message.text for message in ask.messages)
        return DONE if is_answered else CallsTool("ask_user", {"question": "Which hill?"}, id="q")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply) as fov:
            agent = await fov.agents.spawn("Build.", model=MODEL)
            await drained(fov)
            assert (await fov.agents.get(agent.id)).waits == PendingQuestion(question="Which hill?")
            await fov.agents.answer(agent.id, "The left one.")
            await drained(fov)
            assert (await fov.agents.get(agent.id)).result == "It stands."

    working(test)


def test_wrong_input_is_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            with pytest.raises(InputError, match="characters"):
                await fov.agents.spawn(" ")
            with pytest.raises(InputError, match="an agent has no 'pack'; available: model, system, packs"):
                await fov.agents.spawn("Build.", pack="x")
            with pytest.raises(InputError, match="is not a folder"):
                await fov.agents.spawn("Build.", roots=["/no/such/folder"])
            with pytest.raises(InputError, match="there is no limit 'money'"):
                await fov.agents.spawn("Build.", limits={"money": 1})
            with pytest.raises(AgentNotFound):
                await fov.agents.get("a-0")
            assert await fov.agents.list() == []

    working(test)


def test_a_tenant_sees_its_own_agents_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            acme = fov.tenant("acme")
            agent = await acme.agents.spawn("Build.", model=MODEL)
            await drained(fov)
            assert (await acme.agents.get(agent.id)).state == "done"
            assert [found.session_id for found in await fov.agents.list()] == [f"acme:{agent.id}"]
            with pytest.raises(AgentNotFound):
                await fov.tenant("other").agents.get(agent.id)
            assert await fov.tenant("other").agents.list() == []

    working(test)


def results_in(ask: Ask) -> list[str]:
    """The texts of the tool results that a model is shown."""
    results = [result for message in ask.messages for result in message.tool_results]
    return ["".join(part.text for part in result.content if isinstance(part, Text)) for result in results]


def test_a_model_spawns_agents_waits_without_a_worker_and_reads_their_results(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        said = "\n".join(message.text for message in ask.messages)
        if "Count hill" in said:
            return CallsTool("finish", {"summary": f"{said.split('Count hill ')[1][0]} sheep"}, id="f")
        results = results_in(ask)
        if not results:
            spawn = CallsTool("spawn_agent", {"task": "Count hill 2."}, id="s2")
            return CallsTool("spawn_agent", {"task": "Count hill 1."}, id="s1", more=(spawn,))
        if len(results) == 2:
            ids = [text.split()[1].rstrip(".") for text in results]
            return CallsTool("wait_agent", {"agent_ids": ids}, id="w")
        if any("is done" not in part for part in results[2].strip().split("\n\n")):
            ids = [part.split()[0] for part in results[2].strip().split("\n\n")]
            return CallsTool("wait_agent", {"agent_ids": ids}, id="w")
        return CallsTool("finish", {"summary": results[-1]}, id="f")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply, concurrency=1) as fov:  # a parent that kept it busy would deadlock
            top = await fov.agents.spawn("Count all sheep.", model=MODEL, packs=["agents"])
            await asyncio.wait_for(drained(fov), PATIENCE_SECONDS)
            ended = await fov.agents.get(top.id)
            assert ended.state == "done", ended.problem
            assert "1 sheep" in str(ended.result)
            assert "2 sheep" in str(ended.result)
            children = await fov.agents.list(parent=top.id)
            assert {(child.parent, child.depth, child.spec.packs) for child in children} == {(top.id, 2, ("agents",))}

    working(test)


def test_an_agent_goes_on_when_its_wait_for_another_times_out(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        if any("Which hill" in message.text for message in ask.messages):
            return CallsTool("ask_user", {"question": "The left one?"}, id="q")
        results = results_in(ask)
        if not results:
            return CallsTool("spawn_agent", {"task": "Which hill?"}, id="s")
        if len(results) == 1:
            agent_id = results[0].split()[1].rstrip(".")
            return CallsTool("wait_agent", {"agent_ids": [agent_id], "timeout_seconds": 1}, id="w")
        return CallsTool("finish", {"summary": results[-1]}, id="f")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply) as fov:
            ended = await asyncio.wait_for(
                fov.agents.run("Count sheep.", model=MODEL, packs=["agents"]), PATIENCE_SECONDS
            )
            assert ended.state == "done"
            assert "waits for a person to answer: The left one?" in str(ended.result)

    working(test)


def test_a_child_has_no_tool_that_its_parent_lacks_and_strangers_are_not_seen(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", Says("42")) as fov:
            session = await fov.session("boss")
            toolbox = await open_toolbox(fov, session, ToolChoice(packs=("agents",), roots=(str(tmp_path),)))
            assert toolbox is not None
            refused = await toolbox.call("spawn_agent", {"task": "Look.", "pack": "file-ops"})
            assert refused.is_error
            assert "has tools that you don't have: apply_patch" in refused.text
            answer = await toolbox.call("call_agent", {"prompt": "How many?"})
            assert (answer.text, answer.is_error) == ("42", False)
            (made,) = await fov.agents.list(parent="boss")
            assert made.spec.roots == (str(tmp_path),)
            stranger = await fov.agents.spawn("Other.", model=MODEL)
            for name in ("wait_agent", "cancel_agent"):
                given = {"agent_ids": [stranger.id]} if name == "wait_agent" else {"agent_id": stranger.id}
                assert "of yours" in (await toolbox.call(name, given)).text
            assert (await fov.agents.get(stranger.id)).state == "queued"

    working(test)


def test_a_child_has_the_approvals_of_its_parent_and_no_others(tmp_path: Path) -> None:
    async def approvals(fov: Foveate, approve: Approver) -> dict[str, bool]:
        choice = ToolChoice(packs=("core-codex", "agents"), roots=(str(tmp_path),), allow_exec=True)
        toolbox = await open_toolbox(fov, await fov.session("boss"), choice, approve=approve)
        assert toolbox is not None
        assert not (await toolbox.call("spawn_agent", {"task": "Look."})).is_error
        (made,) = await fov.agents.list(parent="boss", state="queued")
        assert made.spec.allow_exec
        child = StoredApprover(await fov.agents.rows.get(made.id))
        await fov.agents.cancel(made.id)
        return {name: child.grants(registry.find(name)) for name in ("exec", "apply_patch")}

    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            asked = TerminalApprover(is_typed=True)
            assert await approvals(fov, asked) == {"exec": False, "apply_patch": False}
            asked.approved.add("apply_patch")
            assert await approvals(fov, asked) == {"exec": False, "apply_patch": True}
            alone = await fov.agents.spawn("Work.", allow_exec=True, approve_local=True)
            unattended = StoredApprover(await fov.agents.rows.get(alone.id))
            assert await approvals(fov, unattended) == {"exec": True, "apply_patch": True}

    working(test)


def test_an_agent_waits_for_and_cancels_only_agents_below_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with store(tmp_path / "a.db", DONE) as fov:
            await fov.session("boss")
            top = await fov.agents.spawn("Top.", parent="boss")
            middle = await fov.agents.spawn("Middle.", parent=top.session_id)
            sibling = await fov.agents.spawn("Sibling.", parent=top.session_id)
            below = await fov.agents.spawn("Below.", parent=middle.session_id)
            for caller, allowed in (
                ("boss", {top.id, middle.id, sibling.id, below.id}),
                (top.session_id, {middle.id, sibling.id, below.id}),
                (middle.session_id, {below.id}),
            ):
                workspace = Workspace.at([tmp_path], session=await fov.open_session(caller), fov=fov)
                toolbox = Toolbox.of_pack("agents", workspace)
                found = set()
                for agent in (top, middle, sibling, below):
                    given = {"agent_ids": [agent.id], "timeout_seconds": 0}
                    found |= set() if (await toolbox.call("wait_agent", given)).is_error else {agent.id}
                assert found == allowed
            assert (await toolbox.call("cancel_agent", {"agent_id": sibling.id})).is_error
            assert (await fov.agents.get(sibling.id)).state == "queued"

    working(test)


def test_a_call_that_is_run_here_leaves_other_agents_of_its_tree_to_their_workers(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        if any(message.text == "Ask below." for message in ask.messages) and not results_in(ask):
            return CallsTool("call_agent", {"prompt": "How many?"}, id="c")
        return Says("42")

    async def test() -> None:
        async with store(tmp_path / "a.db", reply) as fov:
            await fov.session("boss")
            sibling = await fov.agents.spawn("Sibling.", parent="boss")
            ended = await fov.agents.call("Ask below.", parent="boss", packs=["agents"], roots=[str(tmp_path)])
            assert (ended.state, ended.result) == ("done", "42")
            (below,) = await fov.agents.list(parent=ended.session_id)
            assert below.state == "done"
            untouched = await fov.agents.get(sibling.id)
            assert (untouched.state, untouched.started_at) == ("queued", None)

    working(test)
