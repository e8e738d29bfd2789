"""OpenTelemetry: spans and metrics by its conventions, without any content; nothing while it is off."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from starlette.responses import JSONResponse

import foveate
from foveate import Message, Text, telemetry
from foveate.errors import ModelFailed, SessionNotFound
from foveate.knowledge.run import learn
from foveate.models import Ask
from foveate.server.gateway.transport import UpstreamClient
from foveate.settings import load_settings
from support.command_line import HELLO, Shell
from support.gateway import HEADERS, body_of
from support.patience import wait_until
from support.served import served
from support.servers import call, client_of
from support.upstream import Upstream, say

SECRET = "Wallaby-4711"
"""What is said in every test; no attribute may have it."""
SAID = [{"role": "user", "content": f"The code is {SECRET}"}, {"role": "assistant", "content": f"Noted: {SECRET}"}]
KEY = "sk-ant-secret-of-a-provider"


class Collected:
    """Everything that was traced and measured."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [point for metric in found if metric.name == name for point in metric.data.data_points]

    def text(self) -> str:
        """All that leaves the process, as one text."""
        data = self.reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), data.to_json() if data else ""])


@pytest.fixture
def collected() -> Iterator[Collected]:
    found = Collected()
    telemetry.start(found.tracers, found.meters)
    try:
        yield found
    finally:
        telemetry.stop()


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def _is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and parent.context is not None and child.parent.span_id == parent.context.span_id


def test_a_context_is_a_span_with_its_steps(tmp_path: Path, collected: Collected) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            session = await fov.session("s")
            for _ in range(3):
                await session.record(SAID)
            await fov.settle()
            await session.context(f"What was the code {SECRET}? Which one did I say before?")
            assert await session.search(SECRET)

    asyncio.run(run())
    (context,) = collected.of("foveate.context")
    told = _attributes(context)
    assert (told["gen_ai.conversation.id"], told["foveate.strategy"]) == ("s", "gradient")
    assert 0 < told["foveate.context.tokens"] <= told["foveate.context.budget_tokens"]
    for name in ("foveate.snapshot", "foveate.plan", "foveate.recall", "foveate.assemble"):
        assert any(_is_child(span, context) for span in collected.of(name)), name
    (recall,) = collected.of("foveate.recall")
    (search,) = collected.of("search_memory")
    for span in (recall, search):
        assert _attributes(span)["gen_ai.operation.name"] == "search_memory"
        assert _attributes(span)["gen_ai.memory.record.count"] >= 0
    (fill,) = collected.points("foveate.context.fill")
    assert (fill.count, 0 < fill.sum < 1) == (1, True)
    steps = {point.attributes["foveate.operation"] for point in collected.points("foveate.operation.duration")}
    assert {"create_memory", "foveate.context", "foveate.plan", "foveate.compress"} <= steps
    assert SECRET not in collected.text()


def test_recording_is_a_memory_operation_and_compression_a_trace_of_its_own(
    tmp_path: Path, collected: Collected
) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            session = await fov.session("s")
            with collected.tracers.get_tracer("app").start_as_current_span("app"):
                await session.record(SAID)
            await fov.settle()

    asyncio.run(run())
    (app,), (record,) = collected.of("app"), collected.of("create_memory")
    assert _is_child(record, app)
    assert _attributes(record) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.conversation.id": "s",
        "gen_ai.memory.record.count": 2,
    }
    compressed = collected.of("foveate.compress")
    assert compressed
    assert all(span.parent is None for span in compressed)
    assert sum(_attributes(span)["foveate.turns"] for span in compressed) == 1


def test_learning_is_a_span(tmp_path: Path, collected: Collected) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            await (await fov.session("s")).record(SAID)
            await learn(fov)

    asyncio.run(run())
    (learned,) = collected.of("foveate.learn")
    assert _attributes(learned)["foveate.learn.sessions"] == 1
    assert SECRET not in collected.text()


