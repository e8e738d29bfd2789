"""Requests through the gateway to a scripted upstream: what goes up, what comes back, what is in the log."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import foveate
from foveate.client import Foveate
from foveate.context.signatures import request_prefix
from foveate.errors import FoveateError, InvalidMessage, SessionNotFound, StoreBusy
from foveate.intake.recorder import Recorder
from foveate.intake.sessions import SCRATCH
from foveate.server.bodies import MAX_PARTS, MAX_VALUES
from foveate.server.gateway.prepare import ClientCall, Preparation, Prepared
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.gateway.wires import WIRES, AnthropicWire, ClientRequest
from foveate.server.settings import ServerSettings
from foveate.server.sse import SseParser
from foveate.store.database import Database
from support.gateway import FORMATS, HEADERS, LONG, AsOwner, body_of, events_of, gateway, log_of, run
from support.patience import until
from support.recount import recount
from support.upstream import Blocks, Upstream, call, say
from support.validators import faults

CACHED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}


def test_a_conversation_is_recorded_once_and_kept_within_its_budget(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda body: say(f"answer {len(upstream.bodies)}"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (fov, client):
            for number in range(12):
                history.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/messages", json=body_of(history, system="Be brief."), headers=HEADERS)
                assert reply.status_code == 200, reply.text
                history.append({"role": "assistant", "content": reply.json()["content"]})
                assert int(reply.headers["x-foveate-context-tokens"]) <= 6_000
                assert reply.headers["x-foveate-turn"] == f"T-{number + 1}"
            session = reply.headers["x-foveate-session"]
            log = await log_of(fov, session)
        assert len(log) == 24
        assert log[-1] == ("assistant", "answer 12")
        assert all(len(json.dumps(body)) < 60_000 for body in upstream.bodies)
        newest = upstream.bodies[-1]["messages"][-1]["content"]
        assert (newest if isinstance(newest, str) else newest[-1]["text"]) == f"question 11: {LONG}"
        assert upstream.headers[-1]["x-api-key"] == "sk-client"

    run(scenario)


def test_a_history_that_fits_goes_upstream_as_it_came_with_one_read_and_two_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(Database, name)

        async def method(self: Database, *job: Any) -> Any:
            work.append(name)
            return await original(self, *job)

        return method

    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, compress=False) as (fov, client):
            for number in range(3):
                history.append({"role": "user", "content": f"question {number}"})
                body = body_of(history, system=[CACHED])
                work.clear()
                reply = await client.post("/v1/messages", json=body, headers=HEADERS)
                assert upstream.bodies[-1] == body
                history.append({"role": "assistant", "content": "ok"})
                assert reply.headers["x-foveate-turn"] == f"T-{number + 1}"
            assert sorted(work) == ["read", "write", "write"]
            session = await fov.open_session(reply.headers["x-foveate-session"])
            history.append({"role": "user", "content": "and now?"})
            await session.set_mode("developer")
            await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            assert upstream.bodies[-1]["system"]
            await session.set_mode("")
            await session.pin("Speak Latin.")
            await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            assert "Speak Latin." in json.dumps(upstream.bodies[-1]["system"])

    for name in ("read", "write"):
        monkeypatch.setattr(Database, name, counted(name))
    run(scenario)


def test_own_tools_are_answered_inside_the_stream_and_hidden(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        names = [tool["name"] for tool in body.get("tools", ())]
        results = json.dumps(body["messages"][-1]).count("tool_result")
        if "get_turn" in names and not results:
            return [*say("Let me look. "), call("get_turn", {"turn_id": "T-1"})]
        return say("Done.")

    async def scenario() -> None:
        upstream = Upstream(script)
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (fov, client):
            for number in range(10):
                history.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/messages", json=body_of(history, stream=True), headers=HEADERS)
                events = events_of(reply.text)
                texts = [
                    event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"
                ]
                history.append({"role": "assistant", "content": "".join(texts)})
            starts = [event for event in events if event["type"] == "content_block_start"]
            assert [event["index"] for event in starts] == list(range(len(starts)))
            assert all(event["content_block"]["type"] == "text" for event in starts)
            assert texts == ["Let me look. ", "Done."]
            (delta,) = [event for event in events if event["type"] == "message_delta"]
            assert delta["delta"]["stop_reason"] == "end_turn"
            assert delta["usage"]["output_tokens"] == 10
            session = reply.headers["x-foveate-session"]
            log = await log_of(fov, session)
            turns = (await fov.open_session(session)).info.turns
        assert turns == 10
        assert [role for role, _ in log[-4:]] == ["user", "assistant", "tool", "assistant"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "key", "forbidden"),
    [
        ("/v1/messages", "messages", {"type": "none"}),
        ("/v1/chat/completions", "messages", "none"),
        ("/v1/responses", "input", "none"),
    ],
)
def test_a_model_that_searches_on_and_on_answers_in_a_last_round_without_calls(
    tmp_path: Path, path: str, key: str, forbidden: object
) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        if "get_turn" not in json.dumps(body.get("tools", ())):
            return say("ok")
        if body.get("tool_choice") == forbidden:
            return say("The fact is 4711.")
        return [*say("Let me search. "), call("get_turn", {"turn_id": "T-1"}, f"toolu_{len(upstream.bodies)}")]

    upstream = Upstream(script)

    async def scenario() -> None:
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(10):
                prompt = [{"role": "user", "content": f"question {number}: {LONG}"}]
                body = {"model": "gpt-5", "max_tokens": 1_000, key: prompt}
                reply = await client.post(path, json=body, headers={"x-foveate-session": "s"})
                if len(upstream.bodies) > number + 1:
                    break
        assert "The fact is 4711." in reply.text
        rounds = upstream.bodies[number:]
        assert [body.get("tool_choice") for body in rounds] == [*[None] * 8, forbidden]
        assert all(body["tools"] == rounds[0]["tools"] for body in rounds)

    run(scenario)


@pytest.mark.parametrize("calls", [1, 16])
@pytest.mark.parametrize(
    ("path", "key", "form"), [("/v1/messages", "messages", "anthropic"), ("/v1/responses", "input", "openai-responses")]
)
def test_rounds_of_history_tools_stay_within_the_budget(
    tmp_path: Path, path: str, key: str, form: str, calls: int
) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        tools = json.dumps(body.get("tools", ()))
        if "get_turn" not in tools or "none" in str(body.get("tool_choice")):
            return say("Done.")
        asked = len(upstream.bodies)
        return [call("get_turn", {"turn_id": f"T-{i + 1}"}, f"toolu_{asked}_{i}") for i in range(calls)]

    upstream = Upstream(script)

    async def scenario() -> None:
        async with gateway(tmp_path, upstream, budget_tokens=8_000) as (fov, client):
            session = await fov.session("s", model="gpt-5", budget_tokens=8_000)
            for number in range(20):
                said = [
                    {"role": "user", "content": f"question {number}: {LONG * 3}"},
                    {"role": "assistant", "content": f"answer {number}: {LONG * 2}"},
                ]
                await session.record(said)
            await fov.settle()
            body = {"model": "gpt-5", "max_tokens": 1_000, key: [{"role": "user", "content": "And now?"}]}
            reply = await client.post(path, json=body, headers={"x-foveate-session": "s"})
        assert "Done." in reply.text
        assert len(upstream.bodies) == 9
        counts = [recount(form, sent, model="gpt-5") for sent in upstream.bodies]
        assert max(counts) <= 8_000, counts
        for sent in upstream.bodies:
            assert faults(form, sent) == []

    run(scenario)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["a busy store", "a deleted session"])
def test_a_round_that_is_not_in_the_log_and_exceeds_the_budget_is_still_sent_with_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        if len(upstream.bodies) > 1:
            return say("Done.")
        return [call("get_turn", {"turn_id": f"T-{i + 1}"}, f"toolu_{i}") for i in range(16)]

    upstream = Upstream(script)

    async def scenario() -> None:
        async with gateway(tmp_path, upstream, budget_tokens=8_000) as (fov, client):
            session = await fov.session("s", budget_tokens=8_000)
            for number in range(20):
                await session.record([{"role": "user", "content": f"question {number}: {LONG * 3}"}])
                await session.record([{"role": "assistant", "content": f"answer {number}: {LONG * 2}"}])
            await fov.settle()

            async def fails(*_: object) -> None:
                if is_deleted:
                    await fov.delete_session("s")
                    raise SessionNotFound("s")
                raise StoreBusy("chat.db", "locked")

            monkeypatch.setattr(Recorder, "add_round", fails)
            body = body_of([{"role": "user", "content": "And now?"}])
            reply = await client.post("/v1/messages", json=body, headers={**HEADERS, "x-foveate-session": "s"})
        assert "Done." in reply.text, reply.text
        called, found = upstream.bodies[-1]["messages"][-2:]
        assert [block["id"] for block in called["content"]] == [block["tool_use_id"] for block in found["content"]]
        assert len(found["content"]) == 16

    run(scenario)


def test_a_first_request_that_is_refused_leaves_nothing_that_a_later_one_continues(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("Hello."))
        prompt = body_of([{"role": "user", "content": "hi there friend"}])
        async with gateway(tmp_path, upstream) as (fov, client):
            for _ in range(2):
                refused = await client.post("/v1/messages", json=prompt, headers={**HEADERS, "x-foveate-budget": "1"})
                assert refused.status_code == 400, refused.text
                assert await fov.sessions() == []
            for _ in range(2):
                reply = await client.post("/v1/messages", json=prompt, headers=HEADERS)
                assert reply.status_code == 200, reply.text
            budgets = [info.budget_tokens for info in await fov.sessions()]
        assert set(budgets) == {100_000}
        assert len(upstream.bodies) == 2

    run(scenario)


def test_mixed_calls_are_completed_in_the_next_request(tmp_path: Path) -> None:
    listing = {"name": "ls", "description": "List files.", "input_schema": {"type": "object"}}

    def script(body: dict[str, Any]) -> Blocks:
        names = [tool["name"] for tool in body.get("tools", ())]
        if "tool_result" in json.dumps(body["messages"][-1]):
            return say("Two files.")
        if "get_turn" in names:
            return [call("get_turn", {"turn_id": "T-1"}, "toolu_own"), call("ls", {}, "toolu_client")]
        return say("ok")

    async def scenario() -> None:
        upstream = Upstream(script)
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(12):
                history.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/messages", json=body_of(history, tools=[listing]), headers=HEADERS)
                content = reply.json()["content"]
                history.append({"role": "assistant", "content": content})
                if reply.json()["stop_reason"] == "tool_use":
                    break
            assert [block["name"] for block in content] == ["ls"]
            result = {"type": "tool_result", "tool_use_id": "toolu_client", "content": "a.txt b.txt"}
            history.append({"role": "user", "content": [result]})
            reply = await client.post("/v1/messages", json=body_of(history, tools=[listing]), headers=HEADERS)
        assert reply.json()["content"][0]["text"] == "Two files."
        sent = json.dumps(upstream.bodies[-1]["messages"])
        assert "toolu_own" in sent
        results = upstream.bodies[-1]["messages"][-1]["content"]
        assert {block["tool_use_id"] for block in results if block["type"] == "tool_result"} == {
            "toolu_own",
            "toolu_client",
        }

    run(scenario)


def test_a_stream_that_is_cut_is_kept_as_partial_and_can_be_asked_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("a whole answer"))
        upstream.cut_after = 3
        history = [{"role": "user", "content": "hello"}]
        async with gateway(tmp_path, upstream) as (fov, client):
            cut = await client.post("/v1/messages", json=body_of(history, stream=True), headers=HEADERS)
            assert events_of(cut.text)[-1]["type"] == "error"
            upstream.cut_after = None
            whole = await client.post("/v1/messages", json=body_of(history, stream=True), headers=HEADERS)
            assert cut.headers["x-foveate-session"] == whole.headers["x-foveate-session"]
            chat = await fov.open_session(whole.headers["x-foveate-session"])
            (turn,) = await chat.load_turns()
        assert [message.kind for message in turn.messages] == ["message", "display", "message"]

    run(scenario)


@pytest.mark.parametrize("status", [429, 500])
def test_an_upstreams_error_is_passed_on_with_its_headers(tmp_path: Path, status: int) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        envelope = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
        upstream.fail = [JSONResponse(envelope, status, headers={"retry-after": "7"})]
        history = [{"role": "user", "content": "hello"}]
        async with gateway(tmp_path, upstream) as (fov, client):
            failed = await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            assert (failed.status_code, failed.json(), failed.headers["retry-after"]) == (status, envelope, "7")
            again = await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            assert again.status_code == 200
            assert await log_of(fov, again.headers["x-foveate-session"]) == [("user", "hello"), ("assistant", "ok")]

    run(scenario)


@pytest.mark.parametrize("method", ["begin", "_append"], ids=["before it is sent", "while it is answered"])
def test_a_store_that_fails_does_not_fail_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
        async with gateway(tmp_path, upstream) as (fov, client):
            with monkeypatch.context() as patched:

                async def busy(*_: object, **__: object) -> None:
                    raise StoreBusy("chat.db", "locked")

                patched.setattr(Recorder, method, busy)
                failed_open = await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            assert failed_open.status_code == 200
            assert failed_open.headers["x-foveate-bypass"] == "StoreBusy"
            assert upstream.bodies[-1]["messages"] == history
            history += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "and now?"}]
            reply = await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            log = await log_of(fov, reply.headers["x-foveate-session"])
        assert [text for _, text in log] == ["hello", "ok", "and now?", "ok"]

    run(scenario)


@pytest.mark.parametrize("is_stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("failure", [StoreBusy("chat.db", "locked"), InvalidMessage("content[0]", "is no block")])
def test_a_round_of_history_tools_that_cannot_be_recorded_does_not_end_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: FoveateError, is_stream: bool
) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        has_tools = "search_history" in json.dumps(body.get("tools"))
        return say("found") if len(upstream.bodies) > 13 or not has_tools else [call("search_history", {"query": "x"})]

    async def busy(*_: object, **__: object) -> None:
        raise failure

    upstream = Upstream(script)

    async def scenario() -> None:
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_fov, client):
            for number in range(12):
                history += [
                    {"role": "user", "content": f"question {number}: {LONG}"},
                    {"role": "assistant", "content": "ok"},
                ]
            history.append({"role": "user", "content": "Where?"})
            monkeypatch.setattr(Recorder, "add_round", busy)
            upstream.bodies += [{}] * 12
            reply = await client.post("/v1/messages", json=body_of(history, stream=is_stream), headers=HEADERS)
            assert reply.status_code == 200, reply.text
            assert len(upstream.bodies) == 14, "a round of the history tools"
            assert "found" in reply.text
            assert "message_stop" in reply.text or not is_stream

    run(scenario)


@pytest.mark.parametrize("is_stream", [False, True], ids=["body", "stream"])
def test_a_response_without_an_id_is_answered_and_recorded(tmp_path: Path, is_stream: bool) -> None:
    async def scenario() -> None:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "found"}]}
        body = {"object": "response", "status": "completed", "output": [item]}
        events = [
            ("response.created", {"response": {**body, "output": []}}),
            ("response.completed", {"response": body}),
        ]
        stream = "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)
        answer = Response(stream, media_type="text/event-stream") if is_stream else JSONResponse(body)
        upstream = Upstream(lambda _: say("never"), fail=[answer])
        async with gateway(tmp_path, upstream) as (fov, client):
            asked = {"model": "local", "input": "Where?", "stream": is_stream}
            reply = await client.post("/v1/responses", json=asked)
            assert reply.status_code == 200, reply.text
            assert "response.completed" in reply.text or not is_stream
            assert await log_of(fov, reply.headers["x-foveate-session"]) == [("user", "Where?"), ("assistant", "found")]

    run(scenario)


def test_a_gemini_prompt_without_a_role_is_recorded_as_the_users(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        async with gateway(tmp_path, upstream) as (fov, client):
            body = {"contents": [{"parts": [{"text": "hello"}]}]}
            reply = await client.post("/v1beta/models/gemini-2.5-pro:generateContent", json=body)
            assert reply.status_code == 200
            assert await log_of(fov, reply.headers["x-foveate-session"]) == [("user", "hello"), ("assistant", "ok")]
        assert upstream.bodies == [body]

    run(scenario)


def test_a_body_of_more_values_than_can_be_decoded_at_once_is_rejected_before_it_is_decoded(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        text = 'def f(x): return {"a": [x, "\\\\"]}\n' * 100_000  # what a text holds does not count
        async with gateway(tmp_path, upstream) as (_, client):
            for values in (b"{}", b"[]", b"1", b'"a"', rb'"\""', rb'"\\"', b'{"a":1}'):
                many = b'{"model": "m", "messages": [%s]}' % b",".join([values] * (MAX_VALUES + 1))
                reply = await client.post("/v1/messages", content=many, headers=HEADERS)
                assert (reply.status_code, reply.json()["type"]) == (413, "error")
                assert f"more than {MAX_VALUES:,} values" in reply.text
            assert upstream.bodies == []
            body = body_of([{"role": "user", "content": text}])
            reply = await client.post("/v1/messages", json=body, headers={**HEADERS, "X-Foveate-Store": "off"})
            assert reply.status_code == 200

    run(scenario)


def test_a_message_of_too_many_parts_is_forwarded_unchanged_and_unrecorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        body = body_of([{"role": "user", "content": [{"type": "text", "text": "x"}] * (MAX_PARTS + 1)}])
        async with gateway(tmp_path, upstream) as (fov, client):
            reply = await client.post("/v1/messages", json=body, headers=HEADERS)
            assert reply.status_code == 200
            assert reply.headers["x-foveate-bypass"] == "InvalidMessage"
            assert await fov.sessions() == []
        [told] = [record for record in caplog.records if record.name.startswith("foveate.server")]
        assert (told.levelname, told.exc_info) == ("WARNING", None)
        assert f"messages[0]: has {MAX_PARTS + 1:,} parts" in told.getMessage()
        assert upstream.bodies == [body]

    run(scenario)


def test_nothing_is_recorded_where_the_client_or_the_server_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        body = body_of([{"role": "user", "content": "hello"}])
        async with gateway(tmp_path, upstream) as (fov, client):
            reply = await client.post("/v1/messages", json=body, headers={**HEADERS, "X-Foveate-Store": "off"})
            assert reply.headers["x-foveate-unrecorded"] == "off"
            assert await fov.sessions() == []
        async with gateway(tmp_path, upstream, bypass=True) as (fov, client):
            await client.post("/v1/messages", json=body, headers=HEADERS)
            assert await fov.sessions() == []
        assert upstream.bodies == [body, body]

    run(scenario)


def test_a_client_that_sends_only_its_newest_message_gets_every_prompt_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        prompts = ["My port is 8443.", "First, reason in your scratchpad. Then: what is my port?"]
        async with gateway(tmp_path, upstream) as (fov, client):
            for prompt in prompts:
                body = body_of([{"role": "user", "content": prompt}])
                reply = await client.post("/s/mine/v1/messages", json=body, headers={"user-agent": "QwenCode/0.15.10"})
                assert reply.headers["x-foveate-session"] == "mine"
            assert [text for role, text in await log_of(fov, "mine") if role == "user"] == prompts

    run(scenario)


def test_what_a_known_client_asks_for_itself_is_answered_and_not_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history = [{"role": "user", "content": "hello"}]
        words = "[SUGGESTION MODE: Suggest what the user might naturally type next.]"
        agent = {**HEADERS, "user-agent": "claude-cli/2.1.325 (external, cli)"}
        async with gateway(tmp_path, upstream) as (fov, client):
            first = await client.post("/v1/messages", json=body_of(history), headers=agent)
            more = [*history, {"role": "assistant", "content": "ok"}, {"role": "user", "content": words}]
            aside = await client.post("/v1/messages", json=body_of(more), headers=agent)
            assert (aside.status_code, aside.headers["x-foveate-session"].endswith(SCRATCH)) == (200, True)
            session = first.headers["x-foveate-session"]
            assert [text for _, text in await log_of(fov, session)] == ["hello", "ok"]

    run(scenario)


def test_tokens_are_counted_here_where_the_provider_has_no_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))  # has no such endpoint
        async with gateway(tmp_path, upstream) as (fov, client):
            body = body_of([{"role": "user", "content": "hello"}])
            reply = await client.post("/v1/messages/count_tokens", json=body, headers=HEADERS)
            assert (reply.status_code, list(reply.json())) == (200, ["input_tokens"])
            assert 5 < reply.json()["input_tokens"] < 50
            assert await fov.sessions() == []

    run(scenario)


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"model": "m", "messages": 5}', 400), (b'{"model": "m", "messages": []}', 400)],
)
def test_bad_bodies_get_an_error_in_the_providers_envelope(tmp_path: Path, raw: bytes, status: int) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        async with gateway(tmp_path, upstream) as (_, client):
            reply = await client.post("/v1/messages", content=raw, headers=HEADERS)
        assert reply.status_code == status
        assert reply.json()["type"] == "error"
        assert reply.json()["error"]["message"]
        assert upstream.bodies == []

    run(scenario)


def test_half_of_a_surrogate_pair_is_replaced_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        raw = b'{"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "cut \\ud83d"}'
        later = b', {"role": "assistant", "content": "ok"}, {"role": "user", "content": "and now?"}'
        async with gateway(tmp_path, upstream) as (fov, client):
            for body in (raw + b"]}", raw + later + b"]}"):
                reply = await client.post("/v1/messages", content=body, headers=HEADERS)
                assert reply.status_code == 200, reply.text
            assert upstream.bodies[0]["messages"] == [{"role": "user", "content": "cut \ufffd"}]
            (info,) = await fov.sessions()
            assert [text for _, text in await log_of(fov, info.id)] == ["cut \ufffd", "ok", "and now?", "ok"]

    run(scenario)


def test_the_count_of_tokens_has_the_form_that_clients_read_where_the_upstream_has_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with gateway(tmp_path, Upstream(lambda _: say("unused"))) as (fov, client):
            body = body_of([{"role": "user", "content": "How many tokens has this?"}])
            reply = await client.post("/v1/messages/count_tokens", json=body, headers=HEADERS)
            assert (reply.status_code, set(reply.json())) == (200, {"input_tokens"})
            assert 5 < reply.json()["input_tokens"] < 50
            assert await fov.sessions() == []

    run(scenario)


def test_chat_completions_name_their_session_by_path(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        async with gateway(tmp_path, upstream) as (fov, client):
            for _ in range(2):
                reply = await client.post(
                    "/s/support/v1/chat/completions", json=body, headers={"Authorization": "Bearer x"}
                )
            assert reply.text.rstrip().endswith("data: [DONE]")
            assert reply.headers["x-foveate-session"].split("~")[0] == "support"
            assert (await fov.open_session("support")).info.turns == 1

    run(scenario)


def test_a_response_is_continued_read_and_deleted_by_its_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(f"answer {len(upstream.bodies)}"))
        async with gateway(tmp_path, upstream) as (fov, client):
            first = await client.post("/v1/responses", json={"model": "gpt-5", "input": "one"})
            more = {"model": "gpt-5", "input": "two", "previous_response_id": first.json()["id"]}
            second = await client.post("/v1/responses", json=more)
            session = second.headers["x-foveate-session"]
            assert session == first.headers["x-foveate-session"]
            assert [text for _, text in await log_of(fov, session)] == ["one", "answer 1", "two", "answer 2"]
            assert "previous_response_id" not in upstream.bodies[-1]
            assert json.dumps(upstream.bodies[-1]["input"]).count("answer 1") == 1
            branch = await client.post("/v1/responses", json={**more, "input": "two, otherwise"})
            assert branch.headers["x-foveate-session"] != session
            stored = f"/v1/responses/{second.json()['id']}"
            assert (await client.get(stored)).json()["output"] == second.json()["output"]
            assert (await client.delete(stored)).json()["deleted"]
            assert (await client.get(stored)).status_code == 404

    run(scenario)


def test_a_response_that_only_the_provider_stores_is_left_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        body = {"model": "gpt-5", "input": "two", "previous_response_id": "resp_of_the_provider"}
        async with gateway(tmp_path, upstream) as (fov, client):
            reply = await client.post("/v1/responses", json=body)
            assert reply.headers["x-foveate-unrecorded"] == "a response that only the provider stores"
            assert (reply.status_code, upstream.bodies) == (200, [body])
            assert await fov.sessions() == []

    run(scenario)


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_one_session_within_its_budget(tmp_path: Path, conversation: object) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(f"answer {len(upstream.bodies)}"))
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (fov, client):
            for number in range(8):
                body = {"model": "gpt-5", "input": f"question {number}: {LONG}", "conversation": conversation}
                reply = await client.post("/v1/responses", json=body)
                assert int(reply.headers["x-foveate-context-tokens"]) <= 6_000
            assert [(info.id, info.turns) for info in await fov.sessions()] == [("conv_1", 8)]
        assert all("conversation" not in body for body in upstream.bodies)
        assert "answer 7" in json.dumps(upstream.bodies[-1]["input"])

    run(scenario)


def test_a_long_system_prompt_takes_no_room_from_a_compacted_conversation(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(f"answer {len(upstream.bodies)}"))
        items: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=60_000) as (_, client):
            for number in range(12):
                items.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/responses", json={"model": "gpt-5", "input": items})
                items += reply.json()["output"]
            sizes = []
            for instructions in ("Be brief.", "Follow the rule. " * 3_000):
                body = {"model": "gpt-5", "instructions": instructions, "input": items}
                compacted = await client.post("/v1/responses/compact", json=body)
                assert compacted.status_code == 200, compacted.text
                sizes.append(len(json.dumps(compacted.json()["output"])))
            assert sizes[0] == sizes[1]

    run(scenario)


def test_a_compacted_conversation_continues_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(f"answer {len(upstream.bodies)}"))
        items: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=9_000) as (fov, client):
            for number in range(12):
                items.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/responses", json={"model": "gpt-5", "input": items})
                items += reply.json()["output"]
            compacted = await client.post("/v1/responses/compact", json={"model": "gpt-5", "input": items})
            items = [*compacted.json()["output"], {"role": "user", "content": "And now?"}]
            later = await client.post("/v1/responses", json={"model": "gpt-5", "input": items})
            items += [*later.json()["output"], {"role": "user", "content": "And then?"}]
            last = await client.post("/v1/responses", json={"model": "gpt-5", "input": items})
            session = reply.headers["x-foveate-session"]
            assert [one.headers["x-foveate-session"] for one in (later, last)] == [session, session]
            assert [text for _, text in (await log_of(fov, session))[-4:]] == [
                "And now?",
                "answer 13",
                "And then?",
                "answer 14",
            ]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "key", "managed"),
    [
        ("/v1/messages", "messages", {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]}),
        ("/v1/responses", "input", [{"type": "compaction", "compact_threshold": 1_000}]),
    ],
)
def test_the_provider_compacts_nothing_of_an_assembled_context(
    tmp_path: Path, path: str, key: str, managed: object
) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        compacted = (
            [{"role": "assistant", "content": [{"type": "compaction", "content": "The code is 4711."}, *say("ok")]}]
            if key == "messages"
            else [{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}, *say_item("ok")]
        )
        history: list[dict[str, Any]] = [{"role": "user", "content": LONG * 5}, {"role": "assistant", "content": "ok"}]
        history += [{"role": "user", "content": "Go on."}, *compacted, {"role": "user", "content": "And now?"}]
        async with gateway(tmp_path, upstream, budget_tokens=4_000) as (_, client):
            body = {"model": "claude-haiku-4-5", "max_tokens": 99, key: history, "context_management": managed}
            reply = await client.post(path, json=body, headers={"x-foveate-session": "s"})
            assert reply.status_code == 200, reply.text
            assert reply.headers["x-foveate-replaced"] == "context_management"
            small = {**body, key: history[-1:]}
            await client.post(path, json=small, headers={"x-foveate-session": "other"})
        sent = json.dumps(upstream.bodies[0])
        assert '"compaction"' not in sent
        assert "compact_" not in sent
        assert ("4711" in sent) == (key == "messages")
        assert ("clear_tool_uses" in sent) == (key == "messages")
        assert upstream.bodies[1]["context_management"] == managed, "the client's own request goes as it came"

    run(scenario)


def say_item(text: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


def test_breakpoints_live_as_long_as_the_clients(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        hour = {"type": "ephemeral", "ttl": "1h"}
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(10):
                text = {"type": "text", "text": f"question {number}: {LONG}", "cache_control": hour}
                history.append({"role": "user", "content": [text]})
                await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
                history.append({"role": "assistant", "content": "ok"})
        content = [message["content"] for message in upstream.bodies[-1]["messages"]]
        hints = [
            block["cache_control"]
            for blocks in content
            if isinstance(blocks, list)
            for block in blocks
            if "cache_control" in block
        ]
        assert hints
        assert all(hint == hour for hint in hints)

    run(scenario)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["港湾", "hafen-über 50%", "plain 50%41"])
def test_a_session_may_have_any_name_and_is_answered_in_ascii(tmp_path: Path, name: str, *, stream: bool) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        async with gateway(tmp_path, upstream) as (fov, client):

            async def ask(prompt: str, path: str = "", *, header: bytes | None = None, **more: Any) -> str:
                messages = [{"role": "user", "content": prompt}]
                body = {"model": "gpt-5", "messages": messages, "stream": stream, **more}
                headers = {} if header is None else {b"x-foveate-session": header}
                reply = await client.post(f"{path}/v1/chat/completions", json=body, headers=headers)
                assert reply.status_code == 200
                return reply.headers["x-foveate-session"]

            echo = await ask("one", prompt_cache_key=name)
            assert echo.isascii()
            assert await ask("two", header=echo.encode()) == echo
            assert await ask("three", header=name.encode()) == echo
            assert await ask("four", f"/s/{quote(name)}") == echo
            assert [info.id for info in await fov.sessions()] == [name]

    run(scenario)


@pytest.mark.parametrize(
    ("blank", "kept"),
    [(" \n", None), ([{"type": "text", "text": " "}], None), ([{"type": "text", "text": ""}, CACHED], [CACHED])],
)
def test_a_blank_system_prompt_is_left_out(tmp_path: Path, blank: object, kept: object) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(8):
                history.append({"role": "user", "content": f"question {number}: {LONG}"})
                await client.post("/v1/messages", json=body_of(history, system=blank), headers=HEADERS)
                history.append({"role": "assistant", "content": "ok"})
        assert all(faults("anthropic", body) == [] for body in upstream.bodies)
        assert upstream.bodies[0].get("system") == kept

    run(scenario)


def test_ids_that_a_provider_repeats_are_sent_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        items: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(8):
                items.append({"role": "user", "content": f"question {number}: {LONG}"})
                reply = await client.post("/v1/responses", json={"model": "gpt-5", "input": items})
                items += reply.json()["output"]
        assert [faults("openai-responses", body) for body in upstream.bodies] == [[]] * 8

    run(scenario)


def test_headers_beyond_ascii_are_passed_on_byte_by_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        upstream.fail = [JSONResponse({"error": {}}, 429)]
        upstream.fail[0].raw_headers.append((b"x-region", "Zürich".encode()))
        body = body_of([{"role": "user", "content": "hello"}])
        titles = ["Überblick".encode("latin-1"), "概要".encode()]
        async with gateway(tmp_path, upstream) as (_, client):
            replies = [await client.post("/v1/messages", json=body, headers={b"x-title": title}) for title in titles]
        assert dict(replies[0].headers.raw)[b"x-region"] == "Zürich".encode()
        assert [headers["x-title"].encode("latin-1") for headers in upstream.headers] == titles

    run(scenario)


def test_a_message_that_we_do_not_know_is_forwarded_unrecorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        strange: list[dict[str, Any]] = [
            {"role": "user", "content": "hello"},
            {"role": "narrator", "content": "meanwhile"},
        ]
        async with gateway(tmp_path, upstream) as (_, client):
            reply = await client.post("/v1/messages", json=body_of(strange), headers=HEADERS)
        assert (reply.status_code, reply.headers["x-foveate-bypass"]) == (200, "InvalidMessage")
        assert upstream.bodies[-1]["messages"] == strange

    run(scenario)


def test_a_client_that_disconnects_leaves_a_partial_answer_and_no_open_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("a long answer"))
        async with gateway(tmp_path, upstream) as (fov, _):
            endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1"))
            endpoints.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(upstream.app)))
            app = AsOwner(Starlette(routes=endpoints.routes()))
            body = json.dumps(body_of([{"role": "user", "content": "hello"}], stream=True)).encode()
            sent: list[Any] = []

            gone = asyncio.Event()
            received = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def receive() -> dict[str, Any]:
                if (first := next(received, None)) is not None:
                    return first
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)
                if len(sent) > 1:
                    gone.set()
                    raise OSError("the client is gone")

            scope = {
                "type": "http",
                "method": "POST",
                "path": "/v1/messages",
                "query_string": b"",
                "headers": [],
                "server": ("gateway", 80),
                "scheme": "http",
            }
            with contextlib.suppress(Exception):
                await app(scope, receive, send)
            (info,) = await fov.sessions()
            (turn,) = await (await fov.open_session(info.id)).load_turns()
            assert turn.messages[0].kind == "message"
            assert "assistant" not in [message.role for message in turn.messages if message.kind == "message"]
            again = await httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://gateway").post(
                "/v1/messages", content=body
            )
            assert again.headers["x-foveate-session"] == info.id
            await endpoints.close()

    run(scenario)


def test_an_answer_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.server.gateway.bodies.MAX_ANSWER_BYTES", 1_000)

    async def scenario() -> None:
        upstream = Upstream(lambda _: say(LONG))
        async with gateway(tmp_path, upstream) as (_, client):
            reply = await client.post(
                "/v1/messages", json=body_of([{"role": "user", "content": "hi"}]), headers=HEADERS
            )
        assert reply.status_code == 502
        assert "larger than the limit" in reply.json()["error"]["message"]

    run(scenario)


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 200), ("gzip, gzip", 502)])
def test_a_compressed_answer_is_read_and_a_twice_compressed_one_is_refused(
    encoding: str, status: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        said: dict[str, Any] = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "x",
            "stop_reason": "end_turn",
        }
        said |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
        packed = json.dumps({**said, "content": say("Hello.")}).encode()
        for _ in encoding.split(","):
            packed = gzip.compress(packed)
        answer = Response(packed, media_type="application/json", headers={"content-encoding": encoding})
        upstream = Upstream(lambda _: say("never"), fail=[answer])
        async with gateway(tmp_path, upstream) as (_, client):
            reply = await client.post(
                "/v1/messages", json=body_of([{"role": "user", "content": "hi"}]), headers=HEADERS
            )
        assert reply.status_code == status

    run(scenario)


class _Slow:
    """An upstream that answers when it is let."""

    def __init__(self, upstream: Upstream) -> None:
        self._app = upstream.app
        self.may_answer = asyncio.Event()
        self.was_asked = self.was_cancelled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.was_asked = True
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        await self._app(scope, receive, send)


async def stream_of(
    fov: Foveate, slow: _Slow, path: str, body: dict[str, Any], on_sent: Callable[[list[bytes]], bool]
) -> list[bytes]:
    """The pieces of a streamed answer; the client goes away when `on_sent` is true."""
    endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1"))
    endpoints.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(slow)))
    app = AsOwner(Starlette(routes=endpoints.routes()))
    sent: list[bytes] = []
    gone = asyncio.Event()
    received = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

    async def receive() -> dict[str, Any]:
        if (first := next(received, None)) is not None:
            return first
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            sent.append(str(message["status"]).encode())
        elif message.get("body"):
            sent.append(message["body"])
        if on_sent(sent):
            gone.set()

    path, _, query = path.partition("?")
    scope = {"type": "http", "method": "POST", "path": path, "query_string": query.encode(), "headers": []}
    scope["scheme"] = "http"
    await app({**scope, "server": ("gateway", 80)}, receive, send)
    await endpoints.close()
    return sent


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_headers_and_keep_alives_do_not_wait_for_a_slow_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("foveate.server.gateway.reply.HEADERS_SECONDS", 0.01)
    monkeypatch.setattr("foveate.server.gateway.reply.PING_SECONDS", 0.01)

    async def scenario() -> None:
        upstream = Upstream(lambda _: say("at last"))
        slow = _Slow(upstream)

        def answer_after_two_pings(sent: list[bytes]) -> bool:
            if len(sent) == 3:
                slow.may_answer.set()
            return False

        async with gateway(tmp_path, upstream) as (fov, _):
            body = body_of([{"role": "user", "content": "hello"}], stream=True)
            status, *pieces = await stream_of(fov, slow, path, body, answer_after_two_pings)
            assert status == b"200"
            assert all(b"ping" in piece or piece.startswith(b":") for piece in pieces[:2])
            assert b"at last" in b"".join(pieces)
            (info,) = await fov.sessions()
            assert await log_of(fov, info.id) == [("user", "hello"), ("assistant", "at last")]

    run(scenario)


def test_a_late_error_of_the_upstream_is_an_event_of_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.server.gateway.reply.HEADERS_SECONDS", 0.01)

    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        envelope = {"type": "error", "error": {"type": "overloaded_error", "message": "too many"}}
        upstream.fail = [JSONResponse(envelope, 529)]
        slow = _Slow(upstream)

        def answer_at_once(_: list[bytes]) -> bool:
            slow.may_answer.set()
            return False

        async with gateway(tmp_path, upstream) as (fov, _):
            body = body_of([{"role": "user", "content": "hello"}], stream=True)
            sent = await stream_of(fov, slow, "/v1/messages", body, answer_at_once)
            assert events_of(sent[-1].decode()) == [envelope]

    run(scenario)


def test_large_requests_are_read_off_the_loop_and_prepared_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[int] = []
    running: list[str] = []
    threads: set[int] = set()
    prepare, read = Preparation.prepare, AnthropicWire.read

    async def noted(self: Preparation, call: ClientCall) -> Prepared:
        running.append(call.path)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
            prepared.append(len(running))
            return await prepare(self, call)
        finally:
            running.pop()

    def read_noted(self: AnthropicWire, body: object, *, path: str) -> ClientRequest:
        threads.add(threading.get_ident())
        return read(self, body, path=path)

    async def scenario() -> None:
        bodies = [body_of([{"role": "user", "content": f"{LONG} {number}"}]) for number in range(6)]
        async with gateway(tmp_path, Upstream(lambda _: say("ok"))) as (fov, client):
            asked = (client.post("/v1/messages", json=body, headers=HEADERS) for body in bodies)
            replies = await asyncio.gather(*asked)
            assert [reply.status_code for reply in replies] == [200] * 6
            assert len(await fov.sessions()) == 6
        assert prepared == [1] * 6
        assert threading.get_ident() not in threads

    monkeypatch.setattr("foveate.server.gateway.bodies.LARGE_BYTES", 1_000)
    monkeypatch.setattr(Preparation, "prepare", noted)
    monkeypatch.setattr(AnthropicWire, "read", read_noted)
    run(scenario)


def streamed(name: str) -> tuple[str, dict[str, Any]]:
    path, body = FORMATS[name]
    if name == "gemini":
        return path.replace("generateContent", "streamGenerateContent?alt=sse"), body
    return path, {**body, "stream": True}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_an_answer_in_json_to_a_streaming_request_is_passed_on_and_recorded(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        path, body = FORMATS[name]
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(Upstream(lambda _: say("all at once")).app), base_url="http://upstream"
        ) as provider:
            whole = (await provider.post(path, json=body)).json()
        upstream = Upstream(lambda _: say("never"), fail=[JSONResponse(whole)])
        async with gateway(tmp_path, upstream) as (fov, client):
            path, body = streamed(name)
            reply = await client.post(path, json=body, headers=HEADERS)
            assert reply.status_code == 200, reply.text
            assert reply.headers["content-type"].startswith("application/json")
            assert reply.json() == whole
            log = await log_of(fov, reply.headers["x-foveate-session"])
        assert log == [("user", "hi"), ("assistant", "all at once")]

    run(scenario)


@pytest.mark.parametrize("more", [{}, {"x-foveate-store": "off"}], ids=["stored", "off"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_providers_error_in_a_200_is_passed_on_as_it_came(
    tmp_path: Path, name: str, is_stream: bool, more: dict[str, str]
) -> None:
    async def scenario() -> None:
        error = {"error": {"message": "QUOTA OF PROJECT EXCEEDED", "code": 429}}
        upstream = Upstream(lambda _: say("never"), fail=[JSONResponse(error)])
        async with gateway(tmp_path, upstream) as (fov, client):
            path, body = streamed(name) if is_stream else FORMATS[name]
            reply = await client.post(path, json=body, headers={**HEADERS, **more})
            assert (reply.status_code, reply.json()) == (200, error)
            for info in await fov.sessions():
                assert await log_of(fov, info.id) == [("user", "hi")]

    run(scenario)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_an_answer_in_json_after_the_stream_has_begun_arrives_as_its_events_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("foveate.server.gateway.reply.HEADERS_SECONDS", 0.01)

    async def scenario() -> None:
        path, body = FORMATS[name]
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(Upstream(lambda _: say("all at once")).app), base_url="http://upstream"
        ) as provider:
            whole = (await provider.post(path, json=body)).json()
        path, body = streamed(name)
        slow = _Slow(Upstream(lambda _: say("never"), fail=[JSONResponse(whole)]))

        def answer_at_once(_: list[bytes]) -> bool:
            slow.may_answer.set()
            return False

        async with gateway(tmp_path, Upstream(lambda _: say("never"))) as (fov, _):
            status, *sent = await stream_of(fov, slow, path, body, answer_at_once)
            (info,) = await fov.sessions()
            assert await log_of(fov, info.id) == [("user", "hi"), ("assistant", "all at once")]
        wire = WIRES[name]
        request = wire.read(body, path=path)
        received, loaded = (wire.answer(request, own_names=frozenset()) for _ in range(2))
        for event in SseParser().feed(b"".join(sent)):
            received.feed(event)
        loaded.load(whole)
        assert (status, received.is_complete) == (b"200", True)
        assert received.shown_messages() == loaded.shown_messages()

    run(scenario)


class _FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds are ten times shorter."""

    def time(self) -> float:
        return super().time() * 10


