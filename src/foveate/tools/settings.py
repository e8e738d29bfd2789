"""The `tools` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class ExecSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of commands that `exec` executes."""

    seconds: Annotated[float, Meta(gt=0, le=3_600)] = 120.0
    """Time limit of a command that names none."""
    memory_bytes: Annotated[int, Meta(ge=16_000_000)] = 4_000_000_000
    """Memory of a command and all its processes."""
    disk_bytes: Annotated[int, Meta(ge=1)] = 4_000_000_000
    """Largest file that a command writes, and how much of a disk's free space it uses."""
    processes: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Processes and threads at the same time."""
    output_bytes: Annotated[int, Meta(ge=1_000)] = 1_000_000
    """Output that is kept: the first and the last half of it."""
    read_folders: tuple[str, ...] = ()
    """Folders that commands may read and execute from, in addition to the system's and the Python in use."""


class WebSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`fetch_url` and `web_search`."""

    search: Literal["", "perplexity", "searxng"] = ""
    """Service that `web_search` uses; empty: none."""
    search_url: str = ""
    """Base URL of the search service. Empty: Perplexity's own; SearXNG has none."""
    search_key_variable: str = "PERPLEXITY_API_KEY"
    """Environment variable with the key of the search service."""
    firecrawl_url: str = ""
    """Base URL of a Firecrawl service that fetches pages, e.g. https://api.firecrawl.dev. Empty: plain HTTP."""
    firecrawl_key_variable: str = "FIRECRAWL_API_KEY"
    """Environment variable with Firecrawl's key."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be fetched though their addresses are private, e.g. wiki.intranet or 127.0.0.1:8080."""
    seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Time limit of a fetch or a search, redirects included."""
    max_bytes: Annotated[int, Meta(ge=1_000)] = 5_000_000
    """Largest page, decompressed."""
    cache_seconds: Annotated[float, Meta(ge=0)] = 900.0
    """Seconds that a page or a search result is cached. 0: never."""


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server: a command to start, or a URL. Keys of other clients are ignored."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variables for the command, in addition to a minimal set."""
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ("*",)
    """Patterns of the tools that may be used; `list_resources` and `read_resource` are two of them."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 60.0
    trust_annotations: bool = False
    """Trust the server's read-only annotations; read-only tools are then executed without approval."""


class ToolsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that `foveate run`, `foveate chat`, agents and `foveate tools` can use."""

    packs: dict[str, tuple[str, ...]] = {}
    """Your own packs: names of tools and of other packs, by the pack's name."""
    allow_exec: bool = False
    """Offer and execute `exec`, in a sandbox."""
    max_file_bytes: Annotated[int, Meta(ge=1)] = 10_000_000
    """Largest file that a tool reads whole. A range of a larger text file can still be read."""
    script_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    """Execution time of a script, without the time its tools take."""
    script_memory_bytes: Annotated[int, Meta(ge=1_000_000)] = 100_000_000
    """Memory of a script."""
    script_calls: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Tool calls of one script."""
    exec: ExecSettings = ExecSettings()
    """Limits of commands."""
    web: WebSettings = WebSettings()
    """Pages and searches."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers by name, for `--mcp NAME` and for background agents."""
