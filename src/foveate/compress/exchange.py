"""A tool call with its result, read leniently and within limits, so that a compressor can't fail on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from foveate.compress.lines import brief, clip
from foveate.errors import InvalidMessage
from foveate.plugins import renamed
from foveate.text import several
from foveate.turn import Json, Text, ToolCall, ToolResult, check_json

END_CHARS = 48_000
"""Characters that are read at either end of a longer output."""
MAX_ARGUMENT_CHARS = 200_000
"""Arguments in text form are read as JSON up to this length."""
_BINARY_SAMPLE_CHARS = 4_000
_BINARY_SHARE = 0.1

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_EXIT_SAID = re.compile(
    r"(?im)^\W{0,3}(?:process |command )?(?:exited with |failed with )?(?:exit )?(?:code|status)\b[: ]+(-?\d{1,4})\b"
    r"|\b(?:exited with|exit|returned) (?:non-zero exit )?(?:code|status):? (-?\d{1,4})\b"
)
_EXIT_SAMPLE_CHARS = 240
_NO_OUTPUT = re.compile(
    r"\s*|(?:Command|Process) exited with code -?\d+|\S*-?\$|\((?:Open file|Current directory): .*\)"
)
"""Additions of runners after an output: the exit code, which is known by then, and the next prompt."""
_SHELLS = {"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"}


@dataclass(frozen=True)
class ToolExchange:
    """Input of a tool compressor. Nothing in it is larger than a few times END_CHARS, except the arguments."""

    tool: str
    """The bare name: `search` of `mcp__docs__search`."""
    arguments: Mapping[str, Json]
    """The arguments; those that are not an object are under `input`."""
    has_result: bool
    output: str
    """The output without colour codes and overwritten progress; the middle of a huge one is replaced by a note."""
    total_chars: int
    total_lines: int
    exit_code: int | None
    is_error: bool
    is_binary: bool
    attachments: int

    @cached_property
    def lines(self) -> list[str]:
        """The output's lines without trailing white space, and without empty ones at either end."""
        lines = [line.rstrip() for line in self.output.split("\n")]
        while lines and _NO_OUTPUT.fullmatch(lines[-1]):
            lines.pop()
        first = next((index for index, line in enumerate(lines) if line), len(lines))
        last = next((index for index in range(len(lines) - 1, -1, -1) if lines[index]), -1)
        return lines[first : last + 1]

    @property
    def failed(self) -> bool:
        return self.is_error or bool(self.exit_code)

    def argument(self, *keys: str) -> str | None:
        """Return the first of these arguments that is not empty, as text."""
        for key in keys:
            value = self.arguments.get(key)
            if isinstance(value, str):
                if value.strip():
                    return value
            elif isinstance(value, bool | int | float):
                return str(value)
            elif isinstance(value, Sequence) and value:
                return _joined(value)
        return None

    @property
    def path(self) -> str | None:
        return self.argument("path", "file_path", "filename", "file", "filepath", "target_file", "notebook_path", "uri")

    @property
    def command(self) -> str:
        """The command that a shell ran."""
        return self.argument("command", "cmd", "script", "code", "commands", "action", "input", "args") or ""


def read_exchange(call: ToolCall, result: ToolResult | None) -> ToolExchange:
    """Read both halves of the exchange; a call without a result has an empty output."""
    texts = [part.text for part in result.content if isinstance(part, Text)] if result else []
    whole = texts[0] if len(texts) == 1 else "\n".join(texts)
    exit_code = result.exit_code if result else None
    if whole.startswith("{") and len(whole) <= END_CHARS:
        whole, exit_code = _unwrapped(whole, exit_code)
    sample = whole[:_BINARY_SAMPLE_CHARS]
    output = _bounded(whole)
    if exit_code is None and result:
        exit_code = _exit_said(output)
    return ToolExchange(
        tool=bare_name(call.name),
        arguments=_read_arguments(call.arguments),
        has_result=result is not None,
        output=output,
        total_chars=len(whole),
        total_lines=whole.count("\n") + (not whole.endswith("\n")) if whole else 0,
        exit_code=exit_code,
        is_error=bool(result and result.is_error),
        is_binary="\0" in sample or len(_CONTROL.findall(sample)) > len(sample) * _BINARY_SHARE,
        attachments=len(result.content) - len(texts) if result else 0,
    )


