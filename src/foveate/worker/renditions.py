"""One turn's renditions, from stored rows to stored rows: what a worker runs for each turn, in whatever process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from foveate.compress.local import LocalCompressor
from foveate.compress.model import is_worth_asking
from foveate.context.costs import content_tokens, counting
from foveate.context.cut import take_head
from foveate.recall.passages import index_turn
from foveate.renditions import TINY_TOKENS, Compressor, Level, Renditions, Unit, without_recalled
from foveate.store import MessageRow, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import NewPassages, NewRendition
from foveate.text import encodable, turn_text
from foveate.tokens import Counter, EncodingName, exact_counter
from foveate.turn import Json, Message

MAX_UNIT_CHARS = 200

_log = logging.getLogger(__name__)


def make_local(  # noqa: PLR0917 - a job's arguments go to another process by position
    turn: int,
    rows: Sequence[MessageRow],
    encoding: EncodingName,
    asked: Sequence[Sequence[Level]] = (),
    due_us: int | None = None,
    embeddings: str | None = None,
) -> NewRendition:
    """All fidelities of a turn, made without a model. It is due for one if any of the calls is worth making.

    `asked` are the levels of each call that a model would be asked with. With `embeddings` named, the turn's entry in
    the index is made too.
    """
    messages = without_recalled([restore_message(row) for row in rows])
    made = _rendered(LocalCompressor(), turn, messages, exact_counter(encoding))
    if embeddings is not None:
        made = replace(made, passages=_indexed(turn, rows[0].at_us, messages, embeddings))
    if not asked:
        return made
    count = exact_counter(encoding).base
    is_due = any(is_worth_asking(messages, count, levels) for levels in asked)
    return replace(made, due_us=due_us if is_due else None)


def make_rendition(
    compressor: Compressor, turn: int, rows: Sequence[MessageRow], encoding: EncodingName
) -> NewRendition:
    """All fidelities of a turn. Whatever goes wrong, a turn gets some: a fallback, marked as one."""
    messages = without_recalled([restore_message(row) for row in rows])
    return _rendered(compressor, turn, messages, exact_counter(encoding))


def _rendered(compressor: Compressor, turn: int, messages: Sequence[Message], counter: Counter) -> NewRendition:
    made = compress_safely(compressor, turn, messages, counter)
    tiny = encodable(made.tiny)
    return NewRendition(
        turn=turn,
        messages=len(messages),
        maker=compressor.name,
        version=compressor.version,
        is_complete=made.is_complete,
        smoothed_tokens=content_tokens(made.smoothed, "S", counter),
        compressed_tokens=content_tokens(made.compressed, "C", counter),
        tiny_tokens=content_tokens(tiny, "T", counter),
        tiny=tiny,
        compressed=bodies.squeeze(made.compressed),
        smoothed=bodies.squeeze(made.smoothed),
        units=pack_units(made.units),
        refusals=len(made.refusals),
    )


def make_passages(turn: int, rows: Sequence[MessageRow], embeddings: str) -> NewPassages | None:
    """A turn's entry in the index; None if that fails: the turn is then looked through when something is searched."""
    messages = without_recalled([restore_message(row) for row in rows])
    return _indexed(turn, rows[0].at_us, messages, embeddings)


def _indexed(turn: int, at_us: int, messages: Sequence[Message], embeddings: str) -> NewPassages | None:
    try:
        return index_turn(turn, messages, at_us=at_us, embeddings=embeddings)
    except Exception:  # noqa: BLE001 - the worker's boundary: a fault in one turn must not stop the rest
        _log.warning("turn %d could not be indexed", turn, exc_info=True)
        return None


def compress_safely(compressor: Compressor, turn: int, messages: Sequence[Message], counter: Counter) -> Renditions:
    """What the compressor makes of the messages, or the fallback if it fails."""
    try:
        return compressor.compress(turn, messages, counter.base)
    except Exception:  # noqa: BLE001 - the worker's boundary: a fault in a compressor must not stop the rest
        _log.warning("the %s compressor failed on turn %d", compressor.name, turn, exc_info=True)
        return fall_back(turn, messages, counter)


def fall_back(turn: int, messages: Sequence[Message], counter: Counter) -> Renditions:
    """The next higher level in place of each, and a cut for tiny: what is shown when nothing better can be made."""
    raw = turn_text(tuple(messages))
    text = raw.strip() or "(nothing said)"
    words = " ".join(text.split())
    tiny = take_head(words, TINY_TOKENS, counting("T", counter)) or "…"
    unit = Unit(turn, words[:MAX_UNIT_CHARS], 1.0, frozenset())
    return Renditions(raw, text, tiny, (unit,), is_complete=False)


def pack_units(units: Sequence[Unit]) -> bytes:
    rows: Json = [[unit.turn, unit.text, round(unit.worth, 3), sorted(unit.facts)] for unit in units]
    return bodies.squeeze(rows)


def unpack_units(data: bytes) -> tuple[Unit, ...]:
    rows: Any = bodies.expand(data)
    return tuple(Unit(turn, text, worth, frozenset(facts)) for turn, text, worth, facts in rows)
