"""Files that decide what runs outside the sandbox, and how they stay as they are.

A file is only as safe as each name that leads to it: whoever can rename a folder on the way puts a file of their own in
its place. The store and the settings can't lie in a working folder at all, since SQLite also reads files beside the
store. Foveate and its Python often do, in `.venv`: they become read-only, and the folders on the way can't be renamed,
because they are mount points.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import foveate
from foveate.settings import settings_files
from foveate.tools.workspace import Workspace

_MAX_LINKS = 40
"""The kernel follows no more."""


@dataclass(frozen=True, slots=True)
class Protection:
    """What protects such files in a workspace."""

    problems: tuple[str, ...] = ()
    """Why they can't be protected there."""
    frozen: tuple[str, ...] = ()
    """Folders that become read-only."""
    pinned: tuple[str, ...] = ()
    """Folders on the way to a frozen one, outer ones first: they become mount points, so that they keep their names."""


def protect(workspace: Workspace) -> Protection:
    """Return what protects the store, the settings, Foveate and its Python from commands in a workspace."""
    roots, store = workspace.roots, workspace.store_path
    problems = [
        f"protection of {kind} {path}: it lies inside the working folder {root}, where a command could replace it; "
        f"{advice}, or give another working folder"
        for kind, paths, advice in (
            ("the store", (store,) if store else (), "keep it elsewhere (--db)"),
            ("the settings", settings_files(), "keep them elsewhere ($FOVEATE_CONFIG)"),
        )
        for path in paths
        if (root := _root_of(_names_to(path), roots))
    ]
    problems += [problem for root in roots if (problem := _too_wide(root))]
    frozen: list[Path] = []
    for path in (Path(foveate.__file__).parent, Path(sys.prefix), Path(sys.base_prefix)):
        links = [name for name in _names_to(path) if _is_link(name)]
        if root := _root_of(links, roots):
            problems.append(f"protection of the link that leads to {path}: it lies inside the working folder {root}")
        if _root_of([path.resolve()], roots):
            frozen.append(path.resolve())
    outer = {path for path in frozen if not any(other in path.parents for other in frozen)}
    pinned = {folder for path in outer for folder in path.parents if _root_of([folder], roots)}
    return Protection(tuple(problems), tuple(map(str, sorted(outer))), tuple(map(str, sorted(pinned))))


def outermost(roots: Sequence[Path]) -> list[Path]:
    """Return the folders that are not inside another one, whose names no command can change."""
    return [root for root in dict.fromkeys(roots) if not any(other in root.parents for other in roots)]


def _root_of(names: Sequence[Path], roots: Sequence[Path]) -> Path | None:
    """Return a folder that one of these names lies inside."""
    return next((root for root in roots for name in names if root in name.parents), None)


def _names_to(path: Path) -> list[Path]:
    """Return every name that opening a path goes through, those of the links on the way included."""
    return list(_walk(Path.cwd() / path))


def _walk(path: Path) -> Iterator[Path]:
    rest = list(reversed(path.parts[1:]))
    at, links = Path(path.anchor), 0
    while rest:
        name = rest.pop()
        at = at.parent if name == ".." else at / name
        yield at
        if links < _MAX_LINKS and _is_link(at):
            links += 1
            target = at.readlink()
            rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            at = Path(target.anchor) if target.is_absolute() else at.parent


def _is_link(path: Path) -> bool:
    with suppress(OSError):
        return path.is_symlink()
    return False


def _too_wide(root: Path) -> str:
    """Return a problem if the folder holds all that a user runs."""
    home = Path.home().resolve()
    if root == home or root in home.parents:
        return f"protection of the home folder, which {root} includes; give a folder below it"
    python = Path(sys.base_prefix).resolve()
    if root == python or root in python.parents:
        return f"protection of Python in {python}, which {root} includes"
    return ""