SAYS = [{"role": "user", "content": SECRET}]
FORMATS: dict[str, tuple[str, dict[str, Any], str]] = {
    "anthropic": ("/v1/messages", body_of(SAYS), "chat"),
    "openai": ("/v1/chat/completions", {"model": "gpt-5", "messages": SAYS}, "chat"),
    "openai-responses": ("/v1/responses", {"model": "gpt-5", "input": SECRET}, "chat"),
    "gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": SECRET}]}]},
        "generate_content",
    ),
}
PROVIDERS = {"openai-responses": "openai", "gemini": "gcp.gemini"}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("format_name", list(FORMATS))
def test_a_call_of_the_gateway_is_a_client_span_below_its_request(
    tmp_path: Path, collected: Collected, format_name: str, *, is_stream: bool
) -> None:
    path, body, operation = FORMATS[format_name]
    provider = PROVIDERS.get(format_name, format_name)
    upstream = Upstream(lambda _: say(f"It is {SECRET}"), input_tokens=1_000)
    model = body.get("model", "gemini-2.5-flash")
    if is_stream:
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        body = body if "contents" in body else {**body, "stream": True}
    with client_of(tmp_path / "a.db", upstream="http://user:hidden@upstream/v1") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        headers = {**HEADERS, **parent, "x-api-key": KEY}
        assert client.post(path, json=body, headers=headers).status_code == 200
        call(client, client.server.state.gateway.settle)
    (request,) = (span for span in collected.spans if span.kind is SpanKind.SERVER)
    (called,) = (span for span in collected.spans if span.kind is SpanKind.CLIENT)
    assert request.context
    assert f"{request.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert _is_child(called, request)
    told = _attributes(called)
    assert called.name == f"{operation} {model}"
    assert (told["gen_ai.operation.name"], told["gen_ai.provider.name"]) == (operation, provider)
    assert (told["gen_ai.request.model"], told["gen_ai.usage.input_tokens"]) == (model, 1_000)
    assert (told["gen_ai.usage.output_tokens"], told["server.address"], told["server.port"]) == (5, "upstream", 80)
    assert ("gen_ai.response.time_to_first_chunk" in told) == is_stream
    assert "error.type" not in told
    assert (request.start_time or 0) <= (called.start_time or 0) < (called.end_time or 0)
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum for point in collected.points("gen_ai.client.token.usage")
    }
    assert tokens == {"input": 1_000, "output": 5}
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration.count == 1
    text = collected.text()
    assert not [secret for secret in (SECRET, KEY, "hidden") if secret in text]


def test_a_refused_call_has_the_status_as_its_error(tmp_path: Path, collected: Collected) -> None:
    upstream = Upstream(lambda _: say("ok"))
    upstream.fail.append(JSONResponse({"type": "error", "error": {"type": "x", "message": SECRET}}, 529))
    with client_of(tmp_path / "a.db", upstream="http://upstream/v1") as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        client.post("/v1/messages", json=body_of([{"role": "user", "content": SECRET}]), headers=HEADERS)
    (called,) = (span for span in collected.spans if span.kind is SpanKind.CLIENT)
    assert (_attributes(called)["error.type"], called.status.is_ok) == ("529", False)
    assert SECRET not in collected.text()


def test_metrics_have_a_limited_number_of_names_of_models(collected: Collected) -> None:
    for number in range(telemetry.MAX_NAMES + 20):
        telemetry.model_call(
            telemetry.ModelCall(
                provider="openai",
                operation="chat",
                model=f"m{number}",
                outcome="ok",
                seconds=0.1,
                session_id="",
                address="",
            )
        )
    names = {point.attributes["gen_ai.request.model"] for point in collected.points("gen_ai.client.operation.duration")}
    assert len(names) == telemetry.MAX_NAMES + 1
    assert "other" in names
    assert len({span.name for span in collected.spans}) == telemetry.MAX_NAMES + 20


def test_a_call_of_its_own_models_is_a_client_span(tmp_path: Path, collected: Collected) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"reply": [{"says": SECRET}, {"fails": "server"}]}))

    async def run() -> None:
        settings = load_settings(overrides={"models": {"max_retries": 0}})
        ask = Ask(purpose="chat", messages=(Message("user", (Text(SECRET),)),), max_output_tokens=10, input_tokens=1)
        async with foveate.open(tmp_path / "a.db", settings=settings) as fov:
            for _ in range(2):
                with suppress(ModelFailed):
                    await fov.caller.ask(ask, [f"scripted:{script}"], session_id=None)

    asyncio.run(run())
    good, bad = (span for span in collected.spans if span.kind is SpanKind.CLIENT)
    assert (_attributes(good)["foveate.purpose"], _attributes(good)["gen_ai.provider.name"]) == ("chat", "scripted")
    assert (_attributes(bad)["error.type"], bad.status.is_ok) == ("server", False)
    assert SECRET not in collected.text()


def test_an_error_is_told_by_its_class_alone(tmp_path: Path, collected: Collected) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            session = await fov.session(SECRET)
            other = await fov.open_session(SECRET)
            await fov.delete_session(SECRET)
            for job in (other.record(SAID), session.context("x")):
                with pytest.raises(SessionNotFound):
                    await job

    asyncio.run(run())
    failed = [span for span in collected.spans if not span.status.is_ok]
    assert {span.name for span in failed} == {"create_memory", "foveate.context", "foveate.snapshot"}
    for span in failed:
        assert _attributes(span)["error.type"] == "SessionNotFound"
        assert (span.status.description, list(span.events)) == (None, [])


