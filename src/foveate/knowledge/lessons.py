"""Lessons without a model: rules of the person, repeated decisions, recurring errors with their resolutions.

Every lesson consists of the words of its source turns, and is as short as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.knowledge.failures import Ending, Failure, find_failures
from foveate.knowledge.gather import Gathered, LearnedTurn
from foveate.knowledge.items import item_id, same_words, word_profile
from foveate.knowledge.profile import find_profile, technologies_in
from foveate.knowledge.recommendations import find_recommendations
from foveate.knowledge.own_words import own_words
from foveate.knowledge.statements import StatementKind, statements_in
from foveate.knowledge.topics import TopicsFound
from foveate.recall.scopes import Scope
from foveate.secrets import MASK
from foveate.store.knowledge import KnowledgeSource, NewKnowledge

SAME_STATEMENT = 0.7
"""Minimum share of common words for two statements to count as one."""
MAX_COMPARED = 200
"""Maximum number of earlier statements that one is compared with."""
LOOKED_UP_WORDS = 4
MIN_DECISION_TURNS = 2
MAX_LESSONS = 500
MAX_SOURCES = 50
MAX_TOPICS = 3
MAX_KEYWORDS = 8
TITLE_CHARS = 100
MAX_FORMS = 3
"""Maximum number of wordings shown per statement."""
_CONJUNCTION = re.compile(r"\A(?:and|but|also|und|aber),?\s+", re.IGNORECASE)


@dataclass(slots=True)
class StatementGroup:
    """A statement with the positions of its turns, oldest first, and its wordings."""

    kind: StatementKind
    forms: list[str]
    places: list[int] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    is_standing: bool = False

    @property
    def times(self) -> int:
        """Number of times it was stated; a repeated prompt counts once."""
        return len(self.prompts)


def find_lessons(gathered: Gathered, topics: TopicsFound) -> tuple[NewKnowledge, ...]:
    """Find the lessons of a scope, its profile and recommendations, ordered by kind and id."""
    turns = gathered.turns
    typed = [own_words(turn.user) for turn in turns]
    groups = _gather_statements(turns, typed)
    failures = find_failures(turns)
    maker = _Maker(gathered.scope, turns, _topics_of(topics))
    lessons = [maker.statement(each) for each in groups if _is_lesson(each)]
    lessons += [maker.failure(each, each.ending) for each in failures if each.ending]
    lessons.sort(key=lambda item: (-item.weight, -item.last_seen_us, item.id))
    profile = find_profile(gathered, typed, [(each.kind, each.forms[-1], each.places) for each in groups])
    advice = find_recommendations(gathered, topics, [each for each in failures if each.ending is None])
    found = {item.id: item for item in (*lessons[:MAX_LESSONS], *profile, *advice)}
    return tuple(sorted(found.values(), key=lambda item: (item.kind, item.id)))


def _is_lesson(group: StatementGroup) -> bool:
    return group.kind == "rule" or (group.kind in ("decision", "convention") and group.times >= MIN_DECISION_TURNS)


def _gather_statements(turns: Sequence[LearnedTurn], typed: Sequence[str]) -> list[StatementGroup]:
    """Collect all statements of the person; equal ones are merged."""
    found: list[StatementGroup] = []
    exact: dict[str, StatementGroup] = {}
    by_word: dict[str, list[StatementGroup]] = {}
    for place, turn in enumerate(turns):
        for statement in statements_in(typed[place]):
            if MASK in statement.text:
                continue  # what is left of it says nothing, or only that there is a secret
            plain = _plain(statement.text)
            words = _heaviest(statement.text)
            group = exact.get(plain) or _same(statement.text, statement.kind, words, by_word)
            if group is None:
                group = StatementGroup(statement.kind, [statement.text])
                found.append(group)
                for word in words:
                    by_word.setdefault(word, []).append(group)
            elif statement.text not in group.forms:
                group.forms.append(statement.text)
            exact.setdefault(plain, group)
            if not group.places or group.places[-1] != place:
                group.places.append(place)
            group.prompts.add(turn.user)
            group.is_standing = group.is_standing or statement.is_standing
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!\u3002\uff01 ")


def _without_conjunction(text: str) -> str:
    """Remove the conjunction at the beginning of a statement: `And never …` becomes `Never …`."""
    bare = _CONJUNCTION.sub("", text, count=1)
    return bare if bare == text else f"{bare[:1].upper()}{bare[1:]}"


def _heaviest(text: str) -> list[str]:
    weights = word_profile(text).weights
    return sorted(weights, key=lambda word: (-weights[word], word))[:LOOKED_UP_WORDS]


def _same(
    text: str, kind: StatementKind, words: Iterable[str], by_word: Mapping[str, list[StatementGroup]]
) -> StatementGroup | None:
    """Return an earlier statement of the same kind with the same meaning, or None."""
    near = {id(group): group for word in words for group in by_word.get(word, ())[-MAX_COMPARED:]}
    alike = [
        (same_words(text, group.forms[0]), number) for number, group in enumerate(near.values()) if group.kind == kind
    ]
    best = max(alike, key=lambda each: (each[0], -each[1]), default=(0.0, 0))
    return list(near.values())[best[1]] if best[0] >= SAME_STATEMENT else None


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
        newest_first = [_without_conjunction(text) for text in reversed(group.forms)]
        wordings = {_plain(text): text for text in reversed(newest_first)}  # the newest of equal ones
        texts = list(dict.fromkeys(wordings[_plain(text)] for text in newest_first))[:MAX_FORMS]
        more = group.times - 1
        base = 0.6 if group.is_standing else 0.4
        return self._item(
            f"{group.kind} {group.forms[0]}",
            texts[0],
            "\n".join(texts),
            group.places,
            weight=min(0.9, base + 0.1 * more),
            confidence=min(0.9, 0.6 + 0.1 * more),
        )

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
