"""A real .onnx file, small enough to be written by hand: a cross-encoder that counts a word piece in the second text.

Only what onnxruntime reads is written, as protocol buffers lay it out: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

INT64, FLOAT = 7, 1
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_counter(path: Path, piece: int, *, inputs: Sequence[str] = INPUTS, scores: int = 1) -> Path:
    """A model whose score is how often the text behind the question has this piece; `scores` of them for each pair."""
    nodes = [
        _node("Equal", ["input_ids", "piece"], "is_piece"),
        _node("Cast", ["is_piece"], "counted", to=FLOAT),
        _node("Cast", ["token_type_ids"], "is_second", to=FLOAT),
        _node("Cast", ["attention_mask"], "is_there", to=FLOAT),
        _node("Mul", ["counted", "is_second"], "in_second"),
        _node("Mul", ["in_second", "is_there"], "found"),
        _node("ReduceSum", ["found", "axis"], "score", keepdims=1),
        _node("Concat", ["score"] * scores, "logits", axis=1),
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"counter")
    graph += _field(5, _tensor("piece", piece)) + _field(5, _tensor("axis", 1))
    graph += b"".join(_field(11, _value(name, INT64)) for name in inputs) + _field(12, _value("logits", FLOAT))
    path.write_bytes(_number(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, 13)))
    return path


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    named = (
        b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode()) + _field(4, kind.encode())
    )
    return named + b"".join(
        _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2)) for name, value in attributes.items()
    )


def _tensor(name: str, value: int) -> bytes:
    return _number(1, 1) + _number(2, INT64) + _field(8, name.encode()) + _field(9, struct.pack("<q", value))


def _value(name: str, kind: int) -> bytes:
    shape = b"".join(_field(1, _field(2, size)) for size in (b"batch", b"length"))
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])
