"""What clients' calls cost: rows with what the provider reported, budgets, and requests as they were sent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from foveate.errors import StoreBusy
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.gateway.wires.fields import limit_in
from foveate.store.operations import Calls
from foveate.store.rows import NANO
from foveate.turn import MAX_NESTING
from support.gateway import FORMATS, HEADERS, LONG, body_of, serving
from support.servers import ServerClient, bearer, call
from support.stores.calls import booked_call
from support.upstream import Blocks, Upstream, say
from support.upstream import call as ask

CACHED = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 20}


def rows(client: ServerClient, by: str = "model", **options: Any) -> list[dict[str, Any]]:
    call(client, client.server.state.gateway.settle)
    found: list[dict[str, Any]] = client.get("/api/v1/spending", params={"by": by, **options}).json()["items"]
    return found


def answers(upstream: Upstream, usage: object, **message: Any) -> None:
    """Let the upstream answer Anthropic's format with this usage."""
    whole = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    upstream.fail.append(JSONResponse({**whole, "stop_reason": "end_turn", "usage": usage, **message}))


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("format_name", list(FORMATS))
def test_a_call_of_every_protocol_leaves_a_row_with_what_the_provider_reported(
    tmp_path: Path, format_name: str, is_stream: bool
) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=1_000)
    path, body = FORMATS[format_name]
    if is_stream:
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        body = body if format_name == "gemini" else {**body, "stream": True}
    with serving(tmp_path / "a.db", upstream) as client:
        answer = client.post(path, json=body, headers=HEADERS)
        assert answer.status_code == 200, answer.text
        (row,) = rows(client)
        session = answer.headers["x-foveate-session"]
        (of_session,) = rows(client, "session")
        (cost,) = client.get(f"/api/v1/sessions/{session}/cost").json()["items"]
    assert (row["calls"], row["failed"], row["input_tokens"], row["output_tokens"]) == (1, 0, 1_000, 5)
    assert row["nano_usd"] > 0
    assert row["latency_us"] >= row["first_byte_us"] > 0
    assert row["name"] == body.get("model", "gemini-2.5-flash")
    assert (of_session["name"], cost["purpose"], cost["input_tokens"]) == (session, "gateway", 1_000)


