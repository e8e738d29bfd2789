"""Applies random patches, most of them damaged or interrupted, and checks that no file is ever half written.

Run from the project's root: python bench/patch_fuzz.py [--count 10000] [--seed 1] [--directory DIR]

Each round makes a folder of random files and a patch between two random states of it (Codex's format or a unified
diff), and often damages the patch (cut off, lines lost, doubled or swapped, characters changed, other paths) or
interrupts it (the process killed, or the disk failing, before a random step). Whatever happens: each file has its old
or its new content; after a failure, or after a kill and recovery, all files are as they were; a sound patch gives
exactly the new state; nothing is left over, and nothing outside the folder changes.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from foveate.tools import ToolError, Workspace
from foveate.tools.patch.commit import commit, locked, recover
from foveate.tools.patch.plan import parse_patch, plan_edits

State = Mapping[str, bytes]
FOLDERS = ("", "src/", "src/deep/", "docs/")
NEW_FOLDERS = (*FOLDERS, "new/", "new/er/")
WRONG_PATHS = (
    "../outside.txt",
    "/etc/passwd",
    "link/x.txt",
    "loop",
    "src",
    "missing.py",
    "a\tb",
    "",
    "src/../../x",
    "~/x",
)
MAX_STEPS = 16


class Broken(AssertionError):
    """What must never happen."""


class Killed(BaseException):
    """The process ends here: nothing is rolled back."""


@dataclass(frozen=True, slots=True)
class Case:
    """A patch, and what interrupts it."""

    patch: str
    is_sound: bool
    kill_at: int | None = None
    fail_at: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        outcomes = run(given.count, given.seed, Path(folder))
    seconds = time.perf_counter() - started
    print(
        json.dumps({"patches": given.count, **dict(sorted(outcomes.items())), "seconds": round(seconds, 1)}, indent=2)
    )


def run(count: int, seed: int, folder: Path) -> Counter[str]:
    """How the patches ended; `Broken` if a file is half written."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        try:
            outcomes[_round(chance, folder / str(number))] += 1
        except Broken as error:
            error.add_note(f"seed {seed}, patch {number}")
            raise
    return outcomes


def _round(chance: random.Random, folder: Path) -> str:
    root = folder / "root"
    before = random_state(chance)
    write_state(root, before)
    (folder / "outside.txt").write_text("outside\n")
    (root / "link").symlink_to(folder)
    (root / "loop").symlink_to("loop")
    after = random_change(chance, before)
    case = random_case(chance, before, after)
    try:
        return _try(case, Workspace.at([root]), before, after)
    finally:
        if (folder / "outside.txt").read_text() != "outside\n" or len(list(folder.iterdir())) != 2:
            raise Broken("something outside the root was changed")
        shutil.rmtree(folder)


def _try(case: Case, workspace: Workspace, before: State, after: State) -> str:
    root = workspace.roots[0]
    expected: dict[str, bytes] = dict(before)
    try:
        with locked(workspace):
            recover(workspace)
            edits = plan_edits(parse_patch(case.patch), workspace)
            for edit in edits:
                expected.pop(edit.shown, None)
                if edit.after is not None:
                    expected[edit.shown] = edit.after
            commit(edits, workspace, interruption(case))
    except ToolError as error:
        check_state(root, before, "after a refusal")
        if case.is_sound and case.fail_at is None:
            raise Broken(f"a sound patch was refused: {error}\n{case.patch}") from error
        is_failure = case.fail_at is not None and "no space left" in str(error)
        return "failed and rolled back" if is_failure else "refused"
    except Killed:
        _check_each(root, before, expected)
        with locked(workspace):
            recover(workspace)
        return f"killed, {_check_either(root, before, expected)}"
    if case.fail_at is not None:  # it may have failed to remove its backups
        with locked(workspace):
            recover(workspace)
    check_state(root, expected, "after the patch")
    if case.is_sound:
        check_state(root, after, "after a sound patch", is_codex=case.patch.startswith("*** Begin"))
        return "applied, sound"
    return "applied, damaged but valid"


def interruption(case: Case) -> Callable[[str], None]:
    """Kills or fails before a step."""
    steps = iter(range(1_000_000))

    def probe(name: str) -> None:
        step = next(steps)
        if step == case.kill_at:
            raise Killed
        if step == case.fail_at:
            raise OSError(28, "No space left on device", name)

    return probe


