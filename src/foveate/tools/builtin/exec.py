"""`exec`: a command in a sandbox."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from foveate.text import without_terminal_codes
from foveate.tools.rights import EXEC, EXEC_OFF
from foveate.tools.sandbox.run import CommandResult, run
from foveate.tools.tool import Annotations, ToolError, ToolOutput, tool
from foveate.tools.workspace import Workspace

MAX_SECONDS = 3_600
_GRACE_SECONDS = 60


@tool(name=EXEC, annotations=Annotations(), timeout_seconds=MAX_SECONDS + _GRACE_SECONDS, approval="ask")
async def _exec(
    workspace: Workspace,
    command: Annotated[str, "Command for bash"],
    workdir: Annotated[str, "Folder to run it in; default: the working folder"] = ".",
    timeout_seconds: Annotated[Annotated[int, Meta(ge=1, le=MAX_SECONDS)] | None, "Time limit"] = None,
) -> ToolOutput:
    """Execute a command in a sandbox: it reads and writes the working folders, has no network, and no process outlives
    it. The answer has its output and exit code."""
    if not workspace.allow_exec:
        raise ToolError(EXEC_OFF)
    if "\0" in command:
        raise ToolError("the command has a NUL character, which no command can have; write it as \\x00 in a string")
    folder = workspace.folder(workdir)
    seconds = float(timeout_seconds or workspace.settings.exec.seconds)
    result = await run(workspace, command, folder=folder, seconds=seconds)
    failed = result.exit_code != 0 or bool(result.stopped)
    return ToolOutput(describe(result), is_error=failed, exit_code=result.exit_code)


def describe(result: CommandResult) -> str:
    """Return what the model reads. The command's output comes last, so that it can't imitate the notes about it."""
    lines = [f"Exit code: {result.exit_code}", f"Duration: {result.seconds:.1f} s"]
    if result.stopped:
        lines.append(f"The command was {result.stopped}.")
    if result.refused_processes:
        lines.append("New processes were refused: too many were running.")
    if not result.confined:
        lines.append("The command was NOT confined: this machine lacks a layer of the sandbox.")
    if result.truncated:
        lines.append(f"Output: {result.output_bytes:,} bytes, shortened:")
    else:
        lines.append("Output:" if result.output else "No output.")
    return "\n".join(lines) + "\n" + without_terminal_codes(result.output)


exec = _exec  # noqa: A001 - the tool's name
