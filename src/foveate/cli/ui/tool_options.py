"""Tool options of `foveate chat`, `run` and `agents`, and the approval of calls at the terminal."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from foveate.cli.ui.options import stacked
from foveate.cli.ui.terminal import console, line

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from foveate.agents.toolboxes import ToolChoice
    from foveate.client import Foveate
    from foveate.session import Session
    from foveate.tools import Tool, Toolbox

F = TypeVar("F", bound=Callable[..., Any])
MAX_SHOWN_CHARS = 4_000
"""Characters shown of an argument when asking for approval."""
QUESTION = "Execute it? [y]es, [n]o, [s] yes for the rest of the session: "
QUESTION_EACH = "Execute it? [y]es, [n]o: "
NOBODY = "{name} needs approval, and nobody can be asked because standard input is not a terminal; the user can allow \
it with --approve {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Tool options of the command line."""

    packs: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    allow_exec: bool = False
    allow_unsandboxed: bool = False
    mcp: tuple[str, ...] = ()
    """Names of MCP servers in the settings, and files that define others."""
    approved: frozenset[str] = frozenset()
    """Tools that need no approval."""

    @property
    def choice(self) -> ToolChoice:
        from foveate.agents.toolboxes import ToolChoice, folders

        return ToolChoice(
            packs=self.packs,
            roots=folders(self.roots),
            allow_exec=self.allow_exec,
            allow_unsandboxed=self.allow_unsandboxed,
        )


def tool_options(function: F) -> F:
    """Add the tool options (`--pack`, `--root`, `--approve`, …), passed as one argument `tools`."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        from foveate.agents.toolboxes import read_packs

        names = ("root_paths", "allow_exec", "allow_unsandboxed", "mcp", "approved")
        roots, allow_exec, allow_unsandboxed, mcp, approved = (named.pop(name) for name in names)
        tools = ToolOptions(
            packs=read_packs(named.pop("pack") or ""),
            roots=roots,
            allow_exec=allow_exec,
            allow_unsandboxed=allow_unsandboxed,
            mcp=mcp,
            approved=frozenset(approved),
        )
        return function(*arguments, tools=tools, **named)

    return stacked(*_OPTIONS)(wrapped)  # type: ignore[return-value]


_OPTIONS = (
    click.option("--pack", metavar="PACK", help="Tools for the model, e.g. core-codex; several with commas."),
    click.option(
        "--root",
        "root_paths",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder that tools are confined to; repeatable. Default: the current one.",
    ),
    click.option("--allow-exec", is_flag=True, help="Offer the tool exec: commands in a sandbox without a network."),
    click.option(
        "--allow-unsandboxed", is_flag=True, help="Execute commands even where the sandbox can't be enforced."
    ),
    click.option("--approve", "approved", multiple=True, metavar="TOOL", help="Execute TOOL without asking."),
    click.option(
        "--mcp",
        "mcp",
        multiple=True,
        metavar="NAME|FILE",
        help="MCP server with tools for the model: a name in tools.mcp_servers or a file (not for agents); repeatable.",
    ),
)


async def open_mcp(stack: AsyncExitStack, fov: Foveate, tools: ToolOptions, approve: TerminalApprover) -> list[Tool]:
    """Connect the MCP servers of the options until the stack is closed, and return their tools."""
    if not tools.mcp:
        return []
    from foveate.tools.mcp_client import configured, load_config, mcp_tools

    known = fov.settings.tools.mcp_servers
    servers = configured(known, [name for name in tools.mcp if name in known])
    for given in tools.mcp:
        servers |= {} if given in known else load_config(Path(given))
    return await stack.enter_async_context(mcp_tools(servers, consent=approve.consent, tell=_warn))


def _warn(problem: str) -> None:
    console(stderr=True).print(line((problem, "yellow")), soft_wrap=True)


async def make_toolbox(
    fov: Foveate, session: Session, tools: ToolOptions, *, approve: TerminalApprover, extra: Sequence[Tool] = ()
) -> Toolbox | None:
    """Open the toolbox of the options; a change of packs is published as an event."""
    from foveate.agents.toolboxes import note_packs, open_toolbox

    servers = tuple(name for name in tools.mcp if name in fov.settings.tools.mcp_servers)
    choice = replace(tools.choice, mcp_servers=servers)
    toolbox = await open_toolbox(fov, session, choice, approve=approve, extra=extra)
    if toolbox is not None:
        await note_packs(session, choice)
        if approve.is_unattended and tools.allow_exec:
            # Commands could make the same changes in the same folders.
            local = (tool for tool in toolbox.tools.values() if tool.approval == "ask" and tool not in extra)
            approve.approved |= {tool.name for tool in local if not tool.annotations.open_world}
    return toolbox


async def start_worker(stack: AsyncExitStack, fov: Foveate, session: Session, toolbox: Toolbox | None) -> None:
    """Run the agents that the model spawns until the stack is closed; then other workers resume them."""
    if toolbox is not None and "spawn_agent" in toolbox.tools:
        from foveate.agents.worker import working

        await stack.enter_async_context(working(fov, tree=session.engine.stored_id))


@dataclass(slots=True)
class TerminalApprover:
    """Asks the person at the terminal whether a call may be executed."""

    is_typed: bool
    """Whether input comes from a terminal."""
    approved: set[str] = field(default_factory=set)
    """Tools that are executed without asking."""
    before: Callable[[], object] = lambda: None
    """Called before a question, e.g. to end an unfinished line."""
    is_unattended: bool = False
    """Nobody is expected to answer: calls that `--allow-exec` covers need no approval."""

    def grants(self, tool: Tool) -> bool:
        """Report whether a tool is executed without asking."""
        return tool.name in self.approved

    async def __call__(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        from foveate.tools import ToolError

        if self.grants(tool):
            return True
        if not self.is_typed:
            raise ToolError(NOBODY.format(name=tool.name))
        self.before()
        out = console(stderr=True)
        out.print(line((f"{tool.name} needs your approval:", "bold yellow")))
        for name, value in arguments.items():
            text = str(value)
            cut = f"… ({len(text) - MAX_SHOWN_CHARS:,} more characters)" if len(text) > MAX_SHOWN_CHARS else ""
            out.print(line((f"  {name}: ", "dim"), text[:MAX_SHOWN_CHARS], (cut, "dim")), soft_wrap=True)
        can_remember = tool.approval == "ask"
        answer = (await read_answer(QUESTION if can_remember else QUESTION_EACH)).strip().lower()
        if can_remember and answer in ("s", "session"):
            self.approved.add(tool.name)
            return True
        return answer in ("y", "yes")

    async def consent(self, server: str, changed: Sequence[str]) -> bool:
        """Ask whether changed tool definitions of an MCP server may be used."""
        if not self.is_typed:
            return False
        self.before()
        message = f"The MCP server {server!r} has changed the definitions of {', '.join(changed)}."
        console(stderr=True).print(line((message, "bold yellow")), soft_wrap=True)
        return (await read_answer("Use them? [y]es, [n]o: ")).strip().lower() in ("y", "yes")


async def read_answer(question: str) -> str:
    """Read a line from the keyboard without blocking the event loop; empty at the end of the input."""
    import asyncio

    sys.stderr.write(question)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    reading: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not reading.done():
            reading.set_result(os.read(sys.stdin.fileno(), 65_536).decode("utf-8", "replace"))

    try:
        loop.add_reader(sys.stdin.fileno(), read)
    except NotImplementedError:  # Windows
        return await asyncio.to_thread(sys.stdin.readline)
    try:
        return await reading
    finally:
        loop.remove_reader(sys.stdin.fileno())