def test_an_error_that_comes_before_clients_give_up_keeps_its_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        envelope = {"type": "error", "error": {"type": "overloaded_error", "message": "too many"}}
        upstream.fail = [JSONResponse(envelope, 529, headers={"retry-after": "7"})]
        slow = _Slow(upstream)
        asyncio.get_running_loop().call_later(4, slow.may_answer.set)
        async with gateway(tmp_path, upstream) as (fov, _):
            body = body_of([{"role": "user", "content": "hello"}], stream=True)
            status, *sent = await stream_of(fov, slow, "/v1/messages", body, lambda sent: len(sent) > 1)
        assert (status, json.loads(b"".join(sent))) == (b"529", envelope)

    with asyncio.Runner(loop_factory=_FastLoop) as runner:
        runner.run(scenario())


def test_a_client_that_goes_away_before_the_upstream_answers_cancels_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.server.gateway.reply.HEADERS_SECONDS", 0.01)
    monkeypatch.setattr("foveate.server.gateway.reply.PING_SECONDS", 0.01)

    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        slow = _Slow(upstream)
        async with gateway(tmp_path, upstream) as (fov, client):
            body = body_of([{"role": "user", "content": "hello"}], stream=True)
            with contextlib.suppress(OSError):
                await stream_of(fov, slow, "/v1/messages", body, lambda _: slow.was_asked)
            assert slow.was_cancelled
            again = await client.post("/v1/messages", json=body, headers=HEADERS)
            (info,) = await fov.sessions()
            assert again.headers["x-foveate-session"] == info.id
            assert await log_of(fov, info.id) == [("user", "hello"), ("assistant", "ok")]

    run(scenario)


