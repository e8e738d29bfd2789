"""`web_search`: pages that a search service finds."""

from __future__ import annotations

from typing import Annotated

from foveate.tools.builtin.fetch_url import as_data
from foveate.tools.tool import Annotations, tool
from foveate.tools.web.search import search
from foveate.tools.workspace import Workspace

_GRACE_SECONDS = 660.0


@tool(annotations=Annotations(read_only=True, destructive=False, open_world=True), timeout_seconds=_GRACE_SECONDS)
async def web_search(workspace: Workspace, query: Annotated[str, "What to look for"]) -> str:
    """Search the web. The answer lists title, URL and a few words of each page; fetch_url reads one."""
    found = await search(query, workspace.settings.web)
    if not found:
        return "No results.\n"
    listed = [
        f"{number}. {result.title}\n   {result.url}\n   {result.snippet}".rstrip()
        for number, result in enumerate(found, 1)
    ]
    return as_data("\n".join(listed)) + "\n"
