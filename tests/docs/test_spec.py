"""The specification's table: each line once, and every module and test it names exists."""

import ast
import re
from typing import NamedTuple

import pytest

from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "spec.md"
STATES = ("done", "partly: ", "to come")


class Line(NamedTuple):
    id: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    state: str


def _read_lines() -> list[Line]:
    lines = []
    for row in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")] if row.startswith("| ") else []
        if len(cells) == 5 and cells[0] not in ("line", "---"):
            modules, tests = (tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[2:4])
            lines.append(Line(cells[0], modules, tests, cells[4]))
    return lines


LINES = _read_lines()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.id)
def test_every_module_and_test_of_a_line_exists(line: Line) -> None:
    assert line.state.startswith(STATES)
    missing = [module for module in line.modules if not (ROOT / "src" / "foveate" / module).exists()]
    missing += [test for test in line.tests if not _is_defined(*test.split("::"))]
    assert missing == []


def _is_defined(path: str, name: str) -> bool:
    file = ROOT / "tests" / path
    nodes = ast.walk(ast.parse(file.read_text("utf-8"))) if file.exists() else ()
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in nodes)


def test_what_is_done_names_a_module_and_a_test() -> None:
    assert [line.id for line in LINES if line.state.startswith("done") and not (line.modules and line.tests)] == []


def test_every_line_is_listed_once_and_no_number_is_skipped() -> None:
    ids = [line.id for line in LINES]
    assert len(ids) == len(set(ids))
    families: dict[str, list[int]] = {}
    for family, number in (line_id.split("-") for line_id in ids if "-" in line_id):
        families.setdefault(family, []).append(int(number))
    assert len(families) >= 14
    assert {family: sorted(found) for family, found in families.items()} == {
        family: list(range(1, len(found) + 1)) for family, found in families.items()
    }
