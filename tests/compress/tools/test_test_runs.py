"""Test runs are known by their output, whatever command made it."""

from __future__ import annotations

import pytest

from support.exchanges import lines, smoothed, summary

PYTEST = """============ test session starts ============
tests/test_a.py::test_one PASSED [ 25%]
tests/test_a.py::test_two PASSED [ 50%]
tests/test_a.py::test_login FAILED [ 75%]
tests/test_a.py::test_refresh FAILED [100%]
E   AssertionError: 401 != 200
FAILED tests/test_a.py::test_login - AssertionError: 401 != 200
FAILED tests/test_a.py::test_refresh - KeyError: 'token'
============ 2 failed, 41 passed in 1.20s ============
"""
JEST = """FAIL src/a.test.ts
  ✓ adds (3 ms)
  ✕ subtracts (5 ms)
Tests:       1 failed, 12 passed, 13 total
"""
GO = "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.org/x/y\t0.01s\n"
CARGO = "test a::b ... ok\ntest a::c ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"
UNITTEST = "FAIL: test_x (t.T)\nAssertionError: 1 != 2\nRan 12 tests in 0.1s\n\nFAILED (failures=1)\n"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (PYTEST, "exit 1, 2 failed, 41 passed: test_login, test_refresh"),
        (JEST, "exit 1, 1 failed, 12 passed: subtracts"),
        (GO, "exit 1: TestA"),
        (CARGO, "exit 1, 1 failed, 1 passed: a::c"),
        (UNITTEST, "exit 1, 12 run: test_x"),
    ],
    ids=["pytest", "jest", "go", "cargo", "unittest"],
)
def test_a_run_is_its_counts_and_what_failed(output: str, said: str) -> None:
    shown = summary("exec", {"command": "run it"}, output, exit_code=1)
    assert shown.removeprefix("{exec run it: ").removesuffix("}") in (said, said.replace("a::c", "c"))
    assert summary("nobody_knows", {}, output, exit_code=1) == f"{{nobody_knows {shown.partition(': ')[2]}"


def test_tests_that_passed_are_counted_not_listed() -> None:
    shown = smoothed("bash", {"command": "pytest"}, PYTEST)
    assert "(… 2 lines of tests that passed)" in shown
    assert not any("test_one" in line for line in shown)
    assert any("test_login - AssertionError" in line for line in shown)


def test_failures_and_their_reasons_are_key_lines() -> None:
    chosen = lines("bash", {"command": "pytest"}, PYTEST, exit_code=1)
    assert "FAILED tests/test_a.py::test_login - AssertionError: 401 != 200" in chosen
    assert "E   AssertionError: 401 != 200" in chosen