def test_cached_written_and_thinking_tokens_are_those_of_the_provider(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        answers(upstream, CACHED)
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
        (row,) = rows(client)
        (day,) = rows(client, "day", days=1)
    assert (row["input_tokens"], row["cached_tokens"], row["written_tokens"]) == (1_050, 900, 50)
    assert (day["name"][:2], day["nano_usd"]) == ("20", row["nano_usd"])


@pytest.mark.parametrize(
    "usage",
    [
        None,
        "many",
        [],
        {},
        {"input_tokens": None, "output_tokens": "5"},
        {"input_tokens": -5, "output_tokens": -1},
        {"input_tokens": 10**40, "output_tokens": 10**15},
        {"input_tokens": 1.5, "output_tokens": True, "cache_read_input_tokens": {"a": 1}},
        {"input_tokens": 5, "cache_read_input_tokens": 2**62, "output_tokens": 1, "iterations": "no"},
    ],
)
def test_an_odd_usage_never_fails_an_answer_or_a_row(tmp_path: Path, usage: object) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        answers(upstream, usage)
        answer = client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
        assert answer.status_code == 200, answer.text
        (row,) = rows(client)
    assert row["calls"] == 1
    assert 0 <= row["input_tokens"] <= 10_000_000
    assert 0 <= row["cached_tokens"] <= row["input_tokens"]
    assert 0 <= row["output_tokens"] <= 10_000_000
    assert row["nano_usd"] >= 0


def test_counts_with_a_fraction_of_zero_are_believed(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        answers(upstream, {"input_tokens": 1_000.0, "output_tokens": 200.0, "cache_read_input_tokens": 50.0})
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
        (row,) = rows(client)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (1_050, 200, 50)


def test_usage_that_is_not_reported_is_estimated_and_marked(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        answers(upstream, None)
        client.post("/v1/messages", json=body_of([{"role": "user", "content": LONG}]), headers=HEADERS)
        (row,) = rows(client)
    assert row["input_tokens"] > 500
    assert row["output_tokens"] > 0
    assert row["is_estimate"]


def test_a_stream_that_is_cut_off_is_accounted_with_what_is_known(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say(LONG), cut_after=4, input_tokens=700)
    with serving(tmp_path / "a.db", upstream) as client:
        client.post("/v1/messages", json={**FORMATS["anthropic"][1], "stream": True}, headers=HEADERS)
        (row,) = rows(client)
    assert (row["calls"], row["failed"], row["input_tokens"]) == (1, 1, 700)
    assert row["output_tokens"] > 500, "what was written is paid for"


@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_call_that_the_provider_refused_costs_nothing(tmp_path: Path, status: int) -> None:
    upstream = Upstream(lambda _: say("ok"), fail=[JSONResponse({"error": {"message": "no"}}, status)])
    with serving(tmp_path / "a.db", upstream) as client:
        assert client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS).status_code == status
        (row,) = rows(client)
    assert (row["calls"], row["failed"], row["nano_usd"], row["input_tokens"]) == (1, 1, 0, 0)


def test_an_unrecorded_call_is_accounted_without_a_session(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=40)
    with serving(tmp_path / "a.db", upstream) as client:
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers={**HEADERS, "x-foveate-store": "off"})
        (row,) = rows(client, "session")
    assert (row["name"], row["input_tokens"]) == ("", 40)


def test_the_saving_is_what_sending_everything_would_have_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "6000")
    upstream = Upstream(lambda _: say("ok"))
    history: list[dict[str, Any]] = []
    with serving(tmp_path / "a.db", upstream) as client:
        for number in range(10):
            history.append({"role": "user", "content": f"question {number}: {LONG}"})
            upstream.input_tokens = 1_100 * min(number + 1, 4)
            answer = client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            history.append({"role": "assistant", "content": "ok"})
        (row,) = rows(client)
        stats = client.get(f"/api/v1/sessions/{answer.headers['x-foveate-session']}/stats").json()
    assert row["whole_nano_usd"] > 1.3 * row["nano_usd"]
    assert row["whole_tokens"] < 10 * stats["tokens"], "at most the whole conversation each time"


def test_predicted_cached_tokens_stand_beside_those_that_the_provider_reports(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    history: list[dict[str, Any]] = [{"role": "user", "content": LONG * 4}]
    with serving(tmp_path / "a.db", upstream) as client:
        for read in (0, 3_400):
            answers(upstream, {**CACHED, "input_tokens": 3_410 - read, "cache_read_input_tokens": read})
            client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            history += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "and now?"}]
        (row,) = rows(client)
    assert row["confirmed_tokens"] == 3_400
    assert abs(row["predicted_tokens"] - 3_400) < 120, "the second request begins with the first"


def test_a_store_that_fails_slows_or_fails_no_request_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failures = Calls.add_clients_calls, [1, 1]

    async def failing(self: Calls, *given: Any) -> None:
        if failures:
            failures.pop()
            raise StoreBusy("a.db", "is locked")
        await original(self, *given)

    monkeypatch.setattr(Calls, "add_clients_calls", failing)
    monkeypatch.setattr("foveate.session.client_calls.MAX_RETRY_SECONDS", 0.01)
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for _ in range(3):
            assert client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS).status_code == 200
        (row,) = rows(client)
    assert (row["calls"], failures) == (3, [])


def test_rows_survive_a_restart_and_old_ones_are_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
    with serving(tmp_path / "a.db", upstream) as client:
        (row,) = rows(client)
        assert row["calls"] == 1, "what was not written yet is written when the server stops"
        monkeypatch.setattr("foveate.session.client_calls.time.time_ns", lambda: 2**62)
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
        assert rows(client) == []


