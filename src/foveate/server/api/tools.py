"""`/tools`: list the tools of the registry, and call them.

The right that a call needs depends on the tool (`foveate.tools.rights`). Tools that overwrite something or reach beyond
the machine need `admin`, and a key without a tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from foveate.agents.suspension import Suspension
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.problems import ProblemError
from foveate.server.time_limits import allow_long
from foveate.session.keys import Right
from foveate.session.values import copied
from foveate.tools import Tool, Toolbox, ToolOutput, Workspace, packs, registry
from foveate.tools.rights import needed_right, refusal
from foveate.turn import Attachment

routes = Endpoints("tools")
Text = Annotated[str, Meta(min_length=1)]
NO_TOOL = "tool-not-found"


class ToolResource(Struct, frozen=True, kw_only=True):
    """A tool."""

    name: str
    usage: str
    """The call's syntax, e.g. `read_file(path, [first_line])`."""
    description: str
    read_only: bool
    destructive: bool
    """Whether it may overwrite or delete something."""
    open_world: bool
    """Whether it reaches beyond the server's machine."""
    approval: str
    """`never`: executed without approval. `ask` and `always`: a call needs `approve`."""
    right: Right
    """The right that a call needs."""
    timeout_seconds: float
    max_output_tokens: int | None
    """A longer result is stored in the file cabinet."""
    schema: dict[str, Any]
    """JSON schema of its arguments."""


class RegistryList(Struct, frozen=True, kw_only=True):
    """The tools of a pack, by name."""

    pack: str
    packs: list[str]
    """All packs."""
    items: list[ToolResource]


class RegistryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list."""

    pack: Text = "all"


class ToolCallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call. File tools are confined to the folders that the server's settings name (`agents.roots`)."""

    arguments: dict[str, Any] = {}
    session: str | None = None
    """The session whose history, plan and file cabinet the tool uses."""
    pack: Text = "all"
    """The pack whose tools can be called, also by a script."""
    approve: bool = False
    """Approve this call, if the tool needs approval."""


class InnerToolCall(Struct, frozen=True, kw_only=True):
    """A call that a script made."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool
    exit_code: int | None


class ToolCallResult(Struct, frozen=True, kw_only=True):
    """The result of a tool call, also of a failed one."""

    text: str
    is_error: bool
    exit_code: int | None
    """Exit code of a command."""
    attachments: list[Attachment]
    inner: list[InnerToolCall]
    """Calls that a script made."""


@routes.add("GET", "/tools", right="read")
async def list_registry(call: Call, query: RegistryQuery) -> RegistryList:
    """List the tools of a pack; 422 if there is no such pack."""
    own = call.view.settings.tools.packs
    items = [_resource(registry.find(name)) for name in packs.tools_of(query.pack, own)]
    return RegistryList(pack=query.pack, packs=list(packs.pack_names(own)), items=items)


@routes.add("GET", "/tools/{tool}", right="read")
async def get_tool(tool: str) -> ToolResource:
    """Get a tool: its description, the schema of its arguments, its limits, and the right that a call needs."""
    return _resource(_find(tool))


@routes.add("POST", "/tools/{tool}/call", right="write")
async def execute_tool(call: Call, tool: str, body: ToolCallRequest) -> ToolCallResult:
    """Call a tool. An error of the tool, including invalid arguments, is a response with `is_error`.

    Tools that overwrite or reach beyond the machine need the right `admin` and a key without a tenant. `exec` also
    needs a server that was started with `--allow-exec`. 409 if the tool needs approval and the call has none.
    """
    found = _find(tool)
    settings = call.view.settings
    if problem := refusal(found, call.view.right, allow_exec=settings.tools.allow_exec):
        raise ProblemError(403, problem)
    if tool not in packs.tools_of(body.pack, settings.tools.packs):
        raise ProblemError(404, f"the pack {body.pack!r} has no tool {tool!r}", kind=NO_TOOL)
    if found.approval != "never" and not body.approve:
        raise ProblemError(409, f'{tool} needs approval: show the call to a person, and send it with "approve": true')
    if body.session is not None:
        await call.view.agents.check_directing(body.session)
    allow_long(call.request)
    workspace = Workspace.at(
        () if call.principal.tenant else settings.agents.roots,  # tenants must not share folders
        session=None if body.session is None else await call.view.open_session(body.session),
        fov=call.view,
        settings=settings.tools,
        allow_exec=settings.tools.allow_exec,
    )

    async def approve(_tool: Tool, _arguments: Mapping[str, Any]) -> bool:
        return body.approve

    try:
        return _answer(await Toolbox.of_pack(body.pack, workspace, approve=approve).call(tool, body.arguments))
    except Suspension as suspension:
        problem = f"the session {body.session!r} belongs to a running agent; only the agent itself can call {tool}"
        raise ProblemError(409, problem) from suspension


def _find(name: str) -> Tool:
    if name not in registry.names():
        raise ProblemError(404, f"there is no tool {name[:80]!r}; 'GET /tools' lists them", kind=NO_TOOL)
    return registry.find(name)


def _resource(tool: Tool) -> ToolResource:
    hints = tool.annotations
    return copied(
        ToolResource,
        tool,
        usage=tool.usage(),
        read_only=hints.read_only,
        destructive=hints.destructive and not hints.read_only,
        open_world=hints.open_world,
        right=needed_right(tool),
    )


def _answer(output: ToolOutput) -> ToolCallResult:
    inner = [copied(InnerToolCall, one.output, name=one.name, arguments=dict(one.arguments)) for one in output.inner]
    return copied(ToolCallResult, output, attachments=list(output.attachments), inner=inner)
