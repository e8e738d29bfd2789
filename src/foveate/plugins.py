"""One registry for every family of plug-ins, and the command line of child processes.

A member is a module in the family's own folder, or an object that a third party names under the family's entry point
group. Its name is its configured name: `claude_code.py` is `claude-code`. A registered member takes precedence over a
built-in one of the same name.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")

_RUN = """import importlib, os, sys
module, folders = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:] = folders.split(os.pathsep)
importlib.import_module(module).main()"""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main()` of a module in another process, isolated from the current folder.

    Neither the current folder nor environment variables decide what the process imports: a `json.py` in a cloned
    repository is never run. It imports from the same folders as this process, without the current folder, unless the
    package is installed there; then it comes last.
    """
    here = Path.cwd()
    found = [folder for folder in sys.path if Path(folder).is_absolute() and Path(folder) != here]
    folders = [*found, str(Path(__file__).parent.parent)]
    return [sys.executable, "-I", "-c", _RUN, module, os.pathsep.join(folders), *arguments]


def renamed(module: str, name: str, homes: Mapping[str, str]) -> object:
    """Look up an old public name for a module's `__getattr__`: `homes` has its new location as `module:name`. Warns.

    Old names work for one release.
    """
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    place, _, new = home.partition(":")
    warnings.warn(f"{module}.{name} is now {place}.{new}", DeprecationWarning, stacklevel=3)
    return getattr(importlib.import_module(place), new)


class Registry(Generic[T]):
    """The members of one family by name; each is loaded on first use."""

    def __init__(
        self,
        group: str,
        folders: Sequence[str] = (),
        *,
        skipped: Collection[str] = (),
        name_of: Callable[[str], str] = lambda module: module.replace("_", "-"),
        member_of: Callable[[ModuleType, str], T] | None = None,
    ) -> None:
        """Create the registry of an entry point group.

        `folders` are packages whose modules are the built-in members, except private and `skipped` ones. `name_of`
        converts a module's name to a configured name.

        `member_of` finds the member in its module, by the module's name; the default is the module itself.
        """
        self.group = group
        self._folders = folders
        self._skipped = frozenset(skipped)
        self._name_of = name_of
        self._member_of = member_of
        self._loaded: dict[str, T] = {}

    @cached_property
    def built_in(self) -> dict[str, str]:
        """The modules of the built-in members, by name."""
        return {
            self._name_of(module.name): f"{folder}.{module.name}"
            for folder in self._folders
            for module in pkgutil.iter_modules(importlib.import_module(folder).__path__)
            if not module.name.startswith("_") and module.name not in self._skipped
        }

    @cached_property
    def registered(self) -> dict[str, EntryPoint]:
        """The entry points of third parties, by name."""
        return {point.name: point for point in entry_points(group=self.group)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names, built-in and registered."""
        return tuple(sorted({*self.built_in, *self.registered}))

    def get(self, name: str) -> T | None:
        """Return the member of this name; None if there is none."""
        if name not in self._loaded:
            if name in self.registered:
                self._loaded[name] = self.registered[name].load()
            elif name in self.built_in:
                self._loaded[name] = self._load_built_in(self.built_in[name])
        return self._loaded.get(name)

    def _load_built_in(self, path: str) -> T:
        module = importlib.import_module(path)
        if self._member_of is None:
            return module  # type: ignore[return-value] # a family of modules: T is their protocol
        return self._member_of(module, path.rpartition(".")[2])
