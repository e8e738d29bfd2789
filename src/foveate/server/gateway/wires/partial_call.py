"""Function calls of Gemini whose arguments come in pieces (`streamFunctionCallArguments`, on Vertex only).

The first part names the function, later ones have `partialArgs`, each a value at a JSON path; a part without
`willContinue` is the last.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from foveate.errors import BadUpstream
from foveate.server.gateway.wires.fields import Record, record_in, records_in, text_in

MAX_ITEMS: Final = 10_000
"""Items of a list in arguments; an index beyond is refused, since the list would be filled up to it."""
_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\]"""
)
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue", "structValue", "listValue")


class PartialCall:
    """A function call as it arrives."""

    def __init__(self) -> None:
        self._part: Record = {}
        self._call: Record = {}
        self._arguments: Record = {}
        self._growing: str | None = None
        """The path of a text that the next piece adds to."""

    @property
    def name(self) -> str:
        return text_in(self._call, "name")

    def add(self, part: Record) -> bool:
        """Take a piece; True if it is the last."""
        call = record_in(part, "functionCall")
        self._part |= part
        self._call |= {key: value for key, value in call.items() if key not in {"args", "partialArgs"}}
        self._arguments |= record_in(call, "args")
        for piece in records_in(call, "partialArgs"):
            self._set(piece)
        return not call.get("willContinue")

    def whole(self) -> Record:
        """The part as it would have come in one piece."""
        call = {key: value for key, value in self._call.items() if key != "willContinue"}
        return {**self._part, "functionCall": {**call, "args": self._arguments}}

    def _set(self, piece: Record) -> None:
        path = text_in(piece, "jsonPath")
        key = next((key for key in _VALUES if key in piece), None)
        value: object = None if key in (None, "nullValue") else piece[key]
        if key is None and piece.get("willContinue"):
            value = ""
        holder, last = self._holder(path)
        if self._growing == path and isinstance(value, str) and isinstance(holder[last], str):
            value = holder[last] + value
        if key is not None or self._growing != path:
            holder[last] = value
        self._growing = path if piece.get("willContinue") else None

    def _holder(self, path: str) -> tuple[Any, str | int]:
        """The object or list that a path ends in, and its last step; what is missing on the way is created."""
        steps = _steps(path)
        holder: Any = self._arguments
        for step, following in pairwise(steps):
            _make_room(holder, step, path)
            if holder[step] is None:
                holder[step] = [] if isinstance(following, int) else {}
            holder = holder[step]
        _make_room(holder, steps[-1], path)
        return holder, steps[-1]


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1
    while match := _STEP.match(path, position):
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"]))
        position = match.end()
    if not path.startswith("$") or position < len(path) or not steps:
        raise BadUpstream(f"a piece of a function call has the path {path[:100]!r}")
    return steps


def _make_room(holder: object, step: str | int, path: str) -> None:
    if isinstance(holder, dict) and isinstance(step, str):
        holder.setdefault(step, None)
    elif isinstance(holder, list) and isinstance(step, int) and step < MAX_ITEMS:
        holder += [None] * (step + 1 - len(holder))
    else:
        raise BadUpstream(f"a piece of a function call has the path {path[:100]!r}, which does not fit the ones before")
