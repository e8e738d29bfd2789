"""The `server` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.session.keys import RouteName

MB = 1_000_000


Url = Annotated[str, Meta(pattern=r"^https?://[^/\s]", description="a URL that begins with http:// or https://")]


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider that the gateway forwards requests to."""

    url: Url
    """Base URL, with or without `/v1`."""
    key_variable: str | None = None
    """Environment variable with the provider's key. None: the client's own key is forwarded."""
    models: tuple[str, ...] = ()
    """Patterns of model names, e.g. `claude-*`. Empty: any model."""
    formats: tuple[str, ...] = ()
    """Accepted formats: anthropic, openai, openai-responses or gemini. Empty: any format."""


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`foveate serve`: gateway, HTTP API and MCP."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on. Addresses other than loopback need a key (`foveate keys create`)."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8484
    """Port to listen on; 0 chooses a free one."""
    upstream: Url | None = None
    """Base URL of the default provider for the gateway."""
    upstreams: dict[str, Upstream] = {}
    """More providers by name, each a table with `url` and optionally `key_variable`, `models` and `formats`. The first
    that matches the model and the format of a request is used, otherwise `upstream`."""
    shared_routes: tuple[RouteName, ...] = ()
    """Routes of the gateway that may use a provider key of the server, besides conversations, model lists and token
    counts. With `files`, `batches`, `caches` or `responses` all clients reach each other's data at the provider."""
    bypass: bool = False
    """Forward requests of the gateway unchanged, and record nothing."""
    recall_projects: bool = True
    """A session that a coding agent starts through the gateway recalls the other sessions in the same folder, within
    its tenant."""
    first_key_file: str | None = None
    """Makes the first key of a store when the server starts: the key in this file, or a new one that is written to it
    if the file is missing. It has all rights. None: keys are made by `foveate keys create` only."""
    allowed_hosts: tuple[str, ...] = ()
    """More values of the Host header to accept, without port; they need a key. On loopback, others than localhost are
    rejected."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins that may call the server, e.g. `https://app.example.com`. Empty: only pages of the server itself."""
    max_body_mb: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Maximum size of a request body in megabytes, measured after decompression."""
    requests_per_minute: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_200
    """Requests per minute and key; 0: no limit."""
    concurrent_requests: Annotated[int, Meta(ge=0, le=100_000)] = 128
    """Requests in progress per key; 0: no limit."""
    key_cache_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 2.0
    """How long a verified key is cached before it is looked up again; a revoked key works that long in other
    processes."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe messages that `foveate serve` writes to standard error; `info` includes one line per request."""
    log_format: Literal["text", "json"] = "text"
    """Format of these messages: one line of text, or one JSON object per line."""
    call_days: Annotated[float, Meta(ge=32, le=36_500)] = 90.0
    """Days for which calls of the gateway's clients and their costs are kept."""
    kept_requests: Annotated[int, Meta(ge=0, le=10_000)] = 50
    """Newest requests of each session that are kept as they were sent to the provider, without headers. 0: none."""
    kept_requests_mb: Annotated[float, Meta(gt=0, le=10_000)] = 16.0
    """Maximum size of these requests per session, compressed, in megabytes."""
    event_buffer: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    """Events kept per tenant, so that a client can resume its event stream."""
    idempotency_buffer: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Responses kept in memory, to repeat them for the same Idempotency-Key."""
    mcp_page_tokens: Annotated[int, Meta(ge=500, le=1_000_000)] = 8_000
    """Token limit of a page of turns, and of a context, that an MCP tool returns."""
    mcp_results: Annotated[int, Meta(ge=1, le=100)] = 10
    """Turns on a page of MCP search results."""
    mcp_sessions: Annotated[int, Meta(ge=1, le=1_000)] = 30
    """Sessions on a page of the MCP session list."""
    max_jobs: Annotated[int, Meta(ge=1, le=1_000)] = 2
    """Jobs of the HTTP API that run at the same time, and besides them runs of each tenant; others are queued."""
    shutdown_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    """How long open requests may take when the server stops."""
