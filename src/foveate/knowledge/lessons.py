"""Lessons without a model: rules of the person, repeated decisions, recurring errors with their resolutions.

Every lesson consists of the words of its source turns, and is as short as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from msgspec import Struct

from foveate.knowledge.failures import Ending, Failure, find_failures
from foveate.knowledge.gather import Gathered, LearnedTurn
from foveate.knowledge.items import as_new, item_id, same_words, word_profile
from foveate.knowledge.own_words import own_words
from foveate.knowledge.profile import find_profile, technologies_in
from foveate.knowledge.recommendations import find_recommendations
from foveate.knowledge.statements import Statement, StatementKind, statements_in
from foveate.knowledge.topics import TopicsFound
from foveate.knowledge.truth import Claim, corrected, is_same_day, read_claim
from foveate.recall.scopes import Scope
from foveate.secrets import MASK
from foveate.store.knowledge import PERSON, KnowledgeRow, KnowledgeSource, NewKnowledge
from foveate.text import encodable
from foveate.turn import day_text

SAME_STATEMENT = 0.7
"""Minimum share of common words for two statements to count as one."""
MAX_COMPARED = 200
"""Maximum number of earlier statements that one is compared with."""
BASE_WEIGHT: Mapping[StatementKind, float] = {
    "rule": 0.55,
    "preference": 0.5,
    "convention": 0.5,
    "decision": 0.45,
    "fact": 0.4,
}
STANDING_WEIGHT = 0.15
MAX_REASON_CHARS = 300
MAX_LESSONS = 500
MAX_SOURCES = 50
MAX_TOPICS = 3
MAX_KEYWORDS = 8
TITLE_CHARS = 100
MAX_DAYS_LISTED = 10
"""Days on which a statement was made that are listed: the newest."""
SAME_SITTING = 20
"""Turns back in the same session in which a correction without a subject finds what it corrects."""
_CONJUNCTION = re.compile(r"\A(?:and|but|also|und|aber),?\s+", re.IGNORECASE)


@dataclass(slots=True)
class StatementGroup:
    """A statement with the positions of its turns, oldest first, and its wordings."""

    kind: StatementKind
    forms: list[str]
    claim: Claim
    places: list[int] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    is_standing: bool = False
    known: KnowledgeRow | None = None
    """The item that an earlier run made of it."""
    replaced_by: StatementGroup | None = None
    contradicts: list[StatementGroup] = field(default_factory=list)
    """Statements of the same day that say otherwise, without a word of change."""

    @property
    def times(self) -> int:
        """Number of times it was stated; a repeated prompt counts once."""
        return len(self.prompts) + (self.known.times_said if self.known else 0)

    @property
    def text(self) -> str:
        """The newest wording."""
        return self.forms[-1]


class LessonsFound(Struct, frozen=True):
    """What a scope's turns teach without a model."""

    items: tuple[NewKnowledge, ...] = ()
    history: tuple[tuple[NewKnowledge, str, str], ...] = ()
    """Statements that no longer hold, each with the id of the one that replaces it and the reason."""


def find_lessons(gathered: Gathered, topics: TopicsFound, known: Sequence[KnowledgeRow] = ()) -> LessonsFound:
    """Find the lessons of a scope, its profile and recommendations, ordered by kind and id.

    Statements that a person has rejected, of the known items, are not found again.
    """
    turns = gathered.turns
    typed = [own_words(turn.user) for turn in turns]
    groups = gather_statements(turns, typed, [row for row in known if is_rejected(row)])
    failures = find_failures(turns)
    maker = _Maker(gathered.scope, turns, _topics_of(topics))
    lessons = [maker.statement(each) for each in groups if each.places and each.replaced_by is None]
    lessons += [maker.failure(each, each.ending) for each in failures if each.ending]
    lessons.sort(key=lambda item: (-item.weight, -item.last_seen_us, item.id))
    held = [(each.kind, each.text, each.places) for each in groups if each.places and each.replaced_by is None]
    profile = find_profile(gathered, typed, held)
    advice = find_recommendations(gathered, topics, [each for each in failures if each.ending is None])
    found = {item.id: item for item in (*lessons[:MAX_LESSONS], *profile, *advice)}
    items = tuple(sorted(found.values(), key=lambda item: (item.kind, item.id)))
    return LessonsFound(items, tuple(maker.history(groups)))


def find_new_statements(gathered: Gathered, known: Sequence[KnowledgeRow]) -> LessonsFound:
    """Find the statements of some new turns, and which of the known ones they repeat or replace."""
    turns = gathered.turns
    groups = gather_statements(turns, [own_words(turn.user) for turn in turns], known)
    maker = _Maker(gathered.scope, turns, {})
    said = [each for each in groups if each.places]
    items = sorted((maker.statement(each) for each in said if each.replaced_by is None), key=lambda item: item.id)
    return LessonsFound(tuple(items), tuple(maker.history(groups)))