def in_folder(folder: str, prompt: str) -> dict[str, Any]:
    system = f"You are a coding agent.\n<env>\nWorking directory: {folder}\n</env>"
    reminder = {"type": "text", "text": "<system-reminder>Which port? Which port?</system-reminder>"}
    return body_of([{"role": "user", "content": [reminder, {"type": "text", "text": prompt}]}], system=system)


FACT = "The port of the harbour service is 8443."
QUESTION = "What is the port of the harbour service?"


async def ask(client: httpx2.AsyncClient, session: str, body: dict[str, Any]) -> None:
    tools = [{"name": "Bash", "description": "Run.", "input_schema": {"type": "object"}}]
    headers = {**HEADERS, "x-foveate-session": session}
    reply = await client.post("/v1/messages", json={**body, "tools": tools}, headers=headers)
    assert reply.status_code == 200


async def tell_the_fact(fov: foveate.Foveate, client: httpx2.AsyncClient, folder: str) -> None:
    """A session in the folder says it, 40 turns before its newest one."""
    body = in_folder(folder, FACT)
    await ask(client, "s-1", body)
    for number in range(40):
        body["messages"] += [
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": f"Refactor module number {number} of the lighthouse project, please."},
        ]
    await ask(client, "s-1", body)
    await fov.settle()
    await fov.prepare("s-1")