def test_clients_calls_count_against_no_limit_of_foveates_own(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=9_000_000)
    with serving(tmp_path / "a.db", upstream) as client:
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS)
        (row,) = rows(client)
        assert row["nano_usd"] > 5 * NANO
        assert call(client, client.fov.store.calls.spent, 0) == 0


def test_a_tenant_sees_its_own_calls_and_requests_alone(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=40)
    with serving(tmp_path / "a.db", upstream) as client:
        owner = bearer(call(client, client.fov.keys.create).secret)
        made = {name: call(client, client.fov.keys.create, name, tenant=name) for name in ("acme", "other")}
        body = body_of([{"role": "user", "content": "the secret of acme"}])
        named = {"x-foveate-key": made["acme"].secret, "x-foveate-session": "chat", **HEADERS}
        assert client.post("/v1/messages", json=body, headers=named).status_code == 200
        unrecorded = {**named, "x-foveate-store": "off"}
        assert client.post("/v1/messages", json=body, headers=unrecorded).status_code == 200
        call(client, client.server.state.gateway.settle)
        for by in ("day", "key", "model", "session", "client", "project", "tenant"):
            query = {"by": by}
            seen = {
                name: client.get("/api/v1/spending", params=query, headers=bearer(key.secret)).json()["items"]
                for name, key in made.items()
            }
            assert (sum(row["calls"] for row in seen["acme"]), seen["other"]) == (2, [])
        assert {row["name"] for row in client.get("/api/v1/spending?by=session", headers=owner).json()["items"]} == {
            "",
            "acme:chat",
        }
        own = client.get("/api/v1/sessions/chat/requests/1", headers=bearer(made["acme"].secret))
        assert "the secret of acme" in own.json()["body"]
        assert client.get("/api/v1/sessions/chat/requests", headers=bearer(made["other"].secret)).status_code == 404
        assert (
            client.get("/api/v1/sessions/acme:chat/requests/1", headers=bearer(made["other"].secret)).status_code == 404
        )
        pages = {name: client.get("/ui/costs", headers=bearer(key.secret)).text for name, key in made.items()}
    assert made["acme"].info.id not in pages["other"]
    assert "No model has been called" in pages["other"]
    assert "claude-haiku-4-5" in pages["acme"]


# Budgets


def test_a_call_that_could_exceed_the_budget_is_refused_in_the_protocols_form(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=1_000)
    with serving(tmp_path / "a.db", upstream) as client:
        made = call(client, client.fov.keys.create, "intern", budget_usd=0.02, period="day")
        for path, body in FORMATS.values():
            limits = {"max_tokens": 1_000} if "messages" in body else {"max_output_tokens": 1_000}
            limited = (
                {**body, "generationConfig": {"maxOutputTokens": 8_000}} if "contents" in body else {**body, **limits}
            )
            headers = {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}
            refused = None
            for _ in range(40):
                refused = client.post(path, json=limited, headers=headers)
                if refused.status_code != 200:
                    break
            assert refused is not None
            assert refused.status_code == 429, refused.text
            message = refused.json()["error"]["message"]
            assert "the budget of this key is $0.02 a day" in message
            assert "resets at" in message
            assert 0 < int(refused.headers["retry-after"]) <= 86_400
            assert refused.headers["x-should-retry"] == "false"
        call(client, client.server.state.gateway.settle)
        spent = call(client, client.fov.keys.spent_usd, made.info)
    assert 0 < spent <= 0.02


