"""Warn about files whose syntax a patch breaks, by tree-sitter. No warnings without the extra `foveate[tools]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from foveate.tools.patch.commit import Edit

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 2_000_000
"""Larger files are not checked."""
LANGUAGES = {
    ".py": ("tree_sitter_python", "language"),
    ".pyi": ("tree_sitter_python", "language"),
    ".js": ("tree_sitter_javascript", "language"),
    ".jsx": ("tree_sitter_javascript", "language"),
    ".mjs": ("tree_sitter_javascript", "language"),
    ".cjs": ("tree_sitter_javascript", "language"),
    ".ts": ("tree_sitter_typescript", "language_typescript"),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
    ".json": ("tree_sitter_json", "language"),
    ".go": ("tree_sitter_go", "language"),
    ".rs": ("tree_sitter_rust", "language"),
    ".java": ("tree_sitter_java", "language"),
    ".sh": ("tree_sitter_bash", "language"),
    ".bash": ("tree_sitter_bash", "language"),
}
"""The module and the function that returns the grammar, by file extension."""


def syntax_warnings(edits: Sequence[Edit]) -> list[str]:
    """Return a sentence for each file that has more syntax errors than before."""
    return [warning for edit in edits if (warning := _warning(edit))]


def _warning(edit: Edit) -> str | None:
    suffix = edit.path.suffix.casefold()
    if suffix not in LANGUAGES or edit.after is None or len(edit.after) > MAX_BYTES:
        return None
    parser = _parser(*LANGUAGES[suffix])
    if parser is None:
        return None
    after = _errors(parser, edit.after)
    if len(after) <= len(_errors(parser, edit.before or b"")):
        return None
    first = min(after)
    line = edit.after.decode("utf-8", "replace").split("\n")[first].strip()
    return f"Warning: {edit.shown} has a syntax error that was not there before, at line {first + 1}: {line[:120]}"


@cache
def _parser(module: str, function: str) -> Parser | None:
    try:
        tree_sitter = import_module("tree_sitter")
        grammar = getattr(import_module(module), function)
    except ImportError:
        return None
    parser: Parser = tree_sitter.Parser(tree_sitter.Language(grammar()))
    return parser


def _errors(parser: Parser, content: bytes) -> list[int]:
    """Return the lines, from 0, where something is wrong or missing."""
    return [node.start_point.row for node in _wrong(parser.parse(content).root_node)]


def _wrong(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            pending.extend(node.children)
