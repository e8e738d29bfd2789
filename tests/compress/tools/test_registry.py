"""Any call has a summary, whatever the tool, the arguments and the output; a user's compressor comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.compress import tools as compressors
from foveate.compress.lines import KEY_LINES, SUMMARY_CHARS
from foveate.compress.tools import (
    ToolCompressor,
    assign,
    key_lines,
    names,
    register,
    serves,
    smooth_call,
    smooth_result,
    summarise_call,
    unregister,
)
from foveate.errors import InputError
from foveate.turn import Attachment, Json, Opaque, Text, ToolCall, ToolResult
from support.examples import times
from support.exchanges import exchange, lines, smoothed, summary

TOOLS = (
    *("Bash", "Read", "Write", "Edit", "MultiEdit", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite", "Task"),
    *("shell", "exec_command", "apply_patch", "update_plan", "view_image"),
    *("read", "bash", "edit", "write", "open", "goto", "str_replace_editor", "find_file", "submit"),
    *("get_user_details", "mcp__github__search_code", "functions.exec", "", "  ", "]\n"),
)
KEYS = (
    "path",
    "file_path",
    "command",
    "pattern",
    "content",
    "old_string",
    "new_string",
    "edits",
    "patch",
    "url",
    "input",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
outputs = st.one_of(
    st.text(max_size=200),
    st.sampled_from(
        (
            "",
            "\n\n\n",
            "{",
            '{"a": [1, {"b": null}]}',
            "[]",
            "[[]]",
            '[{"a": 1}, {"a": 2}]',
            '[[{"a": 1}], [{"a": {}}]]',
            "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b",
            "a.py:1:x\nb.py:2:y\nc.py:3:z",
            "3 failed, 4 passed in 1.2s",
            "Traceback (most recent call last):",
            "total 4\n-rw-r--r-- 1 a b 12 Jan 1 10:00 x",
            "\x1b[31mred\x1b[0m\rgone\rlast",
        )
    ),
)
parts = st.one_of(
    outputs.map(Text),
    st.just(Attachment("image", data="AAAA")),
    st.just(Opaque("x", {"type": "hologram"})),
)
results = st.none() | st.builds(
    ToolResult,
    call_id=st.none() | st.just("1"),
    content=st.lists(parts, max_size=3).map(tuple),
    name=st.none() | st.sampled_from(TOOLS),
    is_error=st.booleans(),
    exit_code=st.none() | st.integers(-2, 255),
)


@given(st.sampled_from(TOOLS) | st.text(max_size=20), json_values, results)
@settings(max_examples=times(50), deadline=None)
def test_nothing_that_a_model_or_a_tool_writes_makes_a_compressor_fail(
    name: str, arguments: Json, result: ToolResult | None
) -> None:
    call = ToolCall(name, arguments)
    said = summarise_call(call, result)
    assert said[0] == "{"
    assert said[-1] == "}"
    assert "\n" not in said
    assert len(said) <= SUMMARY_CHARS + 2
    chosen = key_lines(call, result)
    assert len(chosen) <= KEY_LINES
    assert all(line.strip() for line in chosen)
    assert isinstance(smooth_call(call), str)
    if result is not None:
        assert smooth_result(call, result) == smooth_result(call, result)
        assert isinstance(smooth_result(None, result), str)


@pytest.mark.parametrize("tool", ["bash", "read", "grep", "ls", "nobody_knows"])
@pytest.mark.parametrize(
    "output",
    ["x" * 50_000_000, "line\n" * 2_000_000, "\0\1\2" * 1_000_000, "{" * 300_000, "[" * 100 + "1" + "]" * 100],
    ids=["one line", "many lines", "binary", "half a JSON", "nested JSON"],
)
def test_huge_and_binary_output_is_bounded(tool: str, output: str) -> None:
    assert len(summary(tool, {"command": "x"}, output)) <= SUMMARY_CHARS + 2
    assert sum(map(len, lines(tool, {}, output))) < 40_000
    assert sum(map(len, smoothed(tool, {}, output))) < 60_000


def test_binary_output_is_only_measured() -> None:
    assert summary("bash", {"command": "cat a.out"}, "\0" * 100) == "{bash binary output, 100 characters}"
    assert lines("bash", {}, "\0" * 100) == []


def test_a_long_output_keeps_both_ends_and_says_how_long_it_was() -> None:
    output = "\n".join(f"step {'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{'xyz'[n // 100]}" for n in range(300))
    shown = smoothed("nobody_knows", {}, output)
    assert len(shown) == 101
    assert shown[50] == "(… 200 of 300 lines left out)"
    assert (shown[0], shown[-1]) == (output.split("\n")[0], output.split("\n")[-1])


def test_similar_lines_are_folded() -> None:
    output = "\n".join(["start", *(f"fetched {n} of 39" for n in range(39)), "end"])
    assert smoothed("exec", {"command": "sync"}, output) == [
        "start",
        "fetched 0 of 39",
        "(… 37 similar lines)",
        "fetched 38 of 39",
        "end",
    ]


def test_a_call_without_a_result_says_so() -> None:
    assert summarise_call(ToolCall("read", {"path": "a.py"}), None) == "{read a.py: no result}"


def test_a_registered_compressor_comes_first() -> None:
    mine = SimpleNamespace(
        tools=("bash",),
        recognises=lambda exchange: False,
        summarise=lambda exchange: f"mine: {exchange.command}",
        key_lines=lambda exchange: ["mine"],
        smooth=lambda exchange: ["mine"],
    )
    register("mine", cast("ToolCompressor", mine))
    try:
        assert summary("bash", {"command": "ls"}, "x") == "{bash mine: ls}"
    finally:
        unregister("mine")
    assert summary("bash", {"command": "echo x"}, "x") == "{bash echo x: x}"


def test_every_module_here_is_a_compressor() -> None:
    assert set(names()) >= {"diffs", "files", "generic", "json_data", "listings", "search", "shell", "tests", "web"}
    assert serves("mcp__server__read_file")
    assert not serves("frobnicate")


def test_short_arguments_stay_and_long_ones_are_described() -> None:
    patch = "\n".join(f"+line {n}" for n in range(342))
    assert smooth_call(ToolCall("apply_patch", {"path": "a.py", "patch": patch})) == "path: a.py, patch (342 lines)"
    edit = {"path": "a.py", "oldText": "a\nb\nc", "newText": "a\nB\nc"}
    assert smooth_call(ToolCall("edit", edit)) == "path: a.py, change:\n-b\n+B"
    assert smooth_call(ToolCall("bash", {"command": "ls -la"})) == "ls -la"
    assert smooth_call(ToolCall("bash", "ls -la")) == "ls -la"
    assert smooth_call(ToolCall("x", None)) == ""


def test_the_exit_code_is_read_where_a_runner_wrote_it() -> None:
    wrapped = '{"output": "boom: fatal error\\n", "metadata": {"exit_code": 3}}'
    assert summary("shell", {"command": ["bash", "-lc", "make all"]}, wrapped).startswith("{shell make all: exit 3")
    assert "exit 2" in summary("bash", {"command": "x"}, "nope\n\nCommand exited with code 2")
    assert "exit 7" in summary("exec_command", {"cmd": "x"}, "Exit code: 7\nOutput:\nnope")


def test_results_of_several_parts_are_read_together() -> None:
    call, result = exchange("read", {"path": "a"}, "one")
    both = ToolResult("1", (*result.content, Text("two"), Attachment("image", data="AA")))
    assert summarise_call(call, both) == "{read a: 2 lines}"


def test_a_tool_names_its_compressor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assigned in this process, or declared by a third party's entry point, which every process reads."""
    call = ToolCall("look_for_it", {"pattern": "port"})
    result = ToolResult(None, (Text("a.py:1:port\n"),))
    assert "1 hit" not in summarise_call(call, result)
    with pytest.raises(InputError, match=r"no compressor 'nothing' for look_for_it; available: .*search"):
        assign("look_for_it", "nothing")
    monkeypatch.setattr(compressors, "_assigned", {})
    assign("look_for_it", "search")
    assert "1 hit in 1 file: a.py" in summarise_call(call, result)
    monkeypatch.setattr(compressors, "_assigned", {})
    point = SimpleNamespace(load=lambda: SimpleNamespace(compressor="search"))
    monkeypatch.setattr(compressors, "_tool_points", lambda: {"look_for_it": point})
    compressors._serving.cache_clear()
    assert "1 hit in 1 file: a.py" in summarise_call(call, result)
    compressors._serving.cache_clear()