def read_state(root: Path) -> dict[str, bytes]:
    """All files below a folder, links apart."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def write_state(root: Path, state: State) -> None:
    for name, content in state.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def check_state(root: Path, expected: State, when: str, *, is_codex: bool = False) -> None:
    """Codex's format can't say whether the last line has an end."""
    found: State = read_state(root)
    if is_codex:
        found, expected = ({name: text.rstrip(b"\r\n") for name, text in one.items()} for one in (found, expected))
    if found != expected:
        wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise Broken(f"{when}: {', '.join(wrong)} is not as it should be")


def _check_each(root: Path, before: State, expected: State) -> None:
    """Right after a kill each file has its old or its new content, whole."""
    found = read_state(root)
    for name in {*before, *expected}:
        if found.get(name) not in (before.get(name), expected.get(name)):
            raise Broken(f"{name} is half written")


def _check_either(root: Path, before: State, expected: State) -> str:
    found = read_state(root)
    if found == before:
        return "undone"
    if found == expected:
        return "finished"
    raise Broken("after the recovery some files are old and some new")


def random_state(chance: random.Random) -> dict[str, bytes]:
    names = [f"{chance.choice(FOLDERS)}{name}" for name in ("a.py", "b.txt", "c.md", "d.json", "ü e.txt")]
    return {name: _random_text(chance, name) for name in names[: chance.randint(1, 5)]}


def _random_text(chance: random.Random, name: str) -> bytes:
    newline = chance.choice(("\n", "\n", "\r\n"))
    lines = [_random_line(chance, f"{name} {number}") for number in range(chance.randint(0, 40))]
    text = newline.join(lines) + (newline if lines and chance.random() < 0.8 else "")
    return text.encode()


def _random_line(chance: random.Random, mark: str) -> str:
    """No two lines of a file are alike, so that the place of a hunk is not a matter of taste."""
    indent = " " * chance.choice((0, 0, 4, 8))
    return f"{indent}{chance.choice(('x =', '--', '++', '@@', '***', 'é', 'end'))} {mark} {chance.randrange(10**9)}"


def random_change(chance: random.Random, before: State) -> dict[str, bytes]:
    """Another state: some files edited, some deleted, some new, some renamed."""
    after = dict(before)
    for name in list(after):
        match chance.randrange(8):
            case 0:
                del after[name]
            case 1 | 2 | 3 | 4 | 5:
                after[name] = _edited(chance, after[name], name)
    if chance.random() < 0.4 or after == before:
        name = f"{chance.choice(NEW_FOLDERS)}new-{chance.randrange(100)}.txt"
        after[name] = "".join(f"{_random_line(chance, str(number))}\n" for number in range(1, 6)).encode()
    return after


def _edited(chance: random.Random, content: bytes, name: str) -> bytes:
    newline = "\r\n" if b"\r\n" in content else "\n"
    text = content.decode()
    lines = text.split(newline)
    is_whole = lines[-1] == ""
    lines = lines[:-1] if is_whole else lines
    for _ in range(chance.randint(1, 4)):
        place = chance.randint(0, len(lines))
        stop = min(len(lines), place + chance.randint(0, 3))
        lines[place:stop] = [_random_line(chance, f"{name} new") for _ in range(chance.randint(0, 3))]
    return (newline.join(lines) + (newline if lines and is_whole else "")).encode() if lines else b""


def random_case(chance: random.Random, before: State, after: State) -> Case:
    patch = (unified_patch if chance.random() < 0.5 else codex_patch)(before, after, chance)
    is_sound = chance.random() < 0.3
    if not is_sound:
        for _ in range(chance.randint(1, 3)):
            patch = damaged(chance, patch)
    match chance.randrange(4):
        case 0:
            return Case(patch, is_sound, kill_at=chance.randrange(MAX_STEPS))
        case 1:
            return Case(patch, is_sound, fail_at=chance.randrange(MAX_STEPS))
    return Case(patch, is_sound)


def damaged(chance: random.Random, patch: str) -> str:
    lines = patch.split("\n")
    place = chance.randrange(len(lines))
    other = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            return patch[: chance.randrange(len(patch) + 1)]
        case 1:
            del lines[place]
        case 2:
            lines.insert(place, lines[other])
        case 3:
            lines[place], lines[other] = lines[other], lines[place]
        case 4:
            line = lines[place]
            cut = chance.randrange(len(line) + 1)
            lines[place] = line[:cut] + chance.choice("+- @*\t\0é\ud800") + line[cut + 1 :]
        case 5 | 6:
            _replace_path(chance, lines)
        case 7:
            lines[place] = chance.choice((" ", "+", "-")) + lines[place][1:]
    return "\n".join(lines)


def _replace_path(chance: random.Random, lines: list[str]) -> None:
    headers = ("Update File", "Add File", "Delete File", "Move to")
    starts = (*(f"*** {header}: " for header in headers), "--- a/", "+++ b/", "rename to ")
    places = [place for place, line in enumerate(lines) if line.startswith(starts)]
    if places:
        place = chance.choice(places)
        start = next(start for start in starts if lines[place].startswith(start))
        lines[place] = start + chance.choice(WRONG_PATHS)


def codex_patch(before: State, after: State, chance: random.Random) -> str:
    parts = ["*** Begin Patch"]
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            parts.append(f"*** Delete File: {name}")
        elif old is None:
            parts += [f"*** Add File: {name}", *(f"+{line}" for line in new.decode().splitlines())]
        elif old != new:
            parts += [f"*** Update File: {name}", *_codex_hunks(old, new, chance)]
    return "\n".join([*parts, "*** End Patch", ""])


def _codex_hunks(old: bytes, new: bytes, chance: random.Random) -> Iterator[str]:
    before, after = (content.decode().splitlines() for content in (old, new))
    diff = difflib.unified_diff(before, after, lineterm="", n=chance.randint(1, 3))
    for line in list(diff)[2:]:
        yield "@@" if line.startswith("@@ -") else line


def unified_patch(before: State, after: State, chance: random.Random) -> str:
    is_git = chance.random() < 0.5
    parts = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        sides = ("/dev/null" if old is None else f"a/{name}", "/dev/null" if new is None else f"b/{name}")
        if is_git:
            parts.append(f"diff --git a/{name} b/{name}\n")
            parts += ["new file mode 100644\n"] if old is None else []
            parts += ["deleted file mode 100644\n"] if new is None else []
        if not (old or b"") and not (new or b"") and is_git:
            continue
        olds, news = (_diff_lines(content or b"") for content in (old, new))
        hunks = list(difflib.unified_diff(olds, news, n=chance.randint(0, 3)))[2:]
        parts += [f"--- {sides[0]}\n", f"+++ {sides[1]}\n"]
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunks]
    return "".join(parts)


def _diff_lines(content: bytes) -> list[str]:
    return content.decode().replace("\r\n", "\n").splitlines(keepends=True)


if __name__ == "__main__":
    main()
