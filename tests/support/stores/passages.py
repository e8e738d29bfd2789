"""Conformance cases of a store's index: what is found, by whom, and what is gone when it is gone."""

from __future__ import annotations

from foveate.store import Store
from foveate.store.rows import KEY_SHIFT, IndexSnapshot, PassageText
from support.stores import Case, OpenStore, draft, new_session
from support.stores.derived import entry, rendition

MANY = 99


async def _look(store: Store, *phrases: str, session_id: str = "s", after: int = 0, limit: int = MANY) -> IndexSnapshot:
    asked = [(phrase, 0) for phrase in phrases]
    return await store.passages.look(session_id, after=after, phrases=asked, limit=limit)


async def _turns(store: Store, phrase: str, session_id: str = "s") -> list[int]:
    """The turns that have a phrase and that the session sees."""
    look = await _look(store, phrase, session_id=session_id)
    seen = {row.id: row.turn for row in look.rows}
    found = {key >> KEY_SHIFT for key in look.postings[0].keys}
    return sorted(turn for row, turn in seen.items() if row in found)


async def _talked(store: Store, *texts: str, session_id: str = "s") -> None:
    """Turns that are recorded and indexed."""
    await store.create_session(new_session(session_id))
    await store.append(session_id, [draft(text) for text in texts])
    made = [rendition(turn, text) for turn, text in enumerate(texts, 1)]
    await store.derived.add_renditions(session_id, made)


async def words_are_found_in_any_form_and_phrases_whole(store: Store, _: OpenStore) -> None:
    await _talked(store, "The Ports were closed", "src/auth/jwt.py has it", "auth of src")
    assert await _turns(store, "port") == [1]
    assert await _turns(store, "PORTS") == [1]
    assert await _turns(store, "src auth jwt py") == [2]
    assert await _turns(store, "src") == [2, 3]
    assert await _turns(store, "jwt src") == []


async def no_phrase_is_an_operator(store: Store, _: OpenStore) -> None:
    await _talked(store, "red apple", "pear")
    for phrase in ('"', "'", "AND", "NEAR(", "a*", "-", ":", "text:", "{tags}", "", " ", "\x00", "red\x00apple", "^a"):
        await _turns(store, phrase)
    assert await _turns(store, "red OR pear") == []


async def accents_and_other_scripts_are_found(store: Store, _: OpenStore) -> None:
    await _talked(store, "Ein Café in Zürich", "Москва слезам не верит", "한국어 문장")
    assert await _turns(store, "cafe") == [1]
    assert await _turns(store, "zurich") == [1]
    assert await _turns(store, "москва") == [2]
    assert await _turns(store, "문장") == [3]


async def what_came_since_the_last_look_is_told(store: Store, open_store: OpenStore) -> None:
    await _talked(store, "one", "two")
    first = await _look(store)
    assert [row.turn for row in first.rows] == [1, 2]
    assert (first.sessions[0].last_turn, first.sessions[0].last_messages) == (2, 1)
    other = await open_store()
    try:
        await other.append("s", [draft("three")])
        await other.derived.add_renditions("s", [rendition(3, "three")])
    finally:
        await other.close()
    later = await _look(store, "three", "one", after=first.newest)
    assert [row.turn for row in later.rows] == [3]
    assert [len(postings.keys) for postings in later.postings] == [1, 1]
    assert later.sessions[0].epoch == first.sessions[0].epoch
    asked = [("three", first.newest << KEY_SHIFT), ("one", (first.newest + 1) << KEY_SHIFT)]
    beyond = await store.passages.look("s", after=later.newest, phrases=asked, limit=MANY)
    assert ([len(postings.keys) for postings in beyond.postings], beyond.rows) == ([1, 0], [])


