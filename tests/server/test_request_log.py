"""One line per request in the log, and its id in headers, errors and events."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, Response

from foveate.events import REQUEST_ID
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.process import stopping_at_signals
from foveate.server.request_log import LineFormatter, logging_to_stderr
from foveate.server.settings import ServerSettings
from support.gateway import HEADERS, body_of
from support.servers import bearer, call, client_of
from support.upstream import Upstream, say

SECRET = "fov_" + "5ec4e7" * 8
PATHS = ("/v1/messages", "/nothing%0aINFO%20forged", "/s/a%0aINFO%20forged/v1/messages", "/api/v1/sessions/%0a")
EVIL = "x\nINFO POST /forged 200\r\x1b[31m\u2028\x85"


def lines_of(caplog: pytest.LogCaptureFixture, *, is_json: bool = False) -> list[str]:
    formatter = LineFormatter(is_json=is_json)
    return [formatter.format(record) for record in caplog.records if record.name == "foveate.requests"]


def test_a_call_is_one_line_with_route_tokens_session_and_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "foveate.requests")
    upstream = Upstream(lambda _: say("the answer's words"), input_tokens=40)
    with client_of(tmp_path / "a.db", upstream="http://upstream") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        for is_stream in (False, True):
            body = body_of([{"role": "user", "content": "the question's words"}], stream=is_stream)
            answer = client.post("/v1/messages", json=body, headers={**HEADERS, "x-foveate-session": "chat"})
            request_id = answer.headers["x-foveate-request-id"]
            session = answer.headers["x-foveate-session"]
            line = lines_of(caplog)[-1]
            assert " INFO POST /v1/messages 200 " in line
            assert f"in=40 out=5 cached=0 session={session} request={request_id}" in line
            assert "words" not in line
            assert "sk-client" not in line


def test_every_refusal_is_logged_and_has_the_id_in_its_body(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "foveate.requests")
    with client_of(tmp_path / "a.db") as client:
        call(client, client.fov.keys.create)
        asked: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/v1/messages", bearer(SECRET)),
            ("POST", "/v1/chat/completions", bearer(SECRET)),
            ("POST", "/v1beta/models/gemini:generateContent", bearer(SECRET)),
            ("GET", "/api/v1/sessions", {}),
            ("GET", "/api/v1/sessions", {"Host": "evil.example"}),
        ]
        for method, path, headers in asked:
            answer = client.request(method, path, headers=headers)
            assert answer.status_code in (401, 403)
            assert answer.json()["request_id"] == answer.headers["x-foveate-request-id"]
            assert f" {answer.status_code} " in lines_of(caplog)[-1]
            assert lines_of(caplog)[-1].endswith(f"request={answer.headers['x-foveate-request-id']}")
    assert len(lines_of(caplog)) == len(asked)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("is_json", [False, True])
def test_a_line_says_whose_call_it_was_of_which_model_and_why_it_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_json: bool
) -> None:
    caplog.set_level(logging.INFO, "foveate.requests")
    upstream = Upstream(lambda _: say("ok"), fail=[JSONResponse({"error": {"message": "their words"}}, 429)])
    body = body_of([{"role": "user", "content": "the question's words"}], model="claude-x")
    with client_of(tmp_path / "a.db", upstream="http://someone:hidden@upstream:81") as client:
        key = call(client, client.fov.keys.create, tenant="acme")
        headers = {"X-Foveate-Key": key.secret}
        gateway = client.server.state.gateway
        gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        answers = [client.post("/v1/messages", json=body, headers=headers) for _ in range(2)]
        gateway.use(UpstreamClient(transport=httpx2.MockTransport(_unreachable)))
        client.get("/api/v1/sessions/none", headers=headers)
        client.post("/v1/messages", json=body)
        client.post("/v1/messages", json=body, headers=bearer(SECRET))
        client.post("/v1/embeddings", json={"model": "embed-x", "input": "words"}, headers=headers)
    assert [answer.status_code for answer in answers] == [429, 200]
    lines = lines_of(caplog, is_json=is_json)
    whose, call_of = {"key": key.info.id, "tenant": "acme"}, {"model": "claude-x"}
    unreachable = {"upstream": "upstream:81", "cause": "ConnectError: no route"}
    expected: list[dict[str, Any]] = [
        {**whose, **call_of, "status": 429, "error": "upstream-429", "upstream": "upstream:81"},
        {**whose, **call_of, "status": 200},
        {**whose, "status": 404, "error": "session-not-found"},
        {"status": 401, "error": "not-authenticated", "reason": "a key is needed"},
        {"status": 401, "error": "not-authenticated", "reason": "this key does not exist or was revoked"},
        {**whose, "model": "embed-x", "status": 502, "error": "bad-upstream", **unreachable},
    ]
    for line, fields in zip(lines, expected, strict=True):
        if is_json:
            shown = json.loads(line)
            assert {name: shown.get(name) for name in fields} == fields
        else:
            status = fields.pop("status")
            assert f" {status} " in line
            for name, value in fields.items():
                assert f" {name}={json.dumps(value) if ' ' in value else value} " in line
        assert ("error" in fields) is ("error" in line)
        assert all(text not in line for text in ("words", "hidden", key.secret, SECRET))


def test_levels_tell_failures_of_providers_from_those_of_clients_and_from_routine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "foveate.requests")
    failing: list[Response] = [JSONResponse({"error": {"message": "their words"}}, status) for status in (401, 500)]
    body = body_of([{"role": "user", "content": "hi"}], model="claude-x")
    with client_of(tmp_path / "a.db", upstream="http://upstream") as client:
        key = call(client, client.fov.keys.create, models=["claude-*"], rights=["gateway"])
        client.server.state.gateway.use(
            UpstreamClient(transport=httpx2.ASGITransport(Upstream(lambda _: say("ok"), fail=failing).app))
        )
        ours = {"X-Foveate-Key": key.secret}
        for headers in (ours, ours, ours, bearer(SECRET)):
            client.post("/v1/messages", json=body, headers=headers)
        client.post("/v1/messages", json={**body, "model": "gpt-x"}, headers=ours)
        client.post("/v1/messages", json={**body, "model": SECRET}, headers=ours)
        client.get("/api/v1/sessions", headers=ours)
        client.get("/healthz")
        client.get("/ui/static/dashboard.css")
    expected = [
        ("WARNING", " 401 ", "error=upstream-401 "),
        ("WARNING", " 500 ", "error=upstream-500 "),
        ("INFO", " 200 ", "in="),
        ("INFO", " 401 ", "client=127.0.0.1 "),
        ("INFO", " 403 ", 'model=gpt-x error=forbidden reason="this key may not use the model" '),
        ("INFO", " 403 ", 'error=forbidden reason="this key may not use the model" '),
        ("INFO", " 403 ", 'error=forbidden reason="needs read" '),
        ("DEBUG", "/healthz", " 200 "),
        ("DEBUG", "/ui/static", ""),
    ]
    for line, parts in zip(lines_of(caplog), expected, strict=True):
        assert all(part in line for part in parts), (line, parts)
    assert SECRET not in caplog.text


def _unreachable(_request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("no route")


@pytest.mark.parametrize("path", ["/v1/messages", "/api/v1/sessions/none", "/nothing"])
def test_an_error_of_an_endpoint_has_the_id(tmp_path: Path, path: str) -> None:
    with client_of(tmp_path / "a.db") as client:
        answer = client.post(path, json=body_of([{"role": "user", "content": "hi"}]))
        assert answer.status_code >= 400
        assert answer.json()["request_id"] == answer.headers["x-foveate-request-id"]


def test_a_provider_can_not_set_the_id(tmp_path: Path) -> None:
    upstream = Upstream(lambda _: say("ok"))
    with client_of(tmp_path / "a.db", upstream="http://upstream") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        answer = client.get("/v1/models", headers={"x-foveate-request-id": "mine"})
    assert answer.headers.get_list("x-foveate-request-id")[0].startswith("req_")


def test_events_have_the_id_of_the_request_that_caused_them(tmp_path: Path) -> None:
    events: list[Any] = []
    with client_of(tmp_path / "a.db") as client:
        client.fov.subscribe(events.append, ["turn-recorded"])
        client.post("/api/v1/sessions", json={"id": "chat"})
        said = [{"role": "user", "content": "hi"}]
        recorded = client.post("/api/v1/sessions/chat/turns", json={"messages": said})
        call(client, _record, client.fov)
    assert [event.request_id for event in events] == [recorded.headers["x-foveate-request-id"], ""]


def test_background_work_has_no_request_although_one_started_it(tmp_path: Path) -> None:
    events: list[Any] = []
    with client_of(tmp_path / "a.db") as client:
        client.fov.subscribe(events.append)
        client.post("/api/v1/sessions", json={"id": "chat"})
        for text in ("one", "two", "three"):
            said = [{"role": "user", "content": text}, {"role": "assistant", "content": f"{text} it is"}]
            client.post("/api/v1/sessions/chat/turns", json={"messages": said})
            call(client, client.fov.settle)
    made = [event.request_id for event in events if event.kind == "compressed"]
    assert len(made) > 1
    assert set(made) == {""}


async def _record(fov: Any) -> None:
    await (await fov.open_session("chat")).record({"role": "user", "content": "ho"})


@pytest.mark.parametrize("is_json", [False, True])
def test_what_a_client_sends_can_not_begin_another_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_json: bool
) -> None:
    caplog.set_level(logging.INFO, "foveate.requests")
    upstream = Upstream(lambda _: say("ok"))
    with client_of(tmp_path / "a.db", upstream="http://upstream") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        body = body_of([{"role": "user", "content": "hi"}], model=EVIL)
        for path in PATHS:
            for name in (b"x-foveate-session", b"user-agent"):
                hostile = {
                    **{key.encode(): value.encode() for key, value in HEADERS.items()},
                    name: b"a%0aINFO forged\x85",
                }
                client.post(path, json=body, headers=hostile)
        client.request("FORGED", "/healthz")
        call(client, client.server.state.gateway.settle)
        names = [row["name"] for row in client.get("/api/v1/spending?by=model").json()["items"]]
    for line in lines_of(caplog, is_json=is_json):
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        assert "forged" not in line.lower() or is_json or 'session="' in line or 'model="' in line
    assert all(name.isprintable() for name in names)


def test_a_signal_that_comes_during_a_request_is_not_logged_as_part_of_it() -> None:
    seen: list[str] = []
    with stopping_at_signals(lambda number: seen.append(REQUEST_ID.get())):
        token = REQUEST_ID.set("some request")
        signal.raise_signal(signal.SIGTERM)
        REQUEST_ID.reset(token)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert seen == [""]


def test_a_message_and_its_trace_can_not_forge_a_line() -> None:
    record = logging.LogRecord("foveate.x", logging.ERROR, "", 0, "failed: %s", (EVIL,), None)
    record.exc_text = f"Traceback\nValueError: {EVIL}"
    first, *rest = LineFormatter(is_json=False).format(record).split("\n")
    assert first.isprintable()
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    (only,) = LineFormatter(is_json=True).format(record).splitlines()
    assert json.loads(only)["message"] == f"failed: {EVIL}"


def test_the_log_of_a_server_is_json_by_a_setting_and_has_a_level(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("foveate.requests")
    before = logging.getLogger("foveate").level
    for settings in (ServerSettings(log_format="json"), ServerSettings(log_level="warning")):
        with logging_to_stderr(settings):
            log.info("seen")
            logging.getLogger("opentelemetry.exporter").info("no collector")
    line, exporters = capfd.readouterr().err.splitlines()
    assert json.loads(exporters)["message"] == "no collector"
    assert json.loads(line) | {"time": ""} == {
        "time": "",
        "level": "info",
        "logger": "foveate.requests",
        "message": "seen",
    }
    assert logging.getLogger("foveate").level == before


def test_a_log_that_nobody_reads_blocks_neither_requests_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stuck, os.fdopen(reading):
        monkeypatch.setattr("sys.stderr", stuck)
        monkeypatch.setattr("foveate.server.request_log.MAX_QUEUED", 10)
        monkeypatch.setattr("foveate.server.request_log.CLOSE_SECONDS", 0.01)
        with logging_to_stderr(ServerSettings()):
            for number in range(50):
                logging.getLogger("foveate.requests").info("%d %s", number, "x" * 9_000)
