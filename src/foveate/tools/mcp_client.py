"""Tools and resources of MCP servers, over stdio and HTTP, as entries of a toolbox.

    config ──► one connection for each server ──► allowed tools, with unchanged definitions ──► `mcp__SERVER__TOOL`

The configuration is the `mcpServers` table that coding agents use, or `tools.mcp_servers` of the settings. A server
offers only what its `allow` list names. What it says about its tools, e.g. that one is read-only, is believed only with
`trust_annotations`. The hash of each definition is kept: one that changed since it was first seen is withheld until a
person consents.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from foveate.errors import InputError
from foveate.text import compact_json
from foveate.tools.settings import McpServer
from foveate.tools.tool import Annotations, Tool, ToolError, ToolOutput, missing_extra, tool
from foveate.turn import Attachment, Json

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

STATE_FILE: Final = "foveate/mcp-definitions.json"
"""File in the user's state folder: hashes of the definitions that were seen."""
MAX_DESCRIPTION_CHARS = 2_000
MAX_NAME_CHARS = 64
"""Limit of the providers."""
CONNECT_SECONDS = 20.0
MAX_PAGES = 100
MAX_TOOLS = 1_000
MAX_DEFINITION_BYTES = 1_000_000
"""Limit of all definitions of a server: some 250,000 tokens, more than most models read."""
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NO_ARGUMENTS = msgspec.defstruct("NoArguments", [])
_Answer = TypeVar("_Answer")

Consent = Callable[[str, Sequence[str]], Awaitable[bool]]
"""Asks a person whether the changed definitions of a server's tools may be used."""


class _File(Struct, frozen=True, kw_only=True):
    servers: dict[str, McpServer] = msgspec.field(name="mcpServers")


async def withhold(_server: str, _changed: Sequence[str]) -> bool:
    """Withhold changed definitions: the consent where nobody can be asked."""
    return False


def load_config(path: Path) -> dict[str, McpServer]:
    """Read the servers of a configuration file; `InputError` names what is wrong with it."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File).servers
    except OSError as error:
        other = "name a file, or a server of tools.mcp_servers"
        raise InputError(f"the MCP configuration {path} can't be read: {error.strerror}; {other}") from error
    except msgspec.DecodeError as error:
        raise InputError(f'{path}: {error}; it takes {{"mcpServers": {{"name": {{"command": …}}}}}}') from error
    return {name: _checked(name, server, str(path)) for name, server in found.items()}


def configured(servers: Mapping[str, McpServer], names: Sequence[str]) -> dict[str, McpServer]:
    """Return the servers with these names from `tools.mcp_servers`; `InputError` if one is missing or invalid."""
    for name in names:
        if name not in servers:
            known = ", ".join(servers) or "none"
            raise InputError(f"the settings have no MCP server {name!r}; tools.mcp_servers has {known}")
    return {name: _checked(name, servers[name], "tools.mcp_servers") for name in names}


def _checked(name: str, server: McpServer, place: str) -> McpServer:
    if (server.command is None) == (server.url is None):
        raise InputError(f"{place}: the server {name!r} needs either a command or a url")
    return server


@asynccontextmanager
async def mcp_tools(
    servers: Mapping[str, McpServer],
    *,
    consent: Consent = withhold,
    tell: Callable[[str], object] = _log.warning,
    state: Path | None = None,
) -> AsyncIterator[list[Tool]]:
    """Yield the tools of all servers while the block runs.

    A server that can't be used is left out, and `tell` gets the reason; `InputError` if none can be used.
    """
    known = _Definitions(state or _state_path())
    async with AsyncExitStack() as stack:
        tools: list[Tool] = []
        problems: list[InputError] = []
        for name, server in servers.items():
            connection = _Connection(name, server)
            stack.push_async_callback(connection.close)
            try:
                await connection.open()
                tools += await _tools_of(connection, known, consent)
            except InputError as error:
                problems.append(error)
        if problems and len(problems) == len(servers):
            raise problems[0]
        for problem in problems:
            tell(f"{problem}; its tools are left out")
        yield tools


class _Connection:
    """A server. The client runs in its own task, because the task that opened it must also close it."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name = name
        self.server = server
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None

    async def open(self) -> None:
        """Connect. `InputError` if the server does not start or does not speak MCP."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closed.clear()
        self._task = asyncio.create_task(self._hold(ready))
        self._task.add_done_callback(lambda task: _pass_failure(self.name, task, ready))
        try:
            self._client = await asyncio.wait_for(asyncio.shield(ready), CONNECT_SECONDS)
        except TimeoutError:
            raise InputError(f"the MCP server {self.name!r} did not answer in {CONNECT_SECONDS:g} seconds") from None

    async def close(self) -> None:
        self._closed.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=CONNECT_SECONDS)
            for task in late:
                task.cancel()

    async def client(self) -> Client:
        """Return the connection; reconnect if the server has died."""
        if self._client is None or self._task is None or self._task.done():
            await self.open()
        assert self._client is not None, "open connected"
        return self._client

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        client_class, target = _target(self.server)
        async with AsyncExitStack() as stack:
            transport = target(stack)
            client = client_class(transport, read_timeout_seconds=self.server.timeout_seconds)
            await stack.enter_async_context(client)
            ready.set_result(client)
            await self._closed.wait()


def _pass_failure(name: str, task: asyncio.Task[None], ready: asyncio.Future[Client]) -> None:
    error = None if task.cancelled() else task.exception()
    if not ready.done():
        reason = _root_cause(error) if error else "it closed the connection"
        ready.set_exception(InputError(f"the MCP server {name!r} can't be used: {reason}"))


def _root_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _target(server: McpServer) -> tuple[Callable[..., Client], Callable[[AsyncExitStack], Any]]:
    """Return the client's class, and a function that opens its transport."""
    try:
        import httpx2  # noqa: PLC0415 # of the extra `tools`
        from mcp import Client, StdioServerParameters  # noqa: PLC0415
        from mcp.client.stdio import stdio_client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    except ImportError:
        raise missing_extra("an MCP server") from None

    def transport(stack: AsyncExitStack) -> Any:
        if server.url is not None:
            http = httpx2.AsyncClient(headers=server.headers, timeout=server.timeout_seconds)
            stack.push_async_callback(http.aclose)
            return streamable_http_client(server.url, http_client=http)
        assert server.command is not None, "load_config checked it"
        parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=server.env, cwd=server.cwd
        )
        silent = stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115 # the stack closes it
        return stdio_client(parameters, errlog=silent)

    return Client, transport


