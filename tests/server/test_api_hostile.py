"""Requests nobody sends on purpose: each endpoint answers them with a problem, never with a failure of its own."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foveate.server.bodies import MAX_MESSAGES, MAX_PARTS, MAX_VALUES
from support.servers import ServerClient, client_of

NAMES = (
    *("chat", "%00", "%ED%A0%80", "..", "a%2Fb", "T-1", "9" * 40, "-1", "%F0%9F%98%80", "x" * 300, "'", "%25"),
    *(f"P-{'9' * 30}", f"G-{'9' * 30}", f"T-{'9' * 18}"),
)
VALUES = (*NAMES, "true", "2026", "7d", "")
BODIES = (
    *(b"", b"{}", b"null", b"[]", b'{"text": "\\u0000"}', b'{"title": "\\u0000"}', b'{"id": "\\u202e"}'),
    *(b'{"messages": [{}]}', b'{"messages": [{"role": "tool", "content": 1e999}]}'),
    b'{"messages": [{"role": "user", "content": "\\u0000\xf0\x9f\x98\x80"}]}',
    *(b'{"prompt": [{"role": "user", "content": ""}]}', b'{"prompt": "x", "budget_tokens": 50}'),
    b'{"name": "topics", "settings": {"bulk_topics": 1e308}}',
    *(b'{"before": "1"}', b'{"before": "99999999999999999999"}', b'{"step": 99999999999999999999999}', b'{"step": -1}'),
    b'{"arguments": {"turn_id": {"a": []}}}',
    *(b'{"messages": [{"role": "user", "content": "x"}], "at": "%s"}' % at for at in (b"1e400", b"253402300800")),
)
SKIPPED = ("stream_events", "create_key", "compare_strategies", "delete_session")


@pytest.mark.parametrize(("path", "field"), [("turns", "messages"), ("context", "prompt")])
def test_more_messages_than_one_request_may_have_are_rejected(path: str, field: str, tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        body = {field: [{"role": "user", "content": "x"}] * (MAX_MESSAGES + 1)}
        answer = client.post(f"/api/v1/sessions/chat/{path}", json=body)
        assert answer.status_code == 422
        assert f"<= {MAX_MESSAGES}" in answer.json()["detail"]


@pytest.mark.parametrize("field", ["messages", "prompt"])
def test_a_message_has_a_limited_number_of_parts(tmp_path: Path, field: str) -> None:
    with client_of(tmp_path / "a.db") as client:
        assert client.post("/api/v1/sessions", json={"id": "a"}).status_code == 201
        path = f"/api/v1/sessions/a/{'turns' if field == 'messages' else 'context'}"
        parts = [{"type": "text", "text": "x"}] * (MAX_PARTS + 1)
        answer = client.post(path, json={field: [{"role": "user", "content": parts}]})
        assert answer.status_code == 422
        assert f"messages[0]: has {MAX_PARTS + 1:,} parts" in answer.json()["detail"]
        answer = client.post(path, json={field: [{"role": "user", "content": parts[1:]}]})
        assert answer.is_success


def test_a_body_of_too_many_values_is_rejected_before_it_is_decoded(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        answer = client.post("/api/v1/sessions", content=b"[" + b"{}," * (MAX_VALUES // 2) + b"{}]")
        assert answer.status_code == 413
        assert f"more than {MAX_VALUES:,} values" in answer.json()["detail"]


@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.thorough)])
def test_hostile_requests_are_problems(tmp_path: Path, rounds: int) -> None:
    choice = random.Random(5)
    with client_of(tmp_path / "a.db", max_body_mb=1) as client:
        client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        client.post("/api/v1/sessions/chat/turns", json={"messages": [{"role": "user", "content": "hi"}]})
        failed = []
        for method, path, described in _operations(client):
            for _ in range(rounds):
                url = f"{_filled(path, choice)}?{_query(described, choice)}"
                body = None if method == "get" else choice.choice(BODIES)
                headers = {"Idempotency-Key": choice.choice("ab")} if choice.random() < 0.2 else {}
                answer = client.request(method.upper(), url, content=body, headers=headers)
                is_problem = answer.headers.get("content-type") == "application/problem+json"
                if answer.status_code >= 500 or (answer.is_error and not is_problem):
                    failed.append((method, url, body, answer.status_code))
        assert not failed
        assert client.get("/api/v1/sessions/chat").status_code == 200


def _operations(client: ServerClient) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method, described in methods.items():
            if described["operationId"] not in SKIPPED:
                yield method, path, described


def _filled(path: str, choice: random.Random) -> str:
    """Mostly of the session that exists, so that requests get past it."""
    named = path.replace("{session}", "chat") if choice.random() < 0.5 else path
    return re.sub(r"\{\w+\}", lambda _: choice.choice(NAMES), named)


def _query(described: dict[str, Any], choice: random.Random) -> str:
    names = [one["name"] for one in described["parameters"] if one["in"] == "query" and choice.random() < 0.4]
    return "&".join(f"{name}={choice.choice(VALUES)}" for name in names)
