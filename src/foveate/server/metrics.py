"""Metrics of the server in the Prometheus text format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.session.client_calls import CallNote, CallRow
from foveate.session.keys import KeyInfo
from foveate.session.values import QueueState
from foveate.telemetry import LabelNames

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_FILL = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
FILL = "foveate_context_fill_ratio"
BUCKETS_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
ROUTINE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that supervisors ask all the time."""
HELP = {
    "foveate_requests_total": "Requests by route, method and status.",
    "foveate_request_seconds": "Seconds until the first byte of the answer, by route.",
    "foveate_requests_in_progress": "Requests in progress.",
    "foveate_events_total": "Events by kind.",
    "foveate_events_dropped_total": "Events lost because the server fell behind.",
    "foveate_sessions": "Sessions in the store.",
    "foveate_queue_sessions": "Sessions with work for a worker.",
    "foveate_queue_model_turns": "Turns that are due for a model.",
    "foveate_queue_waited_seconds": "Waiting time of the oldest turn that is due for a model.",
    "foveate_turns_in_progress": "Turns that workers have leased.",
    "foveate_leases_expired": "Turns with an expired lease; another worker claims them.",
    "foveate_turns_parked": "Turns that are no longer retried.",
    "foveate_workers": "Processes that do background work, by command.",
    "foveate_worker_heartbeat_age_seconds": "Time since the last heartbeat of each process that does background work.",
    "foveate_model_calls_total": "Calls of models, by source: the gateway's clients, or this process itself.",
    "foveate_model_tokens_total": "Tokens as providers report them. input has cached and written, output has thinking.",
    "foveate_model_cost_usd_total": "Price of these calls.",
    "foveate_upstream_errors_total": "Calls without a usable answer, by outcome and HTTP status.",
    "foveate_cache_share": "Share of the input tokens that providers read from their cache, since the start.",
    "foveate_key_spent_usd": "Spent by each key with a budget in its current period, without calls in progress.",
    "foveate_key_budget_usd": "Budget of each key for its current period.",
    FILL: "Share of its budget that a request of the gateway uses.",
    "foveate_calls_dropped_total": "Calls that were not accounted, because the store could not be written for long.",
}
ANSWERED = frozenset({"ok", "cancelled", "running"})
"""Outcomes of calls that are no errors of a provider."""
NANO = 1_000_000_000
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Histogram:
    """Observations by bucket, and their sum."""

    limits: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.limits) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.limits, value)] += 1
        self.total += value


