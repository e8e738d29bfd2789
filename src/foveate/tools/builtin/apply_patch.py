"""`apply_patch`: change several files at once, all or none."""

from __future__ import annotations

import time
from typing import Annotated

from foveate.text import several
from foveate.tools.patch.changes import FilePatch
from foveate.tools.patch.commit import commit, locked, recover
from foveate.tools.patch.plan import parse_patch, plan_edits
from foveate.tools.patch.syntax import syntax_warnings
from foveate.tools.tool import ToolError, tool
from foveate.tools.workspace import Workspace

TIMEOUT_SECONDS = 50.0
GRACE_SECONDS = 10.0
"""Seconds to write the files, once all of them were checked."""
_LETTERS = {"add": "A", "delete": "D", "update": "M"}


@tool(approval="ask", timeout_seconds=TIMEOUT_SECONDS + GRACE_SECONDS)
def apply_patch(
    workspace: Workspace,
    *,
    patch: Annotated[
        str,
        "'*** Begin Patch', then for each file '*** Update File: PATH' with '@@ LINE ABOVE' and lines that start with "
        "' ', '-' or '+', '*** Add File: PATH' with '+' lines, or '*** Delete File: PATH', then '*** End Patch'; "
        "or a unified diff",
    ],
) -> str:
    """Change, create, rename and delete files by a patch. It is applied to all files, or to none if a part is wrong."""
    until = time.monotonic() + TIMEOUT_SECONDS
    changes = parse_patch(patch)
    with locked(workspace):
        recover(workspace)
        edits = plan_edits(changes, workspace)
        if time.monotonic() > until:  # the caller has already reported a timeout
            raise ToolError("the patch took too long to check; nothing was changed")
        commit(edits, workspace)
    listed = [_summary(change) for change in changes]
    return "\n".join([f"Applied to {several(len(edits), 'file')}:", *listed, *syntax_warnings(edits)]) + "\n"


def _summary(change: FilePatch) -> str:
    """Return one line about a change, e.g. `M src/app.py +3 -1`."""
    marks = [line.mark for hunk in change.hunks for line in hunk.lines]
    target = f" -> {change.target}" if change.target else ""
    counts = f" +{marks.count('+')} -{marks.count('-')}" if marks else ""
    return f"{_LETTERS[change.kind]} {change.path}{target}{counts}"