def gather_statements(
    turns: Sequence[LearnedTurn], typed: Sequence[str], known: Sequence[KnowledgeRow] = ()
) -> list[StatementGroup]:
    """Collect all statements of the person; equal ones are merged, and a later one replaces what it contradicts."""
    board = _Board(turns)
    for row in known:
        if row.form and (row.state != "retired" or is_rejected(row)):
            board.know(row)
    for place, text in enumerate(typed):
        for statement in statements_in(text):
            if MASK not in statement.text:  # what is left of it says nothing, or only that there is a secret
                board.add(place, statement)
    return board.groups


def is_rejected(row: KnowledgeRow) -> bool:
    """Return whether a person has rejected an item."""
    return row.state == "retired" and row.maker == PERSON


class _Board:
    """Statements in the order in which they were made, found by their words."""

    def __init__(self, turns: Sequence[LearnedTurn]) -> None:
        self.groups: list[StatementGroup] = []
        self._turns = turns
        self._exact: dict[str, StatementGroup] = {}
        self._by_word: dict[str, list[StatementGroup]] = {}

    def know(self, row: KnowledgeRow) -> None:
        """Add a statement of an earlier run."""
        kind = cast("StatementKind", row.form)
        self._put(StatementGroup(kind, [row.text], read_claim(row.text), is_standing=row.confidence >= 1, known=row))

    def add(self, place: int, statement: Statement) -> None:
        """Add a statement of a turn."""
        text, claim = (
            encodable(_without_conjunction(statement.text)),
            read_claim(statement.text, is_change=statement.is_change),
        )
        if statement.is_tentative and not any(claim.replaces(other.claim) for other in self._current(claim)):
            return
        before = self._corrected_by(place, claim) if statement.is_change else None
        if before:
            text = corrected(text, before.text, claim, before.claim)
            claim = read_claim(text, is_change=True)
        group = self._exact.get(_plain(text)) or self._same(text)
        if group and group.known and is_rejected(group.known):
            return
        if group is None:
            group = StatementGroup(statement.kind, [text], claim)
            self._put(group)
        elif text not in group.forms:
            group.forms.append(text)
        self._exact.setdefault(_plain(text), group)
        if group.replaced_by:  # said again: it holds again
            group.replaced_by = None
        group.claim = claim
        if not group.places or group.places[-1] != place:
            group.places.append(place)
        group.prompts.add(self._turns[place].user)
        group.is_standing = group.is_standing or statement.is_standing
        if before and before is not group:
            before.replaced_by = group
        self._replace(group, place, statement)

    def _put(self, group: StatementGroup) -> None:
        self.groups.append(group)
        self._exact.setdefault(_plain(group.text), group)
        for word in self._keys(group.claim):
            self._by_word.setdefault(word, []).append(group)

    @staticmethod
    def _keys(claim: Claim) -> list[str]:
        return [*claim.words, *claim.values, *(f"slot {slot}" for slot in claim.slots)]

    def _near(self, claim: Claim) -> list[StatementGroup]:
        """Return the newest statements that share a word with a claim, oldest first."""
        near = {id(group): group for word in self._keys(claim) for group in self._by_word.get(word, ())[-MAX_COMPARED:]}
        return list(near.values())

    def _current(self, claim: Claim) -> list[StatementGroup]:
        """Return the statements that hold and share a word with a claim."""
        near = (group for group in self._near(claim) if group.replaced_by is None)
        return [group for group in near if not (group.known and is_rejected(group.known))]

    def _same(self, text: str) -> StatementGroup | None:
        """Return an earlier statement with the same meaning, or None."""
        claim = read_claim(text)
        near = [
            each
            for each in self._near(claim)
            if each.claim.values == claim.values and each.claim.is_negated == claim.is_negated
        ]
        alike = [
            (max(same_words(text, group.text), claim.share(group.claim)), -number) for number, group in enumerate(near)
        ]
        best = max(alike, default=(0.0, 0))
        return near[-best[1]] if best[0] >= SAME_STATEMENT else None

    def _replace(self, group: StatementGroup, place: int, statement: Statement) -> None:
        """Mark the statements that no longer hold."""
        for other in self._current(group.claim):
            if other is group or not group.claim.replaces(other.claim):
                continue
            other.replaced_by = group
            if not statement.is_change and is_same_day(self._turns[place].at_us, self._last_us(other)):
                group.contradicts.append(other)

    def _corrected_by(self, place: int, claim: Claim) -> StatementGroup | None:
        """Return the statement of the same sitting whose value a bare correction corrects: `not 7:45, 7:15`."""
        session = self._turns[place].source.session_id
        for group in reversed(self.groups):
            if not group.places or group.replaced_by:
                continue
            near = (
                self._turns[group.places[-1]].source.session_id == session and place - group.places[-1] <= SAME_SITTING
            )
            if near and claim.corrects(group.claim):
                return group
        return None

    def _last_us(self, group: StatementGroup) -> int:
        if group.places:
            return self._turns[group.places[-1]].at_us
        return group.known.last_seen_us if group.known else 0


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!\u3002\uff01 ")


