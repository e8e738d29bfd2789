"""Builds and test runs of programs without a compressor: counts, exit code, first error, by the output's form."""

from __future__ import annotations

import pytest

from support.exchanges import lines, summary

ZIG = """test
+- run test 3/4 passed, 1 failed
error: 'main.test.parses' failed: expected 3, found 4
/usr/lib/zig/std/testing.zig:110:17: 0x1048a3d in expectEqualInner__anon_1 (test)
src/main.zig:25:5: 0x103e4c1 in test.parses (test)
Build Summary: 1/3 steps succeeded; 1 failed; 3/4 tests passed; 1 failed
test transitive failure"""
BAZEL = """foo/baz_test.cc:41: Failure
//foo:bar_test                                                           PASSED in 0.3s
//foo:baz_test                                                           FAILED in 1.2s
Executed 2 out of 2 tests: 1 test passes and 1 fails locally.
INFO: Build completed, 1 test FAILED, 2 total actions"""
JUST = """src/a.py:3:8: F401 `os` imported but unused
Found 1 error.
error: Recipe `check` failed on line 4 with exit code 1"""
SCRIPT = "== verify ==\n[ OK ] schema\n[ OK ] fixtures\n[FAIL] checksums: data/2026.csv:118 differs\ndone in 3s"
TAP = "ok 1 - a\nok 2 - b\nnot ok 3 - parses dates\n1..3"
TSC = "src/a.ts(3,7): error TS2322: No such type.\nsrc/b.ts(9,1): error TS2304: No name 'foo'."
TRACE = 'Traceback (most recent call last):\n  File "checks/run.py", line 7, in run\nKeyError: total\n3 ok, 1 failed'


@pytest.mark.parametrize(
    ("command", "output", "exit_code", "said"),
    [
        ("zig build test", ZIG, 1, "exit 1, 1 failed, 3 passed: src/main.zig:25: error: 'main.test.parses' failed: ex"),
        ("bazel test //...", BAZEL, 3, "exit 3, 1 failed, 1 passed: foo/baz_test.cc:41: Failure"),
        ("just check", JUST, 1, "exit 1, 1 error: src/a.py:3:8: F401 `os` imported but unused"),
        ("./verify.sh", SCRIPT, 1, "exit 1, 1 failed, 2 passed: [FAIL] checksums: data/2026.csv:118 differs"),
        ("prove -v", TAP, 1, "exit 1, 1 failed, 2 passed: not ok 3 - parses dates"),
        ("tsc", TSC, 2, "exit 2, 2 errors: src/a.ts(3,7): error TS2322: No such type."),
        ("./checks", TRACE, 1, "exit 1, 1 failed, 3 passed: checks/run.py:7: KeyError: total"),
        ("./gradlew test", "DateTest FAILED\n12 tests completed, 2 failed", 1, "exit 1, 2 failed, 12 run"),
        (
            "mvn test",
            "[ERROR] Tests run: 12, Failures: 2, Errors: 0, Skipped: 1",
            1,
            "2 failed, 1 skipped",
        ),
        (
            "dotnet test",
            "Failed!  - Failed:     1, Passed:     3, Total:     4 - App.dll (net8.0)",
            1,
            "1 failed, 3 pa",
        ),
        ("mix test", "....\nFinished in 0.1 seconds\n14 tests, 0 failures", 0, "exit 0, 14 run"),
        (
            "make",
            "a.c:3:5: warning: unused 'x'\na.c:9:1: error: no ';'\nmake: Error 1",
            2,
            "1 warning: a.c:9:1",
        ),
    ],
)
def test_an_unknown_runner_keeps_counts_exit_code_and_the_first_error_with_its_place(
    command: str, output: str, exit_code: int, said: str
) -> None:
    assert said in summary("bash", {"command": command}, output, exit_code=exit_code)


def test_the_result_of_an_unknown_tool_is_read_by_its_form_too() -> None:
    assert summary("pipeline", {"id": 7}, "Step\n" * 50 + "Finished: 14 passed, 2 failed") == (
        "{pipeline 7: 2 failed, 14 passed}"
    )
    assert summary("verify_all", {}, SCRIPT, is_error=True) == (
        "{verify_all 1 failed, 2 passed: [FAIL] checksums: data/2026.csv:118 differs}"
    )


@pytest.mark.parametrize(
    ("command", "output", "said"),
    [
        ("git log --oneline", "aaa Fix 2 errors in parser\nbbb 3 checks failed", "2 lines, last: bbb 3 checks failed"),
        ("cat CHANGES", "- 3 errors fixed\n- 2 tests failed", "2 lines"),
        (
            "grep -rn error a",
            "a/a.py:3: error\na/b.py:4: error\na/c.py:4: error",
            "3 hits in 3 files, first a/a.py",
        ),
        ("./report", "We had 3 errors in the plan on Monday.\nThen nothing.", "2 lines, last: Then nothing."),
    ],
)
def test_counts_in_the_words_of_others_are_no_outcome(command: str, output: str, said: str) -> None:
    assert summary("bash", {"command": command}, output, exit_code=0) == f"{{bash {command}: {said}}}"


def test_the_summary_and_the_failures_are_among_the_key_lines() -> None:
    output = "\n".join([*(f"compiled mod{chr(97 + n % 26)}{n}" for n in range(200)), SCRIPT, "3 checks, 1 failed"])
    found = lines("exec", {"command": "./verify.sh"}, output, exit_code=1)
    assert found[0] == "3 checks, 1 failed"
    assert "[FAIL] checksums: data/2026.csv:118 differs" in found


def test_a_long_answer_of_an_unknown_tool_keeps_its_last_line_with_words() -> None:
    assert summary("deploy", {}, "Uploading\n" * 40 + "Deployed to eu-west\n---") == (
        "{deploy 42 lines, last: Deployed to eu-west}"
    )