def bare_name(name: str) -> str:
    """Return a tool's own name, without the server's (`mcp__server__tool`) or the namespace's (`functions.tool`)."""
    name = re.split(r"__|\.|::", name.strip())[-1] or name
    return re.sub(r"\s+", "_", name)[:60] or "tool"


def _read_arguments(arguments: Json) -> Mapping[str, Json]:
    if isinstance(arguments, str):
        arguments = _loaded(arguments)
    if isinstance(arguments, Mapping):
        return arguments
    return {} if arguments is None else {"input": arguments}


def _loaded(text: str) -> Json:
    if text.lstrip()[:1] in ("{", "[") and len(text) <= MAX_ARGUMENT_CHARS:
        try:
            return check_json(json.loads(text), "arguments")
        except (ValueError, RecursionError, InvalidMessage):
            return text
    return text


def _unwrapped(text: str, exit_code: int | None) -> tuple[str, int | None]:
    """Unwrap a program's output from its runner's JSON: `{"output": …, "metadata": {"exit_code": 0}}`."""
    if not re.match(r'\{\s*"(?:output|stdout|exit_code)"', text):
        return text, exit_code
    value = _loaded(text)
    if not isinstance(value, Mapping):
        return text, exit_code
    printed = value.get("output", value.get("stdout"))
    errors = value.get("stderr")
    about = value.get("metadata")
    code = value.get("exit_code", about.get("exit_code") if isinstance(about, Mapping) else None)
    if not isinstance(printed, str):
        return text, exit_code
    if isinstance(errors, str) and errors:
        printed = f"{printed}\n{errors}" if printed else errors
    return printed, code if exit_code is None and isinstance(code, int) else exit_code


def _bounded(text: str) -> str:
    if len(text) > 2 * END_CHARS:
        head, tail = text[:END_CHARS], text[-END_CHARS:]
        text = f"{head}\n(… {len(text) - 2 * END_CHARS:,} characters left out)\n{tail}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        # A progress bar rewrites its line: the last state counts.
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text


def _exit_said(output: str) -> int | None:
    """Return the exit code that the tool wrote at the start or end of its output."""
    for sample in (output[-_EXIT_SAMPLE_CHARS:], output[:_EXIT_SAMPLE_CHARS]):
        if said := _EXIT_SAID.search(sample):
            return int(said[1] or said[2])
    return None


def _joined(words: Sequence[Json]) -> str:
    """Join an argument vector as it would be typed; of `bash -lc script`, return the script."""
    if len(words) > 1 and isinstance(words[0], str) and words[0] in _SHELLS and isinstance(words[-1], str):
        return words[-1]
    return " ".join(word if isinstance(word, str) else json.dumps(word, ensure_ascii=False) for word in words)


VALUE_CHARS = 240
VALUE_LINES = 6
"""Maximum lines of a value that is shown in full; one with more lines, or more than VALUE_CHARS, is described."""
MAX_ARGUMENTS = 24
MAX_NAMES = 4
CHANGE_LINES = 8
"""Maximum changed lines of an edit that is shown as a diff."""
SCAN_LINES = 2_000

_PLAIN = re.compile(r"[^\s,:;{}\[\]\"'=][^\n,;{}\[\]\"=]*")
_DEFINITION = re.compile(
    r"^\s*(?:export |default |pub(?:\([a-z]+\))? |async |public |private |protected |static |abstract |final )*"
    r"(?:def|class|function|func|fn|struct|enum|trait|interface|type|module|impl)\s+([A-Za-z_$][\w$.]*)"
)
_OLD = ("old_string", "oldText", "old_str", "old_text", "search", "old")
_NEW = ("new_string", "newText", "new_str", "new_text", "replace", "replacement", "new")
_SCRIPTS = ("command", "cmd", "script", "code", "query", "sql")
SCRIPT_CHARS = 400


