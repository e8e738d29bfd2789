"""`run_script`: many tool calls in one script."""

from __future__ import annotations

from typing import Annotated

from foveate.tools import script as scripts
from foveate.tools.tool import Annotations, ToolError, ToolOutput, tool
from foveate.tools.workspace import Workspace


@tool(
    annotations=Annotations(destructive=True), timeout_seconds=scripts.TOTAL_SECONDS + 30
)  # a script ends earlier by itself, with a record of its calls
async def run_script(
    workspace: Workspace, script: Annotated[str, "Python; call tools as functions, e.g. read_file(path='a.py')"]
) -> ToolOutput:
    """Run a Python script that calls your other tools as functions; each returns its text or raises RuntimeError. Only
    what the script prints, and the value of its last line, comes back. json, re, math and datetime can be imported;
    files, network and classes of your own are not available.
    """
    if workspace.toolbox is None:
        raise ToolError("a script needs tools to call")
    return await scripts.execute(workspace.toolbox, script, workspace.settings)
