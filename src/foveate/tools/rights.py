"""Who may call a tool: the one rule, for every way to it.

    key ──► right of the view (`Foveate.right`) ──► toolbox: the tools of its packs that the right includes ──► approval

The HTTP API, agents and their approvals, scripts and the dashboard open their toolbox with the view of the caller. An
agent acts with the right of whoever started it, which is stored with it.
"""

from __future__ import annotations

from foveate.session.keys import Right, includes
from foveate.tools.tool import Tool

EXEC = "exec"
EXEC_OFF = "commands are not allowed here; a person allows them with --allow-exec or tools.allow_exec"


def needed_right(tool: Tool) -> Right:
    """Return the right that a call of a tool needs.

    `write` is enough for tools that only read, or change the store. Tools that overwrite something or reach beyond the
    machine need `admin`.
    """
    hints = tool.annotations
    is_harmless = not hints.open_world and (hints.read_only or not hints.destructive)
    return "write" if is_harmless else "admin"


def refusal(tool: Tool, right: Right, *, allow_exec: bool) -> str:
    """Return why a caller with this right may not call a tool, or an empty text."""
    needed = needed_right(tool)
    if not includes(right, needed):
        owner = " and no tenant" if needed == "admin" else ""
        return f"{tool.name} needs the right {needed!r}: a key that has it{owner}"
    return EXEC_OFF if tool.name == EXEC and not allow_exec else ""
