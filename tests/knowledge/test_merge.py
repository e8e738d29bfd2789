from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from foveate.knowledge.items import item_id
from foveate.knowledge.merge import merge
from foveate.knowledge.settings import KnowledgeSettings
from foveate.store.knowledge import PERSON, KnowledgeChanges, KnowledgeKind, KnowledgeRow, KnowledgeSource, NewKnowledge
from foveate.store.rows import DAY_US

NOW = 1_800_000_000_000_000
SCOPE = "project:shop"
TABS = "Always indent Python files with tabs, never with spaces."
CACHE = "Store the session cache in Redis under the prefix shop."


def lesson(text: str = TABS, *turns: int, kind: KnowledgeKind = "lesson", last_seen_us: int = NOW) -> NewKnowledge:
    return NewKnowledge(
        id=item_id(SCOPE, kind, text),
        scope=SCOPE,
        kind=kind,
        state="proposed",
        title=text[:20],
        text=text,
        weight=0.5,
        sources=tuple(KnowledgeSource("s", turn) for turn in turns or (1,)),
        maker="local",
        first_seen_us=last_seen_us - 5,
        last_seen_us=last_seen_us,
    )


def stored(item: NewKnowledge, **values: object) -> KnowledgeRow:
    known = {field.name: getattr(item, field.name) for field in fields(NewKnowledge)}
    row = {
        "tenant": "",
        "version": 1,
        "created_us": NOW,
        "superseded_by": "",
        "uses": 0,
        "helped": 0,
        "last_used_us": None,
    }
    return KnowledgeRow(**{**known, **row, **values})


def merged(
    known: Iterable[KnowledgeRow], found: Iterable[NewKnowledge], *, now_us: int = NOW, stale_days: int = 60
) -> KnowledgeChanges:
    return merge(list(known), list(found), now_us=now_us, settings=KnowledgeSettings(stale_days=stale_days))


def test_what_is_found_again_unchanged_changes_nothing() -> None:
    found = [lesson(TABS, 1, 2), lesson(CACHE), lesson("tabs", kind="topic")]
    first = merged([], found)
    assert sorted(item.text for item in first.items) == sorted([TABS, CACHE, "tabs"])
    assert merged(map(stored, first.items), found) == KnowledgeChanges()


def test_an_empty_result_after_many_overwrites_nothing() -> None:
    known = [stored(lesson(TABS)), stored(lesson(CACHE)), stored(lesson("tabs", kind="topic"))]
    assert merged(known, []) == KnowledgeChanges()


def test_the_same_lesson_ten_times_is_one_with_all_its_sources() -> None:
    found = [lesson(TABS + "!" * (number % 3), number) for number in range(1, 11)]
    (item,) = merged([], found).items
    assert [source.turn for source in item.sources] == list(range(1, 11))


def test_a_lesson_that_is_seen_again_gets_a_new_version_with_the_reason() -> None:
    (item,) = merged([stored(lesson(TABS, 1))], [lesson(TABS, 1, 7, 9, last_seen_us=NOW + 9)]).items
    assert (item.reason, item.last_seen_us, len(item.sources)) == ("seen in 2 more turns", NOW + 9, 3)


def test_a_similar_lesson_takes_the_id_of_the_known_one() -> None:
    other = lesson("Always indent Python files with tabs and never with spaces", 4)
    known = stored(lesson(TABS, 1))
    changes = merged([known], [other])
    (item,) = changes.items
    assert item.id == known.id != other.id
    assert [source.turn for source in item.sources] == [1, 4]
    assert changes.superseded == ()


def test_opposite_lessons_and_other_numbers_are_never_merged() -> None:
    texts = (
        "Always use tabs in Python.",
        "Never use tabs in Python.",
        "Use 4 tabs in Python.",
        "Use 8 tabs in Python.",
    )
    assert len(merged([], map(lesson, texts)).items) == len(texts)


