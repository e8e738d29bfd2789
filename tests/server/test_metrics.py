"""`/metrics`: what a Prometheus reads of a server, its calls, its queue and its workers."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
from starlette.responses import JSONResponse

import foveate
from foveate import Message, Text
from foveate.errors import ModelFailed
from foveate.models import Ask
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.metrics import FILL, Metrics
from foveate.session.client_calls import CallRow
from foveate.settings import load_settings
from foveate.store.rows import RunningWorker
from foveate.store.sql import now_us
from foveate.telemetry import MAX_NAMES
from support.command_line import HELLO
from support.gateway import HEADERS, body_of
from support.servers import ServerClient, bearer, call, client_of
from support.upstream import Upstream, say

LINE = re.compile(r'(\w+)(\{(?:\w+="(?:[^"\\]|\\.)*",?)+\})? (\S+)')
HI = [{"role": "user", "content": "hi"}]


def _scraped(client: ServerClient) -> dict[str, float]:
    """Every sample by its name and labels; any line that is none fails."""
    call(client, client.server.state.gateway.settle)
    found = {}
    for line in client.get("/metrics").text.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            found[f"{match[1]}{match[2] or ''}"] = float(match[3])
    return found


def _row(**values: Any) -> CallRow:
    return CallRow(
        **{
            **dict.fromkeys(("session_id", "turn")),
            **dict.fromkeys(("at_us", "input_tokens", "output_tokens", "cached_tokens", "nano_usd", "latency_us"), 0),
            "provider": "p",
            "model": "m",
            "purpose": "chat",
            "is_estimate": False,
            "outcome": "ok",
            **values,
        }
    )


def test_calls_of_clients_are_counted_with_tokens_price_and_fill(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50,
        "output_tokens": 20,
    }
    whole = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    upstream = Upstream(lambda _: say("ok"))
    upstream.fail.append(JSONResponse({**whole, "stop_reason": "end_turn", "usage": usage}))
    with client_of(tmp_path / "a.db", upstream="http://upstream/v1") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        body = body_of(HI)
        assert client.post("/v1/messages", json=body, headers=HEADERS).status_code == 200
        found = _scraped(client)
    model = body["model"]
    tokens = {
        kind: found[f'foveate_model_tokens_total{{model="{model}",source="gateway",type="{kind}"}}']
        for kind in ("input", "cached", "written", "output", "thinking")
    }
    assert tokens == {"input": 1_050, "cached": 900, "written": 50, "output": 20, "thinking": 0}
    assert found[f'foveate_model_calls_total{{model="{model}",source="gateway"}}'] == 1
    assert found[f'foveate_model_cost_usd_total{{model="{model}",source="gateway"}}'] > 0
    assert found['foveate_cache_share{source="gateway"}'] == float(f"{900 / 1_050:.9g}")
    assert found[f"{FILL}_count"] == 1
    assert 0 < found[f"{FILL}_sum"] < 1
    assert found["foveate_calls_dropped_total"] == 0


def test_errors_of_a_provider_are_counted_by_outcome_and_status(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    upstream.fail.append(JSONResponse({"type": "error", "error": {"type": "x", "message": "no"}}, 529))
    with client_of(tmp_path / "a.db", upstream="http://upstream/v1") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        assert client.post("/v1/messages", json=body_of(HI), headers=HEADERS).status_code == 529
        found = _scraped(client)
    assert found['foveate_upstream_errors_total{outcome="refused",source="gateway",status="529"}'] == 1


def test_calls_of_its_own_models_are_counted(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"reply": [{"says": "A reply."}, {"fails": "server"}]}))
    model = f"scripted:{script}"
    settings = load_settings(overrides={"models": {"max_retries": 0}, "compress": {"processes": 0}})
    ask = Ask(purpose="chat", messages=(Message("user", (Text("Hi"),)),), max_output_tokens=10, input_tokens=1)
    with client_of(tmp_path / "a.db", opened=foveate.open(tmp_path / "a.db", settings=settings)) as client:
        call(client, client.fov.caller.ask, ask, [model])
        with suppress(ModelFailed):
            call(client, client.fov.caller.ask, ask, [model])
        found = _scraped(client)
    assert found[f'foveate_model_calls_total{{model="{model}",source="own"}}'] == 2
    assert found[f'foveate_model_tokens_total{{model="{model}",source="own",type="output"}}'] > 0
    assert found['foveate_upstream_errors_total{outcome="server",source="own",status=""}'] == 1


def test_the_queue_and_its_workers_are_shown(tmp_path: Path) -> None:
    async def fill() -> None:
        settings = load_settings(overrides={"compress": {"enabled": False, "processes": 0}})
        async with foveate.open(tmp_path / "a.db", settings=settings) as fov:
            await (await fov.session("s")).record(HELLO)

    asyncio.run(fill())
    with client_of(tmp_path / "a.db") as client:
        found = _scraped(client)
        assert (found['foveate_workers{kind="worker"}'], found['foveate_workers{kind="serve"}']) == (0, 0)
        assert {"foveate_queue_sessions", "foveate_queue_waited_seconds", "foveate_requests_in_progress"} <= set(found)


def test_what_a_key_spent_of_its_budget_is_shown_until_it_is_revoked(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        made = call(client, client.fov.keys.create, "intern", rights=["admin"], budget_usd=20, period="day")
        call(client, client.fov.keys.create, "free")
        paid = _row(purpose="gateway", key_id=made.info.id, at_us=now_us(), nano_usd=2_500_000_000)
        call(client, client.fov.store.calls.add_clients_calls, [(None, paid)])
        client.headers.update(bearer(made.secret))
        found = _scraped(client)
        assert found[f'foveate_key_spent_usd{{key="{made.info.id}"}}'] == 2.5
        assert found[f'foveate_key_budget_usd{{key="{made.info.id}"}}'] == 20
        assert len([name for name in found if name.startswith("foveate_key_")]) == 2
        other = call(client, client.fov.keys.create, "office", rights=["admin"])
        call(client, client.fov.keys.revoke, made.info.id)
        client.headers.update(bearer(other.secret))
        assert not [name for name in _scraped(client) if name.startswith("foveate_key_")]


def test_only_so_many_keys_have_metrics(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        for _ in range(3):
            call(client, client.fov.keys.create, "k", budget_usd=1)
        found = call(client, client.fov.keys.budgets, 2)
        assert [key.use.spent_usd for key in found] == [0.0, 0.0]


def test_a_process_that_ended_is_no_longer_shown() -> None:
    def queue(*workers: RunningWorker) -> Any:
        names = ("due_sessions", "due_model_turns", "waited_seconds", "leased", "expired", "parked")
        return SimpleNamespace(**dict.fromkeys(names, 0), workers=workers)

    def worker(pid: int) -> RunningWorker:
        return RunningWorker(
            kind="worker", host='a"b', pid=pid, version="1", compresses=True, running_seconds=9, seen_seconds=2.5
        )

    metrics = Metrics()
    metrics.set_queue(queue(worker(1), worker(2)))
    metrics.set_queue(queue(worker(2)))
    ages = [line for line in metrics.render().splitlines() if line.startswith("foveate_worker_heartbeat")]
    assert ages == ['foveate_worker_heartbeat_age_seconds{kind="worker",worker="a\\"b:2"} 2.5']
    assert 'foveate_workers{kind="worker"} 1' in metrics.render()


def test_clients_can_not_make_any_number_of_labels() -> None:
    metrics = Metrics()
    for number in range(MAX_NAMES + 50):
        metrics.count_own_call(_row(model=f"m{number}"))
    lines = [line for line in metrics.render().splitlines() if line.startswith("foveate_model_calls_total")]
    assert len(lines) == MAX_NAMES + 1
    assert 'foveate_model_calls_total{model="other",source="own"} 50' in lines


def test_small_amounts_add_up_and_large_ones_are_exact() -> None:
    metrics = Metrics()
    for _ in range(1_000):
        metrics.count_own_call(_row(nano_usd=1_234, input_tokens=1_234_567))
    text = metrics.render()
    assert 'foveate_model_cost_usd_total{model="m",source="own"} 0.001234\n' in text
    assert 'foveate_model_tokens_total{model="m",source="own",type="input"} 1234567000\n' in text
