"""The `server` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MB = 1_000_000


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider that the gateway forwards requests to."""

    url: Annotated[str, Meta(min_length=1)]
    """Its base URL, with or without `/v1`."""
    key_variable: str | None = None
    """Environment variable with the provider's key. None: the client's own key is passed on."""
    models: tuple[str, ...] = ()
    """Patterns of model names, e.g. `claude-*`. Empty: any model."""
    formats: tuple[str, ...] = ()
    """Formats it takes: anthropic, openai, openai-responses or gemini. Empty: any format."""


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`foveate serve`: gateway, HTTP API and MCP."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on. Any other than loopback needs a key (`foveate keys create`)."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8484
    """Port to listen on; 0 chooses a free one."""
    upstream: str | None = None
    """Base URL of the default provider for the gateway."""
    upstreams: dict[str, Upstream] = {}
    """More providers by name, each a table with `url` and optionally `key_variable`, `models` and `formats`. The first
    that fits the model and the format of a request is used, then `upstream`."""
    bypass: bool = False
    """Forward requests of the gateway unchanged, and record nothing."""
    recall_projects: bool = True
    """A session that a coding agent begins through the gateway recalls the other sessions in the same folder, within
    its tenant."""
    allowed_hosts: tuple[str, ...] = ()
    """Further values of the Host header that are accepted, without port; they need a key. On loopback others than
    localhost are rejected."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins that may call the server, e.g. `https://app.example.com`. Empty: only pages of the server itself."""
    max_body_mb: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Maximum size of a request body in megabytes, measured after decompression."""
    requests_per_minute: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_200
    """Requests per minute and key; 0: no limit."""
    concurrent_requests: Annotated[int, Meta(ge=0, le=100_000)] = 128
    """Requests in progress per key; 0: no limit."""
    key_cache_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 2.0
    """How long a verified key is trusted before it is looked up again; a revoked key works for that long in other
    processes."""
    event_buffer: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    """Events kept per tenant, so that a client can resume its event stream."""
    idempotency_buffer: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Answers kept in memory to repeat for the same Idempotency-Key."""
    mcp_page_tokens: Annotated[int, Meta(ge=500, le=1_000_000)] = 8_000
    """Tokens of a page of turns, and of a context, that an MCP tool returns."""
    mcp_results: Annotated[int, Meta(ge=1, le=100)] = 10
    """Turns on a page of search results of MCP."""
    mcp_sessions: Annotated[int, Meta(ge=1, le=1_000)] = 30
    """Sessions on a page of MCP's list."""
    max_jobs: Annotated[int, Meta(ge=1, le=1_000)] = 2
    """Jobs of the HTTP API that run at the same time; others wait."""
    shutdown_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    """How long open requests may take when the server stops."""
