"""The toolbox of a session: the tools of its packs, confined to its folders.

The definitions of tools are at the beginning of every request, so changed packs change the cached prefix;
that is published as the event `pack-switched`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foveate.client import Foveate
from foveate.errors import InputError
from foveate.session import Session
from foveate.session.documents import PACK
from foveate.tools import Tool, Toolbox, Workspace, packs, registry
from foveate.tools.settings import ToolsSettings
from foveate.tools.toolbox import Approver, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """The tools that a model may use, and what those may access."""

    packs: tuple[str, ...] = ()
    """Names of packs, whose tools are combined. Without one, only the history tools are offered."""
    roots: tuple[str, ...] = ()
    """Folders that tools are confined to. Relative paths of a model are below the first."""
    allow_exec: bool = False
    allow_unsandboxed: bool = False
    """Execute commands even if the sandbox can't be enforced."""
    mcp_servers: tuple[str, ...] = ()
    """Names of MCP servers in the settings."""


def read_packs(text: str) -> tuple[str, ...]:
    """Return the packs in a comma-separated list, e.g. `core-codex,agents`."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


async def open_toolbox(
    fov: Foveate,
    session: Session,
    choice: ToolChoice,
    *,
    approve: Approver = refuse,
    extra: Sequence[Tool] = (),
) -> Toolbox | None:
    """Return the toolbox for a session; None without packs and `extra` tools, such as those of MCP servers."""
    if not choice.packs and not extra:
        return None
    settings: ToolsSettings = fov.settings.tools
    workspace = Workspace.at(
        choice.roots,
        session=session,
        fov=fov,
        settings=settings,
        allow_exec=choice.allow_exec or settings.allow_exec,
        allow_unsandboxed=choice.allow_unsandboxed,
        mcp_servers=choice.mcp_servers,
    )
    names = {name for pack in choice.packs for name in packs.tools_of(pack, settings.packs)}
    chosen = [registry.find(name) for name in sorted(names)]
    taken = sorted(names & {tool.name for tool in extra})
    if taken:
        raise InputError(f"an MCP server has a tool {taken[0]!r}, and so has a pack; allow it in one of them only")
    return Toolbox([*chosen, *extra], workspace, approve=approve)


async def note_packs(session: Session, choice: ToolChoice) -> bool:
    """Store the packs that a session uses from now on; return whether they differ from the previous ones."""
    now = ",".join(choice.packs)
    before = await session.documents.get(PACK)
    if now == before:
        return False
    await session.documents.give(PACK, now)
    is_switch = session.info.turns > 0
    if is_switch:
        session.engine.publish("pack-switched", {"from": before, "to": now})
    return is_switch


def folders(given: Sequence[Path]) -> tuple[str, ...]:
    """Return the folders that a command line names; the current one by default."""
    return tuple(str(folder) for folder in given) or (str(Path.cwd()),)
