"""The resources of tools: the folders they are confined to, the session they work for, and the settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from foveate.settings import settings_files
from foveate.tools.files import resolved
from foveate.tools.settings import ToolsSettings
from foveate.tools.tool import ToolError

if TYPE_CHECKING:
    from foveate.client import Foveate
    from foveate.session import Session
    from foveate.session.cabinet import Cabinet
    from foveate.session.keys import Right
    from foveate.tools.toolbox import Toolbox

JOURNAL = ".foveate-patch"
"""The file in a root that describes a patch in progress."""
RESERVED = re.compile(rf"{re.escape(JOURNAL)}|\.foveate-[0-9a-f]{{16}}\.(tmp|old)$", re.IGNORECASE)
"""Matches the names of the journal, and of the temporary files and backups that it lists."""
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4_095
"""What Linux accepts for one name, and for a path."""
_STORE_ENDS = ("", "-wal", "-shm", "-journal")
"""Suffixes of SQLite's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folders, session and settings that the tools of one session may use."""

    roots: tuple[Path, ...] = ()
    """The only folders whose files tools may access, resolved. Relative paths are below the first one."""
    session: Session | None = None
    fov: Foveate | None = None
    settings: ToolsSettings = field(default_factory=ToolsSettings)
    allow_exec: bool = False
    allow_unsandboxed: bool = False
    """Execute commands even if the sandbox can't be enforced."""
    mcp_servers: tuple[str, ...] = ()
    """MCP servers of the settings whose tools the toolbox includes; agents that a model starts get them too."""
    toolbox: Toolbox | None = None
    """The toolbox that executes the call, for tools that call others. The toolbox sets it."""

    @property
    def right(self) -> Right:
        """The right that the calls are made with: that of the view of the store. Without a store, the user's own."""
        return self.fov.right if self.fov else "admin"

    @property
    def cabinet(self) -> Cabinet | None:
        """The file cabinet: the session's, else the store's."""
        owner = self.session or self.fov
        return None if owner is None else owner.cabinet

    def require_cabinet(self) -> Cabinet:
        """Return the file cabinet; `ToolError` if there is none."""
        if self.cabinet is None:
            raise ToolError("there is no file cabinet without a store; give one with --db")
        return self.cabinet

    @classmethod
    def at(cls, folders: Sequence[str | Path], **given: object) -> Workspace:
        """Make a workspace confined to these folders; `ToolError` if one is not a folder."""
        roots = tuple(resolved(Path(folder), str(folder)) for folder in folders)
        for root in roots:
            if not root.is_dir():
                raise ToolError(f"{root} is not a folder")
        return cls(roots=roots, **given)  # type: ignore[arg-type]

    def path(self, given: str) -> Path:
        """Return the real path of an argument. `ToolError` if it is outside the roots, also through a symbolic link."""
        if not self.roots:
            raise ToolError("no folder was given to work in")
        if "\0" in given:
            raise ToolError("a path has no null characters")
        found = resolved(self.roots[0] / given, given)
        longest = max(len(os.fsencode(part)) for part in found.parts)
        if longest > MAX_NAME_BYTES or len(os.fsencode(found)) > MAX_PATH_BYTES:
            raise ToolError(f"{given[:MAX_NAME_BYTES]} … is too long for the path of a file")
        if not any(found == root or root in found.parents for root in self.roots):
            allowed = ", ".join(map(str, self.roots))
            raise ToolError(f"{given} is outside the folders that tools may use ({allowed})")
        if _is_within(found, self.store_files):
            raise ToolError(f"{given} is the store of this conversation, which tools can't touch")
        return found

    def target(self, given: str) -> Path:
        """Return the real path of a file to write. `ToolError` as for `path`, and for a name that Foveate reserves, on
        the way to the file too."""
        found = self.path(given)
        if _is_within(found, [file.resolve() for file in settings_files()]):
            raise ToolError(f"{given} has the settings of Foveate, which tools can't write")
        root = next(root for root in self.roots if found == root or root in found.parents)
        taken = next((part for part in found.relative_to(root).parts if RESERVED.match(part)), None)
        if taken is not None:
            raise ToolError(f"{given}: the name {taken} is for the journal of patches, which tools can't write")
        return found

    def folder(self, given: str) -> Path:
        """Return the real path of a folder. `ToolError` as for `path`, and if it is not a folder."""
        found = self.path(given)
        if not found.is_dir():
            raise ToolError(f"{given} is not a folder")
        return found

    @property
    def store_path(self) -> Path | None:
        """The path that the store was opened by; None without one, or for a database server."""
        return None if self.fov is None or "://" in self.fov.location else Path(self.fov.location)

    @property
    def store_files(self) -> tuple[Path, ...]:
        """The files of the store, whether they exist or not."""
        store = self.store_path
        return tuple(Path(f"{store.resolve()}{ending}") for ending in _STORE_ENDS) if store else ()

    def shown(self, path: Path) -> str:
        """Return a path as the model writes it: relative to the first root if it is inside it."""
        first = self.roots[0]
        return str(path.relative_to(first)) if path == first or first in path.parents else str(path)


def _is_within(path: Path, reserved: Iterable[Path]) -> bool:
    """Check whether a path is one of these, or would be inside it if it were a folder."""
    return any(name == path or name in path.parents for name in reserved)