async def rows_are_read_in_parts(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two", "three")
    first, *rest = (await _look(store)).rows
    part = await store.passages.look("s", after=0, until=first.id, phrases=(), limit=MANY)
    assert (part.rows, part.newest) == ([first], rest[-1].id)
    later = await store.passages.look("s", after=first.id, until=rest[0].id, phrases=(), limit=MANY)
    assert later.rows == rest[:1]


async def single_rows_are_read_by_id_and_by_turn(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two", "three")
    await _talked(store, "of another", session_id="other")
    first, _second, third = (await _look(store)).rows
    (foreign,) = (await _look(store, session_id="other")).rows
    assert await store.passages.rows("s", [third.id, foreign.id, 999], [1, 3, 999]) == [first, third]
    assert await store.passages.rows("s", [], []) == []


async def postings_are_cut_at_the_limit_the_newest_kept(store: Store, _: OpenStore) -> None:
    await _talked(store, *["said"] * 5)
    look = await _look(store, "said", limit=3)
    rows = {row.id: row.turn for row in look.rows}
    assert [rows[key >> KEY_SHIFT] for key in look.postings[0].keys] == [5, 4, 3]
    assert look.postings[0].is_cut
    assert not (await _look(store, "said", limit=5)).postings[0].is_cut


async def other_sessions_are_not_found(store: Store, _: OpenStore) -> None:
    await _talked(store, "red apple")
    await _talked(store, "green apple", session_id="other")
    (postings,) = (await _look(store, "apple")).postings
    assert len(postings.keys) == 1
    assert await _turns(store, "green") == []


async def a_grown_turn_is_found_as_it_is_now(store: Store, _: OpenStore) -> None:
    await _talked(store, "first words")
    await store.append("s", [draft("more", "assistant")])
    await store.derived.add_renditions("s", [rendition(1, "other words", messages=2)])
    assert await _turns(store, "first") == []
    assert await _turns(store, "other") == [1]
    assert len((await _look(store)).rows) == 1


async def a_fork_finds_what_it_sees(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two", "three")
    await store.fork_session(new_session("f"), "s", 3)
    await store.append("s", [draft("secret", "assistant"), draft("later")])
    await store.derived.add_renditions("s", [rendition(3, "three secret", messages=2), rendition(4, "later")])
    assert await _turns(store, "secret", "f") == []
    assert await _turns(store, "later", "f") == []
    assert await _turns(store, "three", "f") == [3]
    assert await _turns(store, "two", "f") == [2]
    await store.append("f", [draft("mine", "assistant")])
    await store.derived.add_renditions("f", [rendition(3, "three mine", messages=2)])
    assert await _turns(store, "mine", "f") == [3]
    assert await _turns(store, "mine") == []
    await store.fork_session(new_session("g"), "f", 1)
    assert await _turns(store, "mine", "g") == []
    assert await _turns(store, "one", "g") == [1]


async def a_field_can_be_asked_for(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q")])
    await store.passages.add("s", [entry(1, "bash is a shell", tool="grep")])
    assert len(await store.passages.postings("s", "grep", field="tool")) == 1
    assert await store.passages.postings("s", "bash", field="tool") == []
    assert len(await store.passages.postings("s", "bash", field="words")) == 1
    assert await store.passages.postings("s", "grep", field="words") == []


async def texts_come_back_as_they_were(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q")])
    await store.passages.add("s", [entry(1, "first 👩", "second")])
    (row,) = (await _look(store)).rows
    assert [text.text for text in (await store.passages.texts([row.id, 10**9]))[row.id]] == ["first 👩", "second"]
    assert (row.messages, row.at_us, row.maker, row.marks) == (1, 1, "test", b"mm")


async def texts_that_are_not_stored_are_matched_alike(store: Store, _: OpenStore) -> None:
    texts = [PassageText("user", text, None, extra) for text, extra in (("The ports", ""), ("getUserById", "get user"))]
    assert await store.passages.among(["port", "get user", "zebra", '"'], texts) == [[0], [1], [], []]


async def a_turn_is_kept_once_and_anew_by_another_maker(store: Store, _: OpenStore) -> None:
    await _talked(store, "one")
    before = await _look(store)
    await store.passages.add("s", [entry(1, "not this")])
    assert (await _look(store)).newest == before.newest
    await store.passages.add("s", [entry(1, "but this", maker="other")])
    assert await _turns(store, "one") == []
    assert await _turns(store, "but this") == [1]


async def many_turns_are_added_together_and_the_last_entry_of_each_counts(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft(str(turn)) for turn in range(MANY)])
    made = [entry(turn, f"word{turn} early") for turn in range(1, MANY)]
    await store.passages.add("s", [*made, *(entry(turn, f"word{turn} late", messages=2) for turn in (1, MANY - 1))])
    look = await _look(store, "early", "late")
    assert [row.turn for row in look.rows] == [*range(2, MANY - 1), 1, MANY - 1]
    assert [len(postings.keys) for postings in look.postings] == [MANY - 3, 2]
    texts = await store.passages.texts([row.id for row in look.rows])
    assert [texts[row.id][0].text.split()[0] for row in look.rows] == [f"word{row.turn}" for row in look.rows]


async def what_lacks_an_entry_is_listed_the_newest_first(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two", "three")
    assert await store.passages.lacking("s", "other", MANY) == []
    await store.passages.want("s")
    assert await store.passages.unindexed() == ["s"]
    assert await store.passages.lacking("s", "test", MANY) == []
    assert await store.passages.lacking("s", "other", 2) == [(3, 1), (2, 1)]
    await store.passages.add("s", [entry(3, "three", maker="other"), entry(2, "two", maker="other")])
    await store.passages.note_made("s", "other")
    assert await store.passages.lacking("s", "other", MANY) == [(1, 1)]
    await store.passages.add("s", [entry(1, "one", maker="other")])
    await store.passages.note_made("s", "other")
    assert await store.passages.unindexed() == []


async def what_is_pruned_leaves_the_index(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("old", at_us=10), draft("new", at_us=90), draft("open", at_us=95)])
    await store.derived.add_renditions("s", [rendition(1, "old"), rendition(2, "new"), rendition(3)])
    before = await _look(store)
    await store.prune("s", before_us=50, dry_run=False)
    after = await _look(store, "old")
    assert after.sessions[0].epoch != before.sessions[0].epoch
    assert ([row.turn for row in after.rows], list(after.postings[0].keys)) == ([2, 3], [])
    assert await _turns(store, "new") == [2]


async def a_deleted_session_leaves_the_index(store: Store, _: OpenStore) -> None:
    await _talked(store, "zebra")
    await _talked(store, "plain", session_id="other")
    await store.delete_session("s")
    assert (await store.passages.state("test")).turns == 1
    assert await _turns(store, "zebra", "other") == []


async def its_state_is_told(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two")
    await store.append("s", [draft("three")])
    state = await store.passages.state("test")
    assert (state.turns, state.passages, state.missing, state.makers) == (2, 2, 1, ("test",))
    assert (await store.passages.state("other")).missing == 3
    assert await store.passages.check() is None


async def it_is_cleared_and_made_again(store: Store, _: OpenStore) -> None:
    await _talked(store, "one", "two")
    before = await _look(store)
    await store.passages.clear()
    after = await _look(store, "one")
    assert (after.rows, list(after.postings[0].keys)) == ([], [])
    assert after.sessions[0].epoch != before.sessions[0].epoch
    assert await store.passages.lacking("s", "test", MANY) == [(2, 1), (1, 1)]
    await store.passages.add("s", [entry(1, "one"), entry(2, "two")])
    assert await _turns(store, "one") == [1]


CASES: tuple[Case, ...] = (
    words_are_found_in_any_form_and_phrases_whole,
    no_phrase_is_an_operator,
    accents_and_other_scripts_are_found,
    what_came_since_the_last_look_is_told,
    rows_are_read_in_parts,
    single_rows_are_read_by_id_and_by_turn,
    postings_are_cut_at_the_limit_the_newest_kept,
    other_sessions_are_not_found,
    a_grown_turn_is_found_as_it_is_now,
    a_fork_finds_what_it_sees,
    a_field_can_be_asked_for,
    texts_come_back_as_they_were,
    texts_that_are_not_stored_are_matched_alike,
    a_turn_is_kept_once_and_anew_by_another_maker,
    many_turns_are_added_together_and_the_last_entry_of_each_counts,
    what_lacks_an_entry_is_listed_the_newest_first,
    what_is_pruned_leaves_the_index,
    a_deleted_session_leaves_the_index,
    its_state_is_told,
    it_is_cleared_and_made_again,
)