def team_key(client: ServerClient, **budget: Any) -> tuple[Any, dict[str, str]]:
    """Create a key with a budget; return it, and the headers of its calls."""
    made = call(client, client.fov.keys.create, "team", **budget)
    return made.info, {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("is_stream", [False, True])
def test_rounds_of_history_tools_end_with_the_budget_of_the_key(tmp_path: Path, is_stream: bool) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        if "get_turn" not in json.dumps(body.get("tools", ())):
            return say("ok")
        return [ask("get_turn", {"turn_id": "T-1"}, f"toolu_{len(upstream.bodies)}")]

    upstream = Upstream(script, input_tokens=3_000)
    with serving(tmp_path / "a.db", upstream) as client:
        _, headers = team_key(client, budget_usd=10.0)
        for number in range(12):
            prompt = [{"role": "user", "content": f"question {number}: {LONG * 4}"}]
            body = {**body_of(prompt), "max_tokens": 1_000}
            client.post(
                "/v1/messages", json=body, headers={**headers, "x-foveate-session": "s", "x-foveate-budget": "6000"}
            )
        before = len(upstream.bodies)
        assert before > 12  # with its rounds
        info, limited = team_key(client, budget_usd=0.02)
        body = {**body_of([{"role": "user", "content": "And?"}]), "max_tokens": 1_000, "stream": is_stream}
        reply = client.post("/v1/messages", json=body, headers={**limited, "x-foveate-session": "s"})
        assert "the budget of this key is $0.02" in reply.text
        assert is_stream or reply.status_code == 429
        assert 1 < len(upstream.bodies) - before < 9
        call(client, client.server.state.gateway.settle)
        assert 0 < call(client, client.fov.keys.spent_usd, info) <= 0.02


@pytest.mark.parametrize(
    ("path", "form", "limits"),
    [
        ("/v1/chat/completions", "messages", {"max_tokens": 1_000, "n": 100}),
        ("/v1/chat/completions", "messages", {"n": 100}),
        ("/v1/chat/completions", "messages", {"max_completion_tokens": 1, "max_tokens": 200_000}),
        (
            "/v1beta/models/gemini-2.5-pro:generateContent",
            "contents",
            {"generationConfig": {"maxOutputTokens": 1_000, "candidateCount": 100}},
        ),
    ],
)
def test_every_answer_of_a_call_is_booked(tmp_path: Path, path: str, form: str, limits: dict[str, Any]) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        _, headers = team_key(client, budget_usd=0.1)
        prompt = {"parts": [{"text": "Hi."}]} if form == "contents" else {"content": "Hi."}
        body = {"model": "gpt-5", form: [{"role": "user", **prompt}], **limits}
        assert client.post(path, json=body, headers=headers).status_code == 429
    assert upstream.bodies == []


def test_a_limit_below_one_is_none() -> None:
    assert limit_in({"max_tokens": -1}, "max_tokens") is None
    assert limit_in({"max_tokens": 0, "max_completion_tokens": 5}, "max_completion_tokens", "max_tokens") is None


def test_a_call_that_ended_counts_with_its_cost_for_the_very_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.session.client_calls.FLUSH_SECONDS", 30.0)  # nothing is written by itself
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        _, headers = team_key(client, budget_usd=0.01)
        most = {**FORMATS["anthropic"][1], "max_tokens": 1_500}  # $0.0075 at $5 a million
        statuses = [client.post("/v1/messages", json=most, headers=headers).status_code for _ in range(4)]
    assert statuses == [200] * 4


def test_a_call_that_only_bookings_keep_out_may_be_tried_again_soon(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        key, headers = team_key(client, budget_usd=0.01)
        row = booked_call(key.id, usd=0.008)
        call(client, lambda: client.fov.store.calls.reserve_for_key(row, since_us=0, limit_nano_usd=NANO))
        refused = client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=headers)
    assert refused.status_code == 429
    assert (refused.headers["retry-after"], refused.headers["x-should-retry"]) == ("1", "true")
    assert "$0.0000 are spent, $0.0080 are booked for calls in progress" in refused.json()["error"]["message"]


def test_what_is_booked_reaches_no_budget_before_it_is_spent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = []
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        watching = client.fov.subscribe(events.append, ["budget-reached"])
        key, headers = team_key(client, budget_usd=0.02, soft_usd=0.001)
        row = booked_call(key.id, usd=0.008)
        call(client, lambda: client.fov.store.calls.reserve_for_key(row, since_us=0, limit_nano_usd=NANO))
        for most, status in ((1_000, 200), (2_000, 200), (3_000, 429)):  # booked at $5 a million
            body = {**FORMATS["anthropic"][1], "max_tokens": most}
            answer = client.post("/v1/messages", json=body, headers=headers)
            assert (answer.status_code, answer.headers.get("x-foveate-budget")) == (status, None)
        assert watching.drain()
    assert events == []
    assert "budget" not in caplog.text


@pytest.mark.parametrize("usd", [0, 0.003])
def test_a_call_that_the_budget_refuses_leaves_no_session_and_no_turn(tmp_path: Path, usd: float) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        _, headers = team_key(client, budget_usd=usd)
        for named in ({}, {"x-foveate-session": "mine"}):
            refused = client.post("/v1/messages", json=FORMATS["anthropic"][1], headers={**headers, **named})
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) > 1
            assert "x-foveate-session" not in refused.headers
        assert call(client, client.fov.sessions) == []
        assert call(client, client.fov.store.calls.spending, "model") == []