def test_an_endpoints_name_tells_the_host_and_no_credentials() -> None:
    found = Collected()
    telemetry.start(found.tracers, found.meters)
    try:
        for address in ("http://me:hidden@h:8080/v1", "https://h/v1?key=hidden", "http://[bad", "", "https://h:x"):
            telemetry.model_call(
                telemetry.ModelCall(provider="google-gla", model="m", outcome="ok", seconds=1, address=address)
            )
    finally:
        telemetry.stop()
    told = [_attributes(span) for span in found.spans]
    places = [(each.get("server.address"), each.get("server.port")) for each in told]
    assert places == [("h", 8080), ("h", 443), (None, None), (None, None), (None, None)]
    assert {each["gen_ai.provider.name"] for each in told} == {"gcp.gemini"}
    assert "hidden" not in found.text()


def test_nothing_of_opentelemetry_is_imported_while_it_is_off(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, foveate\n"
        "async def run():\n"
        f"    async with foveate.open({str(tmp_path / 'a.db')!r}) as fov:\n"
        "        s = await fov.session('s'); await s.record({'role': 'user', 'content': 'x'}); await s.context('y')\n"
        "asyncio.run(run())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    shell = Shell(tmp_path / "a.db")
    monkeypatch.setenv("FOVEATE_TELEMETRY__ENABLED", "true")
    assert "pip install 'foveate[otel]'" in shell.error("worker", "--drain", code=2)


class _Collector(ThreadingHTTPServer):
    """What an OpenTelemetry collector does with OTLP over HTTP: decode what arrives, and answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.services: set[str] = set()


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = cast("_Collector", self.server)
        data = self.rfile.read(int(self.headers["content-length"]))
        data = gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data
        if self.path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(data)
            for found in traces.resource_spans:
                collector.services |= {
                    a.value.string_value for a in found.resource.attributes if a.key == "service.name"
                }
                collector.spans += [span for scope in found.scope_spans for span in scope.spans]
        elif self.path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(data)
            collector.metrics += [m for r in metrics.resource_metrics for s in r.scope_metrics for m in s.metrics]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""


def test_a_server_exports_to_a_collector_by_the_usual_variables(tmp_path: Path) -> None:
    collector = _Collector()
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    variables = {
        "FOVEATE_TELEMETRY__ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_SERVICE_NAME": "foveate-test",
    }
    try:
        with served(Shell(tmp_path / "chat.db"), **variables) as (process, ready):
            with httpx2.Client(base_url=ready["url"]) as client:
                client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
                client.post("/api/v1/sessions/chat/turns", json={"messages": SAID}).raise_for_status()
                client.get("/healthz").raise_for_status()
            process.terminate()
            assert process.wait() == 0
        wait_until(lambda: collector.metrics)
    finally:
        collector.shutdown()
        collector.server_close()
    names = {span.name for span in collector.spans}
    assert {"POST /api/v1/sessions", "create_memory"} <= names
    assert "GET /healthz" not in names
    assert "foveate.operation.duration" in {metric.name for metric in collector.metrics}
    assert collector.services == {"foveate-test"}
    assert SECRET not in str(collector.spans) + str(collector.metrics)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_a_real_collector_accepts_what_a_server_exports(tmp_path: Path) -> None:
    """Rotel, a collector that is a package; it prints what it received. Without it the test is skipped."""
    agent = Path(pytest.importorskip("rotel").__file__).with_name("rotel-agent")
    ports = [_free_port() for _ in range(2)]
    command = [str(agent), "start", "--otlp-http-endpoint", f"127.0.0.1:{ports[0]}", "--otlp-grpc-endpoint"]
    command += [f"127.0.0.1:{ports[1]}", "--exporter", "blackhole", "--debug-log-verbosity", "detailed"]
    command += ["--debug-log", "traces", "--debug-log", "metrics"]
    variables = {
        "FOVEATE_TELEMETRY__ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{ports[0]}",
    }
    printed = tmp_path / "collector.txt"
    with printed.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as collector:
        with served(Shell(tmp_path / "chat.db"), **variables) as (process, ready):
            with httpx2.Client(base_url=ready["url"]) as client:
                client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
                client.post("/api/v1/sessions/chat/turns", json={"messages": SAID}).raise_for_status()
            process.terminate()
            assert process.wait() == 0
        names = {"create_memory", "foveate.operation.duration"}
        wait_until(lambda: all(name in printed.read_text() for name in names))
        collector.terminate()
    assert SECRET not in printed.read_text()


def test_a_worker_runs_without_a_collector(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    with foveate.sync.open(shell.db) as fov:
        fov.session("s").record(HELLO)
    run = shell.really(
        "worker",
        "--drain",
        FOVEATE_TELEMETRY__ENABLED="true",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert run.returncode == 0
