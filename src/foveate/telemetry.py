"""Traces and metrics for OpenTelemetry, by its semantic conventions for generative AI; off by default.

    with telemetry.span("foveate.context") as span:
        ...
        if span:                                  # False while telemetry is off
            span.set({telemetry.SESSION: row.id})

Attributes are ids, names, counts and times: never content, keys or the messages of errors. While it is off nothing of
OpenTelemetry is imported, and a span costs a function call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from foveate.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "foveate"
SESSION: Final = "gen_ai.conversation.id"
OPERATION: Final = "gen_ai.operation.name"
RECORDS: Final = "gen_ai.memory.record.count"
ERROR: Final = "error.type"
MODEL: Final = "gen_ai.request.model"
MAX_NAMES: Final = 100
"""Names with a label of their own; clients choose those of models, so the rest is `other`."""
DURATION_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Buckets of durations, as the conventions recommend."""
TOKENS: Final = tuple(4**power for power in range(14))
"""Buckets of token counts, as the conventions recommend."""
FILL: Final = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The conventions' names of providers where ours differ."""
ENDED_WELL: Final = frozenset({"ok", "unfit"})
"""Outcomes of calls that are no errors."""
PORTS: Final = {"http": 80, "https": 443}

SpanName = Literal[
    "create_memory",
    "foveate.assemble",
    "foveate.compress",
    "foveate.context",
    "foveate.learn",
    "foveate.plan",
    "foveate.recall",
    "foveate.refine",
    "foveate.snapshot",
    "search_memory",
]
"""Names of the spans inside this process. Those of memory operations are the conventions'."""
Attributes = Mapping[str, str | int | float | bool]


class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OpenTelemetry, with the extra `otel`. `foveate serve` and `foveate worker` export by the variables OTEL_…, e.g.
    OTEL_EXPORTER_OTLP_ENDPOINT; programs that use the library set up their own providers."""

    enabled: bool = False
    """Whether spans and metrics are made, for all stores of the process."""


class SpanScope(Protocol):
    """A span in progress; false while telemetry is off."""

    def __enter__(self) -> SpanScope: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None: ...

    def __bool__(self) -> bool: ...

    def set(self, attributes: Attributes) -> None: ...


class _Off:
    """A span while telemetry is off."""

    __slots__ = ()

    def __enter__(self) -> _Off:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def set(self, attributes: Attributes) -> None:
        """Do nothing."""


_OFF = _Off()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call of a model that has ended, by a client of the gateway or by Foveate itself."""

    provider: str
    model: str
    outcome: str
    seconds: float
    operation: str = "chat"
    session_id: str = ""
    address: str = ""
    """The provider's URL; only its host and port are recorded."""
    purpose: str = ""
    first_seconds: float = 0.0
    """Time to the first part of a streamed answer; 0 if it was not streamed."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    thinking_tokens: int = 0
    status: int = 0


class LabelNames:
    """The names that a label of metrics may have: the first ones, later ones are `other`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def name(self, name: str) -> str:
        if name not in self._known and len(self._known) >= MAX_NAMES:
            return "other"
        self._known.add(name)
        return name