class _Offer(NamedTuple):
    """A tool that a server offers."""

    tool: Tool
    digest: str
    """Hash of the definition as the server sends it."""


async def _tools_of(connection: _Connection, known: _Definitions, consent: Consent) -> list[Tool]:
    found = {one.name: _offer(connection, one) for one in await _list_tools(connection)}
    if (await connection.client()).server_capabilities.resources is not None:
        found |= {name: _Offer(tool, _digest(tool)) for name, tool in _resource_tools(connection).items()}
    allowed = connection.server.allow
    offers: dict[str, _Offer] = {}
    for name, offer in found.items():
        if any(fnmatchcase(name, each) for each in allowed):
            offers.setdefault(offer.tool.name, offer)  # two names can differ in characters that providers reject
    digests = {name: offer.digest for name, offer in offers.items()}
    changed = known.changed(connection.name, digests)
    if changed and not await consent(connection.name, sorted(changed)):
        digests = {name: digest for name, digest in digests.items() if name not in changed}
    known.keep(connection.name, digests)
    return [offers[name].tool for name in digests]


async def _list_tools(connection: _Connection) -> list[types.Tool]:
    """Read all pages of a server's tools; `InputError` at a limit, since a server decides how many there are."""
    found: list[types.Tool] = []
    size, cursor = 0, None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            for _ in range(MAX_PAGES):
                page = await _ask(connection, lambda client, cursor=cursor: client.list_tools(cursor=cursor))  # type: ignore[misc]
                found += page.tools
                size += sum(len(tool.model_dump_json()) for tool in page.tools)
                if len(found) > MAX_TOOLS:
                    raise _too_much(connection, f"more than {MAX_TOOLS:,} tools")
                if size > MAX_DEFINITION_BYTES:
                    raise _too_much(connection, f"definitions of more than {MAX_DEFINITION_BYTES:,} bytes")
                if not (cursor := page.next_cursor):
                    return found
    except TimeoutError:
        raise _too_much(connection, f"no end of its list of tools in {CONNECT_SECONDS:g} seconds") from None
    raise _too_much(connection, f"more than {MAX_PAGES} pages of tools")


def _too_much(connection: _Connection, what: str) -> InputError:
    return InputError(f"the MCP server {connection.name!r} has {what}, so it can't be used")


def _offer(connection: _Connection, offered: types.Tool) -> _Offer:
    hints = offered.annotations
    tool = Tool(
        name=_tool_name(connection.name, offered.name),
        description=(offered.description or offered.title or offered.name)[:MAX_DESCRIPTION_CHARS],
        arguments=_NO_ARGUMENTS,
        raw_schema=offered.input_schema,
        run=partial(_call, connection, offered.name),
        timeout_seconds=connection.server.timeout_seconds,
        annotations=Annotations(open_world=True),
        approval="ask",
    )
    digest = _digest(tool, None if hints is None else [hints.read_only_hint, hints.destructive_hint])
    if hints is None or not connection.server.trust_annotations:
        return _Offer(tool, digest)
    is_read_only = bool(hints.read_only_hint)
    annotations = Annotations(
        read_only=is_read_only,
        destructive=not is_read_only and hints.destructive_hint is not False,
        open_world=hints.open_world_hint is not False,
    )
    return _Offer(replace(tool, annotations=annotations, approval="never" if is_read_only else "ask"), digest)