def smooth_arguments(call: ToolCall) -> str:
    """Write the arguments, long ones described: `path: src/jwt.py, content (120 lines: class Token, def sign)`."""
    arguments = read_exchange(call, None).arguments
    if not isinstance(call.arguments, Mapping) and set(arguments) == {"input"}:
        value = arguments["input"]
        return described("input", value) if _is_long(value) else plain(value)
    shown: list[str] = []
    old, new = _pair(arguments)
    for key, value in list(arguments.items())[:MAX_ARGUMENTS]:
        if old and new and key in (old, new):
            if key == new:
                shown.append(change(str(arguments[old]), str(value)))
        elif key in _SCRIPTS and isinstance(value, str) and len(value) <= SCRIPT_CHARS:
            shown.append(f"{key}: {value}" if len(arguments) > 1 else value)
        else:
            shown.append(described(key, value) if _is_long(value) else f"{key}: {plain(value)}")
    if len(arguments) > MAX_ARGUMENTS:
        shown.append(f"(… {len(arguments) - MAX_ARGUMENTS} more)")
    return _sentence(shown)


def _sentence(shown: Sequence[str]) -> str:
    """Join the arguments; those of several lines last."""
    return ", ".join(sorted(shown, key=lambda text: "\n" in text))


def described(name: str, value: Json) -> str:
    """Describe a long value: `patch (342 lines)`."""
    if isinstance(value, str):
        lines = value.strip("\n").split("\n")
        if len(lines) == 1:
            return f"{name}: {clip(lines[0], VALUE_CHARS)}"
        names = definitions(lines)
        return f"{name} ({several(len(lines), 'line')}{': ' + ', '.join(names) if names else ''})"
    if isinstance(value, Mapping):
        keys = ", ".join(brief(key, 24) for key in list(value)[:MAX_NAMES])
        return f"{name} ({several(len(value), 'key')}: {keys}{', …' if len(value) > MAX_NAMES else ''})"
    if isinstance(value, Sequence):
        return f"{name} ({several(len(value), 'item')}: {brief(plain(value[0]), 80)}, …)"
    return f"{name}: {plain(value)}"


def definitions(lines: Sequence[str], limit: int = MAX_NAMES) -> list[str]:
    """Return the names of functions and classes that the lines define, up to the limit."""
    names: list[str] = []
    for line in lines[:SCAN_LINES]:
        if (found := _DEFINITION.match(line[:200])) and found[1] not in names:
            if len(names) == limit:
                return [*names, "…"]
            names.append(found[1])
    return names


def plain(value: Json) -> str:
    """Write a value without the quotes and braces that only a parser needs."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.strip() == value else json.dumps(value, ensure_ascii=False)
    if type(value) is int:
        return str(value)
    if isinstance(value, dict | Mapping):
        return "{" + ", ".join(f"{key}: {plain(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list | Sequence):
        return "[" + ", ".join(map(plain, value)) + "]"
    return json.dumps(value)


def change(old: str, new: str) -> str:
    """Write an edit as its removed and added lines; only their number if there are many."""
    before, after = _without_common_ends(old.split("\n"), new.split("\n"))
    if len(before) + len(after) <= CHANGE_LINES:
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
        return "change:\n" + "\n".join(clip(line, VALUE_CHARS) for line in lines)
    names = definitions(after) or definitions(before)
    return f"change (-{len(before)} +{len(after)} lines{': ' + ', '.join(names) if names else ''})"


def _without_common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Remove the lines that two lists have in common at either end."""
    shorter = min(len(before), len(after))
    start = next((place for place in range(shorter) if before[place] != after[place]), shorter)
    left = shorter - start
    end = next((place for place in range(left) if before[-1 - place] != after[-1 - place]), left)
    return before[start : len(before) - end], after[start : len(after) - end]


def _pair(arguments: Mapping[str, Json]) -> tuple[str | None, str | None]:
    """Return the keys of an edit's old and new texts, if both are text."""
    old = next((key for key in _OLD if isinstance(arguments.get(key), str)), None)
    new = next((key for key in _NEW if isinstance(arguments.get(key), str)), None)
    return (old, new) if old and new else (None, None)


def _is_long(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) > VALUE_CHARS or value.count("\n") >= VALUE_LINES
    if isinstance(value, Mapping | Sequence):
        return len(json.dumps(value, ensure_ascii=False)) > 2 * VALUE_CHARS
    return False


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"Exchange": f"{__name__}:ToolExchange"})
