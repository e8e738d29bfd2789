"""Batches of real providers' packages, over HTTP to a server on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from foveate.errors import ModelError, ModelFailed
from foveate.models import Answer, Ask, BatchModel, Model
from support.asking import MODELS, SCHEMA, Asking, asks, says
from support.faulty_server import Protocol, Reply, Said, plain, refused

ASKS = {"1": asks(schema=SCHEMA), "2": asks(says("user", "And then?"), schema=SCHEMA)}
TEXT = '{"short": "a", "tiny": "b"}'


def anthropic(status: str, url: str) -> Reply:
    counts = {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    when = "2026-11-15T10:00:00Z"
    return Reply(
        200,
        {
            "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "request_counts": counts,
            "created_at": when, "expires_at": when, "ended_at": None, "archived_at": None, "cancel_initiated_at": None,
            "results_url": f"{url}/v1/messages/batches/msgbatch_1/results" if status == "ended" else None,
        },
    )  # fmt: skip


def anthropic_results() -> Reply:
    message = json.loads(plain("anthropic", Said(TEXT)).payload)
    lines = [
        {"custom_id": "2", "result": {"type": "expired"}},
        {"custom_id": "1", "result": {"type": "succeeded", "message": message}},
    ]
    return Reply(200, "\n".join(map(json.dumps, lines)), content_type="application/x-jsonl")


def openai(status: str) -> Reply:
    done = {"output_file_id": "file-out"} if status == "completed" else {}
    value = {
        "id": "batch_1", "object": "batch", "endpoint": "/v1/responses", "input_file_id": "file-in", "status": status,
        "completion_window": "24h", "created_at": 1_790_000_000, **done,
    }  # fmt: skip
    return Reply(200, value)


OPENAI_FILE = Reply(
    200,
    {
        "id": "file-in", "object": "file", "bytes": 9, "created_at": 1_790_000_000, "filename": "batch.jsonl",
        "purpose": "batch", "status": "processed",
    },
)  # fmt: skip


def openai_results() -> Reply:
    content = [{"type": "output_text", "text": TEXT, "annotations": []}]
    usage = {
        "input_tokens": 100, "output_tokens": 7, "total_tokens": 107,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    body = {
        "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "model": "gpt-4o", "status": "completed",
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}],
        "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    lines = [
        {"id": "r1", "custom_id": "1", "response": {"status_code": 200, "body": body}, "error": None},
        {"id": "r2", "custom_id": "2", "response": None, "error": {"code": "batch_expired", "message": "too late"}},
    ]
    return Reply(200, "\n".join(map(json.dumps, lines)), content_type="application/jsonl")


def google(state: str) -> Reply:
    done = {"output": {"responsesFile": "files/out"}} if state == "SUCCEEDED" else {}
    when = "2026-11-15T10:00:00Z"
    job = {"name": "batches/1", "model": "models/gemini-2.5-flash", "state": f"BATCH_STATE_{state}", "createTime": when}
    failed = {"error": {"code": 13, "message": "out of order"}} if state == "FAILED" else {}
    return Reply(200, {"name": "batches/1", "metadata": {**job, **done}, "response": done, **failed})


def google_upload(url: str) -> tuple[Reply, ...]:
    begun = Reply(200, {}, headers={"X-Goog-Upload-URL": f"{url}/upload/1", "X-Goog-Upload-Status": "active"})
    file = {"name": "files/in", "uri": f"{url}/files/in", "mimeType": "application/jsonl", "state": "ACTIVE"}
    return begun, Reply(200, {"file": file}, headers={"X-Goog-Upload-Status": "final"})


def google_results() -> Reply:
    response = json.loads(plain("google", Said(TEXT)).payload)
    lines = [{"key": "1", "response": response}, {"key": "2", "error": {"code": 4, "message": "expired"}}]
    return Reply(200, "\n".join(map(json.dumps, lines)), content_type="application/jsonl")


SUBMITTED: Mapping[Protocol, Callable[[str], tuple[Reply, ...]]] = {
    "anthropic": lambda url: (anthropic("in_progress", url),),
    "openai": lambda _: (OPENAI_FILE, openai("validating")),
    "google": lambda url: (*google_upload(url), google("PENDING")),
}
RUNNING: Mapping[Protocol, Callable[[str], tuple[Reply, ...]]] = {
    "anthropic": lambda url: (anthropic("in_progress", url),),
    "openai": lambda _: (openai("in_progress"),),
    "google": lambda _: (google("RUNNING"),),
}
ENDED: Mapping[Protocol, Callable[[str], tuple[Reply, ...]]] = {
    "anthropic": lambda url: (anthropic("ended", url), anthropic("ended", url), anthropic_results()),
    "openai": lambda _: (openai("completed"), openai_results(), OPENAI_FILE),
    "google": lambda _: (google("SUCCEEDED"), google("SUCCEEDED"), Reply(200, {}), google_results()),
}


async def submit(model: Model) -> str:
    assert isinstance(model, BatchModel)
    assert model.takes_batches
    return await model.submit(ASKS)


def collect(handle: str) -> Any:
    async def run(model: Model) -> Mapping[str, Answer | ModelError] | None:
        assert isinstance(model, BatchModel)
        return await model.collect(handle, ASKS)

    return run


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "google"])
def test_a_batch_is_submitted_and_collected_by_another_model_of_the_name(protocol: Protocol, asking: Asking) -> None:
    url = asking.server.url
    asking.server.will(*SUBMITTED[protocol](url))
    handle = asking.use(MODELS[protocol], submit)
    assert json.loads(handle)[0]["status"] == "in_progress"
    assert "sk-" not in handle
    asking.server.will(*RUNNING[protocol](url))
    assert asking.use(MODELS[protocol], collect(handle)) is None
    asking.server.will(*ENDED[protocol](url))
    found = asking.use(MODELS[protocol], collect(handle))
    assert (found["1"].text, found["1"].finish) == (TEXT, "stop")
    assert found["1"].usage.output_tokens == 7
    assert isinstance(found["2"], ModelError)
    assert "expired" in str(found["2"])


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_a_batch_that_is_rejected_is_a_model_error(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(refused(protocol, 429, "slow down"))
    error = asking.use_failing(MODELS[protocol], submit)
    assert isinstance(error, ModelFailed)
    assert error.reason == "busy"


def test_other_endpoints_take_no_batches(asking: Asking) -> None:
    async def takes(model: Model) -> bool:
        return isinstance(model, BatchModel) and model.takes_batches

    assert not asking.use(asking.endpoint(), takes)
    assert asking.use(MODELS["google"], takes)


def test_a_request_in_a_batch_is_the_one_that_would_be_sent_alone(asking: Asking) -> None:
    asking.server.will(anthropic("in_progress", asking.server.url))
    asking.use(MODELS["anthropic"], submit)
    (first, second) = asking.sent().body["requests"]
    asking.server.will(plain("anthropic", Said(TEXT)))
    alone: Ask = ASKS["1"]
    asking.answer(MODELS["anthropic"], alone)
    sent = {key: value for key, value in asking.sent().body.items() if key != "stream"}
    assert (first["custom_id"], second["custom_id"]) == ("1", "2")
    assert first["params"] == sent


def test_a_job_that_failed_as_a_whole_fails_each_of_its_requests(asking: Asking) -> None:
    asking.server.will(*SUBMITTED["google"](asking.server.url))
    handle = asking.use(MODELS["google"], submit)
    asking.server.will(google("FAILED"), google("FAILED"), Reply(200, {}))
    found = asking.use(MODELS["google"], collect(handle))
    assert {key: error.reason for key, error in found.items()} == {"1": "server", "2": "server"}


@pytest.mark.parametrize("status", [500, 503])
def test_results_that_can_not_be_read_now_are_an_error_of_the_call(status: int, asking: Asking) -> None:
    url = asking.server.url
    asking.server.will(*SUBMITTED["anthropic"](url))
    handle = asking.use(MODELS["anthropic"], submit)
    asking.server.will(anthropic("ended", url), anthropic("ended", url), refused("anthropic", status, "later"))
    assert isinstance(asking.use_failing(MODELS["anthropic"], collect(handle)), ModelFailed)
