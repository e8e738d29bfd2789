"""Tools that a model or a person calls: the registry, its packs, and the toolbox that executes calls.

from foveate.tools import tool

@tool
async def opening_hours(place: str) -> str:
    '''Look up when a place is open.'''
    return await lookup(place)
"""

from foveate.tools.tool import Annotations, Approval, InnerCall, Tool, ToolError, ToolOutput, tool
from foveate.tools.toolbox import Toolbox
from foveate.tools.workspace import Workspace

__all__ = ["Annotations", "Approval", "InnerCall", "Tool", "ToolError", "ToolOutput", "Toolbox", "Workspace", "tool"]
