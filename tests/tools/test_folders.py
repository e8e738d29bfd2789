"""A folder that becomes a link after its path was checked leads no tool out of its root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveate.tools import Toolbox, ToolError, Workspace, registry
from foveate.tools.files import read_whole, write_atomically
from foveate.tools.patch.commit import commit, locked
from foveate.tools.patch.plan import parse_patch, plan_edits

PATCH = "*** Begin Patch\n*** Update File: sub/a.txt\n-inside\n+changed\n*** Add File: sub/b.txt\n+new\n*** End Patch"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "sub/a.txt"}),
    ("view_image", {"path": "sub/a.png"}),
    ("list_dir", {"path": "sub"}),
    ("write_file", {"path": "sub/a.txt", "content": "changed"}),
    ("write_file", {"path": "sub/deep/new.txt", "content": "changed"}),
    ("edit_file", {"path": "sub/a.txt", "old_string": "inside", "new_string": "changed"}),
]


class Place:
    """A root with a folder, and a folder outside that has the same files."""

    def __init__(self, base: Path) -> None:
        self.root, self.outside = base / "root", base / "outside"
        for folder in (self.root / "sub", self.outside):
            folder.mkdir(parents=True)
            (folder / "a.txt").write_text(f"inside\n{folder.name}\n")
            (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        self.workspace = Workspace.at([self.root])
        self.before = self.state()

    def state(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.outside.rglob("*")) if path.is_file()}

    def swap(self, *_: object) -> None:
        if not (self.root / "sub").is_symlink():
            (self.root / "sub").rename(self.root / "old")
            (self.root / "sub").symlink_to(self.outside)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name}-{place}" for place, (name, _) in enumerate(CALLS)])
def test_a_link_that_appears_after_the_check_is_not_followed(
    name: str, arguments: dict[str, Any], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: Callable[[Workspace, str], Path] = Workspace.path

    def path(workspace: Workspace, given: str) -> Path:
        found = checked(workspace, given)
        place.swap()
        return found

    async def yes(*_: object) -> bool:
        return True

    monkeypatch.setattr(Workspace, "path", path)
    box = Toolbox([registry.find(name)], place.workspace, approve=yes)
    output = asyncio.run(box.call(name, arguments))
    assert output.is_error
    assert "outside" not in output.text.replace(str(place.root), "")
    assert place.state() == place.before


@pytest.mark.parametrize("step", ["journal", "temporary file", "backup", "rename", "commit", "clean up"])
def test_a_link_that_appears_while_a_patch_is_written_is_not_followed(step: str, place: Place) -> None:
    def probe(current: str) -> None:
        if current == step:
            place.swap()

    with locked(place.workspace):
        edits = plan_edits(parse_patch(PATCH), place.workspace)
        if step in ("commit", "clean up"):
            commit(edits, place.workspace, probe)
        else:
            with pytest.raises(ToolError):
                commit(edits, place.workspace, probe)
    assert place.state() == place.before


def test_a_folder_that_can_not_be_listed_can_be_passed_through(place: Place) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may list every folder")
    folder = place.root / "sub"
    folder.chmod(0o311)
    assert read_whole(folder / "a.txt", "a.txt", 100).startswith(b"inside")
    assert write_atomically(folder / "deep" / "b.txt", b"new", "b.txt")
