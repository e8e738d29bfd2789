"""Merge of a run's results with known items: which ones are new, changed, merged, lowered or retired. Pure.

Items that a person wrote, reviewed or pinned are never changed. Items not found again are kept: they are retired only
if their kind is recomputed as a whole (topics, recommendations of rules), or if they were not used for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from foveate.knowledge.gather import is_decided
from foveate.knowledge.items import as_new, same_words, word_profile
from foveate.knowledge.settings import KnowledgeSettings
from foveate.store.knowledge import KnowledgeChanges, KnowledgeKind, KnowledgeRow, NewKnowledge, Supersession
from foveate.store.rows import DAY_US, LOCAL_MAKER

LEAST_WEIGHT = 0.2
"""Minimum weight; an item that would fall below it is retired."""
MAX_SOURCES = 200
"""Maximum number of source turns of an item; the newest of each session are kept."""
_SEEN = frozenset({"sources", "first_seen_us", "last_seen_us", "times_said", "said_on"})
_CONTENT = tuple(
    field.name for field in fields(NewKnowledge) if field.name not in ("id", "scope", "reason", "prompt_version")
)


def merge(
    known: Sequence[KnowledgeRow],
    found: Sequence[NewKnowledge],
    *,
    now_us: int,
    settings: KnowledgeSettings,
    history: Sequence[tuple[NewKnowledge, str, str]] = (),
    replaced: Collection[str] = (),
) -> KnowledgeChanges:
    """Return the changes of a run, compared with its scope's current items. `now_us` is the time of the newest turn.

    `history` has the statements that no longer hold, with what replaces them and why; `replaced` are the ids of those
    that earlier runs have stored as such.
    """
    outdated = [(item, by, why) for item, by, why in history if item.id not in {other.id for other in found}]
    current = {row.id: row for row in known}
    merged = _same_items(current, settings.similar)
    left = {item_id: row for item_id, row in current.items() if item_id not in merged}
    changed: dict[str, NewKnowledge] = {}
    for loser, by in sorted(merged.items()):
        changed[by] = _with_sources(changed.get(by) or as_new(current[by]), current[loser])
    for item in _adopted(_unique(found), left, merged, settings.similar):
        row = left.get(item.id)
        if row is None:
            changed[item.id] = item
        elif not is_decided(row):
            changed[item.id] = _renewed(row, changed.get(item.id) or as_new(row), item)
    is_found = {item.id for item in found} | changed.keys()
    for row in left.values():
        if not is_decided(row):
            kept = changed.get(row.id) or as_new(row)
            changed[row.id] = _aged(row, _promoted(row, _kept_if(row, kept, is_found, found)), now_us, settings)
    gone = [
        Supersession(item.id, merged.get(by, by), why)
        for item, by, why in outdated
        if item.id not in merged
        and not (item.id in current and is_decided(current[item.id]))
        and (item.id in current or item.id not in replaced)
    ]
    for each in gone:
        changed.pop(each.id, None)
    past = [item for item, _, _ in outdated if item.id not in current and item.id in {each.id for each in gone}]
    items = (_explained(left.get(item.id), item) for _, item in sorted(changed.items()))
    return KnowledgeChanges(
        items=(*past, *(item for item in items if item is not None)),
        superseded=(
            *(
                Supersession(loser, by, f"says the same as {by}: {_share(current[loser], current[by])} of their words")
                for loser, by in sorted(merged.items())
            ),
            *gone,
        ),
    )


def _share(one: NewKnowledge, two: NewKnowledge) -> str:
    return f"{same_words(one.text, two.text):.0%}"


def _same_items(current: Mapping[str, KnowledgeRow], least: float) -> dict[str, str]:
    """Return items that duplicate a better one of their kind, by id. Retired ones are excluded."""
    ranked = sorted((row for row in current.values() if row.kind != "topic" and row.state != "retired"), key=_rank)
    index = _SimilarItems(least)
    merged: dict[str, str] = {}
    for row in ranked:
        other = None if is_decided(row) else index.find(row)
        if other is None:
            index.add(row)
        else:
            merged[row.id] = other
    return merged


def _rank(row: KnowledgeRow) -> tuple[bool, int, int, int, str]:
    """Rank an item; the better of two duplicates comes first."""
    return not is_decided(row), -row.helped, -len(row.sources), row.first_seen_us, row.id


def _adopted(
    found: Iterable[NewKnowledge], left: Mapping[str, KnowledgeRow], merged: Mapping[str, str], least: float
) -> list[NewKnowledge]:
    """Return the found items under the id of the known item, or of an earlier one, with the same meaning."""
    index = _SimilarItems(least)
    for row in sorted(left.values(), key=_rank):
        if row.kind != "topic":
            index.add(row)
    items: dict[str, NewKnowledge] = {}
    for item in sorted(found, key=lambda item: item.id not in left):
        adopted = replace(item, id=merged.get(item.id, item.id))
        if item.kind != "topic" and adopted.id not in left:
            similar = index.find(item)
            if similar is None:
                index.add(item)
            elif similar in left and item.maker == LOCAL_MAKER:
                adopted = replace(_with_sources(as_new(left[similar]), item), weight=item.weight)
            else:
                adopted = replace(item, id=similar)
        other = items.get(adopted.id)
        items[adopted.id] = adopted if other is None else _with_sources(other, adopted)
    return list(items.values())


def _unique(found: Iterable[NewKnowledge]) -> list[NewKnowledge]:
    """Remove duplicate ids, joining their sources."""
    items: dict[str, NewKnowledge] = {}
    for item in found:
        items[item.id] = _with_sources(items[item.id], item) if item.id in items else item
    return [items[item_id] for item_id in sorted(items)]


def _with_sources(item: NewKnowledge, other: NewKnowledge) -> NewKnowledge:
    """Return the item with the sources of both."""
    return replace(
        item,
        sources=tuple(sorted({*item.sources, *other.sources}))[-MAX_SOURCES:],
        first_seen_us=min(item.first_seen_us, other.first_seen_us),
        last_seen_us=max(item.last_seen_us, other.last_seen_us),
        confidence=max(item.confidence, other.confidence),
        times_said=max(item.times_said, other.times_said),
        said_on=max(item.said_on, other.said_on, key=len),
    )


def _renewed(row: KnowledgeRow, kept: NewKnowledge, item: NewKnowledge) -> NewKnowledge:
    """Update a known item that was found again."""
    is_later = item.last_seen_us > row.last_seen_us
    if row.kind == "topic":
        return replace(item, state="proposed" if row.state == "retired" else row.state)
    if row.state == "retired" and not is_later:
        return as_new(row)
    # A model's wording is not replaced by that of rules, which find the same item in every run.
    is_reworded = row.maker == LOCAL_MAKER or item.maker != LOCAL_MAKER
    merged = _with_sources(item if is_reworded else kept, kept if is_reworded else item)
    return replace(
        merged,
        state="proposed" if row.state == "retired" else row.state,
        weight=item.weight if is_later else min(row.weight, item.weight),
    )


def _kept_if(
    row: KnowledgeRow, kept: NewKnowledge, is_found: Iterable[str], found: Sequence[NewKnowledge]
) -> NewKnowledge:
    """Return the item; retired if rules, which find all of its kind in every run, found others of the kind but not
    it."""
    # A model names topics, but does not find them.
    is_whole = row.kind == "topic" or (row.kind == "recommendation" and row.maker == LOCAL_MAKER)
    if not is_whole or row.id in is_found or not any(item.kind == row.kind for item in found):
        return kept
    return replace(kept, state="retired", reason="not found any more")


def _promoted(row: KnowledgeRow, item: NewKnowledge) -> NewKnowledge:
    """Approve a proposal that helped an answer."""
    is_useful = item.state == "proposed" and row.helped > 0
    return replace(item, state="approved", reason="an answer used it") if is_useful else item


def _aged(row: KnowledgeRow, item: NewKnowledge, now_us: int, settings: KnowledgeSettings) -> NewKnowledge:
    """Reduce an item's weight if it was neither seen, used nor changed for long; retire it if too little is left."""
    stale_us = settings.stale_days * DAY_US
    seen_us = max(item.last_seen_us, row.created_us, row.last_used_us or 0)
    if item.kind == "topic" or item.state == "retired" or now_us - seen_us < stale_us:
        return item
    reason = f"neither seen nor used for {settings.stale_days} days"
    lowered = round(min(item.weight, row.weight) / 2, 4)
    if lowered < LEAST_WEIGHT:
        return replace(item, state="retired", reason=reason)
    return replace(item, weight=lowered, reason=reason)