class Metrics:
    """The counters of one server process."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[Labels]] = defaultdict(Counter)
        self._histograms: dict[str, dict[Labels, _Histogram]] = defaultdict(dict)
        self._gauges: dict[str, dict[Labels, float]] = defaultdict(dict)
        self._models = LabelNames()
        self.running = 0

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter; labels must have few different values."""
        self._counters[name][tuple(sorted(labels.items()))] += amount  # type: ignore[assignment]

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        self._observe(name, seconds, BUCKETS_SECONDS, labels)

    def _observe(self, name: str, value: float, limits: tuple[float, ...], labels: Mapping[str, str]) -> None:
        key = tuple(sorted(labels.items()))
        histogram = self._histograms[name].get(key)
        if histogram is None:
            histogram = self._histograms[name][key] = _Histogram(limits)
        histogram.add(value)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._gauges[name][tuple(sorted(labels.items()))] = value

    def count_client_call(self, note: CallNote, row: CallRow) -> None:
        """Count a call of a gateway's client."""
        self._count_call(row, "gateway")
        if note.budget_tokens and note.tokens:
            self._observe(FILL, note.tokens / note.budget_tokens, BUCKETS_FILL, {})

    def count_own_call(self, row: CallRow) -> None:
        """Count a call of a model that this process made itself."""
        self._count_call(row, "own")

    def _count_call(self, row: CallRow, source: str) -> None:
        model = self._models.name(row.model)
        self.count("foveate_model_calls_total", source=source, model=model)
        self.count("foveate_model_cost_usd_total", row.nano_usd / NANO, source=source, model=model)
        tokens = {
            "input": row.input_tokens,
            "cached": row.cached_tokens,
            "written": row.written_tokens,
            "output": row.output_tokens,
            "thinking": row.thinking_tokens,
        }
        for kind, number in tokens.items():
            self.count("foveate_model_tokens_total", number, type=kind, source=source, model=model)
        if row.outcome not in ANSWERED:
            status = str(row.status) if row.status else ""
            self.count("foveate_upstream_errors_total", source=source, outcome=row.outcome, status=status)

    def raise_to(self, name: str, total: float) -> None:
        """Set a counter that is kept elsewhere."""
        self._counters[name][()] = total  # type: ignore[assignment]

    def set_queue(self, queue: QueueState) -> None:
        """Set the gauges of the work queue and of the processes that work on it."""
        self.set("foveate_queue_sessions", queue.due_sessions)
        self.set("foveate_queue_model_turns", queue.due_model_turns)
        self.set("foveate_queue_waited_seconds", queue.waited_seconds)
        self.set("foveate_turns_in_progress", queue.leased)
        self.set("foveate_leases_expired", queue.expired)
        self.set("foveate_turns_parked", queue.parked)
        ages = self._gauges["foveate_worker_heartbeat_age_seconds"]
        ages.clear()  # of processes that ended since
        for kind in ("serve", "worker"):
            running = [worker for worker in queue.workers if worker.kind == kind]
            self.set("foveate_workers", len(running), kind=kind)
            for worker in running:
                name = f"{worker.host}:{worker.pid}"
                self.set("foveate_worker_heartbeat_age_seconds", worker.seen_seconds, kind=kind, worker=name)

    def set_keys(self, keys: Sequence[KeyInfo]) -> None:
        """Set the gauges of the keys that have a budget."""
        spent, budgets = self._gauges["foveate_key_spent_usd"], self._gauges["foveate_key_budget_usd"]
        spent.clear()  # of keys that were revoked since
        budgets.clear()
        for key in keys:
            if key.use is not None:
                self.set("foveate_key_spent_usd", key.use.spent_usd, key=key.id)
            if key.budget.usd is not None:
                self.set("foveate_key_budget_usd", key.budget.usd, key=key.id)

    def _set_cache_shares(self) -> None:
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        for labels, amount in self._counters["foveate_model_tokens_total"].items():
            named = dict(labels)
            sums[named["source"]][named["type"]] += amount
        for source, tokens in sums.items():
            if tokens["input"]:
                self.set("foveate_cache_share", tokens["cached"] / tokens["input"], source=source)

    def render(self) -> str:
        """Return all metrics as text."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        self.set("foveate_requests_in_progress", self.running)
        self._set_cache_shares()
        for name, gauges in sorted(self._gauges.items()):
            yield from _head(name, "gauge")
            for labels, value in sorted(gauges.items()):
                yield f"{name}{_written(labels)} {value:.9g}"
        for name, counted in sorted(self._counters.items()):
            yield from _head(name, "counter")
            for labels, amount in sorted(counted.items()):
                yield f"{name}{_written(labels)} {amount:.12g}"
        for name, found in sorted(self._histograms.items()):
            yield from _head(name, "histogram")
            for labels, histogram in sorted(found.items()):
                yield from _buckets(name, labels, histogram)


class MetricsMiddleware:
    """Counts requests, and measures the time until the answer begins."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        metrics = self._metrics

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = route_of(scope)
                metrics.observe("foveate_request_seconds", time.perf_counter() - began, route=route)
                metrics.count(
                    "foveate_requests_total", route=route, method=method_of(scope), status=str(message["status"])
                )
            await send(message)

        metrics.running += 1
        try:
            await self._app(scope, receive, watched)
        finally:
            metrics.running -= 1


def route_of(scope: Scope) -> str:
    """Return the route's template, not the path, which has ids and so too many values."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "other"


def method_of(scope: Scope) -> str:
    """Return the method; `other` for an unknown one, which may be any text."""
    method: str = scope["method"]
    return method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS") else "other"


def _head(name: str, kind: str) -> Iterator[str]:
    if name in HELP:
        yield f"# HELP {name} {HELP[name]}"
    yield f"# TYPE {name} {kind}"


def _buckets(name: str, labels: Labels, histogram: _Histogram) -> Iterator[str]:
    total = 0
    for limit, count in zip((*histogram.limits, None), histogram.counts, strict=True):
        total += count
        edge = "+Inf" if limit is None else f"{limit:g}"
        yield f"{name}_bucket{_written((*labels, ('le', edge)))} {total}"
    yield f"{name}_sum{_written(labels)} {histogram.total:.6f}"
    yield f"{name}_count{_written(labels)} {total}"


def _written(labels: Labels) -> str:
    if not labels:
        return ""
    shown = (f'{key}="{_escaped(value)}"' for key, value in labels)
    return f"{{{','.join(shown)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
