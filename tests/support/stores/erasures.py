"""Conformance cases of erasures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foveate.errors import ErasureOutdated, ForkInUse, KeyReused
from foveate.intake.chain import extend
from foveate.store import Store, bodies
from foveate.store.erase import Redaction
from foveate.store.knowledge import PERSON, KnowledgeSource
from foveate.store.redaction import Redactor
from foveate.turn import Json
from support.stores import Case, OpenStore, draft, new_session, raises
from support.stores.derived import entry, rendition
from support.stores.knowledge import item

TURNS = 3
WORD = "zebrafish"


async def _talked(store: Store) -> None:
    await store.create_session(new_session())
    for number in range(1, TURNS + 1):
        word = WORD if number == TURNS - 1 else "plain"
        await store.append("s", [draft(f"{word} {number}", at_us=number), draft("noted", "assistant", at_us=number)])
    made = [rendition(turn, f"{WORD} {turn}", messages=2) for turn in range(1, TURNS + 1)]
    await store.derived.add_renditions("s", made)
    await store.passages.add("s", [entry(turn, WORD, messages=2) for turn in range(1, TURNS + 1)])


async def _bodies(store: Store) -> list[Json]:
    rows = await store.read("s", 1, TURNS)
    return [None if row.body is None else bodies.load(row.body) for row in rows]


async def _problems(store: Store) -> Sequence[str]:
    return [found.problem async for found in store.check() if found.problem and "free pages" not in found.problem]


async def an_erased_turn_keeps_its_place_and_nothing_else(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.add_pin("s", f"the {WORD}", locked=True)
    survey = await store.erasures.survey("s", [2])
    assert (survey.counts["messages"], survey.counts["renditions"], survey.forks) == (2, 1, ())
    origin = await store.origin("s")
    await store.erasures.erase_turns("s", [2], forks=None, pins={("s", 1)}, titles={}, actor="Anna")
    found = await _bodies(store)
    assert [value is None for value in found] == [False, False, True, True, False, False]
    (row,) = await store.turns("s", 2, 2)
    assert row.pruned
    assert row.erased_us
    assert {turn for turn, *_ in await store.derived.tinies("s", 1, TURNS)} == {1, 3}
    assert await store.list_pins("s") == []
    assert await store.origin("s") != origin
    await store.passages.add("s", [entry(2, WORD, messages=2)], origin)
    assert [row.turn for row in await store.passages.rows("s", [], [1, 2, 3])] == [1, 3]
    (noted,) = await store.erasures.list_all(session_id="s")
    assert (noted.kind, noted.turns, noted.actor, noted.swept_us) == ("turns", "T-2", "Anna", None)
    await store.erasures.note_swept(noted.at_us)
    assert (await store.erasures.list_all())[0].swept_us
    assert await _problems(store) == []


async def the_newest_turn_is_closed_when_it_is_erased(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.erasures.erase_turns("s", [TURNS], forks=None, pins=(), titles={}, actor="")
    (place,) = await store.append("s", [draft("late", "assistant")])
    assert (place.turn, place.position) == (TURNS + 1, 1)


async def a_fork_keeps_its_parents_turns_unless_it_is_named(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.fork_session(new_session("fork"), "s", 2)
    async with raises(ForkInUse):
        await store.erasures.erase_turns("s", [2], forks=None, pins=(), titles={}, actor="")
    async with raises(ErasureOutdated):
        await store.erasures.erase_turns("s", [2], forks=(), pins=(), titles={}, actor="")
    await store.erasures.erase_turns("s", [2], forks=("fork",), pins=(), titles={}, actor="")
    assert [row.body is None for row in await store.read("fork", 1, 2)] == [False, False, True, True]


async def a_text_is_replaced_unless_the_session_changed(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_document("s", "epic", f"about {WORD}")
    (row, *_rest) = await store.read("s", 2, 2)
    clean = draft("[erased] 2")
    redaction = Redaction(turn=2, position=1, old_digest=row.digest, draft=clean)
    redactor = Redactor(WORD)
    session = await store.get_session("s")
    head = session.last_turn, session.last_position

    async def erase(seen: tuple[int, int]) -> None:
        await store.erasures.erase_text(
            "s", [redaction], redactor=redactor, seen=seen, forks=None, pins=False, actor="Anna"
        )

    async with raises(ErasureOutdated):
        await erase((head[0], head[1] - 1))
    await erase(head)
    async with raises(ErasureOutdated):
        await erase(head)
    assert WORD not in str(await _bodies(store))
    assert [document.text for document in await store.artefacts.documents("s")] == ["about [erased]"]
    assert await store.derived.settled("s") == 1
    assert await _problems(store) == []


async def titles_of_the_session_and_of_those_made_from_it_are_replaced(store: Store, _: OpenStore) -> None:
    await _talked(store)
    about, forked = f"about {WORD}", f"about {WORD}, from T-1"
    for name in ("other", "s~ab12", "st"):
        await store.create_session(replace(new_session(name), title=about))
    await store.fork_session(replace(new_session("child"), title=about), "s", 0)
    await store.fork_session(replace(new_session("grandchild"), title=forked), "child", 0)
    await store.fork_session(replace(new_session("branched"), title=about), "s~ab12", 0)
    survey = await store.erasures.survey("s", [2])
    assert sorted(survey.titles) == sorted([(await store.get_session("s")).title, about, about, about, forked])
    titles = {about: "[erased]", forked: "[erased], from T-1"}
    noted = await store.erasures.erase_turns("s", [2], forks=None, pins=(), titles=titles, actor="")
    assert '"titles made from the turns": 4' in noted.counts
    left = {row.id: row.title for row in await store.list_sessions()}
    del left["s"]
    assert left == {
        "branched": "[erased]",
        "child": "[erased]",
        "grandchild": "[erased], from T-1",
        "other": about,
        "s~ab12": "[erased]",
        "st": about,
    }
    assert await _problems(store) == []


async def what_was_learned_from_an_erased_turn_goes(store: Store, _: OpenStore) -> None:
    await _talked(store)
    cited = (KnowledgeSource("s", 2),)
    both = (*cited, KnowledgeSource("s", 1))
    learned = [
        replace(item("k-own"), kind="lesson", sources=cited),
        replace(item("k-both"), kind="lesson", sources=both),
        replace(item("k-person"), kind="lesson", sources=cited, maker=PERSON),
        replace(item("k-topic"), kind="topic", sources=both),
        replace(item("k-other"), kind="lesson", sources=(KnowledgeSource("s", 1),)),
    ]
    await store.knowledge.add("", learned)
    survey = await store.erasures.survey("s", [2])
    assert (survey.counts["knowledge items"], survey.kept_items) == (2, ("k-person",))
    await store.erasures.erase_turns("s", [2], forks=None, pins=(), titles={}, actor="")
    left = {row.id: {source.turn for source in row.sources} for row in await store.knowledge.list_items("")}
    assert left == {"k-person": set(), "k-topic": {1}, "k-other": {1}}


async def a_key_is_unreadable_once_its_turn_is_erased_and_still_known(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    said = [draft(f"{WORD} 1", key=f"{WORD}#0"), draft("noted", "assistant", key=f"{WORD}#1")]
    history = extend("", WORD.encode())
    await store.append("s", [draft("plain", key=history), draft("noted", "assistant")])
    await store.append("s", said, exact=True)
    for _time in range(2):  # a turn can be erased again
        await store.erasures.erase_turns("s", [1, 2], forks=None, pins=(), titles={}, actor="")
        kept = await store.keys("s", 1, 2)
        assert kept[:2] == [history, None]
        assert not any(WORD in (key or "") for key in kept)
    places = await store.append("s", said, exact=True, after=None)
    assert [(place.turn, place.position, place.is_new) for place in places] == [(2, 1, False), (2, 2, False)]
    async with raises(KeyReused):
        await store.append("s", said[:1], exact=True)
    await store.append("s", [draft("next", key="k")], after=f"{WORD}#1")
    assert not any(WORD in repr(value) for value in await _bodies(store))
    assert await _problems(store) == []


CASES: tuple[Case, ...] = (
    an_erased_turn_keeps_its_place_and_nothing_else,
    the_newest_turn_is_closed_when_it_is_erased,
    a_fork_keeps_its_parents_turns_unless_it_is_named,
    a_text_is_replaced_unless_the_session_changed,
    titles_of_the_session_and_of_those_made_from_it_are_replaced,
    what_was_learned_from_an_erased_turn_goes,
    a_key_is_unreadable_once_its_turn_is_erased_and_still_known,
)