def _explained(row: KnowledgeRow | None, item: NewKnowledge) -> NewKnowledge | None:
    """Return the version to add, with the reason; None if nothing changed."""
    if row is None:
        return item
    changed = {name for name in _CONTENT if getattr(row, name) != getattr(item, name)}
    if not changed - {"maker"}:
        return None
    if item.reason:
        return item
    fresh = len({*item.sources} - {*row.sources})
    if changed <= _SEEN | {"weight", "confidence", "state"}:
        return replace(item, reason=f"seen in {fresh} more turns" if fresh > 1 else "seen again")
    shown = ", ".join(sorted(changed - _SEEN - {"maker"}))
    return replace(item, reason=f"changed: {shown}")


@dataclass(slots=True)
class _Entry:
    id: str
    text: str


class _SimilarItems:
    """Finds an item of the same kind with nearly the same meaning.

    Two such texts agree in every negation and number, and share at least one of the heaviest words of either.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._entries: dict[tuple[KnowledgeKind, frozenset[str], str], list[_Entry]] = {}

    def add(self, item: NewKnowledge) -> None:
        profile = word_profile(item.text)
        for word in profile.weights or ("",):
            self._entries.setdefault((item.kind, profile.fixed, word), []).append(_Entry(item.id, item.text))

    def find(self, item: NewKnowledge) -> str | None:
        """Return the id of the most similar item, or None."""
        profile = word_profile(item.text)
        room = (1 - self._least) * sum(profile.weights.values())
        words = sorted(profile.weights, key=lambda word: (-profile.weights[word], word)) or [""]
        best: tuple[float, str] | None = None
        tried: set[str] = set()
        for word in words:
            for entry in self._entries.get((item.kind, profile.fixed, word), ()):
                if entry.id not in tried:
                    tried.add(entry.id)
                    share = same_words(item.text, entry.text)
                    if share >= self._least and (best is None or share > best[0]):
                        best = share, entry.id
            room -= profile.weights.get(word, 0.0)
            if room < 0:
                break
        return best[1] if best else None
