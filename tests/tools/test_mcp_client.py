"""MCP servers as tools: allow lists, consent to changed definitions, resources, and servers that lie or die."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from foveate.errors import InputError
from foveate.tools import Toolbox, ToolOutput, Workspace
from foveate.tools.mcp_client import McpServer, load_config, mcp_tools

SCRIPT = str(Path(__file__).parent / "mcp_server.py")


def _server(*arguments: str, allow: tuple[str, ...] = ("*",)) -> dict[str, McpServer]:
    return {"harbour": McpServer(command=sys.executable, args=(SCRIPT, *arguments), allow=allow)}


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
    with pytest.raises(InputError, match="MCP server can't be used"):
        _names({"harbour": McpServer(command=command)}, tmp_path / "state.json")


def test_a_server_that_can_not_list_its_tools_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'harbour' answered with an error: the list is lost"):
        _names(_server("broken"), tmp_path / "state.json")
