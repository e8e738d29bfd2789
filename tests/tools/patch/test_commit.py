"""All files or none, whatever fails, and nothing is left over."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

import patch_fuzz
from foveate.tools import Toolbox, ToolError, Workspace
from foveate.tools.patch import commit as module
from foveate.tools.patch.commit import Journal, JournalStep, commit, locked, recover
from foveate.tools.patch.plan import parse_patch, plan_edits
from foveate.tools.workspace import JOURNAL
from patch_fuzz import Case, Killed, check_state, interruption, read_state, write_state

BEFORE = {"a.txt": b"a\n", "sub/b.txt": b"b\n", "c.txt": b"c\n"}
AFTER = {"a.txt": b"A\n", "new/deep/d.txt": b"d\n", "moved.txt": b"C\n"}
PATCH = """\
*** Begin Patch
*** Update File: a.txt
-a
+A
*** Delete File: sub/b.txt
*** Update File: c.txt
*** Move to: moved.txt
-c
+C
*** Add File: new/deep/d.txt
+d
*** End Patch
"""
STEPS = 16
"""The journal, 2 folders, 3 temporary files, 3 backups, 5 renames or deletions, the commit and the clean-up."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write_state(tmp_path, BEFORE)
    return Workspace.at([tmp_path])


def test_a_folder_in_the_place_of_an_unfinished_journal_is_an_error_that_says_what_to_remove(
    workspace: Workspace,
) -> None:
    (workspace.roots[0] / f"{JOURNAL}.tmp").mkdir()
    (workspace.roots[0] / JOURNAL).write_bytes(msgspec.json.encode(Journal(())))
    Toolbox([], workspace)
    with locked(workspace), pytest.raises(ToolError, match=r"is not the journal of a patch, .* remove it, .*rm -r"):
        recover(workspace)


def _apply(workspace: Workspace, case: Case) -> None:
    with locked(workspace):
        recover(workspace)
        commit(plan_edits(parse_patch(PATCH), workspace), workspace, interruption(case))


def test_a_patch_of_several_files_is_applied(workspace: Workspace) -> None:
    steps: list[str] = []
    with locked(workspace):
        commit(plan_edits(parse_patch(PATCH), workspace), workspace, steps.append)
    check_state(workspace.roots[0], AFTER, "after the patch")
    assert len(steps) == STEPS
    assert steps[0] == "journal"
    assert steps[-2:] == ["commit", "clean up"]


@pytest.mark.parametrize("step", range(STEPS))
def test_a_kill_at_any_step_is_undone_when_tools_are_next_opened(workspace: Workspace, step: int) -> None:
    with pytest.raises(Killed):
        _apply(workspace, Case(PATCH, True, kill_at=step))
    Toolbox([], workspace)
    is_committed = step == STEPS - 1
    check_state(workspace.roots[0], AFTER if is_committed else BEFORE, f"after a kill at step {step}")
    assert (workspace.roots[0] / "new").exists() == is_committed


@pytest.mark.parametrize("step", range(STEPS - 1))
def test_a_failure_at_any_step_is_rolled_back_at_once(workspace: Workspace, step: int) -> None:
    with pytest.raises(ToolError, match="no space left on device; nothing was changed"):
        _apply(workspace, Case(PATCH, True, fail_at=step))
    check_state(workspace.roots[0], BEFORE, f"after a failure at step {step}")


def test_an_interrupted_recovery_is_finished_later(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Killed):
        _apply(workspace, Case(PATCH, True, kill_at=STEPS - 2))
    hashed = module._hash_of
    calls: list[Path] = []

    def killed(path: Path) -> str | None:
        calls.append(path)
        if len(calls) == 3:
            raise Killed
        return hashed(path)

    monkeypatch.setattr(module, "_hash_of", killed)
    with pytest.raises(Killed), locked(workspace):
        recover(workspace)
    with locked(workspace):
        recover(workspace)
    check_state(workspace.roots[0], BEFORE, "after the second recovery")


def test_a_file_that_someone_else_changed_is_not_restored(workspace: Workspace) -> None:
    root = workspace.roots[0]
    with pytest.raises(Killed):
        _apply(workspace, Case(PATCH, True, kill_at=STEPS - 2))
    (root / "a.txt").write_bytes(b"mine\n")
    (root / "new/deep/d.txt").write_bytes(b"mine too\n")
    Toolbox([], workspace)
    assert read_state(root) == {**BEFORE, "a.txt": b"mine\n", "new/deep/d.txt": b"mine too\n"}


def test_a_patch_waits_for_another_one(workspace: Workspace) -> None:
    with locked(workspace), pytest.raises(ToolError, match="another patch is being written"), locked(workspace, 0):
        pass


def test_a_journal_that_names_files_elsewhere_is_refused(workspace: Workspace) -> None:
    name = f"/etc/.foveate-{'0' * 16}"
    step = JournalStep(path="/etc/passwd", temporary=f"{name}.tmp", backup=f"{name}.old", before=None, after=None)
    (workspace.roots[0] / JOURNAL).write_bytes(msgspec.json.encode(Journal((step,))))
    with locked(workspace), pytest.raises(ToolError, match="outside the folders"):
        recover(workspace)


@pytest.mark.parametrize(
    "names",
    [
        ("n", "victim", "other"),
        ("n", f".foveate-{'0' * 16}.tmp", f".foveate-{'0' * 16}.old"),
        ("ROOT/n", "ROOT/victim", "ROOT/other"),
        ("ROOT/n", f"ROOT/sub/.foveate-{'0' * 16}.tmp", f"ROOT/.foveate-{'0' * 16}.old"),
        ("ROOT/n", f"ROOT/.foveate-{'0' * 16}.tmp", f"ROOT/.foveate-{'1' * 16}.old"),
    ],
    ids=["relative", "relative, own names", "other names", "another folder", "a link"],
)
def test_a_journal_that_no_patch_wrote_touches_nothing(
    names: tuple[str, str, str], workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are not taken relative to the working folder of the process either."""
    root = workspace.roots[0]
    outside = tmp_path.parent / f"{tmp_path.name} outside"
    outside.mkdir()
    monkeypatch.chdir(outside)
    kept = [folder / name for folder in (outside, root) for name in ("n", "victim", "other", Path(names[1]).name)]
    for file in kept:
        file.write_text("precious")
    (root / f".foveate-{'1' * 16}.old").symlink_to("victim")
    path, temporary, backup = (name.replace("ROOT", str(root)) for name in names)
    step = JournalStep(path, temporary, backup, before=None, after=None)
    (root / JOURNAL).write_bytes(msgspec.json.encode(Journal((step,), is_committed=True)))
    with locked(workspace), pytest.raises(ToolError, match="names files that no patch here names"):
        recover(workspace)
    assert {file.read_text() for file in kept} == {"precious"}


def test_random_patches_never_leave_a_file_half_written(tmp_path: Path) -> None:
    """`bench/patch_fuzz.py` runs 10,000 of them."""
    outcomes = patch_fuzz.run(120, 7, tmp_path)
    assert sum(outcomes.values()) == 120
    assert {"applied, sound", "refused", "killed, undone", "failed and rolled back"} <= set(outcomes)


def test_the_fuzz_damages_most_patches() -> None:
    chance = random.Random(1)
    state = patch_fuzz.random_state(chance)
    changed = patch_fuzz.random_change(chance, state)
    patch = patch_fuzz.codex_patch(state, changed, chance)
    assert len({patch_fuzz.damaged(chance, patch) for _ in range(20)} - {patch}) > 10
