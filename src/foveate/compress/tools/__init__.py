"""Compression of tool calls and results, by the tool's name or the shape of its output.

A compressor is one module in this folder, or anything with the same five names that a third party registers: by
`register(…)`, or under the entry point group `foveate.tool_compressors`. Registered ones come first.

    >>> summarise_call(ToolCall("read_file", {"path": "src/jwt.py"}), ToolResult(None, (Text("a\\nb"),)))
    '{read_file src/jwt.py: 2 lines}'
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from foveate.compress.exchange import ToolExchange, bare_name, read_exchange, smooth_arguments
from foveate.compress.lines import KEY_LINES, SUMMARY_CHARS, brief, pick
from foveate.errors import InputError, contained
from foveate.plugins import Registry, renamed
from foveate.text import several
from foveate.turn import ToolCall, ToolResult

__all__ = [
    "ToolCompressor",
    "ToolExchange",
    "assign",
    "key_lines",
    "names",
    "register",
    "serves",
    "smooth_call",
    "smooth_result",
    "summarise_call",
    "unregister",
]

_BY_SHAPE = ("tests", "diffs", "json_data", "runs", "search")
"""Compressors that are tried in this order if none serves the tool's name."""
_LAST = "generic"


class ToolCompressor(Protocol):
    """Summarises tool calls and their results. Every method is a pure function of the `ToolExchange`."""

    @property
    def tools(self) -> Sequence[str]:
        """Tools that it supports: names in lower case without `_` and `-`; `*` matches anything."""
        ...

    def recognises(self, exchange: ToolExchange) -> bool:
        """Return whether the output can only be of this kind, whatever the tool's name."""
        ...

    def summarise(self, exchange: ToolExchange) -> str:
        """Summarise the call and its outcome, e.g. `src/jwt.py: 212 lines`; at most 40 tokens."""
        ...

    def key_lines(self, exchange: ToolExchange) -> list[str]:
        """Return the lines worth choosing from: errors, failures, counts, headings, matches, changes."""
        ...

    def smooth(self, exchange: ToolExchange) -> list[str]:
        """Return the output's lines at level S."""
        ...


REGISTRY: Registry[ToolCompressor] = Registry("foveate.tool_compressors", (__name__,), name_of=str)
_registered: dict[str, ToolCompressor] = {}
_assigned: dict[str, str] = {}
_TOOLS = "foveate.tools"
"""The entry point group of tools, whose `compressor` attribute names the compressor for their results."""
_log = logging.getLogger(__name__)


def register(name: str, compressor: ToolCompressor) -> None:
    """Register a compressor before the built-in ones, replacing one of the same name."""
    _registered.pop(name, None)
    _registered[name] = compressor
    _serving.cache_clear()


def unregister(name: str) -> None:
    """Remove a registered compressor."""
    _registered.pop(name, None)
    _serving.cache_clear()


def assign(tool: str, compressor: str) -> None:
    """Use a compressor for the results of a tool, both by name."""
    if compressor not in (*_registered, *names()):
        raise InputError(f"no compressor {compressor!r} for {tool}; available: {', '.join((*_registered, *names()))}")
    _assigned[tool] = compressor
    _serving.cache_clear()


def names() -> tuple[str, ...]:
    """Return the names of compressors: those of entry points, then the built-in ones."""
    return (*REGISTRY.registered, *REGISTRY.built_in)


def _load(name: str) -> ToolCompressor:
    found = REGISTRY.get(name)
    assert found is not None, f"{name} is one of names()"
    return found


@cache
def _tool_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_TOOLS)}


def _declared(tool: str) -> str:
    """Return the compressor that a third party's tool declares; empty if there is none."""
    point = _tool_points().get(tool)
    found: str | None = None
    if point is not None:
        with contained(_log, "the tool %s can't be loaded", tool):
            found = getattr(point.load(), "compressor", None)
    return found or ""


@lru_cache(maxsize=1024)
def _serving(tool: str) -> ToolCompressor | None:
    """Return the compressor for a tool name: the one that the tool declares, then a plain name, then a pattern."""
    declared = _assigned.get(tool) or _declared(tool)
    if declared in _registered:
        return _registered[declared]
    if declared in names():
        return _load(declared)
    key = tool.lower().replace("_", "").replace("-", "")
    candidates = [*reversed(_registered.values()), *map(_load, names())]
    for candidate in candidates:
        if key in candidate.tools:
            return candidate
    for candidate in candidates:
        if any("*" in pattern and fnmatchcase(key, pattern) for pattern in candidate.tools):
            return candidate
    return None


def _compressor(exchange: ToolExchange) -> ToolCompressor:
    found = _serving(exchange.tool)
    if found is None and exchange.output and not exchange.is_binary:
        found = next((shape for shape in map(_load, _BY_SHAPE) if shape.recognises(exchange)), None)
    return found or _load(_LAST)


def summarise_call(call: ToolCall, result: ToolResult | None) -> str:
    """Write the exchange at level C: `{exec pytest -q: exit 1, 3 failed, 41 passed: test_login, test_refresh}`."""
    exchange = read_exchange(call, result)
    said = _compressor(exchange).summarise(exchange)
    if exchange.is_binary:
        said = f"binary output, {several(exchange.total_chars, 'character')}"
    elif not exchange.has_result and ":" not in said:
        said = f"{said}: no result"
    return f"{{{brief(f'{exchange.tool} {said}', SUMMARY_CHARS)}}}"


def key_lines(call: ToolCall, result: ToolResult | None) -> list[str]:
    """Return the lines of an output that a compressed rendition chooses from, at most KEY_LINES."""
    exchange = read_exchange(call, result)
    if exchange.is_binary:
        return []
    return pick(_compressor(exchange).key_lines(exchange), KEY_LINES)


def smooth_call(call: ToolCall) -> str:
    """Write the arguments at level S: short ones in full, long ones described."""
    return smooth_arguments(call)


def smooth_result(call: ToolCall | None, result: ToolResult) -> str:
    """Write the output at level S, without its mark; the result's own name is used if its call is not known."""
    exchange = read_exchange(call or ToolCall(result.name or "tool", {}), result)
    if exchange.is_binary:
        return f"(binary output, {several(exchange.total_chars, 'character')})"
    return "\n".join(_compressor(exchange).smooth(exchange))


def serves(tool: str) -> bool:
    """Return whether a compressor supports a tool of this name."""
    return _serving(bare_name(tool)) is not None


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"Exchange": "foveate.compress.exchange:ToolExchange"})
