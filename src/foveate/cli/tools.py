"""`foveate tools`: list the tools, show one, and call one by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foveate.cli.ui.answers import Answer, Cells, print_values, store_group
from foveate.cli.ui.options import store_file
from foveate.cli.ui.terminal import Column, line, print_exactly, printable
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.settings import Settings
    from foveate.tools import Tool, ToolOutput


def _access(tool: Tool) -> str:
    kind = "reads" if tool.annotations.read_only else "writes"
    return f"{kind}, network" if tool.annotations.open_world else kind


CELLS: Cells[Tool] = {
    Column("tool"): lambda tool: tool.name,
    Column("access"): _access,
    Column("approval"): lambda tool: tool.approval,
    Column("what it does", "fold"): lambda tool: tool.description,
}
EXEC = "exec"
pack_option = click.option("--pack", default="all", show_default=True, help="A pack of tools; 'all' has every tool.")


@store_group("tools", "List the tools a model can use; call one by hand.")
def command() -> None:
    """List the tools that models can use in chat and run, show one, and call one by hand.

    \b
    foveate tools list --pack core-codex
    foveate tools show read_file
    foveate tools call read_file '{"path": "README.md", "lines": 20}'
    """


@command.command(name="list")
@pack_option
def list_(pack: str) -> Answer:
    """List the tools of a pack.

    \b
    foveate tools list
    foveate tools list --pack research
    """
    from foveate.tools import packs, registry

    own = _settings().tools.packs
    tools = [registry.find(name) for name in packs.tools_of(pack, own)]

    def print_list(out: Console) -> None:
        print_values(out, CELLS, tools)
        out.print(line(f"{several(len(tools), 'tool')} in {pack}. Packs: {', '.join(packs.pack_names(own))}."))

    value = {"pack": pack, "packs": packs.pack_names(own), "tools": [_described(tool) for tool in tools]}
    return Answer(value, print_list)


@command.command()
@click.argument("name", metavar="NAME")
def show(name: str) -> Answer:
    """Show a tool's description, arguments and limits.

    \b
    foveate tools show apply_patch
    """
    from foveate.tools import registry

    tool = registry.find(name)
    return Answer(_described(tool), lambda out: _print(out, tool))


def _print(out: Console, tool: Tool) -> None:
    out.print(line((tool.usage(), "bold")))
    out.print(line(tool.description))
    described = _described(tool)
    for argument, schema in described["schema"]["properties"].items():
        kind = " | ".join(map(str, schema["enum"])) if "enum" in schema else schema.get("type", "")
        required = "required" if argument in described["schema"].get("required", ()) else "optional"
        out.print(line(f"  {argument}", (f"  {kind}, {required}", "dim"), f"  {schema.get('description', '')}"))
    output = "any output" if tool.max_output_tokens is None else f"{tool.max_output_tokens:,} tokens of output"
    limits = f"{tool.timeout_seconds:g} s, {output}"
    out.print(line(f"{_access(tool)}; approval: {tool.approval}; limits: {limits}"))


@command.command()
@click.argument("name", metavar="NAME")
@click.argument("arguments", metavar="JSON", default="{}")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder that tools may use; repeatable. Default: the current folder.",
)
@pack_option
@click.option("--allow-exec", is_flag=True, help="Let exec run commands, in a sandbox.")
@click.option("--allow-unsandboxed", is_flag=True, help="Run commands even where the sandbox can't be enforced.")
@click.option("--session", "session_id", metavar="SESSION", help="The session whose history and plan the tools use.")
def call(
    *,
    name: str,
    arguments: str,
    roots: tuple[Path, ...],
    pack: str,
    allow_exec: bool,
    allow_unsandboxed: bool,
    session_id: str | None,
    store_path: Path,
) -> Answer:
    """Call a tool with arguments as a JSON object ('-' reads them from standard input), without asking for approval.

    The exit code is 1 if the call fails or is rejected.

    \b
    foveate tools call grep '{"pattern": "TODO", "path": "src"}' --root ~/project
    foveate tools call exec '{"command": "make test"}' --allow-exec
    foveate tools call get_turn '{"turn_id": "T-3"}' --session demo
    """
    import asyncio
    from dataclasses import replace

    import foveate
    from foveate.errors import Refused
    from foveate.tools import Toolbox, Workspace, packs, registry

    settings = _settings()
    tool = registry.find(name)
    if name not in packs.tools_of(pack, settings.tools.packs):
        raise Refused(f"the pack {pack} has no tool {name!r}; 'foveate tools list --pack {pack}' lists its tools")
    allowed = allow_exec or settings.tools.allow_exec
    if name == EXEC and not allowed:
        raise Refused("exec is off; --allow-exec lets it run a command in a sandbox")
    workspace = Workspace.at(
        roots or (Path.cwd(),), settings=settings.tools, allow_exec=allowed, allow_unsandboxed=allow_unsandboxed
    )
    json_text = sys.stdin.read() if arguments == "-" else arguments

    makes_store = tool.annotations.open_world  # fetched pages are stored in the file cabinet
    uses_store = makes_store or session_id is not None or store_path.expanduser().exists()

    async def execute() -> ToolOutput:
        if not uses_store:
            return await Toolbox.of_pack(pack, workspace, approve=_approve).call(name, json_text)
        async with foveate.open(store_file(store_path, create=makes_store), settings=settings) as fov:
            session = None if session_id is None else await fov.find_session(session_id)
            bound = replace(workspace, fov=fov, session=session)
            return await Toolbox.of_pack(pack, bound, approve=_approve).call(name, json_text)

    output = asyncio.run(execute())
    return Answer(output, lambda _: _print_output(output), 1 if output.is_error or output.exit_code else 0)


async def _approve(_tool: Tool, _arguments: object) -> bool:
    """Approve every call: the user made it by hand."""
    return True


def _print_output(output: ToolOutput) -> None:
    if output.is_error and output.text.startswith("Error: "):
        click.echo(printable(output.text.rstrip()), err=True)
        return
    print_exactly(output.text)
    for attachment in output.attachments:
        click.echo(printable(f"[{attachment.media_type} for the model; --json has its data]"), err=True)


def _settings() -> Settings:
    from foveate.settings import load_settings

    return load_settings()


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "usage": tool.usage(),
        "description": tool.description,
        "read_only": tool.annotations.read_only,
        "destructive": tool.annotations.destructive and not tool.annotations.read_only,
        "open_world": tool.annotations.open_world,
        "approval": tool.approval,
        "timeout_seconds": tool.timeout_seconds,
        "max_output_tokens": tool.max_output_tokens,
        "schema": tool.schema,
    }
