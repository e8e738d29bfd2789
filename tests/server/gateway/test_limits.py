"""Requests that a provider rejects as too long, and counts that are learned from its usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, Response

from foveate.client import Foveate
from foveate.server.gateway.limits import LEARNED_SECONDS, PromptLimits
from foveate.session.client_requests import Overflow
from support.gateway import HEADERS, LONG, body_of, gateway, run
from support.upstream import Upstream, say

COMPLETION = (
    "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (1500 in the messages, "
    "8000 in the completion). Please reduce the length of the messages or completion."
)
KEY = ("http://provider", "model")


def rejected(message: str, **more: Any) -> Response:
    return JSONResponse({"type": "error", "error": {"message": message, **more}}, 400)


async def talk(client: httpx2.AsyncClient, history: list[dict[str, Any]], prompts: int, **more: Any) -> httpx2.Response:
    for number in range(prompts):
        history.append({"role": "user", "content": f"question {number}: {LONG}"})
        reply = await client.post("/v1/messages", json=body_of(history, **more), headers=HEADERS)
        history.append({"role": "assistant", "content": "ok"})
    return reply


async def budget_of(fov: Foveate, reply: httpx2.Response) -> int:
    return (await fov.open_session(reply.headers["x-foveate-session"])).info.budget_tokens


@pytest.mark.parametrize(
    ("message", "most"),
    [
        ("prompt is too long: 15000 tokens > 4000 maximum", 4_000),
        ("This model's maximum context length is 6000 tokens; your messages resulted in 15000 tokens.", 5_000),
        ("Your input exceeds the context window of this model.", 7_000),
    ],
    ids=["a limit of the prompt", "a window with the answer in it", "no limit"],
)
def test_a_request_that_is_too_long_is_sent_again_within_the_limit(tmp_path: Path, message: str, most: int) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=20_000) as (fov, client):
            await talk(client, history, 5)
            upstream.fail = [rejected(message)]
            reply = await talk(client, history, 1)
            assert reply.status_code == 200
            assert int(reply.headers["x-foveate-context-tokens"]) <= most
            assert len(json.dumps(upstream.bodies[-1])) < len(json.dumps(upstream.bodies[-2]))
            sent = len(upstream.bodies)
            later = await talk(client, history, 1)
            assert int(later.headers["x-foveate-context-tokens"]) <= most
            assert len(upstream.bodies) == sent + 1
            assert await budget_of(fov, reply) == 20_000

    run(scenario)


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
        COMPLETION,
        "prompt is too long: 99 tokens > 9 maximum",
    ],
    ids=["a long name", "a long completion", "a limit that nothing fits"],
)
def test_an_error_that_a_shorter_prompt_does_not_solve_is_passed_on_and_forgotten(tmp_path: Path, message: str) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream) as (fov, client):
            await talk(client, history, 2)
            upstream.fail = [rejected(message, param="tools")]
            failed = await talk(client, history, 1)
            assert (failed.status_code, failed.json()["error"]) == (400, {"message": message, "param": "tools"})
            sent = len(upstream.bodies)
            reply = await talk(client, history, 1)
            assert (reply.status_code, len(upstream.bodies)) == (200, sent + 1)
            assert "question 0" in json.dumps(upstream.bodies[-1])
            assert await budget_of(fov, reply) == 100_000

    run(scenario)


def test_a_limit_is_learned_for_its_model_and_for_an_hour() -> None:
    now = 0.0
    limits = PromptLimits(lambda _: None, clock=lambda: now)
    overflow = Overflow(window_tokens=8_000, prompt_tokens=9_000)
    assert limits.learn(KEY, overflow, sent_tokens=9_000, answer_tokens=1_000, budget_tokens=10_000)
    assert limits.prompt_tokens(KEY, 1_000, budget_tokens=10_000) == 7_000
    assert limits.prompt_tokens(KEY, 2_000, budget_tokens=10_000) == 6_000
    assert limits.prompt_tokens(("http://provider", "other"), 1_000, budget_tokens=10_000) is None
    now = LEARNED_SECONDS
    assert limits.prompt_tokens(KEY, 1_000, budget_tokens=10_000) is None


def test_guesses_end_at_an_eighth_of_the_budget() -> None:
    limits = PromptLimits(lambda _: None)
    sent, attempts = 100_000, 0
    while limits.learn(KEY, Overflow(), sent_tokens=sent, answer_tokens=None, budget_tokens=100_000):
        sent = limits.prompt_tokens(KEY, None, budget_tokens=100_000) or 0
        attempts += 1
    assert (attempts, sent) == (7, 13_347)


@pytest.mark.parametrize(("window", "floor"), [(None, 1_562), (40_000, 625), (1_000_000, 1_562)])
@pytest.mark.parametrize("stated", [Overflow(limit_tokens=200), Overflow(window_tokens=1_200)])
def test_a_stated_limit_leaves_every_session_a_share(window: int | None, floor: int, stated: Overflow) -> None:
    limits = PromptLimits(lambda _: window)
    assert not limits.learn(KEY, stated, sent_tokens=30_000, answer_tokens=1_000, budget_tokens=100_000)
    assert limits.learn(KEY, stated, sent_tokens=1_500, answer_tokens=1_000, budget_tokens=1_600)
    assert limits.prompt_tokens(KEY, 1_000, budget_tokens=100_000) == floor
    assert limits.prompt_tokens(KEY, 1_000, budget_tokens=1_600) == 200


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, "prompt is too long: 15000 tokens > 4000 maximum"),
        (500, "prompt is too long: 15000 tokens > 4000 maximum"),
        (400, "Invalid value: 'prompt is too long: 15000 tokens > 4000 maximum'. Supported values are: 'low', 'high'."),
    ],
)
def test_an_error_that_may_quote_the_request_teaches_no_limit(tmp_path: Path, status: int, message: str) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=20_000) as (_fov, client):
            await talk(client, history, 5)
            upstream.fail = [JSONResponse({"error": {"message": message}}, status)]
            assert (await talk(client, history, 1)).status_code == status
            reply = await talk(client, history, 1)
            assert int(reply.headers["x-foveate-context-tokens"]) > 4_000

    run(scenario)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_counts_are_learned_from_the_usage_that_a_provider_reports(tmp_path: Path, path: str, *, stream: bool) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        async with gateway(tmp_path, upstream, budget_tokens=9_000) as (fov, client):
            calibrations = []
            for number in range(8):
                upstream.input_tokens = 5_000
                content = {"role": "user", "content": f"question {number}: {LONG * 4}"}
                key = "input" if path == "/v1/responses" else "messages"
                body = {"model": "unheard-of", "max_tokens": 100, key: [content], "stream": stream}
                reply = await client.post(path, json=body, headers={"x-foveate-session": "s"})
                assert reply.status_code == 200, reply.text
                calibrations.append((await fov.open_session("s")).info.calibration)
            assert calibrations[-1] < 0.9
            assert calibrations == sorted(calibrations, reverse=True)
            upstream.input_tokens = 16_000
            await client.post(path, json=body, headers={"x-foveate-session": "s"})
            assert (await fov.open_session("s")).info.calibration > 1

    run(scenario)
