"""What a strategy wants, made of turns: quick and local, in a thread, and whatever goes wrong, something is made."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foveate.compress.eras import era_text
from foveate.context.costs import content_tokens, counting
from foveate.context.cut import cut_text
from foveate.plan import Artefact
from foveate.store import bodies
from foveate.store.rows import ArtefactRow
from foveate.strategy import Strategy
from foveate.strategy.build import Material, made_of, short_texts
from foveate.tokens import Counter

FALLBACK_TOKENS = 200
"""What stands in for something that could not be made takes no more."""

_log = logging.getLogger(__name__)


def make_all(strategy: Strategy, materials: Sequence[Material], counter: Counter) -> list[Artefact]:
    """Everything that is wanted, counted as it will be shown."""
    return [counted(_make(strategy, material), counter) for material in materials]


def cutter(counter: Counter) -> Any:
    """`Material.cut` for texts of artefacts."""
    count = counting("A", counter)
    return lambda text, max_tokens: cut_text(text, max_tokens, count, count(text))


def _make(strategy: Strategy, material: Material) -> Artefact:
    wanted = material.wanted
    try:
        made = strategy.make(material)
    except Exception:  # noqa: BLE001 - the worker's boundary: a fault in a maker must not fail a request
        _log.warning("making the artefact %s of kind %s failed", wanted.name, wanted.kind, exc_info=True)
        return _fallback(material)
    return replace(made, name=wanted.name, kind=wanted.kind, first=wanted.first, last=wanted.last)


def _fallback(material: Material) -> Artefact:
    """The clauses that tell most, or nothing where short messages were wanted: those are then shown whole."""
    units = [unit for turn in material.turns for unit in turn.units]
    return made_of(material.wanted, era_text(units, material.wanted.tokens or FALLBACK_TOKENS, material.count))


def counted(made: Artefact, counter: Counter) -> Artefact:
    """With the sizes that it is shown at."""
    sizes = {place: content_tokens(text, "M", counter) for place, text in short_texts(made).items()}
    return replace(made, tokens=content_tokens(made.text, "A", counter) if made.text else 0, sizes=sizes)


def pack_made(made: Artefact) -> ArtefactRow:
    sizes = {str(place): tokens for place, tokens in made.sizes.items()}
    data = bodies.squeeze({"text": made.text, "sizes": sizes, "data": made.data})
    return ArtefactRow(made.name, made.kind, made.first, made.last, made.tokens, data)


def unpack_made(row: ArtefactRow) -> Artefact:
    kept: Any = bodies.expand(row.data)
    sizes: Mapping[int, int] = {int(place): tokens for place, tokens in kept["sizes"].items()}
    return Artefact(
        row.name, row.kind, row.first_turn, row.last_turn, row.tokens, kept["text"], sizes=sizes, data=kept["data"]
    )