def test_concurrent_calls_can_not_exceed_a_budget_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"), input_tokens=10)
        with serving(tmp_path / "a.db", upstream) as client:
            made = call(client, client.fov.keys.create, "team", budget_usd=0.012)
            headers = {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}
            most = body_of([{"role": "user", "content": "hi"}])  # 1,000 tokens of output at $5 a million

            def post(number: int) -> int:
                named = {**headers, "x-foveate-session": f"s{number}"}
                return client.post("/v1/messages", json=most, headers=named).status_code

            statuses = await asyncio.gather(*(asyncio.to_thread(post, number) for number in range(12)))
            assert set(statuses) <= {200, 429}
            assert statuses.count(200) >= 1
            assert len(upstream.bodies) == statuses.count(200), "what is refused never reaches the provider"
            call(client, client.server.state.gateway.settle)
            assert call(client, client.fov.keys.spent_usd, made.info) <= 0.012

    asyncio.run(scenario())


def test_a_reservation_is_counted_while_the_call_runs_and_replaced_by_its_cost(tmp_path: Path) -> None:
    seen: list[float] = []
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        made = call(client, client.fov.keys.create, "team", budget_usd=1)

        async def look(_request: Request) -> Response:
            seen.append(await client.fov.keys.spent_usd(made.info))
            return JSONResponse({"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}})

        class Watching:
            app = staticmethod(lambda scope, receive, send: _run(look, scope, receive, send))

        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(Watching.app)))
        headers = {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}
        client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=headers)
        call(client, client.server.state.gateway.settle)
        after = call(client, client.fov.keys.spent_usd, made.info)
    assert seen[0] >= 0.005, "1,000 tokens of output at $5 a million"
    assert 0 < after < 0.0001


async def _run(endpoint: Any, scope: Any, receive: Any, send: Any) -> None:
    response = await endpoint(Request(scope, receive))
    await response(scope, receive, send)


def test_a_budget_that_can_not_be_booked_lets_nothing_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(*_: Any, **__: Any) -> None:
        raise StoreBusy("a.db", "is locked")

    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        made = call(client, client.fov.keys.create, "team", budget_usd=1)
        monkeypatch.setattr(Calls, "reserve_for_key", busy)
        headers = {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}
        assert client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=headers).status_code == 503
    assert upstream.bodies == []


def test_a_soft_budget_warns_in_a_header_an_event_and_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = []
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"), input_tokens=100_000)) as client:
        watching = client.fov.subscribe(events.append, ["budget-reached"])
        made = call(client, client.fov.keys.create, "team", soft_usd=0.05)
        headers = {"x-foveate-key": made.secret, "anthropic-version": "2023-06-01"}
        body = FORMATS["anthropic"][1]
        warned = []
        for _ in range(3):
            warned.append(client.post("/v1/messages", json=body, headers=headers).headers.get("x-foveate-budget"))
            call(client, client.server.state.gateway.settle)
        assert watching.drain()
    assert warned[0] is None
    assert all("a month spent; resets " in (text or "") for text in warned[1:])
    assert len(events) == 1, "once in a period"
    assert (events[0].data["limit"], events[0].data["key"]) == ("soft", made.info.id)
    assert events[0].request_id.startswith("req_")
    assert f"key {made.info.id} reached its soft budget" in caplog.text
    assert made.secret not in caplog.text