def _tool_name(server: str, name: str) -> str:
    full = f"mcp__{_NAME.sub('_', server)}__{_NAME.sub('_', name)}"
    if len(full) <= MAX_NAME_CHARS:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:8]
    return f"{full[: MAX_NAME_CHARS - 9]}_{digest}"


async def _call(connection: _Connection, name: str, /, **arguments: Json) -> ToolOutput:
    result = await _ask(connection, lambda client: client.call_tool(name, arguments))
    return _output(result.content, is_error=bool(result.is_error), structured=result.structured_content)


async def _ask(connection: _Connection, request: Callable[[Client], Awaitable[_Answer]]) -> _Answer:
    """Send a request; `ToolError` if it fails or the server ended. The next request reconnects."""
    from mcp import MCPError  # noqa: PLC0415 # of the extra `tools`
    from mcp_types import CONNECTION_CLOSED  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    client = await connection.client()
    try:
        return await request(client)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            await connection.close()
            raise ToolError(
                f"the MCP server {connection.name!r} ended during the call; it may have taken effect"
            ) from error
        raise ToolError(f"the MCP server {connection.name!r} answered with an error: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        raise ToolError(f"the MCP server {connection.name!r} does not follow the protocol: {problem}") from error


def _output(content: Sequence[Any], *, is_error: bool = False, structured: Any = None) -> ToolOutput:
    texts: list[str] = []
    images: list[Attachment] = []
    for block in content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image":
                images.append(Attachment("image", data=block.data, media_type=block.mime_type))
            case "resource":
                texts.append(_resource_text(block.resource))
            case "resource_link":
                texts.append(f"{block.name}: {block.uri}")
            case kind:
                texts.append(f"({kind} content is not shown)")
    if not texts and not images and structured is not None:
        texts.append(compact_json(structured))
    text = "\n".join(texts)
    return ToolOutput(f"Error: {text}" if is_error else text, tuple(images), is_error=is_error)


def _resource_text(contents: Any) -> str:
    text = getattr(contents, "text", None)
    return text if isinstance(text, str) else f"({contents.uri}: {contents.mime_type or 'binary'}, not shown)"


def _resource_tools(connection: _Connection) -> dict[str, Tool]:
    async def list_resources() -> str:
        found = (await _ask(connection, lambda client: client.list_resources())).resources
        return "".join(f"{one.uri} {one.title or one.name}\n" for one in found) or "(no resources)\n"

    async def read_resource(uri: str) -> ToolOutput:
        found = await _ask(connection, lambda client: client.read_resource(uri))
        return ToolOutput("\n".join(map(_resource_text, found.contents)))

    list_resources.__doc__ = f"List the resources of the MCP server {connection.name}."
    read_resource.__doc__ = f"Read a resource of the MCP server {connection.name}."
    annotations = Annotations(read_only=True, destructive=False, open_world=True)
    seconds = connection.server.timeout_seconds
    runs: dict[str, Callable[..., Any]] = {"list_resources": list_resources, "read_resource": read_resource}
    return {
        name: tool(name=_tool_name(connection.name, name), annotations=annotations, timeout_seconds=seconds)(run)
        for name, run in runs.items()
    }


class _Definitions:
    """Hashes of the definitions that were seen, by server and tool, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, dict[str, str]] = {}
        if path.exists():
            try:
                self._seen = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])
            except msgspec.DecodeError as error:
                raise InputError(f"{path} is damaged; delete it to trust the definitions of today: {error}") from error

    def changed(self, server: str, digests: Mapping[str, str]) -> set[str]:
        """Return the tools whose definition changed, and new tools of a server that was seen without them."""
        seen = self._seen.get(server)
        return set() if seen is None else {name for name, digest in digests.items() if seen.get(name) != digest}

    def keep(self, server: str, digests: Mapping[str, str]) -> None:
        found = {**self._seen.get(server, {}), **digests}
        if found == self._seen.get(server):
            return
        self._seen[server] = found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self._seen)))
        temporary.replace(self._path)


def _digest(tool: Tool, marking: Sequence[bool | None] | None = None) -> str:
    text = compact_json([tool.name, tool.description, tool.schema, None if marking is None else list(marking)])
    return hashlib.sha256(text.encode()).hexdigest()


def _state_path() -> Path:
    folder = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(folder) / STATE_FILE