def test_a_new_session_recalls_what_was_said_in_the_same_folder_and_nothing_of_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        lists = [call("Bash", {"command": "ls"})]
        upstream = Upstream(lambda body: lists if "What is the port" in str(body["messages"][-1]) else say("Noted."))
        async with gateway(tmp_path, upstream) as (fov, client):
            await tell_the_fact(fov, client, "/home/anna/shop")
            info = (await fov.open_session("s-1")).info
            assert (info.channel, info.scope) == ("/home/anna/shop", "project:/home/anna/shop")
            second = in_folder("/home/anna/shop", QUESTION)
            await ask(client, "s-2", second)
            begun = upstream.bodies[-1]["messages"]
            assert FACT in json.dumps(begun)
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
            second["messages"] += [{"role": "assistant", "content": lists}, {"role": "user", "content": [result]}]
            await ask(client, "s-2", second)
            assert upstream.bodies[-1]["messages"][:1] == begun, "the turn goes on behind the same prefix"
            await ask(client, "s-3", in_folder("/home/anna/other", QUESTION))
            assert upstream.bodies[-1]["messages"] == in_folder("/home/anna/other", QUESTION)["messages"]

    run(scenario)


def test_thinking_under_recalled_turns_is_not_sent_without_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        answer = [{"type": "thinking", "thinking": "I remember.", "signature": "c2lnbmVk"}, *say("It is 8443.")]
        upstream = Upstream(lambda body: answer if "What is the port" in str(body["messages"][-1]) else say("Noted."))
        async with gateway(tmp_path, upstream) as (fov, client):
            await tell_the_fact(fov, client, "/home/anna/shop")
            body = in_folder("/home/anna/shop", QUESTION)
            await ask(client, "s-2", body)
            recalled = upstream.bodies[-1]["messages"]
            assert FACT in json.dumps(recalled)
            body["messages"] += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Thanks."}]
            await ask(client, "s-2", body)
            sent = upstream.bodies[-1]["messages"]
            assert sent[0] == recalled[0] or "c2lnbmVk" not in json.dumps(sent)
            alone = in_folder("/home/anna/other", QUESTION)
            await ask(client, "s-3", alone)
            alone["messages"] += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Thanks."}]
            await ask(client, "s-3", alone)
            assert "c2lnbmVk" in json.dumps(upstream.bodies[-1]["messages"]), "nothing came before it that is gone"
            assert set(upstream.bodies[-1]) == set(upstream.bodies[-2])
            first = (await (await fov.open_session("s-3")).load_turn(1)).messages
            sent = upstream.bodies[-2]
            assert first[-1].prefix == request_prefix(sent["system"], sent["tools"], sent["messages"])

    run(scenario)


