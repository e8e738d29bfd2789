"""Values of a wrong kind in any field are an error of the message, or are ignored; no format raises anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate.errors import FoveateError
from foveate.formats import message_formats, parse_messages

VALUES: tuple[Any, ...] = ([], {}, [1], {"a": 1}, 1, None, True, "")
RECORDS: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": [{"type": "text", "text": "x"}]},
    {"role": "tool", "tool_call_id": "c", "content": "ok"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"text": "x", "thought": True}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "human", "data": {"content": "x"}},
    {"kind": "message", "role": "user", "parts": [{"type": "text", "text": "x"}]},
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x"}]},
    {"type": "x", "kind": "x", "role": "user", "content": "x"},
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*place, key)
        yield from _places(inner, (*place, key))


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    changed = value.copy()
    changed[place[0]] = _put(value[place[0]], place[1:], new)
    return changed


@pytest.mark.parametrize("record", RECORDS, ids=json.dumps)
def test_a_value_of_a_wrong_kind_is_an_error_that_is_ours(record: dict[str, Any]) -> None:
    for place in _places(record):
        for value in VALUES:
            for name in (None, *message_formats()):
                try:
                    parse_messages([_put(record, place, value)], name)
                except FoveateError:
                    continue


def test_a_damaged_file_keeps_no_other_of_its_folder_from_being_imported(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"role": "user", "content": "hello", "type": []}\n')
    (folder / "b.jsonl").write_text('{"role": "user", "content": "The kiln is hot."}\n')
    removed = {"kind": 3, "k": ["requests", "missing"]}
    added = {"kind": 2, "k": ["requests", -5], "v": [1]}
    whole = {
        "kind": 0,
        "v": {"version": 3, "sessionId": "s", "requests": [{"message": {"text": "Hi"}, "response": []}]},
    }
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, (whole, removed, {**removed, "k": ["gone"]}, added))))
    with foveate.open(tmp_path / "chat.db") as fov:
        for path in sorted(folder.iterdir()):
            try:
                fov.import_file(path)
            except FoveateError:
                continue
        assert [hit.turn_id for hit in fov.search("kiln")] == ["T-1"]
