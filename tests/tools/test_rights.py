"""The one rule of who may call a tool: no way to a tool gives a key more than `POST /tools/{tool}/call` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.agents.toolboxes import ToolChoice, open_toolbox
from foveate.agents.worker import AgentWorker
from foveate.client import Foveate
from foveate.models import Ask
from foveate.server.gateway.transport import UpstreamClient
from foveate.session.keys import RIGHTS
from foveate.store.agents import AgentRow, ClaimRequest
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel
from foveate.tools import Tool, packs, registry, tool
from foveate.tools.tool import READ_ONLY, Annotations
from support.chats import FAST, scripted_store
from support.servers import ServerClient, bearer, call, client_of
from support.upstream import Upstream, say

API = "/api/v1"
MODEL = "scripted:test"
EFFECTS = [READ_ONLY, Annotations(), Annotations(read_only=True, open_world=True), Annotations(destructive=False)]
done: list[str] = []
"""The probes that were executed."""


def _probe(name: str, annotations: Annotations, approval: Any) -> Tool:
    @tool(name=name, annotations=annotations, approval=approval)
    async def probe() -> str:
        """Note that it was called."""
        done.append(name)
        return "ok"

    return probe


PROBES = {
    f"probe_{number}": _probe(f"probe_{number}", effects, approval)
    for number, (effects, approval) in enumerate(product(EFFECTS, ("never", "ask")))
}
AT_ONCE = tuple(name for name, probe in PROBES.items() if probe.approval == "never")
ALL = "probes"


def _reply(ask: Ask) -> Behaviour:
    """Call each tool that the task names, in one answer, or one script, or by a child; then report the end."""
    if any(message.tool_results for message in ask.messages):
        return Says("Done.\nSTATUS: done")
    text = "\n".join(message.text for message in ask.messages)
    way, _, names = text.rpartition("CALL ")[2].splitlines()[0].partition(" ")
    if way == "child":
        return CallsTool("spawn_agent", {"task": f"CALL each {names}"}, id="c")
    if way == "script":
        return CallsTool("run_script", {"script": _script(names.split())}, id="s")
    calls = [CallsTool(name, {}, id=name) for name in names.split()]
    return CallsTool(calls[0].name, {}, id=calls[0].name, more=tuple(calls[1:]))


def _script(names: Collection[str]) -> str:
    return "".join(f"try:\n    {name}()\nexcept Exception as error:\n    print(error)\n" for name in names)


@pytest.fixture(scope="module", autouse=True)
def _probes() -> Iterator[None]:
    for probe in PROBES.values():
        registry.register(probe)
    yield
    for name in PROBES:
        registry.unregister(name)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    folder = tmp_path_factory.mktemp("rights")
    script = folder / "checked.toml"  # the dashboard checks that the model of this name can be loaded
    script.write_text('[[reply]]\nsays = "Done."\n')
    name = f"scripted:{script}"
    model = ScriptedModel(_reply, name=name)
    own = {ALL: [*PROBES, "spawn_agent", "run_script"]}
    opened = scripted_store(
        folder / "a.db",
        model,
        agents={"poll_seconds": 0.01},
        session={"model": name},
        models={**FAST, "chat": name},
        tools={"packs": own},
    )
    with client_of(folder / "a.db", opened=opened) as made:
        yield made


names = count()


class Caller:
    """A key, and the ways to a tool that it can try."""

    def __init__(self, client: ServerClient, rights: Collection[str], tenant: str) -> None:
        self.client = client
        self.tenant = tenant
        self.secret = call(client, client.fov.keys.create, rights=rights, tenant=tenant).secret

    def post(self, path: str, body: Any) -> Any:
        return self.client.post(f"{API}{path}", json=body, headers=bearer(self.secret))

    def by_api(self, chosen: Collection[str]) -> None:
        for name in chosen:
            self.post(f"/tools/{name}/call", {"approve": True})

    def by_script_of_api(self, chosen: Collection[str]) -> None:
        self.post("/tools/run_script/call", {"arguments": {"script": _script(chosen)}})

    def by_agent(self, chosen: Collection[str], way: str = "each") -> None:
        self.post("/agents", {"task": f"CALL {way} {' '.join(chosen)}", "packs": [ALL]})
        self._work()

    def by_script_of_agent(self, chosen: Collection[str]) -> None:
        self.by_agent(chosen, "script")

    def by_child(self, chosen: Collection[str]) -> None:
        self.by_agent(chosen, "child")

    def by_spawning_tool(self, chosen: Collection[str]) -> None:
        session = f"s-{next(names)}"
        self.post("/sessions", {"id": session})
        given = {"task": f"CALL each {' '.join(chosen)}", "pack": ALL}
        self.post("/tools/spawn_agent/call", {"arguments": given, "session": session})
        self._work()

    def by_approval(self, chosen: Collection[str]) -> None:
        """Approve the calls of an agent that the owner started."""
        asked = [name for name in chosen if name not in AT_ONCE]
        if asked:
            view = self.client.fov.tenant(self.tenant) if self.tenant else self.client.fov
            call(self.client, view.agents.spawn, f"CALL each {' '.join(asked)}", packs=[ALL])
            self._work()

    def by_dashboard(self, chosen: Collection[str]) -> None:
        session = f"s-{next(names)}"
        self.post("/sessions", {"id": session})
        self.client.post("/ui/login", data={"key": self.secret}, follow_redirects=False)
        now = " ".join(name for name in chosen if name in AT_ONCE)
        if now:
            self.client.post(f"/ui/sessions/{session}/say", data={"prompt": f"CALL each {now}", "pack": ALL})
        self.client.cookies.clear()

    def _work(self) -> None:
        """Run agents, and approve what they ask for with this key, until nothing changes."""
        while True:
            call(self.client, AgentWorker(self.client.fov).run, drain=True)
            waiting = call(self.client, self.client.fov.agents.rows.list_agents, state="waiting", limit=10)
            if not sum(self._approve(row) for row in waiting):
                break
        for row in waiting:
            call(self.client, self.client.fov.agents.cancel, row.id)

    def _approve(self, row: AgentRow) -> bool:
        answer = self.post(f"/agents/{row.id}/approval", {"allow": True})
        return bool(answer.status_code == 200)


WAYS = {name: way for name, way in vars(Caller).items() if name.startswith("by_")}


def _executed(caller: Caller, way: Callable[[Caller, Collection[str]], None], chosen: Collection[str]) -> set[str]:
    done.clear()
    way(caller, chosen)
    return set(done)


@given(
    st.sets(st.sampled_from(RIGHTS), min_size=1),
    st.sampled_from(["", "acme"]),
    st.lists(st.sampled_from(sorted(PROBES)), min_size=1, unique=True),
    st.sampled_from(sorted(WAYS)),
)
@settings(max_examples=60)
def test_no_way_to_a_tool_gives_more_than_calling_it_does(
    client: ServerClient, rights: set[str], tenant: str, chosen: list[str], way: str
) -> None:
    caller = Caller(client, rights, tenant)
    allowed = _executed(caller, Caller.by_api, chosen)
    assert _executed(caller, WAYS[way], chosen) <= allowed


@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_gives_the_owner_the_tools(client: ServerClient, way: str) -> None:
    """So that the property above does not hold because a way leads nowhere."""
    chosen = sorted(PROBES) if way in ("by_api", "by_agent", "by_child", "by_spawning_tool") else AT_ONCE
    chosen = sorted(set(PROBES) - set(AT_ONCE)) if way == "by_approval" else chosen
    assert _executed(Caller(client, ["admin"], ""), WAYS[way], chosen) == set(chosen)


def test_a_key_that_may_not_run_commands_runs_none_by_an_agent_that_it_approves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    script = tmp_path / "script.toml"
    script.write_text(
        '[[reply]]\nresults = 0\ncalls_tool = "exec"\narguments = { command = "touch made" }\n'
        '[[reply]]\nsays = "Done.\\nSTATUS: done"\n'
    )
    monkeypatch.setenv("FOVEATE_AGENTS__ROOTS", str(folder))
    monkeypatch.setenv("FOVEATE_TOOLS__ALLOW_EXEC", "true")
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", f"scripted:{script}")
    with client_of(tmp_path / "a.db") as client:
        headers = bearer(call(client, client.fov.keys.create, rights=["read", "write"]).secret)
        made = client.post(f"{API}/agents", json={"task": "Make it.", "packs": ["core-codex"]}, headers=headers).json()
        call(client, AgentWorker(client.fov).run, drain=True)
        approved = client.post(f"{API}/agents/{made['id']}/approval", json={"allow": True}, headers=headers)
        call(client, AgentWorker(client.fov).run, drain=True)
        assert (approved.status_code, list(folder.iterdir())) == (409, [])
        assert client.get(f"{API}/agents/{made['id']}", headers=headers).json()["state"] == "done"


def test_a_lesser_key_neither_approves_nor_directs_an_agent_of_the_owner(client: ServerClient) -> None:
    async def waiting(fov: Foveate, waits: str) -> str:
        made = await fov.agents.spawn("CALL nothing", packs=[ALL])
        (row,) = await fov.agents.rows.claim(
            ClaimRequest(owner="w", limit=1, lease_seconds=60.0, max_attempts=3, top=made.id)
        )
        await fov.agents.rows.park(row, waits)
        return made.id

    for waits, action, body in (
        ('{"for":"approval","tool":"probe_3","arguments":{}}', "approval", {"allow": True}),
        ('{"for":"question","question":"Which?"}', "answer", {"text": "All."}),
    ):
        agent = call(client, waiting, client.fov, waits)
        for tenant, right, status in (("", "write", 403), ("acme", "admin", 404), ("", "admin", 200)):
            assert Caller(client, [right], tenant).post(f"/agents/{agent}/{action}", body).status_code == status
        call(client, client.fov.agents.cancel, agent)


WRITES: list[tuple[str, Any]] = [
    ("/sessions/{}/turns", {"messages": [{"role": "user", "content": "Do something else."}]}),
    ("/sessions/{}/pins", {"text": "Do something else."}),
    ("/sessions/{}/goals", {"title": "Something else"}),
    ("/tools/update_plan/call", {"arguments": {"plan": [{"step": "x", "status": "pending"}]}, "session": "{}"}),
    ("/agents", {"task": "Report something else.", "session": "{}"}),
]


@pytest.mark.parametrize(("path", "body"), WRITES)
def test_a_lesser_key_writes_nothing_that_an_agent_of_the_owner_reads(
    client: ServerClient, path: str, body: Any
) -> None:
    def status(caller: Caller, agent: str) -> int:
        given = {name: value.format(agent) if value == "{}" else value for name, value in body.items()}
        return int(caller.post(path.format(agent), given).status_code)

    lesser = Caller(client, ["write"], "")
    theirs = call(client, client.fov.agents.spawn, "CALL nothing", packs=[ALL]).id
    own = lesser.post("/agents", {"task": "CALL nothing"}).json()["id"]
    assert (status(lesser, theirs), status(Caller(client, ["admin"], ""), theirs)) == (403, status(lesser, own))
    call(client, client.fov.agents.cancel, theirs)
    call(client, client.fov.agents.cancel, own)
    assert status(lesser, theirs) < 300


def test_what_the_starter_may_do_is_stored_with_the_agent_for_a_worker_elsewhere(tmp_path: Path) -> None:
    """Also by an agent of its agent, and with a store that was opened again."""

    async def test() -> None:
        model = ScriptedModel(_reply, name=MODEL)
        parts: dict[str, Any] = {"session": {"model": MODEL}, "agents": {"poll_seconds": 0.01}}
        parts["tools"] = {"packs": {ALL: [*PROBES, "spawn_agent"]}}
        async with scripted_store(tmp_path / "a.db", model, **parts) as fov:
            await fov.limited("write").agents.spawn(f"CALL child {' '.join(PROBES)}", packs=[ALL])
        async with scripted_store(tmp_path / "a.db", model, **parts) as fov:
            await AgentWorker(fov).run(drain=True)
            assert {agent.spec.right for agent in await fov.agents.list()} == {"write"}
            assert len(await fov.agents.list()) == 2

    done.clear()
    asyncio.run(test())
    assert "probe_0" in done
    assert not {"probe_2", "probe_4"} & set(done)


def test_no_pack_reaches_the_web_for_a_tenant(tmp_path: Path) -> None:
    async def test() -> None:
        async with scripted_store(tmp_path / "a.db", ScriptedModel(Says("x"), name=MODEL)) as fov:
            view = fov.tenant("acme").limited("write")
            for pack in packs.pack_names({}):
                box = (await _opened(view, pack)).tools
                assert not {"fetch_url", "web_search", "exec", "run_script"} & set(box), pack

    asyncio.run(test())


async def _opened(view: Foveate, pack: str) -> Any:
    return await open_toolbox(view, await view.session("s"), ToolChoice(packs=(pack,)))


@pytest.mark.parametrize(
    ("path", "named", "more"),
    [
        ("/s/{}/v1/messages", {}, {"max_tokens": 10}),
        ("/v1/messages", {"x-session-id": "{}"}, {"max_tokens": 10}),
        ("/v1/responses/compact", {"x-foveate-session": "{}"}, {}),
    ],
)
def test_a_key_of_the_gateway_puts_no_prompt_into_a_session_of_an_agent_of_the_owner(
    tmp_path: Path, path: str, named: dict[str, str], more: dict[str, Any]
) -> None:
    upstream = Upstream(lambda _: say("ok"))
    tools = [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}] if more else []
    with client_of(tmp_path / "a.db", upstream="http://upstream/v1") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        agent = call(client, client.fov.agents.spawn, "Wait.").id
        secrets = [call(client, client.fov.keys.create, rights=["gateway", *more]).secret for more in ([], ["admin"])]

        def status(session: str, secret: str) -> int:
            said = [{"role": role, "content": f"{session} {secret}"} for role in ("user", "assistant", "user")]
            own = {"messages": said, **more} if more else {"input": said[:1]}
            body = {"model": "claude", "tools": tools, **own}
            headers = {name: value.format(session) for name, value in named.items()} | {"x-foveate-key": secret}
            return int(client.post(path.format(session), json=body, headers=headers).status_code)

        assert [status("mine", secrets[0]), status(agent, secrets[0]), status(agent, secrets[1])] == [200, 403, 200]
        call(client, client.fov.agents.cancel, agent)
        assert status(agent, secrets[0]) == 200


def test_a_lesser_key_imports_nothing_into_a_session_of_an_agent_of_the_owner(client: ServerClient) -> None:
    agent = call(client, client.fov.agents.spawn, "CALL nothing", packs=[ALL]).id
    transcript = b'{"role": "user", "content": "Do something else."}\n'
    for right, status in (("write", 403), ("admin", 201)):
        secret = call(client, client.fov.keys.create, rights=["write", right]).secret
        sent = client.post(f"{API}/import?name=a.jsonl&session={agent}", content=transcript, headers=bearer(secret))
        assert sent.status_code == status, sent.text
    call(client, client.fov.agents.cancel, agent)