def test_a_key_with_a_budget_can_not_use_routes_whose_cost_is_unknown(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        made = call(client, client.fov.keys.create, "team", budget_usd=5)
        refused = client.post("/v1/embeddings", json={"model": "m", "input": "a"}, headers=bearer(made.secret))
        assert client.get("/v1/models", headers=bearer(made.secret)).status_code == 200
    assert refused.status_code == 403
    assert "budget" in refused.json()["error"]["message"]


def test_a_key_with_a_budget_can_not_lift_it(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        made = call(client, client.fov.keys.create, "boss", rights=("admin",), budget_usd=5)
        owner = bearer(call(client, client.fov.keys.create, "owner", rights=("admin",)).secret)
        own = bearer(made.secret)
        assert client.post("/api/v1/keys", json={"name": "free"}, headers=own).status_code == 403
        path = f"/api/v1/keys/{made.info.id}/budget"
        assert client.put(path, json={"budget_usd": 500}, headers=own).status_code == 403
        changed = client.put(path, json={"budget_usd": 500, "soft_usd": 9, "period": "day"}, headers=owner).json()
        assert changed["budget"] == {"usd": 500.0, "soft_usd": 9.0, "period": "day"}
        assert (changed["use"]["spent_usd"], changed["use"]["booked_usd"]) == (0, 0)
        listed = client.get("/api/v1/keys", headers=owner).json()["items"]
        assert [one["use"] for one in listed] == [changed["use"], None]
        assert client.put(path, json={"budget_usd": 5, "soft_usd": 9}, headers=owner).status_code == 422
        assert client.put(path, json={"budget_usd": -5}, headers=owner).status_code == 422
        assert client.put("/api/v1/keys/K-none/budget", json={}, headers=owner).status_code == 404


# Requests as they were sent


def test_every_kept_request_can_be_opened_exactly_as_it_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "6000")
    upstream = Upstream(lambda _: say("ok"), input_tokens=5_000)
    history: list[dict[str, Any]] = []
    with serving(tmp_path / "a.db", upstream) as client:
        for number in range(60):
            history.append({"role": "user", "content": f"question {number}: {'words and ' * 90}"})
            answer = client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            history.append({"role": "assistant", "content": "ok"})
        call(client, client.server.state.gateway.settle)
        path = f"/api/v1/sessions/{answer.headers['x-foveate-session']}/requests"
        listed = client.get(path).json()["items"]
        opened = [client.get(f"{path}/{one['number']}").json() for one in listed]
        gone = client.get(f"{path}/61")
        size = call(client, client.fov.store.sent.read_chain, answer.headers["x-foveate-session"], 60)
        pages = [client.get(f"/ui{path.removeprefix('/api/v1')}{rest}") for rest in ("", "/60", "/61", "/x")]
    assert [one["number"] for one in listed] == list(range(11, 61))
    assert [json.loads(one["body"]) for one in opened] == upstream.bodies[10:]
    assert gone.status_code == 404
    assert all(one["kept_tokens"] + one["appended_tokens"] + one["rewritten_tokens"] for one in opened)
    assert opened[-1]["previous"] == 59
    assert "sk-client" not in json.dumps(opened)
    assert sum(len(row.data) for row in size) < sum(len(json.dumps(body)) for body in upstream.bodies[-len(size) :]) / 4
    assert [page.status_code for page in pages] == [200, 200, 404, 422]
    assert "question 59" in pages[1].text


@pytest.mark.parametrize("depth", [150, 250, 600, 900])
def test_a_deeply_nested_request_is_shown_as_it_was_sent(tmp_path: Path, depth: int) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        raw = json.dumps(
            body_of([{"role": "user", "content": "NUMBER"}], tools=[{"name": "f", "input_schema": "DEEP"}])
        )
        for number in range(2):
            deep = raw.replace("NUMBER", f"Prompt {number}.").replace(
                '"DEEP"', '{"content":' * depth + '"x"' + "}" * depth
            )
            headers = {**HEADERS, "x-foveate-session": "s", "content-type": "application/json"}
            assert client.post("/v1/messages", content=deep, headers=headers).status_code == 200
        call(client, client.server.state.gateway.settle)
        for number in (1, 2):
            shown = client.get(f"/api/v1/sessions/s/requests/{number}")
            assert shown.status_code == 200
            assert shown.json()["body"].count('{"content":') == depth
            assert bool(shown.json()["parts"]) == (depth < MAX_NESTING)
            assert client.get(f"/ui/sessions/s/requests/{number}").status_code == 200


def test_a_request_that_began_before_an_erasure_is_not_kept_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.session.client_calls.FLUSH_SECONDS", 30.0)  # nothing is written by itself
    headers = {**HEADERS, "x-foveate-session": "s"}
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        prompt = {"role": "user", "content": "It is hunter2222."}
        client.post("/v1/messages", json=body_of([prompt]), headers=headers)
        client.post("/api/v1/sessions/s/erase", json={"text": "hunter2222", "dry_run": False})
        call(client, client.server.state.gateway.settle)
        assert client.get("/api/v1/sessions/s/requests").json()["items"] == []
        client.post("/v1/messages", json=body_of([{"role": "user", "content": "New."}]), headers=headers)
        call(client, client.server.state.gateway.settle)
        (kept,) = client.get("/api/v1/sessions/s/requests").json()["items"]
        assert "hunter2222" not in client.get(f"/api/v1/sessions/s/requests/{kept['number']}").text


def test_a_request_that_began_before_a_prune_is_not_kept_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.session.client_calls.FLUSH_SECONDS", 30.0)  # nothing is written by itself
    headers = {**HEADERS, "x-foveate-session": "s"}
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        history: list[dict[str, Any]] = []
        for text in ("It is hunter2222.", "Next."):
            history.append({"role": "user", "content": text})
            client.post("/v1/messages", json=body_of(history), headers=headers)
            history.append({"role": "assistant", "content": "ok"})
        pruned = client.post("/api/v1/sessions/s/prune", json={"before": "2999-01-01T00:00:00Z", "dry_run": False})
        assert pruned.json()["turns"] == 1, pruned.text
        call(client, client.server.state.gateway.settle)
        assert client.get("/api/v1/sessions/s/requests").json()["items"] == []


def test_the_first_request_of_a_session_that_was_made_anew_is_kept(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    headers = {**HEADERS, "x-foveate-session": "s"}
    with serving(tmp_path / "a.db", upstream) as client:
        for _ in range(2):
            client.post("/v1/messages", json=body_of([{"role": "user", "content": "Hello " * 50}]), headers=headers)
            call(client, client.server.state.gateway.settle)
            assert len(client.get("/api/v1/sessions/s/requests").json()["items"]) == 1
            client.delete("/api/v1/sessions/s")


def test_what_changed_since_the_request_before_is_kept_rewritten_or_appended(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"), input_tokens=1_200)
    history: list[dict[str, Any]] = [{"role": "user", "content": LONG}]
    with serving(tmp_path / "a.db", upstream) as client:
        for _ in range(2):
            answer = client.post("/v1/messages", json=body_of(history, system="Be brief."), headers=HEADERS)
            history += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "and now?"}]
        call(client, client.server.state.gateway.settle)
        found = client.get(f"/api/v1/sessions/{answer.headers['x-foveate-session']}/requests/2").json()
    changes = [(part["name"], part["change"]) for part in found["parts"]]
    assert changes == [
        ("system", "kept"),
        ("messages[0]", "kept"),
        ("messages[1]", "appended"),
        ("messages[2]", "appended"),
    ]
    assert found["rewritten_tokens"] == 0
    assert found["kept_tokens"] > found["appended_tokens"] > 0


def test_requests_are_bounded_in_bytes_and_off_by_a_setting(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream, kept_requests=0) as client:
        off = client.post("/v1/messages", json=FORMATS["anthropic"][1], headers=HEADERS).headers["x-foveate-session"]
        call(client, client.server.state.gateway.settle)
        assert client.get(f"/api/v1/sessions/{off}/requests").json()["items"] == []
    with serving(tmp_path / "b.db", upstream, kept_requests_mb=0.01) as client:
        history: list[dict[str, Any]] = []
        for number in range(40):
            history.append(
                {"role": "user", "content": f"{number} " + "".join(chr(33 + i * number % 90) for i in range(900))}
            )
            answer = client.post("/v1/messages", json=body_of(history), headers=HEADERS)
            history.append({"role": "assistant", "content": "ok"})
        call(client, client.server.state.gateway.settle)
        session = answer.headers["x-foveate-session"]
        listed = client.get(f"/api/v1/sessions/{session}/requests").json()["items"]
        assert 0 < len(listed) < 40
        assert json.loads(client.get(f"/api/v1/sessions/{session}/requests/40").json()["body"]) == upstream.bodies[-1]


def test_deleting_or_pruning_removes_the_requests_of_that_session_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for name in ("one", "two"):
            named = {**HEADERS, "x-foveate-session": name}
            for text in ("hi", "ho"):
                client.post("/v1/messages", json=body_of([{"role": "user", "content": text}]), headers=named)
        call(client, client.server.state.gateway.settle)
        assert client.get("/api/v1/sessions/two/requests").json()["items"]
        before = {"before": "2100-01-01T00:00:00Z", "dry_run": False}
        client.post("/api/v1/sessions/one/prune", json=before).raise_for_status()
        assert client.get("/api/v1/sessions/one/requests").json()["items"] == []
        assert client.get("/api/v1/sessions/two/requests").json()["items"]
        client.delete("/api/v1/sessions/one").raise_for_status()
        assert client.get("/api/v1/sessions/one/requests").status_code == 404


@pytest.mark.parametrize("number", ["0", "-1", "x", "1e3", "٣", "9" * 400, "T-1"])
def test_a_request_that_is_none_is_named_in_the_error(tmp_path: Path, number: str) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        answer = client.get(f"/api/v1/sessions/chat/requests/{number}")
    assert answer.status_code in (404, 422)


def test_a_client_that_leaves_a_stream_is_accounted(tmp_path: Path) -> None:
    async def scenario() -> None:
        from support.gateway import gateway

        async def slow(_request: Request) -> Response:
            async def pieces() -> Any:
                start = {
                    "type": "message_start",
                    "message": {"id": "m", "usage": {"input_tokens": 77, "output_tokens": 1}},
                }
                block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
                delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": LONG}}
                for data in (start, block, delta):
                    yield f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"

            return StreamingResponse(pieces(), media_type="text/event-stream")

        upstream = Upstream(lambda _: say("ok"))
        upstream.fail.append(await slow(None))  # type: ignore[arg-type]
        async with gateway(tmp_path, upstream) as (fov, client):
            body = {**FORMATS["anthropic"][1], "stream": True}
            async with client.stream("POST", "/v1/messages", json=body, headers=HEADERS) as answer:
                async for _ in answer.aiter_bytes():
                    break
            for _ in range(400):
                if found := await fov.spending("model"):
                    break
                await asyncio.sleep(0.01)
        (row,) = found
        assert (row.input_tokens, row.failed) == (77, 1)
        assert row.output_tokens > 500

    asyncio.run(scenario())


def test_no_call_confirms_more_cached_tokens_than_were_predicted(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        for text, read in ((LONG * 4, 0), (f"Entirely different: {LONG}" * 4, 3_400)):
            answers(upstream, {**CACHED, "input_tokens": 3_410 - read, "cache_read_input_tokens": read})
            client.post(
                "/v1/messages",
                json=body_of([{"role": "user", "content": text}]),
                headers={**HEADERS, "x-foveate-session": "one"},
            )
        (row,) = rows(client)
    assert row["cached_tokens"] == 3_400
    assert row["confirmed_tokens"] == row["predicted_tokens"] < 3_400