def test_a_request_goes_out_whole_rather_than_cut_beside_what_it_recalls(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("Noted."))
        async with gateway(tmp_path, upstream, budget_tokens=9_700) as (fov, client):
            await tell_the_fact(fov, client, "/home/anna/shop")
            prompt = f"{QUESTION} {' '.join(f'Line {number} of the log is fine.' for number in range(720))}"
            body = in_folder("/home/anna/shop", prompt)
            await ask(client, "s-2", body)
            assert upstream.bodies[-1]["messages"] == body["messages"]

    run(scenario)


@pytest.mark.parametrize("how", ["delete", "erase"])
def test_a_session_that_is_gone_when_its_answer_arrives_is_one_line_in_the_log(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        caplog.set_level("INFO", "foveate")
        opened: list[Any] = []

        class Meanwhile:
            @staticmethod
            async def app(scope: Any, receive: Any, send: Any) -> None:
                fov = opened[0]
                session = await fov.open_session("s")
                await until(session.load_turns)  # the prompt is recorded while the request is on its way
                if how == "delete":
                    await fov.delete_session("s")
                else:
                    await session.erase("T-1", dry_run=False)
                await upstream.app(scope, receive, send)

        upstream = Upstream(lambda _: say("Noted: zebra-4711."))
        async with gateway(tmp_path, Meanwhile) as (fov, client):  # type: ignore[arg-type]
            opened.append(fov)
            body = body_of([{"role": "user", "content": "It is zebra-4711."}])
            headers = {**HEADERS, "x-foveate-session": "s"}
            assert (await client.post("/v1/messages", json=body, headers=headers)).status_code == 200
            await fov.settle()
            assert await fov.search("zebra") == []
        lines = [record for record in caplog.records if "not recorded" in record.getMessage()]
        assert len(lines) == 1
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []

    run(scenario)
