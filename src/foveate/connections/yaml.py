"""YAML files: single values are changed in the text, and all other bytes are kept.

PyYAML reports the position of each value; an edit replaces, inserts or removes complete lines of block style, or an
item of flow style.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from foveate.connections.paths import Key, KeyPath, missing_part
from foveate.errors import InputError
from foveate.turn import Json

if TYPE_CHECKING:
    from yaml.nodes import Node

INDENT = 2


def parse(text: str) -> Json:
    """Parse the value of a text; one without values is an empty object."""
    try:
        value: Json = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError("is not YAML" + (f" at line {mark.line + 1}" if mark else "")) from error
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return {} if value is None else value


def set_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with this value at the path; missing mappings are created."""
    node = _compose(text)
    if node is None:
        made = _block({str(path[0]): missing_part(path[1:], value)}, 0, text)
        return f"{text}{'' if not text or text.endswith(chr(10)) else _line_end(text)}{made}{_line_end(text)}"
    for depth, key in enumerate(path):
        child = _child(node, key)
        if child is None:
            return _insert(text, node, {str(key): missing_part(path[depth + 1 :], value)}, is_list=False)
        node = child
    if isinstance(value, dict | list) or not isinstance(node, yaml.ScalarNode):
        raise InputError(f"can't replace {'.'.join(map(str, path))}")
    return text[: node.start_mark.index] + _flow(value) + text[node.end_mark.index :]


def append_value(text: str, path: KeyPath, value: Json) -> str:
    """Return the text with one more element in the list at the path."""
    node = _find(_compose(text), path)
    return set_value(text, path, [value]) if node is None else _insert(text, node, value, is_list=True)


def remove_value(text: str, path: KeyPath) -> str:
    """Return the text without the value at the path."""
    parent = _find(_compose(text), path[:-1])
    child = None if parent is None else _child(parent, path[-1])
    if parent is None or child is None:
        return text
    first = child
    if isinstance(parent, yaml.MappingNode):
        first = next(key for key, node in parent.value if node is child)
    if isinstance(parent, yaml.CollectionNode) and parent.flow_style:
        return _without_flow_item(text, parent, first.start_mark.index, child.end_mark.index)
    start = text.rfind("\n", 0, first.start_mark.index) + 1
    lead = text[start : first.start_mark.index].strip()
    if lead not in ("", "-") or (lead == "-") != isinstance(parent, yaml.SequenceNode):
        raise InputError(f"can't remove {'.'.join(map(str, path))} from its line")
    end = text.find("\n", _content_end(text, child))
    rest = "" if end < 0 else text[end + 1 :]
    if len(parent.value) > 1 or len(path) == 1:
        return text[:start] + rest
    # A block without its only item would be null.
    colon = text.index(":", _key_end(text, path[:-1]))
    empty = " []" if isinstance(parent, yaml.SequenceNode) else " {}"
    return text[: colon + 1] + empty + text[colon + 1 : start] + rest


def _key_end(text: str, path: KeyPath) -> int:
    """Return where the key ends whose value is at a path."""
    holder = _find(_compose(text), path[:-1])
    if not isinstance(holder, yaml.MappingNode):
        raise InputError(f"can't empty {'.'.join(map(str, path))}")
    end: int = next(name.end_mark.index for name, _ in holder.value if name.value == path[-1])
    return end


def _without_flow_item(text: str, parent: Node, start: int, end: int) -> str:
    after = text[end : parent.end_mark.index - 1]
    if after.lstrip().startswith(","):
        comma = end + after.index(",") + 1
        return text[:start] + text[comma:].lstrip(" ")
    before = text[parent.start_mark.index + 1 : start].rstrip()
    cut = parent.start_mark.index + 1 + len(before.removesuffix(","))
    return text[:cut] + text[end:]


def _insert(text: str, container: Node, value: Json, *, is_list: bool) -> str:
    expected = yaml.SequenceNode if is_list else yaml.MappingNode
    if not isinstance(container, expected):
        raise InputError(f"has something that is not a {'list' if is_list else 'mapping'} where one is expected")
    if container.flow_style:
        closing = container.end_mark.index - 1
        item = _flow(value)[1:-1] if not is_list else _flow(value)
        head = text[:closing].rstrip(" ")
        separator = ", " if container.value and not head.endswith(",") else ""
        return head + separator + item + text[closing:]
    line_end = _line_end(text)
    made = _block([value] if is_list else value, container.start_mark.column, text)
    end = _content_end(text, container)
    place = text.find("\n", end)
    if place < 0:
        return f"{text}{line_end}{made}"
    if text[place - 1 : place] == "\r":
        place -= 1
    return f"{text[:place]}{line_end}{made}{text[place:]}"


def _content_end(text: str, node: Node) -> int:
    """Return where the last value of a node ends, before the white space and comments after it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end: int = node.end_mark.index
    while end > node.start_mark.index and text[end - 1] in " \t\r\n":
        end -= 1
    return end


def _block(value: Json, column: int, text: str) -> str:
    dumped = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, indent=INDENT, width=10_000).rstrip("\n")
    return _line_end(text).join(" " * column + line for line in dumped.split("\n"))


def _flow(value: Json) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    return dumped.removesuffix("\n").removesuffix("\n...")


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _compose(text: str) -> Node | None:
    parse(text)
    root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _find(node: Node | None, path: KeyPath) -> Node | None:
    for key in path:
        node = None if node is None else _child(node, key)
    return node


def _child(node: Node, key: Key) -> Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child: Node = node.value[key]
        return child
    return None
