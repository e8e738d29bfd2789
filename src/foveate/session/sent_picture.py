"""The parts of a request as it was sent, for its picture: stored without their texts, which the body has.

A request that Foveate assembled has the segments of its context. One that was sent as the client made it has the whole
conversation: its segments are derived from the body and the turns' raw tokens.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from foveate.context.context import Segment
from foveate.session.picture import LEVELS
from foveate.store import bodies

if TYPE_CHECKING:
    from foveate.session.sent import RequestPart

HEAD_CHARS: Final = 120
"""Characters of a block by which its text is found in the body: its tag with its turns."""
_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction")


def pack_segments(segments: Sequence[Segment]) -> bytes | None:
    """Encode the segments of a request without their texts; None if there are none."""
    if not segments:
        return None
    return bodies.squeeze_bytes(msgspec.json.encode([_packed(segment) for segment in segments]))


def _packed(segment: Segment) -> list[object]:
    own = segment.name, segment.tokens, segment.is_stable, segment.first, segment.last, segment.level or ""
    if not segment.level or segment.is_native:  # the text of a block tells its lines apart
        return [*own, segment.is_native]
    return [*own, segment.is_native, segment.levels, len(segment.text), _encodable(segment.text[:HEAD_CHARS])]


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def unpack_segments(data: bytes, body: bytes) -> tuple[Segment, ...]:
    """Restore the segments of a request; blocks get their text from the body."""
    said: str | None = None
    found = []
    rows = msgspec.json.decode(bodies.expand_bytes(data))
    for name, tokens, is_stable, first, last, level, is_native, *block in rows:
        levels, text = "", ""
        if block:
            levels, chars, head = block
            said = "".join(_strings(_decoded(body))) if said is None else said
            start = said.find(head)
            text = said[start : start + chars] if start >= 0 else ""
        shown = LEVELS.get(level)
        found.append(Segment(name, tokens, is_stable, first, last, shown, is_native, text, levels))
    return tuple(found)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of a body, whatever its format."""
    open_values = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            open_values += reversed(list(one.values()))
        elif isinstance(one, list):
            open_values += reversed(one)


def whole_segments(parts: Sequence[RequestPart], raw_tokens: Sequence[int], tokens: int) -> tuple[Segment, ...]:
    """Return the segments of a request with the whole conversation, from its parts and the raw tokens of its turns.

    They add up to `tokens`. All of it is the beginning of the client's next request, so all is stable.
    """
    fixed = {"tools": 0, "system": 0}
    for part in parts:
        field = part.name.partition("[")[0]
        name = "tools" if field in ("tools", "functions") else "system" if _is_system(field, part.role) else ""
        if name:
            fixed[name] += part.tokens
    scale = tokens / max(1, sum(part.tokens for part in parts))
    ends = list(itertools.accumulate(round(size * scale) for size in fixed.values()))
    found = [Segment("tools", ends[0], is_stable=True), Segment("system", ends[1] - ends[0], is_stable=True)]
    rest, total = max(0, tokens - ends[1]), max(1, sum(raw_tokens))
    shares = [0, *(rest * end // total for end in itertools.accumulate(raw_tokens))]
    for number, (start, end) in enumerate(itertools.pairwise(shares), 1):
        found.append(Segment("history", end - start, True, number, number, "R", is_native=True))
    return tuple(segment for segment in found if segment.tokens or segment.level)


def _is_system(field: str, role: str) -> bool:
    return field in _SYSTEM or role in ("system", "developer")
