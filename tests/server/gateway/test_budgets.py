"""A key's hard budget bounds everything that a call can cost, whatever the request asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, StreamingResponse

from foveate.session.call_costs import MOST_OUTPUT_TOKENS
from foveate.store.calls import LONGEST_CALL_US
from foveate.store.rows import NANO
from support.gateway import LONG, serving
from support.servers import ServerClient, call
from support.stores.calls import booked_call
from support.upstream import Upstream, say
from support.upstream import call as ask

CHAT, RESPONSES, GEMINI = "/v1/chat/completions", "/v1/responses", "/v1beta/models/plain:generateContent"
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
OUTPUT_USD = 10 / 1_000_000
"""The price of a token of output of `plain`; `dear` costs a hundred times as much."""


@pytest.fixture(autouse=True)
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "foveate.toml"
    settings.write_text("[models.prices]\nplain = {input = 1, output = 10}\ndear = {input = 100, output = 1000}\n")
    monkeypatch.setenv("FOVEATE_CONFIG", str(settings))


def key_of(client: ServerClient, **budget: Any) -> tuple[Any, dict[str, str]]:
    made = call(client, client.fov.keys.create, "team", **{"budget_usd": 1.0, **budget})
    return made.info, {"x-foveate-key": made.secret}


def spent(client: ServerClient, info: Any) -> float:
    call(client, client.server.state.gateway.settle)
    found: float = call(client, client.fov.keys.spent_usd, info)
    return found


def completion(output_tokens: int, **fields: Any) -> JSONResponse:
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": output_tokens}
    return JSONResponse({"id": "c", "model": "plain", "choices": [choice], "usage": usage, **fields})


@pytest.mark.parametrize(
    ("path", "body", "most_tokens"),
    [
        (CHAT, {"messages": HI, "max_tokens": 1_000}, 1_000),
        (CHAT, {"messages": HI, "max_tokens": 1_000, "n": 90}, 90_000),
        (CHAT, {"messages": HI, "max_tokens": 1_000, "n": "90"}, 90_000),
        (CHAT, {"messages": HI, "max_tokens": 1_000, "n": 90.0}, 90_000),
        (CHAT, {"messages": HI, "max_tokens": 50_000, "max_completion_tokens": 1}, 50_000),
        (CHAT, {"messages": HI, "max_tokens": 1, "max_completion_tokens": 50_000}, 50_000),
        (CHAT, {"messages": HI, "max_tokens": 7, "models": ["plain", "dear"]}, 700),
        (CHAT, {"messages": HI, "max_tokens": 7, "fallbacks": [{"model": "dear"}]}, 700),
        (RESPONSES, {"input": "hi", "max_output_tokens": 50_000}, 50_000),
        (
            GEMINI,
            {
                "contents": [{"parts": [{"text": "hi"}]}],
                "generationConfig": {"candidateCount": 8, "maxOutputTokens": 9},
            },
            72,
        ),
        (
            GEMINI,
            {
                "contents": [{"parts": [{"text": "hi"}]}],
                "generation_config": {"candidate_count": 8, "max_output_tokens": 9},
            },
            72,
        ),
    ],
)
def test_a_call_is_booked_at_everything_that_it_can_cost(
    tmp_path: Path, path: str, body: dict[str, Any], most_tokens: int
) -> None:
    most_usd = most_tokens * OUTPUT_USD
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for budget_usd, status in ((most_usd - OUTPUT_USD, 429), (most_usd + 0.05, 200)):
            _, headers = key_of(client, budget_usd=budget_usd)
            asked = body if path == GEMINI else {"model": "plain", **body}
            answer = client.post(path, json=asked, headers=headers)
            assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"max_tokens": -1},
        {"max_tokens": 0},
        {"max_tokens": "1"},
        {"max_tokens": 1.5},
        {"max_tokens": 5, "max_completion_tokens": -1},
    ],
)
def test_an_answer_without_a_valid_limit_is_booked_at_the_longest_that_a_model_writes(
    tmp_path: Path, limits: dict[str, Any]
) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for tokens, status in ((MOST_OUTPUT_TOKENS - 1, 429), (MOST_OUTPUT_TOKENS + 100, 200)):
            _, headers = key_of(client, budget_usd=tokens * OUTPUT_USD)
            answer = client.post(CHAT, json={"model": "plain", "messages": HI, **limits}, headers=headers)
            assert answer.status_code == status, answer.text


def test_no_call_of_many_answers_exceeds_the_budget(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        info, headers = key_of(client)
        for number in range(5):
            upstream.fail.append(completion(30_000))
            body = {"model": "plain", "messages": [{"role": "user", "content": f"q{number}"}], "max_tokens": 1_000}
            client.post(CHAT, json={**body, "n": 30}, headers=headers)
        assert 0.8 < spent(client, info) <= 1
        assert len(upstream.bodies) == 3


@pytest.mark.parametrize(
    ("requested", "answered", "usd_per_token"),
    [
        ({}, "plain", OUTPUT_USD),
        ({}, "plain-2026-01-01", OUTPUT_USD),
        ({}, "something", OUTPUT_USD),
        ({"models": ["plain", "dear"]}, "dear", 100 * OUTPUT_USD),
        ({"models": ["plain", "dear"]}, "dear-2026-01-01", 100 * OUTPUT_USD),
        ({"models": ["plain", "dear"]}, "plain", OUTPUT_USD),
        ({"models": ["plain", "dear"]}, "something", 100 * OUTPUT_USD),
    ],
)
def test_a_call_costs_what_the_model_that_answered_costs(
    tmp_path: Path, requested: dict[str, Any], answered: str, usd_per_token: float
) -> None:
    upstream = Upstream(lambda _: say("ok"), fail=[completion(100, model=answered)])
    with serving(tmp_path / "a.db", upstream) as client:
        info, headers = key_of(client)
        body = {"model": "plain", "messages": HI, "max_tokens": 100, **requested}
        assert client.post(CHAT, json=body, headers=headers).status_code == 200
        assert spent(client, info) == pytest.approx(usd_per_token * 100, rel=0.02)


def test_a_response_in_the_background_is_refused_where_its_cost_or_its_end_is_not_known(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    body = {"model": "plain", "input": "hi", "max_output_tokens": 100, "background": True}
    with serving(tmp_path / "a.db", upstream) as client:
        for budget_usd, is_stream, status in (
            (None, False, 400),
            (1.0, False, 400),
            (1.0, True, 400),
            (None, True, 200),
        ):
            _, headers = key_of(client, budget_usd=budget_usd)
            answer = client.post(RESPONSES, json={**body, "stream": is_stream}, headers=headers)
            assert answer.status_code == status, answer.text
            assert status == 200 or "background" in answer.json()["error"]["message"]
    assert len(upstream.bodies) == 1


def streamed(output_tokens: int, *, reports: bool) -> StreamingResponse:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "plain"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}
    events: list[Any] = [
        {**chunk, "choices": [delta]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    if reports:
        usage = {"prompt_tokens": 10, "completion_tokens": output_tokens}
        events.append({**chunk, "choices": [], "usage": usage})
    lines = [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]
    return StreamingResponse(iter(lines), media_type="text/event-stream")


@pytest.mark.parametrize("store", ["", "off"])
@pytest.mark.parametrize(
    ("options", "is_shown"),
    [(None, False), ({"include_usage": False}, False), ({"include_usage": True}, True), ({"other": 1}, False)],
)
def test_a_stream_is_accounted_with_its_usage_which_only_a_client_that_asked_gets(
    tmp_path: Path, options: dict[str, Any] | None, is_shown: bool, store: str
) -> None:
    upstream = Upstream(lambda _: say("ok"), fail=[streamed(50_000, reports=True)])
    with serving(tmp_path / "a.db", upstream) as client:
        info, headers = key_of(client)
        body = {"model": "plain", "messages": HI, "max_tokens": 60_000, "stream": True}
        sent = {**body, "stream_options": options} if options else body
        answer = client.post(CHAT, json=sent, headers={**headers, "x-foveate-store": store})
        assert answer.status_code == 200
        assert ("completion_tokens" in answer.text) is is_shown
        assert answer.text.rstrip().endswith("data: [DONE]")
        assert upstream.bodies[0]["stream_options"] == {**(options or {}), "include_usage": True}
        assert spent(client, info) == pytest.approx(0.5, abs=0.001)


def test_a_stream_of_a_key_without_a_budget_is_sent_as_it_came(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with serving(tmp_path / "a.db", upstream) as client:
        _, headers = key_of(client, budget_usd=None)
        client.post(CHAT, json={"model": "plain", "messages": HI, "stream": True}, headers=headers)
    assert "stream_options" not in upstream.bodies[0]


def test_every_choice_of_an_answer_without_usage_is_counted(tmp_path: Path) -> None:
    choices = [
        {"index": index, "message": {"role": "assistant", "content": LONG}, "finish_reason": "stop"}
        for index in range(10)
    ]
    upstream = Upstream(lambda _: say("ok"), fail=[JSONResponse({"id": "c", "model": "plain", "choices": choices})])
    with serving(tmp_path / "a.db", upstream) as client:
        info, headers = key_of(client)
        body = {"model": "plain", "messages": HI, "max_tokens": 1_000, "n": 10}
        assert client.post(CHAT, json=body, headers=headers).status_code == 200
        assert spent(client, info) > 10 * 800 * OUTPUT_USD


def test_what_a_provider_may_have_written_without_reporting_it_counts_by_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.session.client_calls.TOKENS_PER_SECOND", 10**9)  # no time is too short for all
    upstream = Upstream(lambda _: say("ok"), fail=[streamed(0, reports=False)])
    with serving(tmp_path / "a.db", upstream) as client:
        info, headers = key_of(client)
        body = {"model": "plain", "messages": HI, "max_tokens": 2_000, "stream": True}
        assert client.post(CHAT, json=body, headers=headers).status_code == 200
        assert spent(client, info) == pytest.approx(2_000 * OUTPUT_USD, rel=0.02), "at most what was booked"


@pytest.mark.parametrize("is_stream", [False, True])
def test_rounds_are_booked_as_the_provider_counts(tmp_path: Path, is_stream: bool) -> None:
    def script(body: dict[str, Any]) -> list[dict[str, Any]]:
        upstream.input_tokens = len(json.dumps(body)) // 2  # twice as many as are counted
        return [ask("get_turn", {"turn_id": "T-1"}, f"call_{len(upstream.bodies)}")] if body.get("tools") else say("ok")

    upstream = Upstream(script)
    with serving(tmp_path / "a.db", upstream) as client:
        turns = [{"role": role, "content": LONG} for _ in range(8) for role in ("user", "assistant")]
        client.post("/api/v1/sessions", json={"id": "s", "budget_tokens": 6_000})
        client.post("/api/v1/sessions/s/turns", json={"messages": turns})
        info, headers = key_of(client, budget_usd=0.03)
        body = {"model": "plain", "messages": [{"role": "user", "content": "And?"}], "max_tokens": 100}
        answer = client.post(CHAT, json={**body, "stream": is_stream}, headers={**headers, "x-foveate-session": "s"})
        assert "the budget of this key is $0.03" in answer.text
        assert len(upstream.bodies) > 1
        assert 0.01 < spent(client, info) <= 0.03


def test_a_booking_of_a_killed_server_is_not_a_call_in_progress_for_long(tmp_path: Path) -> None:
    body = {"model": "plain", "messages": HI, "max_tokens": 1_000}
    waits = {}
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for seconds in (0, 40, 400, LONGEST_CALL_US // 1_000_000 + 5):
            info, headers = key_of(client, budget_usd=0.011)
            row = booked_call(info.id, usd=0.005, seconds_ago=seconds)
            call(client, lambda: client.fov.store.calls.reserve_for_key(row, since_us=0, limit_nano_usd=NANO))  # noqa: B023
            refused = client.post(CHAT, json=body, headers=headers)
            assert refused.status_code == 429
            waits[seconds] = refused.headers["x-should-retry"], int(refused.headers["retry-after"])
        message = refused.json()["error"]["message"]
        (listed,) = (one for one in call(client, client.fov.keys.list) if one.id == info.id)
    *booked, (is_retried, _) = waits.values()
    assert [retry for retry, _ in booked] == ["true"] * 3
    assert [round(seconds, -1) for _, seconds in booked] == [0, 40, 400]
    assert is_retried == "false"
    assert "$0.0050 are spent ($0.0050 of it booked by calls that never ended), $0.0000 are booked" in message
    assert (listed.use.spent_usd, listed.use.booked_usd, listed.use.lost_usd) == (0.005, 0, 0.005)