class _Telemetry:
    """The tracer and the instruments of this process."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - only with the extra
        from opentelemetry.context import Context  # noqa: PLC0415
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

        self.models = LabelNames()
        self.tracer = (tracers or trace.get_tracer_provider()).get_tracer(SCOPE)
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        self.kinds = SpanKind
        self.root: Context = Context()
        self.failed = Status(StatusCode.ERROR)
        self.use_span = trace.use_span

        def histogram(name: str, unit: str, description: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=[float(bucket) for bucket in buckets]
            )

        self.calls = histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", DURATION_SECONDS)
        self.tokens = histogram("gen_ai.client.token.usage", "{token}", "Number of tokens used.", TOKENS)
        first = "Time to the first part of a streamed answer."
        self.first = histogram("gen_ai.client.operation.time_to_first_chunk", "s", first, DURATION_SECONDS)
        self.steps = histogram("foveate.operation.duration", "s", "Duration of a step of Foveate.", DURATION_SECONDS)
        self.fill = histogram("foveate.context.fill", "1", "Share of its budget that a context uses.", FILL)


_active: _Telemetry | None = None


class _On:
    """A span that is current during its block. Errors are recorded by their class: a message may have content."""

    __slots__ = ("_began", "_current", "_name", "_span", "_telemetry")

    def __init__(self, telemetry: _Telemetry, name: SpanName, *, is_root: bool) -> None:
        self._telemetry = telemetry
        self._name = name
        self._began = time.perf_counter()
        self._span: Span = telemetry.tracer.start_span(name, context=telemetry.root if is_root else None)
        self._current = telemetry.use_span(
            self._span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        )

    def __enter__(self) -> _On:
        self._current.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        measured: dict[str, str] = {"foveate.operation": self._name}
        if isinstance(error, Exception):
            measured[ERROR] = type(error).__name__
            self._span.set_attribute(ERROR, measured[ERROR])
            self._span.set_status(self._telemetry.failed)
        self._current.__exit__(None, None, None)
        self._telemetry.steps.record(time.perf_counter() - self._began, measured)

    def __bool__(self) -> bool:
        return True

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(dict(attributes))


def span(name: SpanName, *, is_root: bool = False) -> SpanScope:
    """Begin a span; `is_root` for background work, which does not belong to the request that began it."""
    return _OFF if _active is None else _On(_active, name, is_root=is_root)


def is_on() -> bool:
    return _active is not None


def tracer() -> Tracer:
    """Return the tracer, while telemetry is on."""
    assert _active is not None, "telemetry is on"
    return _active.tracer


def start(tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
    """Turn telemetry on for this process; default: with the global providers. A later call changes nothing."""
    global _active  # noqa: PLW0603 - a process has one
    if _active is None:
        try:
            _active = _Telemetry(tracers, meters)
        except ImportError as error:
            raise SettingsError(
                "telemetry.enabled", f"needs an extra: pip install 'foveate[otel]' ({error})"
            ) from error


def stop() -> None:
    """Turn telemetry off."""
    global _active  # noqa: PLW0603
    _active = None


@contextmanager
def exporting(settings: TelemetrySettings) -> Iterator[None]:
    """Export during the block, by the variables OTEL_…; if a global provider is set up, that exports instead."""
    if not settings.enabled:
        yield
        return
    providers = _providers()
    start(*providers)
    try:
        yield
    finally:
        stop()
        for provider in providers:
            provider.shutdown()


def _providers() -> tuple[Any, ...]:
    """Make the providers that export with OTLP over HTTP; none if the process has its own."""
    try:
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError("telemetry.enabled", f"needs an extra: pip install 'foveate[otel]' ({error})") from error
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return ()
    is_named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if is_named else {"service.name": SCOPE})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return tracers, MeterProvider([reader], resource=resource, shutdown_on_exit=False)


def context_made(tokens: int, budget_tokens: int) -> None:
    """Measure how full a context is."""
    if _active is not None and budget_tokens:
        _active.fill.record(tokens / budget_tokens)


def model_call(call: ModelCall) -> None:
    """Record a call that has just ended as a span of the current one, and in the metrics."""
    if _active is None:
        return
    named, told = _described(call)
    end_ns = time.time_ns()
    span = _active.tracer.start_span(
        f"{call.operation} {call.model}",
        kind=_active.kinds.CLIENT,
        attributes=told,
        start_time=end_ns - int(call.seconds * 1_000_000_000),
    )
    if ERROR in named:
        span.set_status(_active.failed)
    span.end(end_ns)
    named[MODEL] = _active.models.name(call.model)
    _active.calls.record(call.seconds, named)
    if call.first_seconds:
        _active.first.record(call.first_seconds, named)
    counted = {key: value for key, value in named.items() if key != ERROR}
    for kind, tokens in (("input", call.input_tokens), ("output", call.output_tokens)):
        if tokens:
            _active.tokens.record(tokens, {**counted, "gen_ai.token.type": kind})


def _described(call: ModelCall) -> tuple[dict[str, str | int], dict[str, str | int | float]]:
    """Return the attributes of a call's metrics, and those of its span."""
    named: dict[str, str | int] = {
        OPERATION: call.operation,
        "gen_ai.provider.name": PROVIDERS.get(call.provider, call.provider),
        MODEL: call.model,
    }
    try:
        url = urlsplit(call.address)
        host, port = url.hostname, url.port or PORTS.get(url.scheme)
    except ValueError:
        host, port = None, None
    if host and port:
        named |= {"server.address": host, "server.port": port}
    if call.outcome not in ENDED_WELL:
        named[ERROR] = str(call.status) if call.outcome == "refused" and call.status else call.outcome
    told: dict[str, str | int | float] = {
        **named,
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
    }
    more: dict[str, str | int | float] = {
        SESSION: call.session_id,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.written_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.thinking_tokens,
        "gen_ai.response.time_to_first_chunk": call.first_seconds,
        "http.response.status_code": call.status,
        "foveate.purpose": call.purpose,
    }
    return named, told | {key: value for key, value in more.items() if value}
