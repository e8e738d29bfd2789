"""Random use of a whole server by two tenants with equal names; after each step the promises to a client hold.

No request fails in the server, every error explains itself, each tenant gets what it gets alone, what was acknowledged
is read back, what goes upstream is valid and within the budget, and no key gets more than its rights.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from starlette.responses import JSONResponse

from foveate.session.keys import Right
from support.patience import wait_until
from support.servers import bearer, call
from support.twins import API, BUDGET_TOKENS, KEYS, WORDS, Server, Twins, check_answer, cut_off

tenants = st.sampled_from(sorted(WORDS))
sessions = st.sampled_from(["chat", "plan"])
rights = st.sampled_from(KEYS)
numbers = st.integers(0, 5)
PROTOCOLS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/scripted",
}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
Message = dict[str, Any]


class RandomUse(RuleBasedStateMachine):
    """The rules are what clients do."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.twins = Twins(Path(self.folder.name))
        self.number = count(1)
        self.said: dict[tuple[str, str], list[str]] = {}
        """The texts of each session that were acknowledged."""
        self.pins: dict[tuple[str, str], dict[str, str]] = {}
        self.documents: dict[tuple[str, str], str] = {}
        self.items: dict[str, list[tuple[str, str]]] = {tenant: [] for tenant in WORDS}
        """The ids of each tenant's knowledge on both of its servers."""
        self.talks: dict[tuple[str, str], list[Message]] = {}
        """The histories that clients of the gateway send, in their protocol."""
        self.forks = 0

    def teardown(self) -> None:
        self.twins.close()
        self.folder.cleanup()

    @invariant()
    def nothing_failed_and_the_upstream_got_valid_requests(self) -> None:
        self.twins.check()

    def text(self, tenant: str, about: str) -> str:
        """A text that no other has."""
        number = next(self.number)
        return f"{about} {number:04}: the {WORDS[tenant]} listens on {8000 + number}. " + "More of it follows. " * 40

    def ask(
        self, tenant: str, needed: Right, method: str, path: str, *, by: tuple[Right, ...] = ("admin",), **parts: Any
    ) -> tuple[Any, Any] | None:
        """Send a request of the API; None if the key may not."""
        if needed not in by and "admin" not in by:
            parts.pop("compare", None)
            ids = parts.pop("ids", ("", ""))
            self.twins.refused(tenant, method, API + path.replace("{}", ids[0]), rights=by, **parts)
            return None
        return self.twins.both(tenant, method, API + path, rights=by, **parts)

    def is_known(self, tenant: str, session: str) -> bool:
        return (tenant, session) in self.said

    # Sessions and turns

    @rule(tenant=tenants, session=sessions, by=rights)
    def create(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        made = self.ask(tenant, "write", "POST", "/sessions", by=by, json={"id": session})
        if made and made[0].is_success:
            assert not self.is_known(tenant, session)
            self.said[tenant, session] = []

    @rule(tenant=tenants, session=sessions, by=rights, has_tool=st.booleans(), is_packed=st.booleans())
    def record(self, tenant: str, session: str, by: tuple[Right, ...], has_tool: bool, is_packed: bool) -> None:
        body, texts = self.turn(tenant, has_tool=has_tool)
        raw = json.dumps(body).encode()
        packed = {"content": gzip.compress(raw), "headers": {"Content-Encoding": "gzip"}}
        parts: dict[str, Any] = packed if is_packed else {"content": raw}
        done = self.ask(tenant, "write", "POST", f"/sessions/{session}/turns", by=by, **parts)
        if done and done[0].is_success:
            self.said[tenant, session] += texts
            self.read_back(tenant, session)

    def turn(self, tenant: str, *, has_tool: bool = False) -> tuple[dict[str, Any], list[str]]:
        asked, answered = self.text(tenant, "Question"), self.text(tenant, "Answer")
        messages: list[Message] = [{"role": "user", "content": asked}]
        if has_tool:
            found = self.text(tenant, "Shelf") + "x = 1\n" * 2_000
            named = f"call_{next(self.number)}"
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": named, "type": "function", "function": function}]
            messages += [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": named, "content": found},
            ]
        messages.append({"role": "assistant", "content": answered})
        at = f"2026-11-01T10:{next(self.number) // 60 % 60:02}:{next(self.number) % 60:02}Z"
        return {"messages": messages, "at": at}, [asked, answered]

    def read_back(self, tenant: str, session: str) -> None:
        """All that was acknowledged is there, once and in order."""
        answers = self.ask(tenant, "read", "GET", f"/sessions/{session}/turns?level=R&order=oldest&limit=500")
        assert answers
        for answer in answers:
            assert answer.status_code == 200, answer.text
            read = json.dumps(answer.json(), ensure_ascii=False)
            places = [read.find(text) for text in self.said[tenant, session]]
            assert -1 not in places
            assert places == sorted(places)
            assert all(read.count(text) == 1 for text in self.said[tenant, session])

    @rule(tenant=tenants, session=sessions, after=st.integers(0, 3), number=numbers)
    def leave_while_recording_and_repeat(self, tenant: str, session: str, after: int, number: int) -> None:
        if not self.is_known(tenant, session):
            return
        body, texts = self.turn(tenant)
        shared = self.twins.shared
        path = f"{API}/sessions/{session}/turns"
        key = {"Idempotency-Key": f"key-{next(self.number)}"}
        headers = {**bearer(shared.keys[tenant, ("admin",)]), **key}
        raw = json.dumps(body).encode()
        call(shared.client, cut_off, shared.client.server, "POST", path, headers, raw, after=after)
        self.ask(tenant, "write", "POST", f"/sessions/{session}/turns", content=raw, headers=key)
        self.said[tenant, session] += texts
        self.read_back(tenant, session)

    @rule(tenant=tenants, session=sessions, after=st.integers(0, 2), what=st.sampled_from(["context", "search", "mcp"]))
    def leave_while_reading(self, tenant: str, session: str, after: int, what: str) -> None:
        shared = self.twins.shared
        headers = bearer(shared.keys[tenant, ("admin",)])
        method, path, body = {
            "context": ("POST", f"{API}/sessions/{session}/context", b'{"prompt": "Where does it listen?"}'),
            "search": ("GET", f"{API}/search?q=listens", b""),
            "mcp": ("POST", "/mcp", json.dumps(_tool("list_sessions")).encode()),
        }[what]
        call(shared.client, cut_off, shared.client.server, method, path.partition("?")[0], headers, body, after=after)
        if what == "context":  # it may have stored its plan before its client left; the twin has none yet
            given = {"prompt": "Where does it listen?"}
            self.ask(tenant, "read", "POST", f"/sessions/{session}/context", json=given, compare=False)

    @rule(tenant=tenants, session=sessions, by=rights, prompt=st.sampled_from(["Where does it listen?", "0003", ""]))
    def context(self, tenant: str, session: str, by: tuple[Right, ...], prompt: str) -> None:
        path = f"/sessions/{session}/context"
        done = self.ask(tenant, "read", "POST", path, by=by, json={"prompt": prompt, "tools": True})
        for answer in done or ():
            if answer.is_success:
                assert answer.json()["tokens"] <= answer.json()["budget_tokens"] == BUDGET_TOKENS
                for text in self.pins.get((tenant, session), {}).values():
                    assert text in answer.json()["text"]

    @rule(tenant=tenants, session=sessions, name=st.sampled_from(["gradient", "checkpoint", "topics", "hybrid"]))
    def change_strategy(self, tenant: str, session: str, name: str) -> None:
        self.ask(tenant, "write", "PUT", f"/sessions/{session}/strategy", json={"name": name})

    @rule(tenant=tenants, session=sessions)
    def fork_and_delete(self, tenant: str, session: str) -> None:
        fork = f"fork-{next(self.number)}"
        made = self.ask(tenant, "write", "POST", f"/sessions/{session}/fork", json={"id": fork})
        if made and made[0].is_success:
            self.said[tenant, fork] = list(self.said[tenant, session])
            self.read_back(tenant, fork)
            self.ask(tenant, "write", "DELETE", f"/sessions/{fork}")
            del self.said[tenant, fork]
            gone = self.ask(tenant, "read", "GET", f"/sessions/{fork}")
            assert gone
            assert gone[0].status_code == 404
            self.read_back(tenant, session)

    @rule(tenant=tenants, session=sessions, by=rights, chance=numbers)
    def delete(self, tenant: str, session: str, by: tuple[Right, ...], chance: int) -> None:
        if chance:
            return
        if (done := self.ask(tenant, "write", "DELETE", f"/sessions/{session}", by=by)) and done[0].is_success:
            for kept in (self.said, self.pins, self.documents):
                kept.pop((tenant, session), None)

    @rule(tenant=tenants, session=sessions, by=rights, is_dry=st.booleans(), chance=numbers)
    def prune(self, tenant: str, session: str, by: tuple[Right, ...], is_dry: bool, chance: int) -> None:
        body = {"before": "2026-11-02T00:00:00Z" if not chance else "2020-01-01T00:00:00Z", "dry_run": is_dry}
        done = self.ask(tenant, "admin", "POST", f"/sessions/{session}/prune", by=by, json=body)
        if done and done[0].is_success:
            if not is_dry and not chance:
                self.said[tenant, session] = []
            self.read_back(tenant, session)

    @rule(tenant=tenants, session=sessions)
    def upload(self, tenant: str, session: str) -> None:
        text = self.text(tenant, "Imported")
        lines = [{"role": "user", "content": text}, {"role": "assistant", "content": self.text(tenant, "Read")}]
        raw = "\n".join(map(json.dumps, lines)).encode()
        named = f"imported-{next(self.number)}"
        path = f"/import?session={named}&name=a.jsonl"
        headers = {"Content-Encoding": "gzip"}
        done = self.ask(tenant, "write", "POST", path, content=gzip.compress(raw), headers=headers)
        assert done
        assert done[0].is_success, done[0].text
        self.said[tenant, named] = [text]
        self.read_back(tenant, named)
        del self.said[tenant, named]

    # Notes

    @rule(tenant=tenants, session=sessions, by=rights)
    def pin(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        text = f"The {WORDS[tenant]} is pinned {next(self.number)}."
        if len(self.pins.get((tenant, session), ())) > 4:
            return
        done = self.ask(tenant, "write", "POST", f"/sessions/{session}/pins", by=by, json={"text": text})
        if done and done[0].is_success:
            self.pins.setdefault((tenant, session), {})[done[0].json()["id"]] = text

    @rule(tenant=tenants, session=sessions, by=rights)
    def unpin(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        pins = self.pins.get((tenant, session), {})
        pin = next(iter(pins), "P-99")
        done = self.ask(tenant, "write", "DELETE", f"/sessions/{session}/pins/{pin}", by=by)
        if done and done[0].is_success:
            del pins[pin]

    @rule(tenant=tenants, session=sessions, by=rights)
    def write_notes(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        base, text = f"/sessions/{session}", f"All about the {WORDS[tenant]}, {next(self.number)}."
        self.ask(tenant, "write", "POST", f"{base}/goals", by=by, json={"title": text, "steps": ["Test it"]})
        self.ask(tenant, "write", "POST", f"{base}/goals/G-1/steps", by=by, json={"step": 1, "status": "done"})
        self.ask(tenant, "write", "POST", f"{base}/goals/G-1/decisions", by=by, json={"text": text})
        done = self.ask(tenant, "write", "PUT", f"{base}/documents/epic", by=by, json={"text": text})
        if done and done[0].is_success:
            self.documents[tenant, session] = text

    @rule(tenant=tenants, session=sessions)
    def seal_topic(self, tenant: str, session: str) -> None:
        self.ask(tenant, "write", "POST", f"/sessions/{session}/topics/seal")

    @rule(tenant=tenants, session=sessions, by=rights)
    def read_everything(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        base = f"/sessions/{session}"
        own = ("", "/stats", "/pins", "/goals", "/board", "/topics", "/checkpoints", "/documents/epic", "/tools")
        paths = [*(base + path for path in own), f"{base}/export?format=markdown", f"{base}/search?q=listens"]
        paths += ["/sessions", "/search?q=listens", "/cabinet", "/jobs", "/agents", "/knowledge", "/keys", "/prompts"]
        answers = {}
        for path in paths:
            needed: Right = "admin" if path == "/keys" else "read"
            if found := self.ask(tenant, needed, "GET", path, by=by):
                answers[path] = found[0]
        if answers and self.is_known(tenant, session):
            pins = answers[f"{base}/pins"].json()["items"]
            assert {pin["id"]: pin["text"] for pin in pins} == self.pins.get((tenant, session), {})
            if text := self.documents.get((tenant, session)):
                assert text in answers[f"{base}/documents/epic"].json()["text"]
            self.read_cabinet(tenant, by)

    def read_cabinet(self, tenant: str, by: tuple[Right, ...]) -> None:
        """Each server's own files, whose keys are random."""
        for server in self.twins.of(tenant):
            for entry in server.send(tenant, by, "GET", f"{API}/cabinet").json()["items"]:
                for part in ("", "/lines", "/content"):
                    path = f"{API}/cabinet/{entry['key']}{part}"
                    check_answer(server.send(tenant, by, "GET", path), tenant, path)

    @rule(tenant=tenants, session=sessions, by=rights)
    def ask_for_what_another_tenant_has(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        other = next(name for name in WORDS if name != tenant)
        for named in (f"{other}:{session}", f"{other}%3A{session}", f"{other}%253A{session}"):
            for path in (f"/sessions/{named}", f"/sessions/{named}/turns", f"/sessions/{named}/export"):
                self.ask(tenant, "read", "GET", path, by=by)
            self.ask(tenant, "write", "POST", f"/sessions/{named}/pins", by=by, json={"text": "Forged."})
        self.ask(tenant, "write", "DELETE", f"/sessions/{other}:{session}", by=by)
        for keys in self.items[other]:
            self.ask(tenant, "read", "GET", f"/knowledge/{keys[0]}", by=by, compare=False)
            self.ask(tenant, "write", "POST", f"/knowledge/{keys[0]}/retire", by=by, json={}, compare=False)

    # Agents, jobs, knowledge, keys, MCP

    @rule(tenant=tenants, by=rights)
    def run_an_agent(self, tenant: str, by: tuple[Right, ...]) -> None:
        body = {"task": f"Look at the {WORDS[tenant]}.", "kind": "run"}
        if started := self.ask(tenant, "write", "POST", "/agents", by=by, json=body):
            for server in self.twins.of(tenant):
                server.work()
            ids = started[0].json()["id"], started[1].json()["id"]
            read = self.ask(tenant, "read", "GET", "/agents/{}", ids=ids)
            assert read
            assert read[0].json()["state"] == "done", read[0].text

    @rule(tenant=tenants, session=sessions, by=rights)
    def compare_strategies(self, tenant: str, session: str, by: tuple[Right, ...]) -> None:
        body = {"strategies": ["standard"], "budgets_tokens": [BUDGET_TOKENS], "turns": 2}
        path = f"/sessions/{session}/compare"
        if (started := self.ask(tenant, "read", "POST", path, by=by, json=body)) and started[0].is_success:
            for server, answer in zip(self.twins.of(tenant), started, strict=True):
                job = f"{API}/jobs/{answer.json()['id']}"
                wait_until(partial(_is_over, server, tenant, job))

    @rule(tenant=tenants, by=rights, what=st.sampled_from(["add", "edit", "approve", "pin", "retire", "export"]))
    def use_knowledge(self, tenant: str, by: tuple[Right, ...], what: str) -> None:
        items, text = self.items[tenant], self.text(tenant, "Known")
        if what == "add":
            body = {"title": f"Ports {next(self.number)}", "text": text}
            if (made := self.ask(tenant, "write", "POST", "/knowledge", by=by, json=body)) and made[0].is_success:
                items.append((made[0].json()["id"], made[1].json()["id"]))
        elif what == "export":
            self.ask(tenant, "read", "GET", "/knowledge/export", by=by)
        elif items:
            ids = items[-1]
            if what == "edit":
                self.ask(tenant, "write", "PATCH", "/knowledge/{}", by=by, ids=ids, json={"text": text})
            else:
                self.ask(tenant, "write", "POST", f"/knowledge/{{}}/{what}", by=by, ids=ids, json={})

    @rule(tenant=tenants, by=rights, given=rights)
    def make_and_revoke_a_key(self, tenant: str, by: tuple[Right, ...], given: tuple[Right, ...]) -> None:
        if made := self.ask(tenant, "admin", "POST", "/keys", by=by, json={"rights": given}):
            server = self.twins.shared
            headers = bearer(made[0].json()["secret"])
            admits = server.client.get(f"{API}/sessions", headers=headers).status_code == 200
            assert admits == ("read" in given or "admin" in given)
            ids = made[0].json()["id"], made[1].json()["id"]
            self.ask(tenant, "admin", "DELETE", "/keys/{}", ids=ids)
            assert server.client.get(f"{API}/sessions", headers=headers).status_code == 401

    @rule(tenant=tenants, session=sessions, by=rights, name=st.sampled_from(["search_history", "list_sessions", "pin"]))
    def use_mcp(self, tenant: str, session: str, by: tuple[Right, ...], name: str) -> None:
        text = f"The {WORDS[tenant]} is pinned {next(self.number)}."
        arguments = {"search_history": {"query": "listens"}, "pin": {"session": session, "text": text}}
        parts: dict[str, Any] = {"json": _tool(name, **arguments.get(name, {})), "headers": MCP}
        if not {"read", "admin"} & set(by):
            self.twins.refused(tenant, "POST", "/mcp", rights=by, **parts)
            return
        may_write = bool({"write", "admin"} & set(by))
        if name == "pin" and len(self.pins.get((tenant, session), ())) > 4:
            return
        answers = self.twins.both(tenant, "POST", "/mcp", rights=by, **parts)
        result = answers[0].json()["result"]
        if name == "pin":
            assert result["isError"] == (not may_write or not self.is_known(tenant, session)), result
            if not result["isError"]:
                listed = self.ask(tenant, "read", "GET", f"/sessions/{session}/pins")
                assert listed
                pinned = {pin["id"]: pin["text"] for pin in listed[0].json()["items"]}
                assert text in pinned.values()
                self.pins[tenant, session] = pinned

    # The gateway

    @rule(
        tenant=tenants,
        by=rights,
        protocol=st.sampled_from(sorted(PROTOCOLS)),
        how=st.tuples(st.booleans(), st.booleans()),
        failure=st.sampled_from([0, 0, 0, 400, 429, 503, 529]),
    )
    def talk(self, tenant: str, by: tuple[Right, ...], protocol: str, how: tuple[bool, bool], failure: int) -> None:
        is_stream, uses_tool = how
        history = self.talks.setdefault((tenant, protocol), [])
        asked = self.text(tenant, "Question") + (f"use tool {next(self.number)}" if uses_tool else "")
        pending = _pending(protocol, history)
        new = _results(protocol, pending, self.text(tenant, "Found")) if pending else _prompt(protocol, asked)
        path, body, headers = _request(protocol, [*history, *new], is_stream=is_stream, session=f"talk-{protocol}")
        if not {"gateway", "admin"} & set(by):
            self.twins.refused(tenant, "POST", path, rights=by, json=body, headers=headers)
            return
        if failure:
            error = {"type": "error", "error": {"type": "overloaded", "message": "busy", "code": failure}}
            for server in self.twins.of(tenant):
                server.upstream.fail = [JSONResponse(error, failure, headers={"Retry-After": "0"})] * 9
        answers = self.twins.both(tenant, "POST", path, rights=by, json=body, headers=headers)
        for server in self.twins.of(tenant):
            server.upstream.fail = []
        if failure or answers[0].is_error:
            assert failure, answers[0].text
            return
        for answer in answers:
            assert int(answer.headers["x-foveate-context-tokens"]) <= BUDGET_TOKENS
        history += [*new, *_replied(protocol, is_stream=is_stream, text=answers[0].text)]
        self.check_talk(tenant, protocol)

    def check_talk(self, tenant: str, protocol: str) -> None:
        """The session has each prompt of its client once and in order; or a branch, if the client went on without a
        prompt that the provider refused."""
        found = self.ask(tenant, "read", "GET", f"/sessions/talk-{protocol}/turns?level=R&order=oldest&limit=500")
        assert found
        prompts = [text for message in self.talks[tenant, protocol] for text in _prompts(message)]
        if not _has_all(found[0], prompts):
            server = self.twins.shared
            listed = server.send(tenant, ("admin",), "GET", f"{API}/sessions?limit=500").json()["items"]
            branches = [item["id"] for item in listed if item["id"].startswith(f"talk-{protocol}~")]
            reads = [f"{API}/sessions/{quote(name)}/turns?level=R&order=oldest&limit=500" for name in branches]
            assert any(_has_all(server.send(tenant, ("admin",), "GET", path), prompts) for path in reads)

    @precondition(lambda self: self.talks)
    @rule(tenant=tenants, protocol=st.sampled_from(sorted(PROTOCOLS)), after=st.integers(0, 4))
    def leave_while_talking_and_repeat(self, tenant: str, protocol: str, after: int) -> None:
        """In a session of its own, on one server: how much was answered is up to chance."""
        server, session = self.twins.shared, f"cut-{next(self.number)}"
        asked = _prompt(protocol, self.text(tenant, "Question"))
        path, body, headers = _request(protocol, asked, is_stream=True, session=session)
        given = {**bearer(server.keys[tenant, ("admin",)]), **headers}
        target, app = path.partition("?")[0], server.client.server
        call(server.client, cut_off, app, "POST", target, given, json.dumps(body).encode(), after=after)
        answer = server.send(tenant, ("admin",), "POST", path, json=body, headers=headers)
        check_answer(answer, tenant, path)
        assert answer.is_success, answer.text
        read = server.send(tenant, ("admin",), "GET", f"{API}/sessions/{session}/turns?level=R").text
        assert read.count(_prompts(asked[0])[0]) == 1
        listed = server.send(tenant, ("admin",), "GET", f"{API}/sessions?limit=500").json()["items"]
        for name in [item["id"] for item in listed if item["id"].partition("~")[0] == session]:  # with its branch
            deleted = server.send(tenant, ("admin",), "DELETE", f"{API}/sessions/{quote(name)}")
            assert deleted.is_success, deleted.text

    @rule(
        tenant=tenants,
        by=rights,
        path=st.sampled_from(["/v1/models", "/v1/files", "/v1/../api/v1/sessions", "/v1/%2e%2e/x", "/v1/embeddings"]),
    )
    def ask_other_routes_of_the_gateway(self, tenant: str, by: tuple[Right, ...], path: str) -> None:
        server = self.twins.shared
        for method in ("GET", "POST"):
            answer = server.send(tenant, by, method, path, content=b'{"model": "scripted", "input": "x"}')
            assert answer.status_code not in (500, 401), (path, answer.text)
            if not {"gateway", "admin"} & set(by) and answer.url.path.startswith("/v1/"):
                assert answer.status_code in (403, 404, 405)


def _is_over(server: Server, tenant: str, job: str) -> bool:
    return server.send(tenant, ("admin",), "GET", job).json()["status"] not in ("queued", "running")


def _tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def _request(
    protocol: str, history: list[Message], *, is_stream: bool, session: str
) -> tuple[str, dict[str, Any], dict[str, str]]:
    path, headers = PROTOCOLS[protocol], {"X-Foveate-Session": session}
    if protocol == "gemini":
        verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
        return f"{path}:{verb}", {"contents": history}, headers
    named = "input" if protocol == "openai-responses" else "messages"
    body = {"model": "scripted", named: history, "stream": is_stream}
    if protocol == "anthropic":
        body["max_tokens"] = 500
    return path, body, headers


def _prompt(protocol: str, text: str) -> list[Message]:
    if protocol == "gemini":
        return [{"role": "user", "parts": [{"text": text}]}]
    return [{"role": "user", "content": text}]


def _has_all(answer: Any, prompts: list[str]) -> bool:
    """Whether the turns have each prompt once, in order."""
    read = json.dumps(answer.json(), ensure_ascii=False)
    places = [read.find(text) for text in prompts]
    return -1 not in places and places == sorted(places) and all(read.count(text) == 1 for text in prompts)


def _prompts(message: Message) -> list[str]:
    """The prompt in a message; none in a message of another kind."""
    text = message.get("content") or message.get("parts", [{}])[0].get("text")
    return [text] if message.get("role") == "user" and isinstance(text, str) else []


def _pending(protocol: str, history: list[Message]) -> list[str]:
    """The calls that the newest message waits for."""
    newest = history[-1] if history else {}
    if protocol == "anthropic":
        content = newest.get("content")
        return [block["id"] for block in content if block["type"] == "tool_use"] if isinstance(content, list) else []
    if protocol == "openai":
        return [one["id"] for one in newest.get("tool_calls", ())]
    if protocol == "gemini":
        return [part["functionCall"]["id"] for part in newest.get("parts", ()) if "functionCall" in part]
    return [newest["call_id"]] if newest.get("type") == "function_call" else []


def _results(protocol: str, calls: list[str], text: str) -> list[Message]:
    (named,) = calls
    if protocol == "anthropic":
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": named, "content": text}]}]
    if protocol == "openai":
        return [{"role": "tool", "tool_call_id": named, "content": text}]
    if protocol == "gemini":
        found = {"id": named, "name": "look", "response": {"output": text}}
        return [{"role": "user", "parts": [{"functionResponse": found}]}]
    return [{"type": "function_call_output", "call_id": named, "output": text}]


def _replied(protocol: str, *, is_stream: bool, text: str) -> list[Message]:
    """The reply as its client puts it into the history."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] if is_stream else []
    whole = {} if is_stream else json.loads(text)
    if protocol == "anthropic":
        return [{"role": "assistant", "content": _blocks(events) if is_stream else whole["content"]}]
    if protocol == "openai":
        if not is_stream:
            return [whole["choices"][0]["message"]]
        delta = dict(next(event["choices"][0]["delta"] for event in events if event["choices"]))
        for one in delta.get("tool_calls", ()):
            one.pop("index")
        return [delta]
    if protocol == "gemini":
        answers = events if is_stream else [whole]
        found = [answer["candidates"][0].get("content", {}) for answer in answers if answer.get("candidates")]
        return [{"role": "model", "parts": [part for content in found for part in content.get("parts", ())]}]
    done = [event["response"] for event in events if event["type"] == "response.completed"]
    return list((done[-1] if is_stream else whole)["output"])


def _blocks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                blocks[-1]["text"] += delta["text"]
            else:
                blocks[-1]["input"] = json.loads(delta["partial_json"])
    return blocks


@pytest.mark.parametrize(
    ("examples", "steps"), [(2, 25), pytest.param(300, 60, marks=pytest.mark.thorough)], ids=["short", "long"]
)
def test_whatever_clients_do_the_promises_hold(examples: int, steps: int) -> None:
    checks = list(HealthCheck)
    phases = [Phase.explicit, Phase.generate]  # making an example small would take longer than reading it
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks, phases=phases
    )
    run_state_machine_as_test(RandomUse, settings=chosen)
