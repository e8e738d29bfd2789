"""`foveate tools`: list the tools, show one, and call one by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foveate.cli.ui.options import json_option, store_file, store_option
from foveate.cli.ui.terminal import Column, console, line, print_exactly, print_json, print_table, printable
from foveate.text import several

if TYPE_CHECKING:
    from foveate.settings import Settings
    from foveate.tools import Tool, ToolOutput

COLUMNS = (Column("tool"), Column("access"), Column("approval"), Column("what it does", "fold"))
EXEC = "exec"
pack_option = click.option("--pack", default="all", show_default=True, help="A pack of tools; 'all' has every tool.")


@click.group(name="tools", short_help="List the tools a model can use; call one by hand.")
def command() -> None:
    """List the tools that models can use in chat and run, show one, and call one by hand.

    \b
    foveate tools list --pack core-codex
    foveate tools show read_file
    foveate tools call read_file '{"path": "README.md", "lines": 20}'
    """


@command.command(name="list")
@pack_option
@json_option
def list_(*, pack: str, as_json: bool) -> None:
    """List the tools of a pack.

    \b
    foveate tools list
    foveate tools list --pack research
    """
    from foveate.tools import packs, registry

    own = _settings().tools.packs
    tools = [registry.find(name) for name in packs.tools_of(pack, own)]
    if as_json:
        print_json({"pack": pack, "packs": packs.pack_names(own), "tools": [_described(tool) for tool in tools]})
        return
    out = console()
    print_table(out, COLUMNS, [(tool.name, _access(tool), tool.approval, tool.description) for tool in tools])
    out.print(line(f"{several(len(tools), 'tool')} in {pack}. Packs: {', '.join(packs.pack_names(own))}."))


@command.command(name="show")
@click.argument("name", metavar="NAME")
@json_option
def show(*, name: str, as_json: bool) -> None:
    """Show a tool's description, arguments and limits.

    \b
    foveate tools show apply_patch
    """
    from foveate.tools import registry

    tool = registry.find(name)
    if as_json:
        print_json(_described(tool))
        return
    out = console()
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


@command.command(name="call")
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
@click.option("--session", "session_id", metavar="SESSION", help="The session whose history and plan tools use.")
@store_option
@json_option
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
    as_json: bool,
) -> None:
    """Call a tool with arguments as a JSON object ('-' reads them from standard input). No approval is asked.

    A call that fails or is refused exits with 1.

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
    given = sys.stdin.read() if arguments == "-" else arguments

    makes_store = tool.annotations.open_world  # what is fetched goes to the file cabinet
    uses_store = makes_store or session_id is not None or store_path.expanduser().exists()

    async def execute() -> ToolOutput:
        if not uses_store:
            return await Toolbox.of_pack(pack, workspace, approve=_approve).call(name, given)
        async with foveate.open(store_file(store_path, create=makes_store), settings=settings) as fov:
            session = None if session_id is None else await fov.find_session(session_id)
            bound = replace(workspace, fov=fov, session=session)
            return await Toolbox.of_pack(pack, bound, approve=_approve).call(name, given)

    _show_output(asyncio.run(execute()), as_json=as_json)


async def _approve(_tool: Tool, _arguments: object) -> bool:
    """The person who calls the tool by hand approves it by that."""
    return True


def _show_output(output: ToolOutput, *, as_json: bool) -> None:
    failed = output.is_error or bool(output.exit_code)
    if as_json:
        print_json(output)
    elif output.is_error and output.text.startswith("Error: "):
        click.echo(printable(output.text.rstrip()), err=True)
    else:
        print_exactly(output.text)
        for attachment in output.attachments:
            click.echo(printable(f"[{attachment.media_type} for the model; --json has its data]"), err=True)
    if failed:
        raise click.exceptions.Exit(1)


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


def _access(tool: Tool) -> str:
    kind = "reads" if tool.annotations.read_only else "writes"
    return f"{kind}, network" if tool.annotations.open_world else kind
