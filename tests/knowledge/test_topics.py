"""Topics without a model."""

from __future__ import annotations

import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from foveate.knowledge.gather import Gathered, LearnedTurn
from foveate.knowledge.topics import TopicsFound, find_topics
from foveate.recall.embed import static
from foveate.recall.scopes import Scope
from foveate.recall.table import Floats
from foveate.store.knowledge import PERSON, KnowledgeRow, KnowledgeSource, NewKnowledge

SUBJECTS = {
    "garden": "tomato seeds soil compost garden beds watering plants greenhouse",
    "music": "guitar chords piano melody concert rehearsal drummer song band",
    "database": "postgres index query planner vacuum table rows transaction lock",
}


def history(turns: int, subjects: tuple[str, ...] = tuple(SUBJECTS)) -> Gathered:
    """Turns of each subject in blocks of eight, in words chosen by their number."""
    made = []
    for number in range(1, turns + 1):
        words = SUBJECTS[subjects[(number // 8) % len(subjects)]].split()
        said = " ".join(words[(number * step) % len(words)] for step in (1, 2, 4, 5, 7))
        made.append(_turn(number, f"Tell me about {said}."))
    return Gathered(tenant="", scope=Scope("project", "x"), turns=tuple(made), watermark="")


def _turn(number: int, user: str) -> LearnedTurn:
    source = KnowledgeSource("s", number)
    rest = {"assistant": "", "compressed": "", "tiny": "", "smoothed": ""}
    return LearnedTurn(source=source, at_us=number * 1_000_000, user=user, tools=(), **rest)


def vectors(gathered: Gathered) -> Floats:
    return static.embed([turn.user for turn in gathered.turns])


def rows(found: TopicsFound) -> list[KnowledgeRow]:
    stored = {"tenant": "", "version": 1, "created_us": 0, "superseded_by": "", "uses": 0, "helped": 0}
    names = [each.name for each in fields(NewKnowledge)]
    return [
        KnowledgeRow(last_used_us=None, **stored, **{name: getattr(item, name) for name in names})  # type: ignore[arg-type]
        for item in found.items
    ]


def topics_of(found: TopicsFound) -> dict[int, str]:
    return {row.turn: row.topic for _, row in reversed(found.turn_topics)}


@pytest.mark.parametrize("with_library", [True, False], ids=["HDBSCAN", "k-means"])
def test_turns_on_one_subject_share_a_topic(with_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if with_library:
        pytest.importorskip("sklearn", reason="the extra `knowledge` is not installed")
    else:
        monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    gathered = history(72)
    found = find_topics(gathered, vectors(gathered), ())
    assert found == find_topics(gathered, vectors(gathered), ())
    names = list(SUBJECTS)
    subjects: dict[str, list[str]] = {}
    for turn, topic in topics_of(found).items():
        subjects.setdefault(topic, []).append(names[(turn // 8) % 3])
    pure = sum(max(map(every.count, every)) for every in subjects.values())
    assert pure >= 0.9 * sum(map(len, subjects.values())) >= 0.9 * 0.8 * 72
    for item in found.items:
        assert {word for word, _ in item.keywords} & set(" ".join(SUBJECTS.values()).split())
        assert item.keywords[0][1] == 1.0
        assert item.sources


def test_topics_keep_their_ids_as_the_history_grows() -> None:
    small, large = history(64), history(96)
    before = find_topics(small, vectors(small), ())
    after = find_topics(large, vectors(large), rows(before))
    assert {item.id for item in before.items} <= {item.id for item in after.items}
    old, new = topics_of(before), topics_of(after)
    assert sum(new.get(turn) == topic for turn, topic in old.items()) >= 0.8 * len(old)
    titles = {item.id: item.title for item in after.items}
    assert sum(titles[item.id] == item.title for item in before.items) >= 0.5 * len(before.items)


def test_a_new_topic_never_takes_the_id_of_one_that_is_known() -> None:
    gathered = history(64)
    found = find_topics(gathered, vectors(gathered), ())
    gone = [replace(row, sources=(KnowledgeSource("gone", 1),)) for row in rows(found)]
    again = find_topics(gathered, vectors(gathered), gone)
    assert len(again.items) == len(found.items)
    assert not {item.id for item in again.items} & {row.id for row in gone}


def test_a_topic_that_a_person_retired_stays_away() -> None:
    gathered = history(64)
    found = find_topics(gathered, vectors(gathered), ())
    first, *rest = rows(found)
    retired = replace(first, state="retired", maker=PERSON)
    again = find_topics(gathered, vectors(gathered), [retired, *rest])
    assert first.id not in {item.id for item in again.items}
    assert first.id not in {row.topic for _, row in again.turn_topics}


def test_a_few_turns_or_turns_without_vectors_have_no_topics() -> None:
    for count in (0, 1, 5):
        gathered = history(count)
        assert find_topics(gathered, np.ones((count, 256), np.float32), ()) == TopicsFound()
    gathered = history(40)
    assert find_topics(gathered, np.zeros((40, 256), np.float32), ()) == TopicsFound()


def test_topics_are_labelled_in_other_languages() -> None:
    said = {0: "Die Bewässerung der Tomaten im Gewächshaus braucht Wasser und Kompost", 1: "数据库索引查询优化事务锁表"}
    turns = tuple(_turn(number, f"{said[(number // 6) % 2]} {number}") for number in range(1, 49))
    gathered = Gathered(tenant="", scope=Scope("project", "x"), turns=turns, watermark="")
    found = find_topics(gathered, vectors(gathered), ())
    words = {word for item in found.items for word, _ in item.keywords}
    assert words & {"tomaten", "gewächshaus", "bewässerung"}
    assert words & {"数据", "索引", "查询"}
    assert not words & {"die", "der", "und", "im"}


def test_small_talk_is_no_topic_and_no_name_occurs_twice() -> None:
    talk = ("exactly, lol", "thanks, great!", "haha ok", "yes please", "good morning", "perfect, thx")
    gathered = history(48)
    small = [_turn(100 + number, talk[number % len(talk)]) for number in range(24)]
    mixed = replace(gathered, turns=(*gathered.turns, *small))
    found = find_topics(mixed, vectors(mixed), ())
    titles = [item.title for item in found.items]
    assert titles
    assert len(set(titles)) == len(titles)
    assert not {"exactly", "lol", "thanks", "haha"} & {word for title in titles for word in title.split(", ")}


def test_two_words_that_stand_together_name_a_topic_as_one() -> None:
    said = (
        "The rye bread dough rises.",
        "Bake the rye bread in the oven.",
        "Is the rye bread done?",
        "Slice the rye bread.",
    )
    turns = [_turn(number, said[number % len(said)]) for number in range(1, 25)]
    other = [_turn(100 + turn.source.turn, turn.user) for turn in history(24, ("database",)).turns]
    gathered = Gathered(tenant="", scope=Scope("project", "x"), turns=(*turns, *other), watermark="")
    titles = [item.title for item in find_topics(gathered, vectors(gathered), ()).items]
    assert any("rye bread" in title for title in titles), titles


def test_alike_topics_are_in_one_area_named_by_the_heaviest() -> None:
    gathered = history(72)
    found = find_topics(gathered, vectors(gathered), ())
    titles = {item.title for item in found.items}
    assert all(item.area in titles for item in found.items)
    assert len({item.area for item in found.items}) <= len(titles)
