"""MCP servers as tools: allow lists, consent to changed definitions, resources, and servers that lie or die."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from foveate.errors import InputError
from foveate.tools import Tool, Toolbox, ToolOutput, Workspace
from foveate.tools.mcp_client import load_config, mcp_tools
from foveate.tools.settings import McpServer

SCRIPT = str(Path(__file__).parent / "mcp_server.py")
LIAR = str(Path(__file__).parent / "mcp_liar.py")


def _server(*arguments: str, allow: tuple[str, ...] = ("*",), trust: bool = False) -> dict[str, McpServer]:
    server = McpServer(command=sys.executable, args=(SCRIPT, *arguments), allow=allow, trust_annotations=trust)
    return {"harbour": server}


async def _yes(*_given: object) -> bool:
    return True


def _names(servers: dict[str, McpServer], state: Path, *, consents: bool = False) -> list[str]:
    async def run() -> list[str]:
        asked: list[str] = []

        async def consent(_server: str, changed: Sequence[str]) -> bool:
            asked.extend(changed)
            return consents

        async with mcp_tools(servers, consent=consent, state=state) as tools:
            return [*sorted(tool.name for tool in tools), *(f"asked {name}" for name in asked)]

    return asyncio.run(run())


def test_calls_resources_and_a_server_that_dies(tmp_path: Path) -> None:
    async def run() -> list[ToolOutput]:
        async with mcp_tools(_server(), state=tmp_path / "state.json") as tools:
            box = Toolbox(tools, Workspace(), approve=_yes)
            return [
                await box.call("mcp__harbour__berth", {"number": 3}),
                await box.call("mcp__harbour__berth", {"number": "deep"}),
                await box.call("mcp__harbour__list_resources", {}),
                await box.call("mcp__harbour__read_resource", {"uri": "harbour://tides"}),
                await box.call("mcp__harbour__moor", {"name": "Ida", "connection": "rope"}),
                await box.call("mcp__harbour__read_resource", {"uri": "harbour://storm"}),
                await box.call("mcp__harbour__die", {}),
                await box.call("mcp__harbour__berth", {"number": 4}),
            ]

    berth, wrong, resources, tides, moored, storm, died, again = asyncio.run(run())
    assert berth.text == "berth 3: 12 m"
    assert wrong.is_error
    assert "harbour://tides" in resources.text
    assert tides.text == "high water 12:40"
    assert moored.text == "Ida by rope"
    assert "ended during the call" in storm.text
    assert "ended during the call" in died.text
    assert again.text == "berth 4: 12 m"


def test_only_allowed_tools_are_offered_and_a_changed_one_needs_consent(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    resources = ["mcp__harbour__list_resources", "mcp__harbour__read_resource"]
    assert _names(_server(allow=("ber*",)), tmp_path / "other.json") == ["mcp__harbour__berth"]
    assert _names(_server(allow=("ber*", "*_resource*")), state) == ["mcp__harbour__berth", *resources]
    changed = _server("changed", allow=("ber*", "*_resource*"))
    assert _names(changed, state) == [*resources, "asked mcp__harbour__berth"]
    assert "mcp__harbour__berth" in _names(changed, state, consents=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "truncated"), ("{}", "mcpServers"), ('{"mcpServers": {"a": {}}}', "either a command or a url")],
)
def test_a_wrong_configuration_says_what_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        load_config(path)


@pytest.mark.parametrize("command", ["/nonexistent/server", "/bin/true"])
def test_a_server_that_does_not_start_is_named(command: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MCP server 'harbour' can't be used"):
        _names({"harbour": McpServer(command=command)}, tmp_path / "state.json")


def test_a_server_that_can_not_list_its_tools_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'harbour' answered with an error: the list is lost"):
        _names(_server("broken"), tmp_path / "state.json")


def test_a_tool_is_read_only_by_its_servers_word_only_where_the_server_is_trusted(tmp_path: Path) -> None:
    async def depth(*, trust: bool) -> Tool:
        async with mcp_tools(_server(allow=("depth",), trust=trust), state=tmp_path / "state.json") as (tool,):
            return tool

    doubted, trusted = asyncio.run(depth(trust=False)), asyncio.run(depth(trust=True))
    assert (doubted.annotations.read_only, doubted.annotations.open_world, doubted.approval) == (False, True, "ask")
    assert (trusted.annotations.read_only, trusted.annotations.open_world, trusted.approval) == (True, False, "never")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"tools": "none"}, "tools: Input should be a valid list"),
        ({"tools": [{"name": 3, "inputSchema": {"type": "object"}}]}, r"tools.0.name: Input should be a valid string"),
    ],
)
def test_a_malformed_list_of_tools_is_an_input_error_that_names_the_server(
    answer: object, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"'liar' does not follow the protocol: {problem}"):
        _names(_liar(answer, tmp_path), tmp_path / "state.json")


def _liar(answer: object, folder: Path) -> dict[str, McpServer]:
    """A server with this answer to each request for its tools."""
    (folder / "answer.json").write_text(json.dumps(answer), "utf-8")
    return {"liar": McpServer(command=sys.executable, args=(LIAR, str(folder / "answer.json")))}


def _listed(count: int, **schema: object) -> list[dict[str, object]]:
    return [{"name": f"t{number}", "inputSchema": {"type": "object", **schema}} for number in range(count)]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"tools": [], "nextCursor": "on"}, "more than 100 pages of tools"),
        ({"tools": _listed(1), "nextCursor": "on"}, "more than 100 pages of tools"),
        ({"tools": _listed(1_001)}, "more than 1,000 tools"),
        ({"tools": _listed(1, description="x" * 1_000_000)}, "definitions of more than 1,000,000 bytes"),
        ({"tools": "none"}, "does not follow the protocol"),
    ],
)
def test_a_server_with_too_many_tools_is_named_and_the_others_go_on(
    answer: object, problem: str, tmp_path: Path
) -> None:
    async def run() -> tuple[list[str], list[str]]:
        told: list[str] = []
        servers = {**_liar(answer, tmp_path), **_server(allow=("berth",))}
        async with mcp_tools(servers, tell=told.append, state=tmp_path / "state.json") as tools:
            return [tool.name for tool in tools], told

    names, told = asyncio.run(run())
    assert names == ["mcp__harbour__berth"]
    assert len(told) == 1
    assert "the MCP server 'liar'" in told[0]
    assert problem in told[0]
    with pytest.raises(InputError, match=problem):
        _names(_liar(answer, tmp_path), tmp_path / "state.json")
