"""A span for each request, as part of the client's trace if it sends `traceparent`. Only with `telemetry.enabled`."""

from __future__ import annotations

import time
from typing import Final

from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate import telemetry
from foveate.events import REQUEST_ID
from foveate.server.metrics import ROUTINE_PATHS, method_of, route_of

SERVER_ERROR: Final = 500


class TracingMiddleware:
    """Traces requests: method, route, status and the request's id; never its path, query, headers or body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ROUTINE_PATHS or not telemetry.is_on():
            await self._app(scope, receive, send)
            return
        method = method_of(scope)
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        parent = extract({key: headers[key] for key in ("traceparent", "tracestate") if key in headers})
        span = telemetry.tracer().start_span(
            method, parent, SpanKind.SERVER, {"http.request.method": method}, start_time=time.time_ns()
        )
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        current = trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False)
        with current:
            try:
                await self._app(scope, receive, watched)
            finally:
                route = route_of(scope)
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "foveate.request_id": REQUEST_ID.get()})
                if status:
                    span.set_attribute("http.response.status_code", status)
                if status >= SERVER_ERROR or not status:
                    span.set_attribute(telemetry.ERROR, str(status) if status else "disconnected")
                    span.set_status(Status(StatusCode.ERROR))