def _without_conjunction(text: str) -> str:
    """Remove the conjunction at the beginning of a statement: `And never …` becomes `Never …`."""
    bare = _CONJUNCTION.sub("", text, count=1)
    return bare if bare == text else f"{bare[:1].upper()}{bare[1:]}"


def _topics_of(topics: TopicsFound) -> dict[KnowledgeSource, list[str]]:
    found: dict[KnowledgeSource, list[str]] = {}
    for session_id, row in topics.turn_topics:
        found.setdefault(KnowledgeSource(session_id, row.turn), []).append(row.topic)
    return found


class _Maker:
    """Makes items from statements and failures."""

    def __init__(
        self, scope: Scope, turns: Sequence[LearnedTurn], topics: Mapping[KnowledgeSource, Sequence[str]]
    ) -> None:
        self._scope = scope
        self._turns = turns
        self._topics = topics

    def statement(self, group: StatementGroup) -> NewKnowledge:
        """Make the item of a statement, in its newest wording."""
        more = group.times - 1
        base = BASE_WEIGHT[group.kind] + (STANDING_WEIGHT if group.is_standing else 0)
        item = self._item(
            f"{group.kind} {group.forms[0]}",
            group.text,
            group.text,
            group.places,
            weight=min(0.95, base + 0.1 * more),
            confidence=min(0.9, 0.6 + 0.1 * more),
        )
        days = {day_text(self._turns[place].at_us) for place in group.places}
        known = group.known
        listed = list(dict.fromkeys([*(known.said_on if known else ()), *sorted(days)]))
        item = replace(
            item,
            form=group.kind,
            times_said=group.times,
            said_on=tuple(listed[-MAX_DAYS_LISTED:]),
            contradicts=tuple(other.text for other in group.contradicts),
        )
        if known is None:
            return item
        sources = tuple(sorted({*known.sources, *item.sources}))
        return replace(item, id=known.id, sources=sources, first_seen_us=min(known.first_seen_us, item.first_seen_us))

    def history(self, groups: Sequence[StatementGroup]) -> Iterator[tuple[NewKnowledge, str, str]]:
        """Yield the statements that no longer hold, each with what replaces it and why."""
        for group in groups:
            if (by := group.replaced_by) is None:
                continue
            when = day_text(self._turns[by.places[-1]].at_us) if by.places else ""
            is_clash = any(other is group for other in by.contradicts)
            reason = f"contradicted on the same day, {when}" if is_clash else f"said otherwise on {when}"
            item = group.known if group.known and not group.places else self.statement(group)
            yield as_new(item), self.id_of(by), f"{reason}: {by.text}"[:MAX_REASON_CHARS]

    def id_of(self, group: StatementGroup) -> str:
        """Return the id of a statement's item."""
        return group.known.id if group.known else item_id(self._scope, "lesson", f"{group.kind} {group.forms[0]}")

    def failure(self, failure: Failure, ending: Ending) -> NewKnowledge:
        lines = [f"Error in {len(failure.places)} turns: {failure.line}"]
        if ending.call:
            lines.append(f"Then succeeded: {ending.call}")
        if ending.sentence:
            who = "The person" if ending.speaker == "person" else "The assistant"
            lines.append(f"{who} wrote: {ending.sentence}")
        return self._item(
            f"error {failure.signature}",
            failure.line,
            "\n".join(lines),
            sorted({*failure.places, ending.place}),
            weight=min(0.8, 0.4 + 0.05 * len(failure.places)),
            confidence=0.7 if ending.call else 0.5,
        )

    def _item(
        self, identity: str, title: str, text: str, places: Sequence[int], *, weight: float, confidence: float
    ) -> NewKnowledge:
        turns = [self._turns[place] for place in places]
        sources = [turn.source for turn in turns]
        # Only the oldest and the newest, if there are very many.
        kept = sources if len(sources) <= MAX_SOURCES else [*sources[: MAX_SOURCES // 2], *sources[-MAX_SOURCES // 2 :]]
        topics = list(dict.fromkeys(topic for source in sources for topic in self._topics.get(source, ())))
        weights = word_profile(text).weights
        heaviest = sorted(weights, key=lambda word: (-weights[word], word))[:MAX_KEYWORDS]
        most = max(weights.values(), default=1.0)
        return NewKnowledge(
            id=item_id(self._scope, "lesson", identity),
            scope=str(self._scope),
            kind="lesson",
            state="proposed",
            title=title if len(title) <= TITLE_CHARS else f"{title[: TITLE_CHARS - 1].rstrip()}…",
            text=text,
            topics=tuple(topics[:MAX_TOPICS]),
            keywords=tuple((word, round(weights[word] / most, 2)) for word in heaviest),
            technologies=technologies_in(text),
            weight=round(weight, 2),
            confidence=round(confidence, 2),
            sources=tuple(sorted(set(kept))),
            maker="local",
            first_seen_us=min(turn.at_us for turn in turns),
            last_seen_us=max(turn.at_us for turn in turns),
        )
