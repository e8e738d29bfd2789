"""Every pattern that compressors use takes time in proportion to its text, whatever the text is."""

import pytest

import foveate.compress
import foveate.context
import foveate.text
import foveate.words.grammar
from foveate.compress.exchange import change
from foveate.compress.tools import key_lines, smooth_result, summarise_call
from foveate.turn import Text, ToolCall, ToolResult
from support.pattern_steps import PAIRS, check_growth, unbounded_patterns

PATTERNS = dict(unbounded_patterns(foveate.compress, foveate.context, foveate.words.grammar, foveate.text))


@pytest.mark.parametrize("is_paired", PAIRS)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_twice_the_steps_for_twice_the_text(name: str, *, is_paired: bool) -> None:
    check_growth(PATTERNS[name], is_paired=is_paired)


class CountedLine(str):
    """A line that counts how often it is compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        type(self).compared += 1
        return str.__ne__(self, other)


class CountedText(str):
    __slots__ = ()

    def split(self, *_: object) -> list[str]:
        return [CountedLine(line) for line in str(self).split("\n")]


def test_an_edit_of_many_equal_lines_compares_each_once() -> None:
    lines = 2_000
    assert change(CountedText("\n" * lines), CountedText("\n" * lines + "\nnew")) == "change:\n+new"
    assert CountedLine.compared <= lines + 2


LOG = "\n".join(f"20:{minute:02d}:07 INFO job {minute} done" for minute in range(50))
STAMPED = "\n".join(f"2026-11-15T20:{minute:02d}:07 INFO job {minute} done" for minute in range(50))


@pytest.mark.parametrize("log", [LOG, STAMPED])
def test_the_times_of_a_log_are_not_taken_for_hits_of_a_search(log: str) -> None:
    call, result = ToolCall("bash", {"command": "cat app.log"}), ToolResult(None, (Text(log),))
    assert "hits" not in summarise_call(call, result)
    assert "20:07:07" in "".join(smooth_result(call, result)) + "".join(key_lines(call, result))


def test_real_hits_are_still_found() -> None:
    found = "\n".join(f"src/app{number}.py:{number}:12:def run():" for number in range(50))
    call, result = ToolCall("bash", {"command": "rg run"}), ToolResult(None, (Text(found),))
    assert "50 hits in 50 files" in summarise_call(call, result)
