"""What a contributor is pointed to exists, and releases take their notes from the changelog."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "AGENTS.md")]
_LINK = re.compile(r"\]\(([^)#:]+)\)")
_PATH = re.compile(r"`((?:src|tests|docs|bench)/[\w./-]+)`")
_MAKE = re.compile(r"(?:^|`|\b(?:and|run:|&&) )make ((?:\.venv/)?[\w./-]+)", re.MULTILINE)
_TARGET = re.compile(r"^((?:\$\(VENV\)/)?[\w./-]+):", re.MULTILINE)


def targets() -> set[str]:
    return {name.replace("$(VENV)", ".venv") for name in _TARGET.findall((ROOT / "Makefile").read_text("utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_paths_and_targets_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for path in (*_LINK.findall(text), *_PATH.findall(text)):
        assert (ROOT / path).exists(), path
    assert set(_MAKE.findall(text)) <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_exist_with_the_least_rights(path: Path) -> None:
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values() if "needs" not in job)
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert {target for command in commands for target in _MAKE.findall(command)} <= targets()


def test_the_tests_run_on_every_supported_python() -> None:
    tested = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    assert tested["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_the_host_requires(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    if "body" in form:
        assert {"name", "description"} <= form.keys()
        assert all(item["attributes"]["label"] for item in form["body"])


def test_release_notes_are_the_section_of_the_version() -> None:
    notes = runpy.run_path(str(ROOT / ".ci/release_notes.py"))["release_notes"]
    changelog = "# Changelog\n\n## 1.1.0 (2026-12-01)\n\n- New.\n\n## 1.0.0 (2026-11-01)\n\n- Old.\n"
    assert notes(changelog, "v1.1.0") == "- New.\n"
    assert notes(changelog, "v1.0.0") == "- Old.\n"
    with pytest.raises(SystemExit, match=r"no section for 1\.2\.0"):
        notes(changelog, "v1.2.0")
    assert notes((ROOT / "CHANGELOG.md").read_text("utf-8"), "Unreleased")