def test_known_lessons_that_say_the_same_are_merged_with_a_reason() -> None:
    weak = stored(lesson("Always indent Python files with tabs and never with spaces", 4))
    strong = stored(lesson(TABS, 1, 2))
    changes = merged([weak, strong], [])
    (superseded,) = changes.superseded
    assert (superseded.id, superseded.by) == (weak.id, strong.id)
    assert superseded.reason.startswith(f"says the same as {strong.id}")
    (item,) = changes.items
    assert [source.turn for source in item.sources] == [1, 2, 4]
    # What supersedes it is found again under its own id, and nothing comes back.
    assert merged([stored(item)], [lesson(weak.text, 4), lesson(TABS, 1, 2)]) == KnowledgeChanges()


def test_what_a_person_decided_is_untouched_and_never_comes_back() -> None:
    similar = lesson("Always indent Python files with tabs and never with spaces", 4)
    for row in (
        stored(lesson(TABS), state="pinned"),
        stored(lesson(TABS), maker=PERSON, state="approved", text="Indent as you like."),
        stored(lesson(TABS), maker=PERSON, state="retired"),
    ):
        assert merged([row], [lesson(TABS, 8, last_seen_us=NOW + 1)], now_us=NOW + 999 * DAY_US) == KnowledgeChanges()
        if row.text == TABS:
            assert merged([row], [similar]) == KnowledgeChanges()


def test_an_unused_lesson_is_lowered_then_retired_and_comes_back_when_seen() -> None:
    row = stored(lesson(TABS))
    later = NOW + 61 * DAY_US
    (lowered,) = merged([row], [lesson(TABS)], now_us=later, stale_days=60).items
    assert (lowered.weight, lowered.state, lowered.reason) == (0.25, "proposed", "neither seen nor used for 60 days")
    row = stored(lowered, version=2, created_us=later)
    assert merged([row], [lesson(TABS)], now_us=later, stale_days=60) == KnowledgeChanges()
    (retired,) = merged([row], [lesson(TABS)], now_us=later + 61 * DAY_US, stale_days=60).items
    assert retired.state == "retired"
    row = stored(retired, version=3, created_us=later + 61 * DAY_US)
    assert merged([row], [lesson(TABS)], now_us=later + 999 * DAY_US, stale_days=60) == KnowledgeChanges()
    seen = lesson(TABS, 1, 5, last_seen_us=later + 70 * DAY_US)
    (back,) = merged([row], [seen], now_us=later + 70 * DAY_US, stale_days=60).items
    assert (back.state, back.weight) == ("proposed", 0.5)


def test_a_lesson_in_use_or_a_clock_set_back_makes_nothing_stale() -> None:
    later = NOW + 61 * DAY_US
    assert merged([stored(lesson(TABS), last_used_us=later)], [], now_us=later, stale_days=60) == KnowledgeChanges()
    assert merged([stored(lesson(TABS))], [], now_us=0) == KnowledgeChanges()
    assert merged([stored(lesson(TABS), created_us=later * 2)], [], now_us=later, stale_days=60) == KnowledgeChanges()


def test_a_lesson_that_helped_is_approved() -> None:
    (item,) = merged([stored(lesson(TABS), helped=1)], []).items
    assert (item.state, item.reason) == ("approved", "an answer used it")


def test_a_topic_that_is_gone_is_retired_while_others_are_found() -> None:
    gone, there = lesson("tabs", kind="topic"), lesson("redis", kind="topic")
    (item,) = merged([stored(gone), stored(there)], [there]).items
    assert (item.id, item.state) == (gone.id, "retired")
    (back,) = merged([stored(replace(gone, state="retired"))], [gone]).items
    assert back.state == "proposed"


def test_the_wording_of_a_model_stays_when_rules_find_the_same() -> None:
    worded = replace(lesson("Indent Python files with tabs, never with spaces, always."), maker="openai:gpt")
    (item,) = merged([stored(lesson(TABS))], [worded]).items
    assert (item.id, item.text, item.maker) == (lesson(TABS).id, worded.text, "openai:gpt")
    assert merged([stored(item)], [lesson(TABS)]) == KnowledgeChanges()
