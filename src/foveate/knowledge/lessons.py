"""Lessons without a model: rules of the person, decisions stated more than once, recurring errors with their endings.

Every lesson is made of the words of its source turns, and is as short as they are.
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
from foveate.knowledge.statements import StatementKind, own_words, statements_in
from foveate.knowledge.topics import TopicsFound
from foveate.recall.scopes import Scope
from foveate.store.knowledge import KnowledgeSource, NewKnowledge

SAME_STATEMENT = 0.7
"""Statements that share this much of their words are one."""
MAX_COMPARED = 200
"""Earlier statements that one is compared with."""
LOOKED_UP_WORDS = 4
MIN_DECISION_TURNS = 2
MAX_LESSONS = 500
MAX_SOURCES = 50
MAX_TOPICS = 3
MAX_KEYWORDS = 8
TITLE_CHARS = 100
MAX_FORMS = 3
"""Wordings of a statement that are shown."""
_CONJUNCTION = re.compile(r"\A(?:and|but|also|und|aber),?\s+", re.IGNORECASE)


@dataclass(slots=True)
class Said:
    """A statement with the places of the turns that make it, oldest first, and its wordings."""

    kind: StatementKind
    forms: list[str]
    places: list[int] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    is_standing: bool = False

    @property
    def times(self) -> int:
        """How often it was stated; the same prompt sent again counts once."""
        return len(self.prompts)


def find_lessons(gathered: Gathered, topics: TopicsFound) -> tuple[NewKnowledge, ...]:
    """The lessons of a scope, its profile, and what would be worth adding, in the order of kinds and ids."""
    turns = gathered.turns
    typed = [own_words(turn.user) for turn in turns]
    said = _gather_statements(turns, typed)
    failures = find_failures(turns)
    maker = _Maker(gathered.scope, turns, _topics_of(topics))
    lessons = [maker.statement(each) for each in said if _is_lesson(each)]
    lessons += [maker.failure(each, each.ending) for each in failures if each.ending]
    lessons.sort(key=lambda item: (-item.weight, -item.last_seen_us, item.id))
    profile = find_profile(gathered, typed, [(each.kind, each.forms[-1], each.places) for each in said])
    advice = find_recommendations(gathered, topics, [each for each in failures if each.ending is None])
    found = {item.id: item for item in (*lessons[:MAX_LESSONS], *profile, *advice)}
    return tuple(sorted(found.values(), key=lambda item: (item.kind, item.id)))


def _is_lesson(said: Said) -> bool:
    return said.kind == "rule" or (said.kind in ("decision", "convention") and said.times >= MIN_DECISION_TURNS)


def _gather_statements(turns: Sequence[LearnedTurn], typed: Sequence[str]) -> list[Said]:
    """All statements of what was typed; those that say the same are one."""
    found: list[Said] = []
    exact: dict[str, Said] = {}
    by_word: dict[str, list[Said]] = {}
    for place, turn in enumerate(turns):
        for statement in statements_in(typed[place]):
            plain = _plain(statement.text)
            words = _heaviest(statement.text)
            said = exact.get(plain) or _same(statement.text, statement.kind, words, by_word)
            if said is None:
                said = Said(statement.kind, [statement.text])
                found.append(said)
                for word in words:
                    by_word.setdefault(word, []).append(said)
            elif statement.text not in said.forms:
                said.forms.append(statement.text)
            exact.setdefault(plain, said)
            if not said.places or said.places[-1] != place:
                said.places.append(place)
            said.prompts.add(turn.user)
            said.is_standing = said.is_standing or statement.is_standing
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!\u3002\uff01 ")


def _without_conjunction(text: str) -> str:
    """A statement without the word that ties it to the sentence before: `And never …` becomes `Never …`."""
    bare = _CONJUNCTION.sub("", text, count=1)
    return bare if bare == text else f"{bare[:1].upper()}{bare[1:]}"


def _heaviest(text: str) -> list[str]:
    weights = word_profile(text).weights
    return sorted(weights, key=lambda word: (-weights[word], word))[:LOOKED_UP_WORDS]


def _same(text: str, kind: StatementKind, words: Iterable[str], by_word: Mapping[str, list[Said]]) -> Said | None:
    """The statement before that says the same, of the same kind."""
    near = {id(said): said for word in words for said in by_word.get(word, ())[-MAX_COMPARED:]}
    alike = [
        (same_words(text, said.forms[0]), number) for number, said in enumerate(near.values()) if said.kind == kind
    ]
    best = max(alike, key=lambda each: (each[0], -each[1]), default=(0.0, 0))
    return list(near.values())[best[1]] if best[0] >= SAME_STATEMENT else None


def _topics_of(topics: TopicsFound) -> dict[KnowledgeSource, list[str]]:
    found: dict[KnowledgeSource, list[str]] = {}
    for session_id, row in topics.turn_topics:
        found.setdefault(KnowledgeSource(session_id, row.turn), []).append(row.topic)
    return found


class _Maker:
    """Makes items of what was found."""

    def __init__(
        self, scope: Scope, turns: Sequence[LearnedTurn], topics: Mapping[KnowledgeSource, Sequence[str]]
    ) -> None:
        self._scope = scope
        self._turns = turns
        self._topics = topics

    def statement(self, said: Said) -> NewKnowledge:
        newest_first = [_without_conjunction(text) for text in reversed(said.forms)]
        wordings = {_plain(text): text for text in reversed(newest_first)}  # of equal ones the newest
        texts = list(dict.fromkeys(wordings[_plain(text)] for text in newest_first))[:MAX_FORMS]
        more = said.times - 1
        base = 0.6 if said.is_standing else 0.4
        return self._item(
            f"{said.kind} {said.forms[0]}",
            texts[0],
            "\n".join(texts),
            said.places,
            weight=min(0.9, base + 0.1 * more),
            confidence=min(0.9, 0.6 + 0.1 * more),
        )

    def failure(self, failure: Failure, ending: Ending) -> NewKnowledge:
        lines = [f"Error in {len(failure.places)} turns: {failure.line}"]
        if ending.call:
            lines.append(f"Then succeeded: {ending.call}")
        if ending.said:
            who = "The person" if ending.speaker == "person" else "The assistant"
            lines.append(f"{who} wrote: {ending.said}")
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
        # The oldest and the newest, where there are very many.
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
